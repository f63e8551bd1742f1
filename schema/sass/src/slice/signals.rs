//! Work behind a signal: what a warp executes before it arrives at an mbarrier that other warps wait for.
//!
//! A wait for the signal ends when that work is done. Around a loop it is the work since the signal before.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::algo::tarjan_scc;
use petgraph::graph::NodeIndex;

use crate::slice::graph::FlowGraph;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// By instruction that arrives at an mbarrier: the instructions before it, in order, itself the last of its block.
pub(crate) type ArrivalWork = BTreeMap<usize, Vec<usize>>;

/// The work behind signals. Each group holds the arrivals at one mbarrier.
pub(crate) fn signals(
    flow: &FlowGraph,
    groups: &BTreeSet<Vec<usize>>,
    work: &AnalysisBudget,
) -> Result<ArrivalWork, TooMuchWork> {
    let mut signals = ArrivalWork::new();
    if groups.is_empty() {
        return Ok(signals);
    }
    let loops = LoopBlocks::new(flow, work)?;
    for group in groups {
        for signal in group {
            let before = before(flow, &loops, group, *signal, work)?;
            signals.entry(*signal).or_default().extend(before);
        }
    }
    for before in signals.values_mut() {
        before.sort_unstable();
        before.dedup();
    }
    Ok(signals)
}

/// Parts of the code in which each block leads to each other.
struct LoopBlocks {
    /// By block.
    part: Vec<usize>,
    /// By part: more than one block, or one that leads to itself.
    repeats: Vec<bool>,
}

impl LoopBlocks {
    fn new(flow: &FlowGraph, work: &AnalysisBudget) -> Result<Self, TooMuchWork> {
        work.spend(flow.graph.node_count() + flow.graph.edge_count())?;
        let parts = tarjan_scc(&flow.graph);
        let mut part = vec![0; flow.graph.node_count()];
        let mut repeats = Vec::new();
        for (index, nodes) in parts.iter().enumerate() {
            let leads_to_itself = |node: &NodeIndex| flow.graph.contains_edge(*node, *node);
            repeats.push(nodes.len() > 1 || nodes.iter().any(leads_to_itself));
            for node in nodes {
                part[node.index()] = index;
            }
        }
        Ok(Self { part, repeats })
    }

    /// True if a warp may come from one block to the other and back: a signal in a loop is of the loop's work.
    fn are_together(&self, one: NodeIndex, other: NodeIndex) -> bool {
        let part = self.part[one.index()];
        !self.repeats[part] || part == self.part[other.index()]
    }
}

/// The instructions from the signal before, or from the start, to a signal.
fn before(
    flow: &FlowGraph,
    loops: &LoopBlocks,
    group: &[usize],
    signal: usize,
    work: &AnalysisBudget,
) -> Result<BTreeSet<usize>, TooMuchWork> {
    let mut found = BTreeSet::from([signal]);
    let Some(home) = flow.block_of.get(signal).copied() else { return Ok(found) };
    let (mut seen, mut open) = (BTreeSet::new(), vec![(home, signal)]);
    while let Some((block, end)) = open.pop() {
        let start = flow.graph[block].start;
        let last = group.iter().copied().filter(|other| (start..end).contains(other)).max();
        let from = last.map_or(start, |last| last + 1);
        work.spend(1 + group.len() + end.saturating_sub(from))?;
        found.extend(from..end);
        if last.is_some() {
            continue;
        }
        for earlier in flow.graph.neighbors_directed(block, Direction::Incoming) {
            work.spend(1)?;
            if loops.are_together(home, earlier) && seen.insert(earlier) {
                open.push((earlier, flow.graph[earlier].end));
            }
        }
    }
    Ok(found)
}
