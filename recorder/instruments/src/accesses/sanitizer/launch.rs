//! Launches under the sanitizer API, with parameters, code, records.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::collections::btree_map::Entry;
use std::ffi::c_int;
use std::ptr::null;

use stallmap_config::FullBufferAction;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{FunctionId, KernelId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::{
    DriverHandle, MAP_IDS, SYNCHRONIZE_IDS, TEXTURE_IDS, array_copy_id, array_id, graph_id, launch_id,
};
use stallmap_sys::sanitizer::{LaunchData, SanitizerApiData};

use super::bundle::{GraphStepLaunch, LaunchBeginning, PreparedBundle, stepped};
use super::{AccessInstrument, SanitizerState, check, memory, own, snapshots};
use crate::accesses::bundle::refusal::BundleRefusal;
use crate::accesses::kinds::{self, AccessArguments, LaunchKindKey, LaunchPlace};
use crate::accesses::ring::{
    AccessRing, ArmedLaunch, LaunchRecordPlan, PageGathering, RecordFailure, RingContext,
};
use stallmap_session::context::{self, OpContext};
use stallmap_session::gpu::call;
use stallmap_session::gpu::code::LoadedCode;
use stallmap_session::gpu::device::{self, FunctionResources};
use stallmap_session::gpu::graphs::{self, NodeOrigin};
use stallmap_session::gpu::name::text;
use stallmap_session::gpu::parameters::{self, KernelParameters};
use stallmap_session::slot::ThreadSlot;
use stallmap_session::{replayed, session};

/// Arguments of the launch call on this thread.
pub(super) struct CallArguments {
    /// Dynamic shared memory of a block.
    pub(super) dynamic_shared_bytes: u32,
    /// The kernel's parameters.
    pub(super) parameters: KernelParameters,
    /// Attributes, as CUlaunchAttribute has them.
    pub(super) attributes: Vec<u8>,
    /// True if the launch is cooperative.
    pub(super) is_cooperative: bool,
}

/// Origin of a launch.
#[derive(Clone, Copy, Default)]
pub(super) struct LaunchOrigin {
    /// The op that ran, with its stack.
    pub(super) context: Option<OpContext>,
    /// Graph, launch of the graph and node.
    pub(super) node: Option<(u64, u32, u32)>,
    /// Place where the node was captured.
    pub(super) captured: Option<NodeOrigin>,
    /// The launch whose accesses stand for its own.
    pub(super) accesses_of: Option<u64>,
}

/// A launch that runs on this thread.
struct RunningLaunch {
    /// The records' target. Its row is the reader's then.
    armed: Option<ArmedLaunch>,
    /// Its row, where it writes none.
    row: Option<LaunchRun>,
    /// The bundle that it is to become, if it was selected.
    bundle: Option<Box<PreparedBundle>>,
}

thread_local! {
    static GIVEN: ThreadSlot<CallArguments> = const { ThreadSlot::empty() };
    static RUNNING: ThreadSlot<Box<RunningLaunch>> = const { ThreadSlot::empty() };
}

const ENTER: c_int = 0;
/// Threads of a warp.
const WARP_THREADS: u64 = 32;
/// Warps that write records, in whole blocks, of a launch whose requests are counted.
const SAMPLED_WARPS: u64 = 1024;

impl AccessInstrument {
    /// # Safety
    /// `data.parameters` points to the parameters of the driver function with this callback id.
    pub(super) unsafe fn driver_call(&self, id: u32, data: &SanitizerApiData) {
        // SAFETY: by the API, the result is there at the exit.
        let has_failed = data.site != ENTER && unsafe { graphs::result(data.result) } != 0;
        match id {
            id if SYNCHRONIZE_IDS.contains(&id) => {
                if data.site != ENTER {
                    self.unpatch_what_is_done();
                    self.record_counts();
                }
            }
            id if MAP_IDS.contains(&id) => memory::set_mapping(data.site == ENTER),
            id if TEXTURE_IDS.contains(&id) => {
                if data.site != ENTER && !has_failed && !data.parameters.is_null() {
                    // SAFETY: by this function's contract.
                    unsafe { self.texture_made(id == TEXTURE_IDS[1], data.parameters) };
                }
            }
            id if array_id::MAKE.contains(&id) => {
                if data.site != ENTER && !has_failed && !data.parameters.is_null() {
                    // SAFETY: by this function's contract.
                    unsafe { self.array_made(id == array_id::MAKE_LEVELS, data.parameters) };
                }
            }
            id if array_id::DESTROY.contains(&id) => {
                if data.site == ENTER && !data.parameters.is_null() {
                    // SAFETY: the only parameter is the array.
                    self.array_ends(unsafe { *data.parameters.cast() });
                }
            }
            id if array_copy_id::ALL.iter().any(|ids| ids.contains(&id)) => {
                if data.site != ENTER && !has_failed && !data.parameters.is_null() {
                    // SAFETY: by this function's contract.
                    unsafe { self.array_copied(id, data.parameters) };
                }
            }
            id if launch_id::GRAPH.contains(&id) => {
                if data.site != ENTER {
                    Self::abandon_graph();
                    self.end_turn();
                } else if !data.parameters.is_null() {
                    // SAFETY: the parameters are the executable graph and the stream.
                    let [exec, stream] = unsafe { *data.parameters.cast::<[DriverHandle; 2]>() };
                    self.graph_call(id, exec, stream);
                }
            }
            id if graphs::CALLBACKS.contains(&id) => {
                if data.site != ENTER && !has_failed {
                    // SAFETY: by this function's contract.
                    unsafe { self.graphs.called(id, data.parameters) };
                    if graph_id::UPDATE.contains(&id) {
                        // SAFETY: the first parameter is the executable graph.
                        self.forget_grids(unsafe { *data.parameters.cast() });
                    }
                }
            }
            // SAFETY: by this function's contract.
            _ => unsafe { self.launch_call(id, data, has_failed) },
        }
    }

    /// # Safety
    /// As [`Self::driver_call`], for a launch function.
    unsafe fn launch_call(&self, id: u32, data: &SanitizerApiData, has_failed: bool) {
        // SAFETY: by this function's contract.
        let Some(call) = (unsafe { call::read(id, data.parameters) }) else { return };
        if let Some(capture) = graphs::capture(id, call.stream) {
            // The kernel runs when its graph does.
            if data.site != ENTER && !has_failed {
                match capture.node {
                    Some(node) => self.graphs.captured(node),
                    None => session::lose(LossKind::Op, "node of a captured launch is not known", 1, None),
                }
            }
            return;
        }
        if data.site != ENTER {
            let was_begun = GIVEN.with(ThreadSlot::take).is_none();
            Self::abandon_launch();
            Self::timed_call_ends();
            self.end_turn();
            if has_failed && !was_begun && stepped().is_none() {
                session::lose(LossKind::Launch, "refused by the driver", 1, None);
            }
            return;
        }
        self.patch_before_launch(call.function);
        self.prepare_snapshots();
        // SAFETY: by this function's contract.
        unsafe { self.time_call(id, &call, data.parameters) };
        let function = call.function;
        self.find_variables(function);
        self.begin_turn();
        let known = self.lock().layouts.get(&function.key()).cloned();
        let layout = known.unwrap_or_else(|| {
            let layout = parameters::layout(function);
            self.lock().layouts.insert(function.key(), layout.clone());
            layout
        });
        // SAFETY: they are the launch call's own, which is running.
        let parameters = unsafe { parameters::read(call.pointers, call.extra, &layout) };
        // SAFETY: as above.
        let attributes = unsafe { call.attributes() };
        let is_cooperative = call.is_cooperative || call::are_cooperative(&attributes);
        let given =
            CallArguments { dynamic_shared_bytes: call.shared_bytes, parameters, attributes, is_cooperative };
        GIVEN.with(|slot| slot.put(given));
    }

    pub(super) fn launch_begins(&self, data: &LaunchData) {
        let stepped = stepped();
        if replayed::is_silent() || matches!(stepped, Some(GraphStepLaunch::Silent)) {
            self.leave_out(data);
            return;
        }
        let begin_ns = session::now_ns();
        let name = text(data.name);
        // A node of a graph was selected with its graph.
        let (ordinal, decision, mut origin) = match stepped {
            Some(GraphStepLaunch::Node(ordinal, node, captured)) => {
                (ordinal, Ok(()), LaunchOrigin { node: Some(node), captured, ..LaunchOrigin::default() })
            }
            _ => (session::take_ordinal(), self.selector.decide(&name), LaunchOrigin::default()),
        };
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let given = GIVEN.with(ThreadSlot::take);
        let mut state = self.lock();
        let stream_id = state.stream(data.stream_handle);
        self.place_kernel(&mut state, data.module, &name, ordinal);
        let (code, is_patched) = Self::code_of(&state, data.module).unzip();
        let resources = state.resources(data);
        drop(state);
        let launch = LaunchBeginning { data, code: code.as_deref(), given: given.as_ref() };
        let bundle = self.bundle_begins(launch, &name, ordinal, decision.is_ok());
        let obstacle = match &code {
            Some(code) if self.config.spaces.len() > 1 && code.allocating.contains(&name) => {
                Some("it allocates memory, and dies where several address spaces are recorded")
            }
            _ if is_patched != Some(true) => Some("its module is not patched"),
            _ => None,
        };
        let function = code.as_deref().map(|code| code.function_id(&name));
        let is_selected = decision.is_ok() && (is_patched.unwrap_or(false) || self.is_timing());
        let function = function.filter(|_| is_selected && self.has_models());
        let kinds =
            function.map(|function| self.kinds_of(function, data, given.as_ref(), context::current()));
        let accesses_of = kinds.as_ref().and_then(|kinds| self.kinds.model(kinds));
        match &code {
            Some(_) if replayed::current().is_some() => {}
            Some(code) => {
                origin.context = context::of_launch();
                origin.accesses_of = accesses_of.filter(|_| !self.is_timing());
                emit_launch(data, code, (&name, ordinal), origin, given, resources);
            }
            None => {
                session::lose(LossKind::Launch, "launch of a module that was not seen", 1, Some(name));
            }
        }
        let recorded = decision.is_ok() && accesses_of.is_none();
        let row = LaunchRun { begin_ns, recorded, ..begun(ordinal, stream_id) };
        let gathers = bundle.as_ref().is_some_and(|bundle| bundle.gathers());
        let (armed, row) = if self.is_timing() {
            let has_model = decision.is_ok() && accesses_of.is_some();
            (None, Some(self.time(data.stream_handle, row, has_model)))
        } else {
            let divisor = function.filter(|_| row.recorded).map_or(1, |id| self.divisor(id, origin.context));
            self.arm(data, row, obstacle, (gathers, divisor))
        };
        let is_timed = self.is_timing() && row.as_ref().is_some_and(|row| row.recorded);
        match (armed.is_some() || is_timed, kinds) {
            (true, Some(kinds)) => self.kinds.recorded(kinds, ordinal),
            (true, None) => {}
            (false, _) => self.leave_out(data),
        }
        RUNNING.with(|slot| slot.put(Box::new(RunningLaunch { armed, row, bundle })));
    }

    /// Makes the patches of a launch return at once.
    pub(super) fn leave_out(&self, data: &LaunchData) {
        // SAFETY: the launch is this callback's. The patches know null userdata.
        unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, null());
        }
    }

    /// Makes a launch write records. Where it does not, its row comes back.
    fn arm(
        &self,
        data: &LaunchData,
        row: LaunchRun,
        obstacle: Option<&str>,
        (gathers, divisor): (bool, u32),
    ) -> (Option<ArmedLaunch>, Option<LaunchRun>) {
        if !row.recorded {
            return (None, Some(row));
        }
        let failed = |row: LaunchRun, error: String| {
            session::lose(LossKind::Launch, "launch could not be instrumented", 1, Some(error));
            (None, Some(LaunchRun { recorded: false, ..row }))
        };
        if let Some(obstacle) = obstacle {
            return failed(row, obstacle.to_owned());
        }
        let place = RingContext { api: &self.api, context: data.context, stream: data.stream_handle };
        let state = &mut *self.lock();
        let blocks = self.config.counts().then(|| state.blocks());
        let ring = match self.ring(state, place) {
            Ok(ring) => ring,
            Err(error) => return failed(row, error),
        };
        let block_stride = self.block_stride(data, divisor);
        let plan = LaunchRecordPlan { block_stride, gathers, counted: blocks.as_deref(), divisor };
        let armed = match ring.arm(place, row, plan) {
            Ok(armed) => armed,
            Err((row, error)) => return failed(*row, error),
        };
        // SAFETY: the launch is this callback's. The launch's control block lives as long as its context.
        let code = unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, armed.userdata())
        };
        if let Err(error) = check(code, "set the launch's data") {
            let reason = "launch could not be instrumented";
            armed.settle(Some(RecordFailure { reason, detail: Some(error), has_run: false }), 0);
            return (None, None);
        }
        (Some(armed), None)
    }

    /// The ring of a context, made for its first launch.
    pub(super) fn ring<'a>(
        &self,
        state: &'a mut SanitizerState,
        place: RingContext,
    ) -> Result<&'a mut AccessRing, String> {
        let key = place.context.key();
        if !state.patched.contains(&key) {
            return Err("no patches in this context".to_owned());
        }
        match state.rings.entry(key) {
            Entry::Occupied(ring) => Ok(ring.into_mut()),
            Entry::Vacant(vacant) => {
                let ring = own(|| graphs::relaxed(|| AccessRing::new(place, self.config)))?;
                let ring = vacant.insert(ring);
                if let Some(copier) = state.copiers.get_mut(&key).and_then(Option::take) {
                    ring.begin_snapshots(copier);
                    snapshots::start();
                }
                Ok(ring)
            }
        }
    }

    /// The kinds of a launch, by its kernel and its arguments.
    pub(super) fn kinds_of(
        &self,
        function_id: FunctionId,
        data: &LaunchData,
        given: Option<&CallArguments>,
        context: Option<OpContext>,
    ) -> Vec<LaunchKindKey> {
        let parameters = given.map(|given| {
            let state = self.lock();
            let is_address = |word| state.is_address(word);
            AccessArguments::Parameters(kinds::without_addresses(&given.parameters.bytes, is_address))
        });
        let op = context.and_then(|context| {
            let position = kinds::position_in(context.op_id?);
            Some(AccessArguments::Op { shapes_hash: context.shapes_hash, position })
        });
        let op = op.filter(|op| !matches!(op, AccessArguments::Op { shapes_hash: 0, .. }));
        let ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]) = (data.grid, data.block);
        let shape = [grid_x, grid_y, grid_z, block_x, block_y, block_z];
        let shared_bytes = given.map(|given| given.dynamic_shared_bytes);
        let kind = |arguments| LaunchKindKey { function_id, shape, shared_bytes, arguments };
        parameters.into_iter().chain(op).map(kind).collect()
    }

    /// One in so many blocks of the sample writes records of a launch.
    fn divisor(&self, function_id: FunctionId, context: Option<OpContext>) -> u32 {
        let pystates_hash = context.and_then(|context| context.pystates_hash);
        let native_stack = context.and_then(|context| context.native_stack);
        self.kinds.divisor(LaunchPlace { function_id, pystates_hash, native_stack })
    }

    /// One in so many blocks of a launch is recorded. Where all are counted, one in `divisor` of the sample's.
    pub(super) fn block_stride(&self, data: &LaunchData, divisor: u32) -> u32 {
        let product = |sizes: &[u32]| sizes.iter().map(|&size| u64::from(size)).product::<u64>();
        let blocks = product(&data.grid);
        let wanted = if self.config.counts() {
            let block_warps = product(&data.block).div_ceil(WARP_THREADS).max(1);
            Some(SAMPLED_WARPS / u64::from(divisor.max(1)) / block_warps)
        } else {
            self.config.blocks
        };
        let stride = wanted.map_or(1, |wanted| blocks.div_ceil(wanted.max(1)).max(1));
        u32::try_from(stride).unwrap_or(u32::MAX)
    }

    /// True if each launch is waited for: to count requests that can be lost, and to compare memory.
    pub(super) fn waits(&self) -> bool {
        self.bundles.is_some()
            || self.config.blocks.is_some()
            || self.config.when_full == FullBufferAction::Drop
    }

    pub(super) fn launch_ends(&self, data: &LaunchData) {
        let Some(running) = RUNNING.with(ThreadSlot::take) else { return };
        let RunningLaunch { armed, row, bundle } = *running;
        Self::timed_ends();
        if let Some(row) = row {
            session::emit(LaunchRun { end_ns: Some(session::now_ns()), ..row });
        }
        let place = RingContext { api: &self.api, context: data.context, stream: data.stream_handle };
        let completed = match &armed {
            None => Err(BundleRefusal::for_reason("launch could not be instrumented")),
            Some(armed) if self.waits() => settle(armed, place),
            Some(armed) => {
                own(|| armed.submitted(place));
                Err(BundleRefusal::for_reason("launch was not waited for"))
            }
        };
        if let Some(bundle) = bundle {
            self.bundle_ends(data, bundle, completed);
        }
    }

    /// A launch that began on this thread and never ended was refused by the driver.
    fn abandon_launch() {
        let Some(running) = RUNNING.with(ThreadSlot::take) else { return };
        let reason = "refused by the driver";
        if let Some(armed) = &running.armed {
            armed.settle(Some(RecordFailure { reason, detail: None, has_run: false }), 0);
        }
        if let Some(row) = running.row {
            session::emit(LaunchRun { recorded: false, ..row });
        }
        if running.bundle.is_some() {
            session::lose(LossKind::Bundle, reason, 1, None);
        }
    }
}

