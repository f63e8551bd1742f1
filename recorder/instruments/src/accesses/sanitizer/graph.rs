//! Launches of CUDA graphs under the sanitizer API: each kernel node is a launch.
//!
//! The API announces the launch of the graph, then each node, then the end of the call. All nodes share one userdata: a
//! graph launch is armed as one, and each node is identified by the number of its grid.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::collections::BTreeMap;

use stallmap_schema::id::RunId;
use stallmap_schema::tables::launch::{GraphLaunch, LaunchRun};
use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::{DriverHandle, node_type};
use stallmap_sys::sanitizer::{GraphLaunchData, GraphNodeData, LaunchData};

use super::launch::{CallArguments, LaunchOrigin, begun, emit_launch, settle};
use super::{AccessInstrument, HandleKey, own};
use crate::accesses::ring::{ArmedLaunch, RecordFailure, RingContext};
use stallmap_session::context;
use stallmap_session::gpu::device;
use stallmap_session::gpu::graphs::{self, ExecNode, LaunchedGraph, UNREAD};
use stallmap_session::gpu::name::text;
use stallmap_session::gpu::parameters::KernelParameters;
use stallmap_session::slot::ThreadSlot;
use stallmap_session::{replayed, session};

/// Nodes that are expected of a graph whose making was not seen.
const UNKNOWN_NODES: u32 = 512;

/// Plan for a kernel node.
#[derive(Clone, Copy)]
pub(super) struct NodePlan {
    pub(super) index: u32,
    pub(super) ordinal: u64,
    /// The reason, if it is left out.
    pub(super) decision: Result<(), &'static str>,
    /// True if it was recorded as a step, where there are bundles. Else the reason why it was not.
    pub(super) step: Result<(), &'static str>,
}

/// A graph launch that is being called.
pub(super) struct PlannedGraphLaunch {
    exec: HandleKey,
    pub(super) launch: Option<LaunchedGraph>,
    /// Ordinal of the first node.
    first: u64,
    /// Kernel nodes, by the handle that they are expected to be announced by.
    pub(super) nodes: BTreeMap<HandleKey, NodePlan>,
}

impl PlannedGraphLaunch {
    /// The graph, and the number of its launch.
    pub(super) fn place(&self) -> (u64, u32) {
        self.launch.as_ref().map_or((u64::MAX, 0), |launch| (launch.graph_id, launch.graph_launch))
    }

    /// No further node is recorded as a step.
    pub(super) fn refuse_steps(&mut self, reason: &'static str) {
        for node in self.nodes.values_mut().filter(|node| node.step == Err(UNREAD)) {
            node.step = Err(reason);
        }
    }
}

/// A graph launch that runs on this thread.
struct RunningGraphLaunch {
    exec: HandleKey,
    launch: Option<LaunchedGraph>,
    /// Kernel nodes that were not announced yet, by the handle that they are expected to be announced by.
    nodes: BTreeMap<HandleKey, NodePlan>,
    armed: Option<ArmedLaunch>,
    /// None where the graph is only uploaded, or launched by the replayer itself.
    row: Option<GraphLaunch>,
}

thread_local! {
    static PLANNED: ThreadSlot<Box<PlannedGraphLaunch>> = const { ThreadSlot::empty() };
    static RUNNING: ThreadSlot<Box<RunningGraphLaunch>> = const { ThreadSlot::empty() };
}

impl AccessInstrument {
    pub(super) fn graph_begins(&self, data: &GraphLaunchData) {
        let exec = data.exec.key();
        let mut running =
            RunningGraphLaunch { exec, launch: None, nodes: BTreeMap::new(), armed: None, row: None };
        if data.is_upload == 0 && !replayed::is_silent() {
            self.begin(data, &mut running);
        }
        RUNNING.with(|slot| slot.put(Box::new(running)));
    }

    /// A graph launch is being called. It is no launch where its stream is capturing.
    pub(super) fn graph_call(&self, id: u32, exec: DriverHandle, stream: DriverHandle) {
        self.place_graph(exec);
        self.prepare_snapshots();
        if self.bundles.is_none() || replayed::is_silent() || graphs::capture(id, stream).is_some() {
            return;
        }
        self.begin_turn();
        let mut planned = Box::new(self.plan(exec));
        self.step_graph(exec, graphs::stream_of_call(id, stream), &mut planned);
        PLANNED.with(|slot| slot.put(planned));
    }

