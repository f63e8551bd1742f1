//! Possible waits of a warp at each instruction: the barriers of the scoreboard, followed along the control flow.
//!
//! A barrier is a counter. Instructions that set it add one until their result is written (or their sources are read),
//! and an instruction that names it in its wait mask issues when it is zero. Every instruction that set it since the
//! last wait for it, on any path, is a candidate. Groups of asynchronous copies are counted by age: `DEPBAR.LE SB, n`
//! waits for all but the newest n.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use crate::instruction::{ExecutionUnit, SassInstruction, WarpFlow};
use crate::slice::graph::FlowGraph;
use crate::slice::work::{AnalysisBudget, TooMuchWork};

mod effect;
mod held;
mod pending;
mod setters;

use effect::{
    CopyGroup, closed_group, counted_barrier, group_barrier, group_kind, is_found_behind, is_store, touches,
    waited_barriers,
};
use held::BarrierHolders;
use pending::{MAX_STORES, MAX_UNMARKED, PendingResults, push};
use setters::{BarrierSetters, issue_cycles};

/// One candidate for the producer of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WaitCandidate {
    /// The instruction that it may wait for.
    pub(crate) producer: usize,
    /// The reason for the possible wait.
    pub(crate) through: WaitMeans,
    /// Fewest cycles of issue between them; `None` for groups.
    pub(crate) cycles: Option<u32>,
    /// Its position among the copies of its group. 0 without a group.
    pub(crate) position: u32,
}

/// The means by which an instruction waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum WaitMeans {
    /// A barrier that is held until the result is written.
    Written(u8),
    /// A barrier that is held until the sources are read.
    Read(u8),
    /// The barrier of a later load of the same unit, whose results return in order.
    InOrder,
    /// A group of asynchronous copies.
    Group,
    /// The end of the warp, or a fence, behind stores.
    Store,
}

/// The candidates of an instruction that waits.
#[derive(Clone, Debug)]
pub(crate) struct WaitingInstruction {
    /// The instruction.
    pub(crate) waiter: usize,
    /// Whom it may wait for.
    pub(crate) candidates: Vec<WaitCandidate>,
}

/// Calls `each` for every instruction that waits for a barrier, a group or stores, in order.
pub(crate) fn for_each_waiting(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    work: &AnalysisBudget,
    mut each: impl FnMut(&WaitingInstruction) -> Result<(), TooMuchWork>,
) -> Result<(), TooMuchWork> {
    let mut board = ScoreboardWalk { instructions, work, members: BTreeMap::new() };
    let entries = board.entries(flow)?;
    let mut setters = BarrierSetters::new(instructions, flow, work)?;
    let mut last = None;
    for (node, block) in flow.blocks() {
        let mut pending = entries.get(&node).cloned().unwrap_or_default();
        let mut held = BarrierHolders::at(node, &mut setters);
        for index in block.clone() {
            let mut candidates = Vec::new();
            board.step(&mut pending, index, Some((&mut held, &mut candidates)))?;
            let also_behind = is_found_behind(&instructions[index]) && index + 1 < instructions.len();
            if candidates.is_empty() && also_behind {
                // No copy is on its way: the wait is for the count alone.
                let through = WaitMeans::Group;
                candidates.push(WaitCandidate { producer: index, through, cycles: None, position: 0 });
            }
            if candidates.is_empty() {
                continue;
            }
            work.spend(candidates.len())?;
            note(&mut last, index, also_behind, candidates, &mut each)?;
        }
    }
    last.as_ref().map_or(Ok(()), each)
}

struct ScoreboardWalk<'a> {
    instructions: &'a [SassInstruction],
    work: &'a AnalysisBudget,
    /// By the instruction that closes a group: copies that may be in it.
    members: BTreeMap<usize, BTreeSet<usize>>,
}

