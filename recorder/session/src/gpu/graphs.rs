//! CUDA graphs: the kernels of an executable graph, each with its place of capture in the program.
//!
//! Both instruments feed it with the driver calls that make, change and launch graphs: [`CALLBACKS`] at their exit to
//! [`ProcessGraphs::called`], and launches into a capturing stream to [`ProcessGraphs::captured`]. A graph is read when it is
//! instantiated or an executable graph is updated, by its nodes in the driver's order, those of child graphs and of the
//! bodies of conditional nodes in their place: a node's number is the same in every run of the program.
#![expect(unsafe_code, reason = "calls of the CUDA driver, and parameters of the driver's functions")]

mod kernel;
mod registry;
mod steps;

use std::ffi::{c_int, c_uint, c_void};
use std::ptr::null;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stallmap_sys::cuda::{self, DriverHandle, KernelNode, graph_id, launch_id, node_type};

use super::device;
use crate::{context, session};

pub use kernel::kernel_name;
use kernel::{NodeKernel, child, kernel, nodes};
use registry::GraphRegistry;
pub use registry::{ExecNode, LaunchedGraph, NodeOrigin};
use steps::CHANGED;
pub use steps::{GraphStep, GraphSteps, UNREAD, synchronize};

/// Driver calls that change graphs, by callback number: they go to [`ProcessGraphs::called`] at their exit.
pub const CALLBACKS: [u32; 21] = [
    graph_id::INSTANTIATE[0],
    graph_id::INSTANTIATE[1],
    graph_id::INSTANTIATE[2],
    graph_id::INSTANTIATE[3],
    graph_id::INSTANTIATE[4],
    graph_id::UPDATE[0],
    graph_id::UPDATE[1],
    graph_id::SET_KERNEL[0],
    graph_id::SET_KERNEL[1],
    graph_id::SET_NODE,
    graph_id::SET_CHILD,
    graph_id::SET_MEMORY[0],
    graph_id::SET_MEMORY[1],
    graph_id::SET_ENABLED,
    graph_id::DESTROY,
    graph_id::ADD_KERNEL[0],
    graph_id::ADD_KERNEL[1],
    graph_id::ADD_NODE,
    graph_id::ADD_NODE_V2,
    graph_id::ADD_CHILD,
    graph_id::CLONE,
];

/// The part of [`CALLBACKS`] that makes an executable graph: their first parameter points to its handle.
pub const INSTANTIATIONS: [u32; 5] = graph_id::INSTANTIATE;

/// Most nodes that are read of one graph.
const MAX_NODES: usize = 1 << 20;
/// Graphs in graphs that are followed.
const MAX_DEPTH: u32 = 16;
/// The per-thread default stream's handle.
const PER_THREAD_STREAM: usize = 2;

/// Known facts about the graphs of this process.
#[derive(Default)]
pub struct ProcessGraphs {
    registry: Mutex<GraphRegistry>,
    /// True if graphs are read as steps too.
    has_steps: bool,
}

/// The driver's functions on graphs; `None` where the driver has none of CUDA 12.
fn driver() -> Option<&'static cuda::Graphs> {
    static DRIVER: OnceLock<Option<cuda::Graphs>> = OnceLock::new();
    let load = || cuda::Graphs::load(&["libcuda.so.1".into()]).ok().map(|(graphs, _path)| graphs);
    DRIVER.get_or_init(load).as_ref()
}

/// A stream that is capturing.
#[derive(Clone, Copy, Debug)]
pub struct StreamCapture {
    /// The node that was added last, where only one is: at the exit of a launch call, the launch's.
    pub node: Option<DriverHandle>,
}

/// The stream of a launch call, by a handle that means the same in every call. `id` is the callback number of the call.
pub fn stream_of_call(id: u32, stream: DriverHandle) -> DriverHandle {
    let is_default = stream == DriverHandle::NULL && launch_id::PER_THREAD.contains(&id);
    if is_default { DriverHandle::of_key(PER_THREAD_STREAM) } else { stream }
}

