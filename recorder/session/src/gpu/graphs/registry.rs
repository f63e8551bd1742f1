//! Registry of graphs, by handle. Handles are reused once their graphs are gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::steps::{CHANGED, GraphSteps};
use crate::context::OpContext;
use crate::gpu::parameters::KernelParameters;

/// Place in the program where a node was captured or added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeOrigin {
    /// The op that ran, with its Python stack.
    pub context: Option<OpContext>,
    /// The ordinal that the capture took.
    pub ordinal: u64,
    /// The thread.
    pub thread_id: u32,
}

/// A kernel node of an executable graph.
#[derive(Clone, Debug)]
pub struct ExecNode {
    /// The node's handle in the graph that was instantiated.
    pub handle: usize,
    /// Its number among the kernel nodes.
    pub index: u32,
    /// Its place among all nodes of the executable graph, where it is one of a child graph or of a conditional node's body:
    /// behind the graph's own nodes, those of each such graph one after the other, before those of the graphs in it.
    pub nested_place: Option<u32>,
    /// The function's or kernel's handle.
    pub function: usize,
    /// Mangled name. Empty where the driver does not say.
    pub name: String,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The kernel's parameters.
    pub parameters: Arc<KernelParameters>,
    /// Place of its capture. `None` if the capture was not seen.
    pub captured: Option<NodeOrigin>,
    /// True if a launch of the graph runs it.
    pub is_enabled: bool,
    /// The handle that its launches are announced by, once it is known to be another.
    pub alias: Option<usize>,
}

/// One launch of an executable graph.
#[derive(Clone, Debug)]
pub struct LaunchedGraph {
    /// The executable graph, numbered in the order of instantiation.
    pub graph_id: u64,
    /// The n-th launch of it, from 0.
    pub graph_launch: u32,
    /// Its kernel nodes, by number, the disabled ones too.
    pub nodes: Arc<Vec<ExecNode>>,
}

struct ExecGraph {
    graph_id: u64,
    launches: u32,
    nodes: Arc<Vec<ExecNode>>,
    steps: GraphSteps,
}

/// Everything known, by handle.
#[derive(Default)]
pub(super) struct GraphRegistry {
    captured: BTreeMap<usize, NodeOrigin>,
    bodies: BTreeMap<usize, Vec<usize>>,
    execs: BTreeMap<usize, ExecGraph>,
    next_graph: u64,
}

impl GraphRegistry {
    pub(super) fn capture(&mut self, node: usize, captured: NodeOrigin) {
        self.captured.insert(node, captured);
    }

    pub(super) fn captured(&self, node: usize) -> Option<NodeOrigin> {
        self.captured.get(&node).copied()
    }

    pub(super) fn copy(&mut self, from: usize, to: usize) {
        if let Some(captured) = self.captured(from) {
            self.captured.insert(to, captured);
        }
        if let Some(bodies) = self.bodies.get(&from).cloned() {
            self.bodies.insert(to, bodies);
        }
    }

    pub(super) fn condition(&mut self, node: usize, bodies: Vec<usize>) {
        self.bodies.insert(node, bodies);
    }

    pub(super) fn bodies(&self, node: usize) -> Vec<usize> {
        self.bodies.get(&node).cloned().unwrap_or_default()
    }

    pub(super) fn instantiate(&mut self, exec: usize, nodes: Vec<ExecNode>, steps: GraphSteps) {
        let graph_id = self.next_graph;
        self.next_graph += 1;
        self.execs.insert(exec, ExecGraph { graph_id, launches: 0, nodes: Arc::new(nodes), steps });
    }

    /// The nodes of an updated graph replace those of the executable one in order, and launches go on being reported by
    /// the handles of the graph that was instantiated.
    pub(super) fn update(&mut self, exec: usize, nodes: Vec<ExecNode>, steps: GraphSteps) {
        let Some(exec) = self.execs.get_mut(&exec) else { return };
        exec.steps = steps;
        let old = Arc::clone(&exec.nodes);
        let keep = |node: ExecNode| match old.get(node.index as usize) {
            Some(old) => {
                ExecNode { handle: old.handle, is_enabled: old.is_enabled, alias: old.alias, ..node }
            }
            None => node,
        };
        exec.nodes = Arc::new(nodes.into_iter().map(keep).collect());
    }

    /// The kernel that a node of an executable graph runs from now on. The place of its capture stays.
    pub(super) fn set(&mut self, exec: usize, handle: usize, new: ExecNode) {
        self.change(exec, handle, |node| {
            let (index, is_enabled, alias) = (node.index, node.is_enabled, node.alias);
            let captured = new.captured.or(node.captured);
            *node = ExecNode { handle, index, captured, is_enabled, alias, ..new };
        });
    }

    pub(super) fn enable(&mut self, exec: usize, handle: usize, is_enabled: bool) {
        self.change(exec, handle, |node| node.is_enabled = is_enabled);
    }