impl ScoreboardWalk<'_> {
    /// Pending results at the start of each block, those of barriers apart.
    fn entries(&mut self, flow: &FlowGraph) -> Result<BTreeMap<NodeIndex, PendingResults>, TooMuchWork> {
        let mut entries: BTreeMap<NodeIndex, PendingResults> = BTreeMap::new();
        // In the order of the code, which is nearly that of execution.
        let mut queue: BTreeSet<NodeIndex> = flow.graph.node_indices().collect();
        while let Some(node) = queue.pop_first() {
            let mut pending = entries.entry(node).or_default().clone();
            for index in flow.graph[node].clone() {
                self.step(&mut pending, index, None)?;
            }
            for next in flow.graph.neighbors_directed(node, Direction::Outgoing) {
                self.work.spend(1 + pending.len())?;
                if entries.entry(next).or_default().merge(&pending) {
                    queue.insert(next);
                }
            }
        }
        Ok(entries)
    }

    /// Executes an instruction. Adds its candidates to those of `waits`.
    fn step(
        &mut self,
        pending: &mut PendingResults,
        index: usize,
        waits: Option<(&mut BarrierHolders<'_, '_>, &mut Vec<WaitCandidate>)>,
    ) -> Result<(), TooMuchWork> {
        self.work.spend(1)?;
        let instruction = &self.instructions[index];
        if let Some((held, candidates)) = waits {
            self.wait_for_groups(pending, instruction, Some(candidates))?;
            held.wait(instruction, pending, self.instructions, candidates, self.work)?;
            self.wait_in_order(pending, instruction, candidates);
            wait_for_stores(pending, index, instruction, Some(candidates));
            held.set(index, instruction, pending.now);
        } else {
            self.wait_for_groups(pending, instruction, None)?;
            wait_for_stores(pending, index, instruction, None);
        }
        self.consume(pending, instruction);
        self.issue(pending, index)?;
        pending.now += issue_cycles(instruction);
        Ok(())
    }

    fn wait_for_groups(
        &self,
        pending: &mut PendingResults,
        instruction: &SassInstruction,
        candidates: Option<&mut Vec<WaitCandidate>>,
    ) -> Result<(), TooMuchWork> {
        let mask = waited_barriers(instruction);
        let counted = counted_barrier(instruction);
        if pending.groups.is_empty() || mask == 0 && counted.is_none() {
            return Ok(());
        }
        self.work.spend(pending.groups.len())?;
        let is_noted = candidates.is_some();
        let mut newest: BTreeMap<usize, u32> = BTreeMap::new();
        for (commit, ages) in &mut pending.groups {
            let barrier = group_barrier(&self.instructions[*commit]);
            let at_least = match (barrier, counted) {
                (Some(barrier), _) if mask >> barrier & 1 == 1 => 0,
                (Some(barrier), Some((waited, left))) if waited == barrier => u32::from(left).min(63),
                _ => continue,
            };
            // Older groups were closed before the one that the wait is about, and end before it.
            if is_noted && *ages >> at_least & 1 == 1 {
                let members = self.members.get(commit);
                self.work.spend(members.map_or(0, BTreeSet::len))?;
                newest.extend(members.into_iter().flatten().copied().zip(0..));
            }
            if !matches!(instruction.flow, WarpFlow::Exit { .. }) {
                *ages &= (1 << at_least) - 1;
            }
        }
        pending.groups.retain(|_, ages| *ages != 0);
        let through = WaitMeans::Group;
        let copy = |(producer, position)| WaitCandidate { producer, through, cycles: None, position };
        if let Some(candidates) = candidates {
            candidates.extend(newest.into_iter().map(copy));
        }
        Ok(())
    }

    /// Loads without a barrier whose results the instruction takes, where it waits for a load of the same unit.
    fn wait_in_order(
        &self,
        pending: &PendingResults,
        instruction: &SassInstruction,
        candidates: &mut Vec<WaitCandidate>,
    ) {
        let same_unit = |candidate: &WaitCandidate| {
            let producer = &self.instructions[candidate.producer];
            producer.class == ExecutionUnit::Shared && matches!(candidate.through, WaitMeans::Written(_))
        };
        if !candidates.iter().any(same_unit) {
            return;
        }
        for (producer, time) in &pending.unmarked {
            if touches(instruction, &self.instructions[*producer].writes) {
                let cycles = Some(pending.since(*time));
                candidates.push(WaitCandidate {
                    producer: *producer,
                    through: WaitMeans::InOrder,
                    cycles,
                    position: 0,
                });
            }
        }
    }

    /// A load without a barrier is no longer pending when its result is used.
    fn consume(&self, pending: &mut PendingResults, instruction: &SassInstruction) {
        if !pending.unmarked.is_empty() {
            let instructions = self.instructions;
            pending.unmarked.retain(|index, _| !touches(instruction, &instructions[*index].writes));
        }
    }

    fn issue(&mut self, pending: &mut PendingResults, index: usize) -> Result<(), TooMuchWork> {
        let instruction = &self.instructions[index];
        let (now, control) = (pending.now, instruction.control);
        if let Some(kind) = closed_group(instruction) {
            self.close_group(pending, index, kind)?;
        }
        if group_kind(instruction).is_some() {
            pending.open.insert(index);
        }
        if is_store(instruction) {
            push(&mut pending.stores, index, now, MAX_STORES);
        }
        let is_load = instruction.class == ExecutionUnit::Shared && !instruction.writes.is_empty();
        if is_load && control.write_barrier.is_none() {
            push(&mut pending.unmarked, index, now, MAX_UNMARKED);
        }
        Ok(())
    }

    fn close_group(
        &mut self,
        pending: &mut PendingResults,
        commit: usize,
        kind: CopyGroup,
    ) -> Result<(), TooMuchWork> {
        self.work.spend(pending.groups.len() + pending.open.len())?;
        let instructions = self.instructions;
        let barrier = group_barrier(&instructions[commit]);
        for (other, ages) in &mut pending.groups {
            if group_barrier(&instructions[*other]) == barrier {
                *ages <<= 1;
            }
        }
        pending.groups.retain(|_, ages| *ages != 0);
        *pending.groups.entry(commit).or_default() |= 1;
        let members = self.members.entry(commit).or_default();
        members.extend(pending.open.iter().filter(|copy| group_kind(&instructions[**copy]) == Some(kind)));
        pending.open.retain(|copy| group_kind(&instructions[*copy]) != Some(kind));
        Ok(())
    }
}