/// The capture of a launch call's stream, if it captures. `id` is the callback number of the launch function.
pub fn capture(id: u32, stream: DriverHandle) -> Option<StreamCapture> {
    let per_thread = launch_id::PER_THREAD.contains(&id);
    let stream = match stream.key() {
        // The legacy stream cannot capture.
        0 if !per_thread => return None,
        0 => DriverHandle::of_key(PER_THREAD_STREAM),
        1 => return None,
        _ => stream,
    };
    let (mut status, mut capture_id, mut graph) = (0, 0, DriverHandle::NULL);
    let (mut dependencies, mut count) = (null(), 0);
    // SAFETY: the stream is the launch call's own, which is running. The outputs outlive the call.
    let code = unsafe {
        (driver()?.capture_info)(
            stream,
            &raw mut status,
            &raw mut capture_id,
            &raw mut graph,
            &raw mut dependencies,
            &raw mut count,
        )
    };
    if code != 0 || status == 0 {
        return None;
    }
    let has_one = count == 1 && !dependencies.is_null();
    // SAFETY: the driver says that so many dependencies lie there until the next call on the stream.
    Some(StreamCapture { node: has_one.then(|| unsafe { *dependencies }) })
}

/// Runs `body` while no capture of any thread restricts this thread's driver calls, and none is ended by them.
pub fn relaxed<T>(body: impl FnOnce() -> T) -> T {
    let Some(driver) = driver() else { return body() };
    let mut mode = cuda::CAPTURE_MODE_RELAXED;
    // SAFETY: `mode` outlives the call.
    let exchanged = unsafe { (driver.exchange_capture_mode)(&raw mut mode) } == 0;
    let result = body();
    if exchanged {
        // SAFETY: as above; `mode` is the thread's own again.
        unsafe { (driver.exchange_capture_mode)(&raw mut mode) };
    }
    result
}

impl ProcessGraphs {
    /// No graphs yet. `has_steps` if [`Self::steps`] will be asked for.
    pub fn new(has_steps: bool) -> Self {
        Self { has_steps, ..Self::default() }
    }

    fn lock(&self) -> MutexGuard<'_, GraphRegistry> {
        self.registry.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers where the node was captured that a launch call just became, at the call's exit. The node takes an
    /// ordinal, which separates lifetimes of tensors that begin and end during the capture.
    pub fn captured(&self, node: DriverHandle) {
        let captured = NodeOrigin {
            context: context::of_launch(),
            ordinal: session::take_ordinal(),
            thread_id: session::thread_id(),
        };
        self.lock().capture(node.key(), captured);
    }

    /// A call of [`CALLBACKS`] has succeeded.
    ///
    /// # Safety
    /// `parameters` points to the parameters of the driver function with this callback number, whose call is ending.
    pub unsafe fn called(&self, id: u32, parameters: *const c_void) {
        if parameters.is_null() {
            return;
        }
        let words = parameters.cast::<DriverHandle>();
        // SAFETY: every one of these functions has as many parameters of a word as are read of it.
        let word = |index: usize| unsafe { *words.add(index) };
        // SAFETY: the first parameter of these points to the handle that the call has made.
        let made = || unsafe { word(0).0.cast::<DriverHandle>().as_ref() }.copied();
        match id {
            graph_id::DESTROY => self.lock().destroy(word(0).key()),
            graph_id::CLONE => {
                if let Some(clone) = made() {
                    self.cloned(word(1), clone);
                }
            }
            graph_id::SET_ENABLED => {
                // SAFETY: the third parameter is an unsigned int.
                let enabled = unsafe { *words.add(2).cast::<c_uint>() } != 0;
                self.lock().enable(word(0).key(), word(1).key(), enabled);
            }
            graph_id::SET_CHILD => self.child_set(word(0), word(1), word(2)),
            graph_id::SET_NODE => self.node_set(word(0), word(1), word(2).0),
            id if graph_id::SET_MEMORY.contains(&id) => self.lock().refuse_steps(word(0).key(), CHANGED),
            id if graph_id::SET_KERNEL.contains(&id) => {
                // SAFETY: the third parameter points to the node's new parameters.
                unsafe { self.kernel_set(word(0), word(1), word(2).0.cast(), id == graph_id::SET_KERNEL[1]) };
            }
            id if graph_id::INSTANTIATE.contains(&id) => {
                if let Some(exec) = made() {
                    let (nodes, steps) = self.read_steps(word(1));
                    self.lock().instantiate(exec.key(), nodes, steps);
                }
            }
            id if graph_id::UPDATE.contains(&id) => {
                let (nodes, steps) = self.read_steps(word(1));
                self.lock().update(word(0).key(), nodes, steps);
            }
            id if graph_id::ADD_KERNEL.contains(&id) => {
                if let Some(node) = made() {
                    self.captured(node);
                }
            }
            graph_id::ADD_CHILD => {
                if let Some(node) = made() {
                    self.child_added(node, word(4));
                }
            }
            graph_id::ADD_NODE | graph_id::ADD_NODE_V2 => {
                let last = if id == graph_id::ADD_NODE { 4 } else { 5 };
                if let Some(node) = made() {
                    self.node_added(node, word(last).0);
                }
            }
            _ => {}
        }
    }

