//! The innermost loop around a block: the smallest part of the code that leads back to its own start.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::algo::dominators::simple_fast;
use petgraph::graph::NodeIndex;

use crate::slice::graph::FlowGraph;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Maximum number of blocks of code whose loops are searched: the search may take the square of it.
const MAX_BLOCKS: usize = 1 << 12;

/// By block: a number of the innermost loop around it. Blocks outside of loops have none.
#[derive(Debug, Default)]
pub(crate) struct InnermostLoops(BTreeMap<NodeIndex, usize>);

impl InnermostLoops {
    pub(crate) fn new(flow: &FlowGraph, work: &AnalysisBudget) -> Result<Self, TooMuchWork> {
        let Some(entry) = flow.graph.node_indices().next() else { return Ok(Self::default()) };
        if flow.graph.node_count() > MAX_BLOCKS {
            return Ok(Self::default());
        }
        work.spend(flow.graph.node_count() + flow.graph.edge_count())?;
        let dominators = simple_fast(&flow.graph, entry);
        let mut bodies = Vec::new();
        for edge in flow.graph.edge_indices() {
            let Some((end, head)) = flow.graph.edge_endpoints(edge) else { continue };
            if dominators.dominators(end).is_some_and(|mut above| above.any(|block| block == head)) {
                bodies.push(body(flow, head, end, work)?);
            }
        }
        bodies.sort_by_key(BTreeSet::len);
        let mut innermost = BTreeMap::new();
        for (number, body) in bodies.iter().enumerate() {
            for block in body {
                innermost.entry(*block).or_insert(number);
            }
        }
        Ok(Self(innermost))
    }

    /// The innermost loop around an instruction.
    pub(crate) fn around(&self, flow: &FlowGraph, instruction: usize) -> Option<usize> {
        self.0.get(flow.block_of.get(instruction)?).copied()
    }
}

/// The blocks from which the end of a loop is reached without passing its head.
fn body(
    flow: &FlowGraph,
    head: NodeIndex,
    end: NodeIndex,
    work: &AnalysisBudget,
) -> Result<BTreeSet<NodeIndex>, TooMuchWork> {
    let (mut body, mut open) = (BTreeSet::from([head, end]), vec![end]);
    while let Some(block) = open.pop() {
        for before in flow.graph.neighbors_directed(block, Direction::Incoming) {
            work.spend(1)?;
            if block != head && body.insert(before) {
                open.push(before);
            }
        }
    }
    Ok(body)
}
