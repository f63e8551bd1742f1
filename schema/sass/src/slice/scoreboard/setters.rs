//! Instructions that hold a barrier at the start of a block, found from there backward.
//!
//! Sets of them at every block would grow with the square of the code. A search backward ends where the barrier is
//! zero, which is near in compiled code.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use super::effect::{set_barriers, zeroed_barriers};
use crate::control::BARRIERS;
use crate::instruction::SassInstruction;
use crate::slice::graph::FlowGraph;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// The setters of every block.
pub(super) struct BarrierSetters<'a> {
    flow: &'a FlowGraph,
    blocks: Vec<BlockEffect>,
    /// By block, bit n: an instruction before it may hold barrier n at its start.
    held: Vec<u8>,
    /// By block: the last search that reached it.
    reached: Vec<u64>,
    searches: u64,
}

/// The effect of a whole block on the barriers.
#[derive(Default)]
struct BlockEffect {
    /// Issue cycles.
    cycles: i64,
    /// Bit n: barrier n is zero somewhere in it.
    zeroed: u8,
    /// By barrier: who holds it at the end, and for how many cycles.
    holders: [Vec<(usize, i64)>; BARRIERS as usize],
}

impl BlockEffect {
    fn from_instructions(instructions: &[SassInstruction], first: usize) -> Self {
        let mut passed = Self::default();
        for (index, instruction) in (first..).zip(instructions) {
            let zeroed = zeroed_barriers(instruction);
            for barrier in (0..BARRIERS).filter(|barrier| zeroed >> barrier & 1 == 1) {
                passed.holders[usize::from(barrier)].clear();
            }
            passed.zeroed |= zeroed;
            for barrier in set_barriers(instruction) {
                passed.holders[usize::from(barrier)].push((index, passed.cycles));
            }
            passed.cycles += issue_cycles(instruction);
        }
        let end = passed.cycles;
        passed.holders.iter_mut().flatten().for_each(|(_, cycles)| *cycles = end - *cycles);
        passed
    }

    /// Bits of the barriers that are held behind it, if so many are held before it.
    fn held_behind(&self, before: u8) -> u8 {
        let held = |(barrier, holders): (u8, &Vec<_>)| u8::from(!holders.is_empty()) << barrier;
        before & !self.zeroed | (0..BARRIERS).zip(&self.holders).map(held).fold(0, |all, one| all | one)
    }
}

/// Cycles until the next instruction may issue.
pub(super) fn issue_cycles(instruction: &SassInstruction) -> i64 {
    i64::from(instruction.control.stall_cycles.max(1))
}

impl<'a> BarrierSetters<'a> {
    pub(super) fn new(
        instructions: &[SassInstruction],
        flow: &'a FlowGraph,
        work: &AnalysisBudget,
    ) -> Result<Self, TooMuchWork> {
        let passed = |(_, range): (_, &std::ops::Range<usize>)| {
            BlockEffect::from_instructions(instructions.get(range.clone()).unwrap_or_default(), range.start)
        };
        let blocks: Vec<BlockEffect> = flow.blocks().map(passed).collect();
        work.spend(instructions.len())?;
        let held = held(flow, &blocks, work)?;
        let reached = vec![0; blocks.len()];
        Ok(Self { flow, blocks, held, reached, searches: 0 })
    }

    /// Instructions that may hold a barrier at the start of a block, each with its latest time in issue cycles. The
    /// block starts at 0.
    pub(super) fn before(
        &mut self,
        block: NodeIndex,
        barrier: u8,
        work: &AnalysisBudget,
    ) -> Result<BTreeMap<usize, i64>, TooMuchWork> {
        let mut found = BTreeMap::new();
        if self.held[block.index()] >> barrier & 1 == 0 {
            return Ok(found);
        }
        self.searches += 1;
        let mut open = BinaryHeap::new();
        self.extend(&mut open, block, barrier, 0, work)?;
        while let Some(Reverse((cycles, node))) = open.pop() {
            if std::mem::replace(&mut self.reached[node], self.searches) == self.searches {
                continue;
            }
            let passed = &self.blocks[node];
            let holders = &passed.holders[usize::from(barrier)];
            work.spend(1 + holders.len())?;
            found.extend(holders.iter().map(|(index, held_cycles)| (*index, -cycles - held_cycles)));
            if passed.zeroed >> barrier & 1 == 0 {
                let cycles = cycles + passed.cycles;
                self.extend(&mut open, NodeIndex::new(node), barrier, cycles, work)?;
            }
        }
        Ok(found)
    }

    /// Adds the blocks before a block at whose ends a barrier may be held, and the cycles from those ends.
    fn extend(
        &self,
        open: &mut BinaryHeap<Reverse<(i64, usize)>>,
        block: NodeIndex,
        barrier: u8,
        cycles: i64,
        work: &AnalysisBudget,
    ) -> Result<(), TooMuchWork> {
        for earlier in self.flow.graph.neighbors_directed(block, Direction::Incoming) {
            let earlier = earlier.index();
            work.spend(1)?;
            let is_held = self.blocks[earlier].held_behind(self.held[earlier]) >> barrier & 1 == 1;
            if is_held && self.reached[earlier] != self.searches {
                open.push(Reverse((cycles, earlier)));
            }
        }
        Ok(())
    }
}

/// By block: bits of the barriers that may be held at its start.
fn held(flow: &FlowGraph, blocks: &[BlockEffect], work: &AnalysisBudget) -> Result<Vec<u8>, TooMuchWork> {
    let mut held = vec![0; blocks.len()];
    let mut queue: BTreeSet<NodeIndex> = flow.graph.node_indices().collect();
    while let Some(node) = queue.pop_first() {
        let behind = blocks[node.index()].held_behind(held[node.index()]);
        for next in flow.graph.neighbors(node) {
            work.spend(1)?;
            if behind & !held[next.index()] != 0 {
                held[next.index()] |= behind;
                queue.insert(next);
            }
        }
    }
    Ok(held)
}