    /// The kernels that a launch of an executable graph runs; `None` where it was never seen.
    pub fn launch_begins(&self, exec: DriverHandle) -> Option<LaunchedGraph> {
        self.lock().launch(exec.key())
    }

    /// The kernel nodes of an executable graph, by number; `None` where it was never seen.
    pub fn nodes(&self, exec: DriverHandle) -> Option<Arc<Vec<ExecNode>>> {
        self.lock().nodes(exec.key())
    }

    /// The steps of an executable graph.
    pub fn steps(&self, exec: DriverHandle) -> GraphSteps {
        self.lock().steps(exec.key()).unwrap_or(Err(UNREAD))
    }

    /// The steps of an executable graph are not to be run, for this reason.
    pub fn refuse_steps(&self, exec: DriverHandle, reason: &'static str) {
        self.lock().refuse_steps(exec.key(), reason);
    }

    /// The number of an executable graph; `None` where it was never seen.
    pub fn graph_id(&self, exec: DriverHandle) -> Option<u64> {
        self.lock().graph_id(exec.key())
    }

    /// Launches of a node of an executable graph are announced by another handle than its own.
    pub fn alias(&self, exec: usize, index: u32, alias: usize) {
        self.lock().alias(exec, index, alias);
    }

    /// A node of a type that was passed to cuGraphAddNode.
    fn node_added(&self, node: DriverHandle, parameters: *mut c_void) {
        /// Bytes from the start of CUgraphNodeParams to the fields of its type.
        const UNION: usize = 16;
        if parameters.is_null() {
            return;
        }
        // SAFETY: CUgraphNodeParams begins with its type.
        match unsafe { *parameters.cast::<c_int>() } {
            node_type::KERNEL => self.captured(node),
            node_type::GRAPH => {
                // SAFETY: CUDA_CHILD_GRAPH_NODE_PARAMS begins with the child.
                self.child_added(node, unsafe { *parameters.byte_add(UNION).cast::<DriverHandle>() });
            }
            node_type::CONDITIONAL => {
                // SAFETY: CUDA_CONDITIONAL_NODE_PARAMS: a handle, type and count, and a pointer to so many graphs that
                // live as long as the node.
                let bodies = unsafe {
                    let count = *parameters.byte_add(UNION + 12).cast::<c_uint>();
                    let graphs = *parameters.byte_add(UNION + 16).cast::<*const DriverHandle>();
                    if graphs.is_null() {
                        return;
                    }
                    std::slice::from_raw_parts(graphs, count.min(1 << 16) as usize)
                };
                self.lock().condition(node.key(), bodies.iter().map(|body| body.key()).collect());
            }
            _ => {}
        }
    }

    /// A child graph is a clone of the graph that was given.
    fn child_added(&self, node: DriverHandle, original: DriverHandle) {
        if let Some(child) = child(node) {
            self.cloned(original, child);
        }
    }

    /// Nodes of a clone were captured where their originals were.
    fn cloned(&self, original: DriverHandle, clone: DriverHandle) {
        let Some(driver) = driver() else { return };
        for node in nodes(original) {
            let mut twin = DriverHandle::NULL;
            // SAFETY: both graphs live while the call runs. The output outlives it.
            if unsafe { (driver.find_in_clone)(&raw mut twin, node, clone) } == 0 {
                self.lock().copy(node.key(), twin.key());
                if let (Some(from), Some(to)) = (child(node), child(twin)) {
                    self.cloned(from, to);
                }
            }
        }
    }

    /// The kernel nodes of a graph, and its steps.
    fn read_steps(&self, graph: DriverHandle) -> (Vec<ExecNode>, GraphSteps) {
        let nodes = self.read(graph);
        let steps = if self.has_steps { steps::read(graph, &nodes) } else { Err(UNREAD) };
        (nodes, steps)
    }