    fn plan(&self, exec: DriverHandle) -> PlannedGraphLaunch {
        let launch = self.graphs.launch_begins(exec);
        let enabled: Vec<&ExecNode> =
            launch.iter().flat_map(|launch| launch.nodes.iter()).filter(|node| node.is_enabled).collect();
        let first = session::take_ordinals(enabled.len() as u64);
        let mut nodes = BTreeMap::new();
        for (ordinal, node) in (first..).zip(enabled) {
            let decision = self.selector.decide(&node.name);
            let expected = NodePlan { index: node.index, ordinal, decision, step: Err(UNREAD) };
            nodes.insert(node.alias.unwrap_or(node.handle), expected);
        }
        PlannedGraphLaunch { exec: exec.key(), launch, first, nodes }
    }

    fn begin(&self, data: &GraphLaunchData, running: &mut RunningGraphLaunch) {
        let planned = PLANNED.with(ThreadSlot::take).filter(|planned| planned.exec == running.exec);
        let planned = planned.map_or_else(|| self.plan(data.exec), |planned| *planned);
        let PlannedGraphLaunch { launch, first, nodes, .. } = planned;
        running.nodes = nodes;
        let context = context::current();
        let stream_id = self.lock().stream(data.stream_handle);
        running.row = Some(GraphLaunch {
            run_id: RunId(0),
            graph_id: launch.as_ref().map_or(u64::MAX, |launch| launch.graph_id),
            graph_launch: launch.as_ref().map_or(0, |launch| launch.graph_launch),
            ordinal: first,
            kernel_count: 0,
            thread_id: session::thread_id(),
            stream_id,
            begin_ns: session::now_ns(),
            end_ns: None,
            op_id: context.and_then(|context| context.op_id),
            pystates_hash: context.and_then(|context| context.pystates_hash),
        });
        let is_wanted = running.nodes.values().any(|node| node.decision.is_ok() && node.step.is_err());
        let count = u32::try_from(running.nodes.len()).unwrap_or(u32::MAX);
        running.launch = launch;
        if self.is_timing() || !is_wanted && running.launch.is_some() {
            return;
        }
        let count = if running.launch.is_some() { count } else { UNKNOWN_NODES };
        let place = self.place_of(data.context, data.stream_handle);
        let state = &mut *self.lock();
        let blocks = self.config.counts().then(|| state.blocks());
        let armed = self
            .ring(state, place)
            .and_then(|ring| own(|| ring.arm_graph(place, running.exec, count, blocks.as_deref(), first)));
        match armed {
            Ok(armed) => running.armed = Some(armed),
            Err(error) => {
                session::lose(LossKind::Source, "graph launch could not be instrumented", 1, Some(error));
            }
        }
    }

    /// # Safety
    /// `data` is a node's as the API gives it.
    pub(super) unsafe fn node_begins(&self, data: &GraphNodeData) {
        let act = |running: &mut Option<Box<RunningGraphLaunch>>| {
            // SAFETY: the API fills the member of the node's type.
            unsafe {
                match (data.node_type, running.as_deref_mut()) {
                    (node_type::KERNEL, Some(running)) => {
                        self.kernel_begins(data, &data.what.launch, running);
                    }
                    // A node without a graph launch contradicts earlier callbacks: it must not write records.
                    (node_type::KERNEL, None) => self.leave_out(&data.what.launch),
                    (node_type::ALLOCATION, Some(running)) if running.row.is_some() => {
                        self.allocated(&data.what.allocation, false);
                    }
                    (node_type::MEMCPY, Some(running)) if running.row.is_some() => {
                        self.copied(&data.what.copy);
                    }
                    (node_type::MEMSET, Some(running)) if running.row.is_some() => {
                        self.filled(&data.what.fill);
                    }
                    _ => {}
                }
            }
        };
        RUNNING.with(|slot| slot.change(act));
    }

