//! Instructions that hold the barriers at a point of a block.

use std::collections::BTreeMap;

use petgraph::graph::NodeIndex;

use super::effect::{counted_barrier, set_barriers, waited_barriers, zeroed_barriers};
use super::pending::PendingResults;
use super::setters::BarrierSetters;
use super::{WaitCandidate, WaitMeans};
use crate::control::BARRIERS;
use crate::instruction::SassInstruction;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Holders of each barrier. Those from before the block are searched when a wait asks for them.
pub(super) struct BarrierHolders<'s, 'f> {
    block: NodeIndex,
    setters: &'s mut BarrierSetters<'f>,
    /// By barrier: who set it, and when at the latest.
    set: [BTreeMap<usize, i64>; BARRIERS as usize],
    /// Bit n: those of barrier n from before the block are among them, or no longer hold it.
    complete: u8,
}

impl<'s, 'f> BarrierHolders<'s, 'f> {
    pub(super) fn at(block: NodeIndex, setters: &'s mut BarrierSetters<'f>) -> Self {
        Self { block, setters, set: <[BTreeMap<usize, i64>; BARRIERS as usize]>::default(), complete: 0 }
    }

    /// Adds the candidates of an instruction's wait for barriers, and removes those whose barrier is zero behind it.
    pub(super) fn wait(
        &mut self,
        instruction: &SassInstruction,
        pending: &PendingResults,
        instructions: &[SassInstruction],
        candidates: &mut Vec<WaitCandidate>,
        work: &AnalysisBudget,
    ) -> Result<(), TooMuchWork> {
        let counted = counted_barrier(instruction).map_or(0, |(barrier, _)| 1 << barrier);
        let (waited, zeroed) = (waited_barriers(instruction) | counted, zeroed_barriers(instruction));
        for barrier in (0..BARRIERS).filter(|barrier| waited >> barrier & 1 == 1) {
            let set = self.holders(barrier, work)?;
            work.spend(set.len())?;
            for (producer, time) in &*set {
                let is_written = instructions[*producer].control.write_barrier == Some(barrier);
                let through = if is_written { WaitMeans::Written(barrier) } else { WaitMeans::Read(barrier) };
                let cycles = Some(pending.since(*time));
                candidates.push(WaitCandidate { producer: *producer, through, cycles, position: 0 });
            }
            if zeroed >> barrier & 1 == 1 {
                set.clear();
            }
        }
        Ok(())
    }

    fn holders(
        &mut self,
        barrier: u8,
        work: &AnalysisBudget,
    ) -> Result<&mut BTreeMap<usize, i64>, TooMuchWork> {
        let set = &mut self.set[usize::from(barrier)];
        if self.complete >> barrier & 1 == 0 {
            self.complete |= 1 << barrier;
            for (index, time) in self.setters.before(self.block, barrier, work)? {
                // What the block itself set is later.
                set.entry(index).or_insert(time);
            }
        }
        Ok(set)
    }

    /// Adds an instruction to the holders of the barriers that it sets.
    pub(super) fn set(&mut self, index: usize, instruction: &SassInstruction, now: i64) {
        for barrier in set_barriers(instruction) {
            self.set[usize::from(barrier)].insert(index, now);
        }
    }
}