/// Waits for a launch. Says where that leaves its pages, if none is missing.
pub(super) fn settle(armed: &ArmedLaunch, place: RingContext) -> Result<PageGathering, BundleRefusal> {
    // SAFETY: the stream is the launch's own.
    let code = own(|| unsafe { (place.api.synchronize)(place.stream) });
    if code != 0 {
        let (reason, detail) = ("kernel did not complete", format!("sanitizer error {code}"));
        armed.settle(Some(RecordFailure { reason, detail: Some(detail.clone()), has_run: true }), 0);
        return Err(BundleRefusal::with(reason, detail));
    }
    match own(|| armed.lost_requests(place)) {
        Ok(lost) => {
            armed.settle(None, lost);
            if lost == 0 {
                Ok(armed.gathering())
            } else {
                Err(BundleRefusal::with("some of its records were lost", lost))
            }
        }
        Err(error) => {
            let reason = "its lost requests could not be counted";
            armed.settle(Some(RecordFailure { reason, detail: Some(error.clone()), has_run: true }), 0);
            Err(BundleRefusal::with(reason, error))
        }
    }
}

impl SanitizerState {
    /// Resources of a launch's function.
    pub(super) fn resources(&mut self, data: &LaunchData) -> FunctionResources {
        *self.resources.entry(data.function.key()).or_insert_with(|| own(|| device::resources(data.function)))
    }
}