    fn kernel_begins(&self, node: &GraphNodeData, data: &LaunchData, running: &mut RunningGraphLaunch) {
        let Some(mut row) = running.row.take() else {
            self.leave_out(data);
            return;
        };
        row.kernel_count += 1;
        let name = text(data.name);
        let expected = running.nodes.remove(&node.node.key());
        let expected = expected.or_else(|| {
            let found = running.find(&name, data)?;
            self.graphs.alias(running.exec, found.index, node.node.key());
            Some(found)
        });
        let NodePlan { index, ordinal, decision, step } = expected.unwrap_or_else(|| {
            // A node that was not seen comes behind those that were.
            let index = row.kernel_count - 1;
            let decision = self.selector.decide(&name);
            NodePlan { index, ordinal: session::take_ordinal(), decision, step: Err(UNREAD) }
        });
        let Err(no_step) = step else {
            running.row = Some(row);
            self.skip_node(data, running);
            return;
        };
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let found = running.launch.as_ref().and_then(|launch| launch.nodes.get(index as usize));
        let captured = found.and_then(|node| node.captured);
        let (begin_ns, stream_id) = (row.begin_ns, row.stream_id);
        let node = Some((row.graph_id, row.graph_launch, index));
        let position = u32::try_from(ordinal.wrapping_sub(row.ordinal)).unwrap_or(u32::MAX);
        running.row = Some(row);
        let mut state = self.lock();
        let (code, is_patched) = Self::code_of(&state, data.module).unzip();
        let resources = state.resources(data);
        drop(state);
        let given = found.map(given);
        let is_patched = is_patched.unwrap_or(false);
        let is_selected = decision.is_ok() && is_patched && self.config.counts();
        let kinds = code.as_ref().filter(|_| is_selected);
        let kinds = kinds.map(|code| self.kinds_of(code.function_id(&name), data, given.as_ref(), None));
        let accesses_of = kinds.as_ref().and_then(|kinds| self.kinds.model(kinds));
        let context = captured.map_or_else(context::current, |captured| captured.context);
        let origin = LaunchOrigin { context, node, captured, accesses_of };
        match &code {
            Some(code) => emit_launch(data, code, (&name, ordinal), origin, given, resources),
            None => {
                session::lose(
                    LossKind::Launch,
                    "launch of a module that was not seen",
                    1,
                    Some(name.clone()),
                );
            }
        }
        if self.is_timing() && decision.is_ok() {
            session::lose(LossKind::Activity, "blocks of a graph's node are not timed", 1, None);
        }
        let recorded = decision.is_ok() && accesses_of.is_none() && !self.is_timing();
        let row = LaunchRun { begin_ns, recorded, ..begun(ordinal, stream_id) };
        if self.arm_node(data, (row, position), running, is_patched)
            && let Some(kinds) = kinds
        {
            self.kinds.recorded(kinds, ordinal);
        }
        if self.bundles.is_some() {
            session::lose(LossKind::Bundle, no_step, 1, Some(name));
        }
    }

    /// Makes a node write records, where it is to be recorded. Its position is that of its ordinal in the launch of the
    /// graph. Returns whether it writes any.
    fn arm_node(
        &self,
        data: &LaunchData,
        (row, position): (LaunchRun, u32),
        running: &RunningGraphLaunch,
        is_patched: bool,
    ) -> bool {
        let armed = running.armed.as_ref().filter(|_| row.recorded && is_patched);
        let Some(armed) = armed else {
            if row.recorded {
                let detail = (!is_patched).then(|| "its module is not patched".to_owned());
                session::lose(LossKind::Launch, "launch could not be instrumented", 1, detail);
            }
            session::emit(LaunchRun { recorded: false, ..row });
            self.skip_node(data, running);
            return false;
        };
        let place = self.place_of(data.context, data.api_stream_handle);
        let part = (self.block_stride(data, 1), position);
        let state = &mut *self.lock();
        let Some(ring) = state.rings.get_mut(&data.context.key()) else { return false };
        let added = own(|| ring.add_node(place, (running.exec, armed), data.grid_id, part, row));
        let writes = added.is_ok();
        if let Err((row, error)) = added {
            session::lose(LossKind::Launch, "launch could not be instrumented", 1, Some(error));
            session::emit(LaunchRun { recorded: false, ..*row });
        }
        self.set_node_data(data, armed) && writes
    }