/// Adds a wait: of the instruction itself and, where samples find the warp there, of the next one. `last` is the last
/// wait, which the next instruction's may join. The one before it is complete.
fn note(
    last: &mut Option<WaitingInstruction>,
    index: usize,
    also_behind: bool,
    candidates: Vec<WaitCandidate>,
    each: &mut impl FnMut(&WaitingInstruction) -> Result<(), TooMuchWork>,
) -> Result<(), TooMuchWork> {
    let behind =
        also_behind.then(|| WaitingInstruction { waiter: index + 1, candidates: candidates.clone() });
    if let Some(known) = last.as_mut().filter(|last| last.waiter == index) {
        known.candidates.extend(candidates);
    } else {
        let complete = last.replace(WaitingInstruction { waiter: index, candidates });
        complete.as_ref().map_or(Ok(()), &mut *each)?;
    }
    if let Some(behind) = behind {
        let complete = last.replace(behind);
        complete.as_ref().map_or(Ok(()), &mut *each)?;
    }
    Ok(())
}

/// Instructions that make a fence.
const FENCE: [&str; 4] = ["MEMBAR", "ERRBAR", "CGAERRBAR", "CCTL"];

/// A fence and the end of a warp wait for stores, and for themselves where there are none. Behind a MEMBAR samples find the
/// warp at the instructions that complete the fence, up to the first one of another kind.
fn wait_for_stores(
    pending: &mut PendingResults,
    index: usize,
    instruction: &SassInstruction,
    candidates: Option<&mut Vec<WaitCandidate>>,
) {
    if instruction.mnemonic == Some("MEMBAR") {
        pending.fence = Some(index);
    }
    let ends = matches!(instruction.flow, WarpFlow::Exit { .. }).then_some(index);
    if let (Some(waits), Some(candidates)) = (pending.fence.or(ends), candidates) {
        let through = WaitMeans::Store;
        let itself = pending.stores.is_empty().then_some((&waits, &pending.now));
        let store = |(producer, time): (&usize, &i64)| WaitCandidate {
            producer: *producer,
            through,
            cycles: Some(pending.since(*time)),
            position: 0,
        };
        candidates.extend(pending.stores.iter().chain(itself).map(store));
    }
    let completes_fence = instruction.mnemonic.is_some_and(|mnemonic| FENCE.contains(&mnemonic));
    if pending.fence.is_some() && !completes_fence {
        pending.stores.clear();
        pending.fence = None;
    }
}
