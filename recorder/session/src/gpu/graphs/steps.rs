//! Nodes of a graph as calls of the driver, one after the other on a stream.
//!
//! A bundle holds the memory before and after a kernel. A launch of a graph has no such moments. Its nodes, run one by
//! one, have.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::sync::{Arc, OnceLock};

use stallmap_sys::cuda::{
    self, CopyNode, DriverHandle, FillNode, LAUNCH_ATTRIBUTE_BYTES, LaunchConfig, PARAM_BUFFER_POINTER,
    PARAM_BUFFER_SIZE, node_type,
};

use super::kernel::{child, nodes};
use super::{ExecNode, MAX_DEPTH, MAX_NODES, driver};

/// A node.
#[derive(Clone, Debug)]
pub enum GraphStep {
    /// A kernel, by its number, with the attributes of its launch as CUlaunchAttribute has them.
    Kernel(u32, Vec<u8>),
    /// A copy.
    Copy(Box<CopyNode>),
    /// A fill.
    Fill(FillNode),
}

/// The nodes of a graph in an order that its edges allow. The error is the reason if they cannot run one by one.
pub type GraphSteps = Result<Arc<Vec<GraphStep>>, &'static str>;

/// The graph is not the one that was instantiated any more.
pub(super) const CHANGED: &str = "nodes of its CUDA graph were changed after instantiation";
/// The graph was not read: the reason where there is no better one.
pub const UNREAD: &str = "launched by a CUDA graph";

const OLD_DRIVER: &str = "launched by a CUDA graph, with a driver older than CUDA 12.3";
const UNREADABLE: &str = "the driver does not describe its CUDA graph";
const OTHERS: &str = "its CUDA graph has nodes other than kernels, copies and fills";
const ARRAY: &str = "its CUDA graph copies into an array";

/// Attributes that change what a launch does: cooperative, cluster dimensions, how clusters are scheduled, cluster
/// dimensions preferred.
const ATTRIBUTES: [c_int; 4] = [2, 4, 5, 11];

fn api() -> Option<&'static cuda::Steps> {
    static STEPS: OnceLock<Option<cuda::Steps>> = OnceLock::new();
    STEPS.get_or_init(|| cuda::Steps::load(&["libcuda.so.1".into()]).ok().map(|(api, _path)| api)).as_ref()
}

/// Waits for all work of this thread's context. The error is the driver's.
pub fn synchronize() -> Result<(), c_int> {
    // SAFETY: a call without arguments.
    done(unsafe { (api().ok_or(c_int::MAX)?.synchronize)() })
}

/// Reads the steps of a graph with these kernels.
pub(super) fn read(graph: DriverHandle, kernels: &[ExecNode]) -> GraphSteps {
    let numbers = kernels.iter().map(|kernel| (kernel.handle, kernel.index)).collect();
    let mut steps = Vec::new();
    add(graph, 0, &numbers, &mut steps)?;
    Ok(Arc::new(steps))
}

fn add(
    graph: DriverHandle,
    depth: u32,
    numbers: &BTreeMap<usize, u32>,
    steps: &mut Vec<GraphStep>,
) -> Result<(), &'static str> {
    const EMPTY: c_int = 5;
    let (api, driver) = api().zip(driver()).ok_or(OLD_DRIVER)?;
    let nodes = nodes(graph);
    let edges = edges(api, graph)?;
    for node in order(&nodes.iter().map(|node| node.key()).collect::<Vec<_>>(), &edges) {
        let node = DriverHandle::of_key(node);
        let mut kind = -1;
        // SAFETY: the graph lives while the call that names it runs. The output outlives the call.
        done(unsafe { (driver.node_type)(node, &raw mut kind) }).map_err(|_| UNREADABLE)?;
        match kind {
            node_type::KERNEL => {
                let number = numbers.get(&node.key()).copied().ok_or(UNREADABLE)?;
                steps.push(GraphStep::Kernel(number, attributes(api, node)));
            }
            node_type::MEMCPY => steps.push(copy(api, node)?),
            node_type::MEMSET => steps.push(fill(api, node)?),
            node_type::GRAPH if depth < MAX_DEPTH => {
                add(child(node).ok_or(UNREADABLE)?, depth + 1, numbers, steps)?;
            }
            EMPTY => {}
            _ => return Err(OTHERS),
        }
    }
    Ok(())
}

/// The edges of a graph: from node, to node.
fn edges(api: &cuda::Steps, graph: DriverHandle) -> Result<Vec<(usize, usize)>, &'static str> {
    use std::ptr::null_mut;
    let mut count = 0;
    // SAFETY: the graph lives. Without arrays the driver only counts.
    done(unsafe { (api.edges)(graph, null_mut(), null_mut(), null_mut(), &raw mut count) })
        .map_err(|_| UNREADABLE)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    if count > MAX_NODES {
        return Err(UNREADABLE);
    }
    let none = || std::iter::repeat_n(DriverHandle::NULL, count).collect::<Vec<_>>();
    let (mut from, mut to, mut data) = (none(), none(), vec![0; count]);
    // SAFETY: there is room for `count` edges in each array.
    let code =
        unsafe { (api.edges)(graph, from.as_mut_ptr(), to.as_mut_ptr(), data.as_mut_ptr(), &raw mut count) };
    done(code).map_err(|_| UNREADABLE)?;
    Ok(from.iter().zip(&to).map(|(from, to)| (from.key(), to.key())).collect())
}