    /// The steps of a graph are not to be run, until it is updated.
    pub(super) fn refuse_steps(&mut self, exec: usize, reason: &'static str) {
        if let Some(exec) = self.execs.get_mut(&exec) {
            exec.steps = Err(reason);
        }
    }

    pub(super) fn steps(&self, exec: usize) -> Option<GraphSteps> {
        self.execs.get(&exec).map(|exec| exec.steps.clone())
    }

    /// Launches of a node are announced by another handle than its own.
    pub(super) fn alias(&mut self, exec: usize, index: u32, alias: usize) {
        let Some(exec) = self.execs.get_mut(&exec) else { return };
        if let Some(node) = Arc::make_mut(&mut exec.nodes).get_mut(index as usize) {
            node.alias = Some(alias);
        }
    }

    pub(super) fn nodes(&self, exec: usize) -> Option<Arc<Vec<ExecNode>>> {
        self.execs.get(&exec).map(|exec| Arc::clone(&exec.nodes))
    }

    pub(super) fn graph_id(&self, exec: usize) -> Option<u64> {
        self.execs.get(&exec).map(|exec| exec.graph_id)
    }

    pub(super) fn destroy(&mut self, exec: usize) {
        self.execs.remove(&exec);
    }

    pub(super) fn launch(&mut self, exec: usize) -> Option<LaunchedGraph> {
        let exec = self.execs.get_mut(&exec)?;
        let graph_launch = exec.launches;
        exec.launches += 1;
        Some(LaunchedGraph { graph_id: exec.graph_id, graph_launch, nodes: Arc::clone(&exec.nodes) })
    }

    fn change(&mut self, exec: usize, handle: usize, change: impl FnOnce(&mut ExecNode)) {
        let Some(exec) = self.execs.get_mut(&exec) else { return };
        let nodes = Arc::make_mut(&mut exec.nodes);
        match nodes.iter_mut().find(|node| node.handle == handle) {
            Some(node) => change(node),
            None => exec.steps = Err(CHANGED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::GraphStep;
    use super::*;

    fn node(handle: usize, index: u32, name: &str, ordinal: Option<u64>) -> ExecNode {
        ExecNode {
            nested_place: None,
            handle,
            index,
            function: 0,
            name: name.to_owned(),
            shape: [1; 6],
            shared_bytes: 0,
            parameters: Arc::default(),
            captured: ordinal.map(|ordinal| NodeOrigin { context: None, ordinal, thread_id: 0 }),
            is_enabled: true,
            alias: None,
        }
    }

    fn none() -> Arc<Vec<GraphStep>> {
        Arc::default()
    }

    #[test]
    fn steps_hold_until_a_node_that_is_no_kernel_changes() {
        let mut registry = GraphRegistry::default();
        registry.instantiate(7, vec![node(1, 0, "a", None)], Ok(none()));
        registry.set(7, 1, node(1, 0, "b", None));
        registry.enable(7, 1, false);
        assert!(registry.steps(7).unwrap().is_ok());
        registry.enable(7, 5, false);
        assert_eq!(registry.steps(7).unwrap().err(), Some(CHANGED));
        registry.update(7, vec![node(1, 0, "a", None)], Ok(none()));
        assert!(registry.steps(7).unwrap().is_ok());
    }

    #[test]
    fn an_update_keeps_handles_and_what_is_disabled() {
        let mut registry = GraphRegistry::default();
        registry.instantiate(7, vec![node(1, 0, "a", Some(3)), node(2, 1, "b", Some(4))], Ok(none()));
        registry.enable(7, 2, false);
        registry.update(7, vec![node(11, 0, "a", Some(8)), node(12, 1, "b", Some(9))], Ok(none()));
        let launch = registry.launch(7).unwrap();
        let seen: Vec<_> = launch.nodes.iter().map(|node| (node.handle, node.is_enabled)).collect();
        assert_eq!(seen, [(1, true), (2, false)]);
        assert_eq!(launch.nodes[1].captured.map(|captured| captured.ordinal), Some(9));
    }

    #[test]
    fn launches_are_counted_by_graph_and_a_running_launch_keeps_its_nodes() {
        let mut registry = GraphRegistry::default();
        registry.instantiate(7, vec![node(1, 0, "a", Some(3))], Ok(none()));
        let first = registry.launch(7).unwrap();
        registry.set(7, 1, node(0, 9, "c", None));
        registry.instantiate(8, Vec::new(), Ok(none()));
        let second = registry.launch(7).unwrap();
        assert_eq!((first.graph_launch, second.graph_launch, second.graph_id), (0, 1, 0));
        assert_eq!((first.nodes[0].name.as_str(), second.nodes[0].name.as_str()), ("a", "c"));
        assert_eq!((second.nodes[0].handle, second.nodes[0].index), (1, 0));
        assert_eq!(second.nodes[0].captured.map(|captured| captured.ordinal), Some(3));
        registry.destroy(7);
        assert!(registry.launch(7).is_none());
        assert_eq!(registry.launch(8).unwrap().graph_id, 1);
    }
}