    /// Makes a node write nothing.
    fn skip_node(&self, data: &LaunchData, running: &RunningGraphLaunch) {
        let Some(armed) = &running.armed else {
            self.leave_out(data);
            return;
        };
        let place = self.place_of(data.context, data.api_stream_handle);
        if let Some(ring) = self.lock().rings.get_mut(&data.context.key())
            && let Err(error) = own(|| ring.skip_node(place, running.exec, data.grid_id))
        {
            session::lose(LossKind::Access, "node could not be left out", 1, Some(error));
        }
        self.set_node_data(data, armed);
    }

    /// Gives a node the control block of its graph launch. Returns whether that worked.
    fn set_node_data(&self, data: &LaunchData, armed: &ArmedLaunch) -> bool {
        // SAFETY: the launch is this callback's. The control block lives as long as its context.
        let code = unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, armed.userdata())
        };
        if code != 0 {
            let detail = Some(format!("sanitizer error {code}"));
            session::lose(LossKind::Access, "launch could not be instrumented", 1, detail);
        }
        code == 0
    }

    pub(super) fn graph_ends(&self, data: &GraphLaunchData) {
        let Some(running) = RUNNING.with(ThreadSlot::take) else { return };
        let RunningGraphLaunch { armed, row, nodes, .. } = *running;
        let place = self.place_of(data.context, data.stream_handle);
        if let Some(armed) = armed {
            if self.waits() {
                // Losses are counted with the launch.
                settle(&armed, place).ok();
            } else {
                own(|| armed.submitted(place));
            }
        }
        if let Some(row) = row {
            session::emit(GraphLaunch { end_ns: Some(session::now_ns()), ..row });
        }
        let unseen = nodes.values().filter(|node| node.decision.is_ok()).count() as u64;
        session::lose(LossKind::Launch, "node of a graph launch was not announced", unseen, None);
    }

    /// A graph launch that began on this thread and never ended was refused by the driver.
    pub(super) fn abandon_graph() {
        let Some(running) = RUNNING.with(ThreadSlot::take) else { return };
        if let Some(armed) = &running.armed {
            let reason = "refused by the driver";
            armed.settle(Some(RecordFailure { reason, detail: None, has_run: false }), 0);
        }
    }

    /// Records where the kernels of a graph lie, before it is launched: the driver does not say while it is.
    pub(super) fn place_graph(&self, exec: DriverHandle) {
        if !self.lock().placed_graphs.insert(exec.key()) {
            return;
        }
        let ordinal = session::next_ordinal();
        for node in self.graphs.nodes(exec).iter().flat_map(|nodes| nodes.iter()) {
            if let Some(module) = device::module_of(DriverHandle::of_key(node.function)) {
                self.place_kernel(&mut self.lock(), module, &node.name, ordinal);
            }
        }
    }

    /// The grids of an updated graph may have other numbers.
    pub(super) fn forget_grids(&self, exec: DriverHandle) {
        let state = &mut *self.lock();
        state.placed_graphs.remove(&exec.key());
        for ring in state.rings.values_mut() {
            ring.forget_graph(exec.key());
        }
    }

    fn place_of(&self, context: DriverHandle, stream: DriverHandle) -> RingContext<'_> {
        RingContext { api: &self.api, context, stream }
    }
}

impl RunningGraphLaunch {
    /// The first node that is like the announced one. The API announces nodes by handles of its own, from a copy
    /// that the driver made of the graph.
    fn find(&mut self, name: &str, data: &LaunchData) -> Option<NodePlan> {
        let launch = self.launch.as_ref()?;
        let shape = [data.grid, data.block].concat();
        let is_like = |expected: &NodePlan| {
            let node = launch.nodes.get(expected.index as usize);
            node.is_some_and(|node| node.name == name && node.shape == shape[..])
        };
        let like = self.nodes.iter().filter(|(_, expected)| is_like(expected));
        let handle = like.min_by_key(|(_, expected)| expected.index).map(|(handle, _)| *handle)?;
        self.nodes.remove(&handle)
    }
}

/// Arguments that the launch call of a node would have.
fn given(node: &ExecNode) -> CallArguments {
    let KernelParameters { bytes, layout } = &*node.parameters;
    CallArguments {
        dynamic_shared_bytes: node.shared_bytes,
        parameters: KernelParameters { bytes: bytes.clone(), layout: layout.clone() },
        attributes: Vec::new(),
        is_cooperative: false,
    }
}