/// The row of a launch that has just begun.
pub(super) fn begun(ordinal: u64, stream_id: u32) -> LaunchRun {
    let replayed = replayed::current();
    LaunchRun {
        ordinal,
        kernel_id: replayed.unwrap_or(KernelId(ordinal)),
        matched: if replayed.is_some() { Match::Replayed } else { Match::Reference },
        thread_id: session::thread_id(),
        stream_id,
        ..LaunchRun::default()
    }
}

pub(super) fn emit_launch(
    data: &LaunchData,
    code: &LoadedCode,
    (name, ordinal): (&str, u64),
    origin: LaunchOrigin,
    given: Option<CallArguments>,
    resources: FunctionResources,
) {
    let context = origin.context;
    let [grid_x, grid_y, grid_z] = data.grid;
    let [block_x, block_y, block_z] = data.block;
    let cluster = data.cluster.map(|blocks| (blocks > 0).then_some(blocks));
    session::emit(Launch {
        kernel_id: KernelId(ordinal),
        run_id: RunId(0),
        function_id: code.function_id(name),
        ordinal,
        occurrence: 0,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        cluster_x: cluster[0],
        cluster_y: cluster[1],
        cluster_z: cluster[2],
        dynamic_shared_bytes: given.as_ref().map(|given| given.dynamic_shared_bytes),
        static_shared_bytes: resources.static_shared_bytes,
        local_bytes: resources.local_bytes,
        register_count: resources.register_count,
        device_id: data.device,
        op_id: context.and_then(|context| context.op_id),
        pystates_hash: context.and_then(|context| context.pystates_hash),
        graph_id: origin.node.map(|node| node.0),
        graph_launch: origin.node.map(|node| node.1),
        graph_node: origin.node.map(|node| node.2),
        capture_ordinal: origin.captured.map(|captured| captured.ordinal),
        accesses_of: origin.accesses_of.map(KernelId),
        native_stack: context.and_then(|context| context.native_stack),
    });
    match given {
        Some(CallArguments { parameters: KernelParameters { bytes, layout }, .. }) => {
            session::emit(LaunchParameter {
                kernel_id: KernelId(ordinal),
                bytes: Blob(bytes),
                offsets: layout.offsets,
                sizes: layout.sizes,
            });
        }
        None => session::lose(LossKind::Parameter, "launch call was not seen", 1, None),
    }
}
