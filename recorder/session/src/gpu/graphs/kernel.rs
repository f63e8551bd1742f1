//! Nodes of a graph, asked of the driver.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ptr::null;
use std::sync::Arc;

use stallmap_sys::cuda::{DriverHandle, KernelNode};

use super::registry::{ExecNode, NodeOrigin};
use super::{MAX_NODES, driver};
use crate::gpu::name::text;
use crate::gpu::parameters::{self, KernelParameters};

/// A kernel node as the driver describes it.
pub(super) struct NodeKernel {
    function: DriverHandle,
    name: String,
    shape: [u32; 6],
    shared_bytes: u32,
    parameters: KernelParameters,
}

impl NodeKernel {
    /// # Safety
    /// Memory that `node` points to lives, and its parameters are those of its function.
    pub(super) unsafe fn read(node: KernelNode) -> Self {
        let function = if node.function == DriverHandle::NULL { node.kernel } else { node.function };
        let layout = parameters::layout(function);
        // SAFETY: by this function's contract.
        let parameters = unsafe { parameters::read(node.parameters, node.extra, &layout) };
        Self {
            function,
            name: kernel_name(function),
            shape: node.shape,
            shared_bytes: node.shared_bytes,
            parameters,
        }
    }

    pub(super) fn into_node(self, handle: usize, index: usize, captured: Option<NodeOrigin>) -> ExecNode {
        ExecNode {
            handle,
            index: u32::try_from(index).unwrap_or(u32::MAX),
            nested_place: None,
            function: self.function.key(),
            name: self.name,
            shape: self.shape,
            shared_bytes: self.shared_bytes,
            parameters: Arc::new(self.parameters),
            captured,
            is_enabled: true,
            alias: None,
        }
    }
}

/// A kernel node; `None` where the driver does not describe it.
pub(super) fn kernel(node: DriverHandle) -> Option<NodeKernel> {
    let mut given = KernelNode {
        function: DriverHandle::NULL,
        shape: [0; 6],
        shared_bytes: 0,
        parameters: null(),
        extra: null(),
        kernel: DriverHandle::NULL,
        context: DriverHandle::NULL,
    };
    // SAFETY: the node is a kernel's. The output outlives the call.
    let code = unsafe { (driver()?.kernel_node)(node, &raw mut given) };
    // SAFETY: the driver filled it, and what it points to lives as long as the node's parameters.
    (code == 0).then(|| unsafe { NodeKernel::read(given) })
}

/// The graph of a node that has one.
pub(super) fn child(node: DriverHandle) -> Option<DriverHandle> {
    let mut graph = DriverHandle::NULL;
    // SAFETY: the node lives. The driver answers with an error if it has no graph. The output outlives the call.
    let code = unsafe { (driver()?.child_graph)(node, &raw mut graph) };
    (code == 0).then_some(graph)
}

/// The nodes of a graph, in the driver's order.
pub(super) fn nodes(graph: DriverHandle) -> Vec<DriverHandle> {
    let Some(driver) = driver() else { return Vec::new() };
    let mut count = 0;
    // SAFETY: the graph lives. Without an array the driver only counts.
    if unsafe { (driver.nodes)(graph, std::ptr::null_mut(), &raw mut count) } != 0 {
        return Vec::new();
    }
    let mut nodes = vec![DriverHandle::NULL; count.min(MAX_NODES)];
    let mut count = nodes.len();
    // SAFETY: there is room for `count` nodes.
    if unsafe { (driver.nodes)(graph, nodes.as_mut_ptr(), &raw mut count) } != 0 {
        return Vec::new();
    }
    nodes.truncate(count);
    nodes
}

/// The mangled name of a function or kernel. Empty where the driver does not say.
pub fn kernel_name(function: DriverHandle) -> String {
    let Some(driver) = driver() else { return String::new() };
    let mut name = null();
    // SAFETY: the handle is a function's or a kernel's. The driver answers with an error where it is the other's.
    let known = unsafe {
        (driver.function_name)(&raw mut name, function) == 0
            || (driver.kernel_name)(&raw mut name, function) == 0
    };
    if known { text(name) } else { String::new() }
}