/// Nodes such that every edge leads forward, else in the order that they have.
fn order(nodes: &[usize], edges: &[(usize, usize)]) -> Vec<usize> {
    let places: BTreeMap<usize, usize> = nodes.iter().copied().zip(0..).collect();
    let mut waits: Vec<usize> = nodes.iter().map(|_| 0).collect();
    let mut followers: Vec<Vec<usize>> = nodes.iter().map(|_| Vec::new()).collect();
    for (from, to) in edges {
        if let (Some(&from), Some(&to)) = (places.get(from), places.get(to))
            && let (Some(followers), Some(waits)) = (followers.get_mut(from), waits.get_mut(to))
        {
            followers.push(to);
            *waits += 1;
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&place| waits.get(place) == Some(&0)).collect();
    let mut ordered = Vec::with_capacity(nodes.len());
    while let Some(place) = ready.pop_first() {
        ordered.extend(nodes.get(place));
        for &follower in followers.get(place).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(follower) {
                *waits -= 1;
                if *waits == 0 {
                    ready.insert(follower);
                }
            }
        }
    }
    ordered
}

fn attributes(api: &cuda::Steps, node: DriverHandle) -> Vec<u8> {
    let mut all = Vec::new();
    for id in ATTRIBUTES {
        let mut value = [0; 64];
        // SAFETY: the node is a kernel's. A value has 64 bytes. An older driver does not know the newest ids.
        let code = unsafe { (api.attribute)(node, id, &raw mut value) };
        if code == 0 && value.iter().any(|&byte| byte != 0) {
            all.extend(id.to_le_bytes());
            all.extend([0; 4]);
            all.extend(value);
        }
    }
    all
}

fn copy(api: &cuda::Steps, node: DriverHandle) -> Result<GraphStep, &'static str> {
    let mut copy = CopyNode { source: [0; 15], destination_type: 0, padding: 0, destination: [0; 9] };
    // SAFETY: the node is a copy's. The output outlives the call.
    done(unsafe { (api.copy_node)(node, &raw mut copy) }).map_err(|_| UNREADABLE)?;
    if copy.destination_type == cuda::MEMORY_ARRAY { Err(ARRAY) } else { Ok(GraphStep::Copy(Box::new(copy))) }
}

fn fill(api: &cuda::Steps, node: DriverHandle) -> Result<GraphStep, &'static str> {
    let mut fill = FillNode { address: 0, pitch_bytes: 0, value: 0, element_bytes: 0, width: 0, height: 0 };
    // SAFETY: the node is a memset's. The output outlives the call.
    done(unsafe { (api.fill_node)(node, &raw mut fill) }).map_err(|_| UNREADABLE)?;
    Ok(GraphStep::Fill(fill))
}

impl GraphStep {
    /// Starts the step on a stream, as a call of its own. `kernels` are those of the graph. The error is the driver's.
    pub fn run(&self, kernels: &[ExecNode], stream: DriverHandle) -> Result<(), c_int> {
        let api = api().ok_or(c_int::MAX)?;
        match self {
            Self::Kernel(number, attributes) => {
                let kernel = kernels.get(*number as usize).ok_or(c_int::MAX)?;
                launch(api, kernel, attributes, stream)
            }
            // SAFETY: the copy is the graph's own, whose launch is being called.
            Self::Copy(copy) => done(unsafe { (api.copy)(&raw const **copy, stream) }),
            Self::Fill(node) => fill_memory(api, *node, stream),
        }
    }
}

fn launch(
    api: &cuda::Steps,
    kernel: &ExecNode,
    attributes: &[u8],
    stream: DriverHandle,
) -> Result<(), c_int> {
    let (attributes, _) = attributes.as_chunks::<LAUNCH_ATTRIBUTE_BYTES>();
    let config = LaunchConfig {
        shape: kernel.shape,
        shared_bytes: kernel.shared_bytes,
        stream,
        attributes: attributes.as_ptr(),
        attribute_count: u32::try_from(attributes.len()).unwrap_or(0),
    };
    let bytes = &kernel.parameters.bytes;
    let size = bytes.len();
    let extra: [*const c_void; 5] = [
        PARAM_BUFFER_POINTER as _,
        bytes.as_ptr().cast(),
        PARAM_BUFFER_SIZE as _,
        (&raw const size).cast(),
        null(),
    ];
    // SAFETY: function and arguments are those of the node, whose graph is being launched. All outlives the call.
    done(unsafe {
        (api.launch)(&raw const config, DriverHandle::of_key(kernel.function), null(), extra.as_ptr())
    })
}

fn fill_memory(api: &cuda::Steps, node: FillNode, stream: DriverHandle) -> Result<(), c_int> {
    let FillNode { address, value, width, height, element_bytes, .. } = node;
    let row_bytes = width.saturating_mul(element_bytes as usize);
    let pitch = if height > 1 { node.pitch_bytes } else { row_bytes };
    let [low, second, ..] = value.to_le_bytes();
    // SAFETY: the memory is that of the graph's own node, whose launch is being called.
    done(unsafe {
        match element_bytes {
            1 => (api.fill_8)(address, pitch, low, width, height, stream),
            2 => (api.fill_16)(address, pitch, u16::from_le_bytes([low, second]), width, height, stream),
            _ => (api.fill_32)(address, pitch, value, width, height, stream),
        }
    })
}

fn done(code: c_int) -> Result<(), c_int> {
    if code == 0 { Ok(()) } else { Err(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_lead_forward_and_the_rest_stays() {
        assert_eq!(order(&[1, 2, 3], &[]), [1, 2, 3]);
        assert_eq!(order(&[1, 2, 3, 4], &[(4, 1), (1, 3)]), [2, 4, 1, 3]);
        assert_eq!(order(&[5, 6], &[(5, 6), (5, 6)]), [5, 6]);
    }
}
