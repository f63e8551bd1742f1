//! CUPTI's numbers of the nodes of executable graphs.
//!
//! An instantiation copies each node, and CUPTI reports each copy with its original during the call. Records of kernels have the
//! number of the copy. Those of child graphs and of conditional nodes' bodies have numbers of the whole graph, by their place
//! in it: measured with CUDA 13.0.

use stallmap_schema::capture::recording::GraphNodeNumber;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::GraphData;

use stallmap_session::gpu::graphs::ProcessGraphs;
use stallmap_session::session;
use stallmap_session::slot::ThreadSlot;

use super::number;

/// Copies of one call, most: a graph with more has nodes without times.
const MAX_COPIES: usize = 1 << 20;

thread_local! {
    /// Copies of nodes in the driver call of this thread: the original's handle, the copy's number.
    static COPIES: ThreadSlot<Vec<(usize, u64)>> = const { ThreadSlot::empty() };
}

/// Copies of nodes that the driver call of this thread makes.
pub(crate) struct NodeClones;

impl NodeClones {
    /// A node was copied.
    pub(crate) fn add(graph: &GraphData) {
        if let Some(number) = number(graph.node) {
            let add = |copies: &mut Option<Vec<(usize, u64)>>| {
                let copies = copies.get_or_insert_default();
                if copies.len() < MAX_COPIES {
                    copies.push((graph.original_node.key(), number));
                }
            };
            COPIES.with(|slot| slot.change(add));
        }
    }

    /// The call ends. `exec` is the graph that it has instantiated, if it has.
    pub(crate) fn settle(graphs: &ProcessGraphs, exec: Option<DriverHandle>) {
        let copies = COPIES.with(ThreadSlot::take).unwrap_or_default();
        let Some((graph_id, nodes)) = exec.and_then(|exec| graphs.graph_id(exec).zip(graphs.nodes(exec)))
        else {
            return;
        };
        // Nodes of the whole graph come behind those of the graphs in it.
        let whole = copies.last().map(|&(_, number)| number & !u64::from(u32::MAX));
        let copies: std::collections::BTreeMap<usize, u64> = copies.into_iter().collect();
        for node in nodes.iter() {
            let nested = node.nested_place.zip(whole).map(|(place, whole)| whole | u64::from(place));
            if let Some(graph_node_id) = nested.or_else(|| copies.get(&node.handle).copied()) {
                session::emit(GraphNodeNumber { graph_node_id, graph_id, graph_node: node.index });
            }
        }
    }
}