    /// The kernel nodes of a graph.
    fn read(&self, graph: DriverHandle) -> Vec<ExecNode> {
        let mut found = Vec::new();
        self.read_into(graph, 0, &mut 0, &mut found);
        found
    }

    /// Adds the kernel nodes of a graph. `place` is that of its first node, then of the next graph's.
    fn read_into(&self, graph: DriverHandle, depth: u32, place: &mut u32, found: &mut Vec<ExecNode>) {
        let Some(driver) = driver() else { return };
        let nodes = nodes(graph);
        let first = *place;
        *place = place.saturating_add(u32::try_from(nodes.len()).unwrap_or(u32::MAX));
        for (own, node) in (first..).zip(nodes) {
            let mut kind = -1;
            // SAFETY: the node's graph lives while the call that names it runs. The output outlives the call.
            if unsafe { (driver.node_type)(node, &raw mut kind) } != 0 || found.len() >= MAX_NODES {
                continue;
            }
            match kind {
                node_type::KERNEL => {
                    let captured = self.lock().captured(node.key());
                    found.extend(kernel(node).map(|kernel| ExecNode {
                        nested_place: (depth > 0).then_some(own),
                        ..kernel.into_node(node.key(), found.len(), captured)
                    }));
                }
                node_type::GRAPH if depth < MAX_DEPTH => {
                    if let Some(child) = child(node) {
                        self.read_into(child, depth + 1, place, found);
                    }
                }
                node_type::CONDITIONAL if depth < MAX_DEPTH => {
                    let bodies = self.lock().bodies(node.key());
                    for body in bodies {
                        self.read_into(DriverHandle::of_key(body), depth + 1, place, found);
                    }
                }
                _ => {}
            }
        }
    }

    fn child_set(&self, exec: DriverHandle, node: DriverHandle, graph: DriverHandle) {
        let Some(child) = child(node) else { return };
        let (before, after) = (self.read(child), self.read(graph));
        let mut registry = self.lock();
        registry.refuse_steps(exec.key(), CHANGED);
        for (old, new) in before.iter().zip(after) {
            registry.set(exec.key(), old.handle, new);
        }
    }

    fn node_set(&self, exec: DriverHandle, node: DriverHandle, parameters: *mut c_void) {
        /// Bytes from the start of CUgraphNodeParams to the fields of its type.
        const UNION: usize = 16;
        // SAFETY: CUgraphNodeParams begins with its type, and a kernel's parameters lie in its union.
        unsafe {
            if !parameters.is_null() && *parameters.cast::<c_int>() == node_type::KERNEL {
                self.kernel_set(exec, node, parameters.byte_add(UNION).cast(), true);
            } else {
                self.lock().refuse_steps(exec.key(), CHANGED);
            }
        }
    }

    /// # Safety
    /// `parameters`, where not null, points to a `KernelNode`, without its last two fields where not `has_kernel`.
    unsafe fn kernel_set(
        &self,
        exec: DriverHandle,
        node: DriverHandle,
        parameters: *const KernelNode,
        has_kernel: bool,
    ) {
        if parameters.is_null() {
            return;
        }
        // SAFETY: by this function's contract. The fields that are not there are not read.
        let given = unsafe {
            let kernel =
                if has_kernel { (&raw const (*parameters).kernel).read() } else { DriverHandle::NULL };
            KernelNode {
                function: (&raw const (*parameters).function).read(),
                shape: (&raw const (*parameters).shape).read(),
                shared_bytes: (&raw const (*parameters).shared_bytes).read(),
                parameters: (&raw const (*parameters).parameters).read(),
                extra: (&raw const (*parameters).extra).read(),
                kernel,
                context: DriverHandle::NULL,
            }
        };
        // SAFETY: the parameters are those of the call that is ending.
        let kernel = unsafe { NodeKernel::read(given) };
        let new = kernel.into_node(node.key(), 0, None);
        self.lock().set(exec.key(), node.key(), new);
    }
}

/// The result of a driver call in a callback at its exit: 0 for success.
///
/// # Safety
/// `result`, where not null, points to a CUresult.
pub unsafe fn result(result: *const c_void) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { result.cast::<c_int>().as_ref() }.copied().unwrap_or(0)
}

/// True if the driver knows graphs. Otherwise their kernels are counted but not recorded.
pub fn are_known() -> bool {
    driver().is_some() && device::driver().is_some()
}
