//! Slots of a wait: producers of which a warp executed one, apart from those that it awaits together.

use std::collections::BTreeSet;
use std::ops::Range;

use petgraph::graph::NodeIndex;

use crate::slice::graph::FlowGraph;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Maximum number of producers that are ordered. Compiled code waits for few at once.
const MAX_ORDERED: usize = 32;
/// Maximum number of blocks between two producers.
const MAX_BLOCKS: usize = 256;

/// The slot of each producer behind a barrier, where no register distinguishes them. Producers of which one may follow
/// another, before the waiter, are awaited together. Producers on different paths are alternatives, and so are all where
/// there are too many.
pub(crate) fn by_order(
    flow: &FlowGraph,
    producers: &[usize],
    waiter: usize,
    work: &AnalysisBudget,
) -> Result<Vec<u32>, TooMuchWork> {
    if producers.len() < 2 || producers.len() > MAX_ORDERED {
        return Ok(vec![0; producers.len()]);
    }
    let order = CodeOrder { flow, waiter, work };
    let mut reached = Vec::new();
    for producer in producers {
        let Some(ahead) = order.ahead_of(*producer)? else { return Ok(vec![0; producers.len()]) };
        reached.push(ahead);
    }
    let follows = |one: usize, other: usize| reached[one].holds(producers[other]);
    let mut members: Vec<Vec<usize>> = Vec::new();
    let mut slots = Vec::new();
    for one in 0..producers.len() {
        work.spend(producers.len())?;
        let is_alternative =
            |slot: &Vec<usize>| slot.iter().all(|other| !follows(one, *other) && !follows(*other, one));
        let slot = members.iter().position(is_alternative).unwrap_or(members.len());
        if slot == members.len() {
            members.push(Vec::new());
        }
        members[slot].push(one);
        slots.push(u32::try_from(slot).unwrap_or(u32::MAX));
    }
    Ok(slots)
}

/// The code before a waiter.
struct CodeOrder<'a> {
    flow: &'a FlowGraph,
    waiter: usize,
    work: &'a AnalysisBudget,
}

/// Instructions that a warp may execute behind one, before it comes to the waiter.
struct InstructionsAhead {
    rest: Range<usize>,
    blocks: Vec<Range<usize>>,
}

impl InstructionsAhead {
    fn holds(&self, instruction: usize) -> bool {
        self.rest.contains(&instruction) || self.blocks.iter().any(|block| block.contains(&instruction))
    }
}

impl CodeOrder<'_> {
    /// `None` if there are too many blocks.
    fn ahead_of(&self, producer: usize) -> Result<Option<InstructionsAhead>, TooMuchWork> {
        let Some(block) = self.flow.block_of.get(producer) else { return Ok(None) };
        let rest = self.until_waiter(producer + 1..self.flow.graph[*block].end);
        let mut ahead = InstructionsAhead { rest: rest.0, blocks: Vec::new() };
        if rest.1 {
            return Ok(Some(ahead));
        }
        let mut seen = BTreeSet::new();
        let mut open: Vec<NodeIndex> = self.flow.graph.neighbors(*block).collect();
        while let Some(node) = open.pop() {
            self.work.spend(1)?;
            if !seen.insert(node) {
                continue;
            }
            if seen.len() > MAX_BLOCKS {
                return Ok(None);
            }
            let (passed, has_waiter) = self.until_waiter(self.flow.graph[node].clone());
            ahead.blocks.push(passed);
            if !has_waiter {
                open.extend(self.flow.graph.neighbors(node));
            }
        }
        Ok(Some(ahead))
    }

    /// The part of a range before the waiter, and whether the waiter is in it.
    fn until_waiter(&self, range: Range<usize>) -> (Range<usize>, bool) {
        if range.contains(&self.waiter) { (range.start..self.waiter, true) } else { (range, false) }
    }
}
