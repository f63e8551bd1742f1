//! Possible waits of a warp at each instruction: the barriers of the scoreboard, followed along the control flow.
//!
//! A barrier is a counter. Instructions that set it add one until their result is written (or their sources are read),
//! and an instruction that names it in its wait mask issues when it is zero. Every instruction that set it since the
//! last wait for it, on any path, is a candidate. Groups of asynchronous copies are counted by age: `DEPBAR.LE SB, n`
//! waits for all but the newest n.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::graph::NodeIndex;

use crate::control::BARRIERS;
use crate::graph::FlowGraph;
use crate::instruction::{Access, BarrierWait, Class, Flow, Instruction, Space};
use crate::register::Registers;

/// Maximum number of pending stores: a warp that drains waits for the last of them.
const MOST_STORES: usize = 32;
/// Maximum number of pending loads without a barrier of their own.
const MOST_UNMARKED: usize = 32;
/// Visits of blocks, as a multiple of their count, after which the search for more paths ends. Real code needs few.
const MOST_VISITS: usize = 64;

/// One candidate for the producer of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    /// The instruction that it may wait for.
    pub(crate) producer: usize,
    /// The reason for the possible wait.
    pub(crate) through: Through,
    /// Fewest cycles of issue between them; `None` for groups.
    pub(crate) cycles: Option<u32>,
    /// Its place among the copies of its group. 0 without a group.
    pub(crate) place: u32,
}

/// The means by which an instruction waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Through {
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
pub(crate) struct Waiting {
    /// The instruction.
    pub(crate) waiter: usize,
    /// Whom it may wait for.
    pub(crate) candidates: Vec<Candidate>,
}

/// Every instruction that waits for a barrier, a group or stores, in order.
pub(crate) fn waiting(instructions: &[Instruction], flow: &FlowGraph) -> Vec<Waiting> {
    let mut board = Board { instructions, members: BTreeMap::new() };
    let entries = board.entries(flow);
    let mut found = Vec::new();
    for (node, block) in flow.blocks() {
        let mut pending = entries.get(&node).cloned().unwrap_or_default();
        for index in block.clone() {
            board.step(&mut pending, index, Some(&mut found));
        }
    }
    found
}

/// Pending results at a point. Times are issue cycles since an arbitrary start.
#[derive(Clone, Debug, Default, PartialEq)]
struct Pending {
    now: i64,
    /// By barrier: who set it, and when at the latest.
    set: [BTreeMap<usize, i64>; BARRIERS as usize],
    /// Loads of shared memory without a barrier: a later one's covers them.
    unmarked: BTreeMap<usize, i64>,
    stores: BTreeMap<usize, i64>,
    /// Asynchronous copies that are in no group yet.
    open: BTreeSet<usize>,
    /// By the instruction that closed a group: bit n where n groups were closed since.
    groups: BTreeMap<usize, u64>,
}

impl Pending {
    /// Adds the pending results of another path. Returns whether any was new.
    fn merge(&mut self, other: &Self) -> bool {
        let shift = self.now - other.now;
        let mut is_new = false;
        for (mine, theirs) in self.set.iter_mut().zip(&other.set) {
            is_new |= keep_latest(mine, theirs, shift, usize::MAX);
        }
        is_new |= keep_latest(&mut self.unmarked, &other.unmarked, shift, MOST_UNMARKED);
        is_new |= keep_latest(&mut self.stores, &other.stores, shift, MOST_STORES);
        for copy in &other.open {
            is_new |= self.open.insert(*copy);
        }
        for (commit, ages) in &other.groups {
            let known = self.groups.entry(*commit).or_default();
            is_new |= *ages & !*known != 0;
            *known |= ages;
        }
        is_new
    }

    fn since(&self, time: i64) -> u32 {
        u32::try_from(self.now - time).unwrap_or(u32::MAX)
    }
}

/// Takes over later times, while there is room for more instructions. Returns whether any was new.
fn keep_latest(
    mine: &mut BTreeMap<usize, i64>,
    theirs: &BTreeMap<usize, i64>,
    shift: i64,
    most: usize,
) -> bool {
    let mut is_new = false;
    for (index, time) in theirs {
        let time = time + shift;
        let known = mine.get(index).copied();
        if known.map_or(mine.len() < most, |known| known < time) {
            mine.insert(*index, time);
            is_new = true;
        }
    }
    is_new
}

/// Adds an instruction, for which the one that was issued longest ago makes room.
fn push(pending: &mut BTreeMap<usize, i64>, index: usize, now: i64, most: usize) {
    pending.insert(index, now);
    if pending.len() > most {
        let oldest = pending.iter().min_by_key(|(_, time)| **time).map(|(index, _)| *index);
        oldest.map(|index| pending.remove(&index));
    }
}

struct Board<'a> {
    instructions: &'a [Instruction],
    /// By the instruction that closes a group: copies that may be in it.
    members: BTreeMap<usize, BTreeSet<usize>>,
}

impl Board<'_> {
    /// Pending results at the start of each block.
    fn entries(&mut self, flow: &FlowGraph) -> BTreeMap<NodeIndex, Pending> {
        let mut entries: BTreeMap<NodeIndex, Pending> = BTreeMap::new();
        // In the order of the code, which is nearly that of execution.
        let mut queue: BTreeSet<NodeIndex> = flow.graph.node_indices().collect();
        let mut visits = queue.len().saturating_mul(MOST_VISITS);
        while let Some(node) = queue.pop_first() {
            visits = visits.saturating_sub(1);
            if visits == 0 {
                break;
            }
            let mut pending = entries.entry(node).or_default().clone();
            for index in flow.graph[node].clone() {
                self.step(&mut pending, index, None);
            }
            for next in flow.graph.neighbors_directed(node, Direction::Outgoing) {
                if entries.entry(next).or_default().merge(&pending) {
                    queue.insert(next);
                }
            }
        }
        entries
    }

    /// Executes an instruction. Adds its waits to `found`.
    fn step(&mut self, pending: &mut Pending, index: usize, found: Option<&mut Vec<Waiting>>) {
        let instruction = &self.instructions[index];
        let mut candidates = Vec::new();
        self.wait_for_groups(pending, instruction, &mut candidates);
        self.wait_for_barriers(pending, instruction, &mut candidates);
        self.wait_in_order(pending, instruction, &mut candidates);
        wait_for_stores(pending, instruction, &mut candidates);
        if let Some(found) = found.filter(|_| !candidates.is_empty()) {
            let also_behind = is_found_behind(instruction) && index + 1 < self.instructions.len();
            note(found, index, also_behind, candidates);
        }
        self.consume(pending, instruction);
        self.issue(pending, index);
        pending.now += i64::from(instruction.control.stall_cycles.max(1));
    }

    fn wait_for_groups(
        &self,
        pending: &mut Pending,
        instruction: &Instruction,
        candidates: &mut Vec<Candidate>,
    ) {
        let mask = waited_barriers(instruction);
        let counted = counted_barrier(instruction);
        if mask == 0 && counted.is_none() {
            return;
        }
        let mut newest: BTreeMap<usize, u32> = BTreeMap::new();
        for (commit, ages) in &mut pending.groups {
            let barrier = self.instructions[*commit].control.write_barrier;
            let at_least = match (barrier, counted) {
                (Some(barrier), _) if mask >> barrier & 1 == 1 => 0,
                (Some(barrier), Some((waited, left))) if waited == barrier => u32::from(left).min(63),
                _ => continue,
            };
            // Older groups were closed before the one that the wait is about, and end before it.
            if *ages >> at_least & 1 == 1 {
                newest.extend(self.members.get(commit).into_iter().flatten().copied().zip(0..));
            }
            if !matches!(instruction.flow, Flow::Exit { .. }) {
                *ages &= (1 << at_least) - 1;
            }
        }
        pending.groups.retain(|_, ages| *ages != 0);
        let through = Through::Group;
        let copy = |(producer, place)| Candidate { producer, through, cycles: None, place };
        candidates.extend(newest.into_iter().map(copy));
    }

    fn wait_for_barriers(
        &self,
        pending: &mut Pending,
        instruction: &Instruction,
        candidates: &mut Vec<Candidate>,
    ) {
        let mask = waited_barriers(instruction);
        let counted = counted_barrier(instruction);
        for barrier in 0..BARRIERS {
            let is_waited = mask >> barrier & 1 == 1;
            let counted = counted.filter(|(waited, _)| *waited == barrier);
            if !is_waited && counted.is_none() {
                continue;
            }
            for (producer, time) in &pending.set[usize::from(barrier)] {
                let is_written = self.instructions[*producer].control.write_barrier == Some(barrier);
                let through = if is_written { Through::Written(barrier) } else { Through::Read(barrier) };
                candidates.push(Candidate {
                    producer: *producer,
                    through,
                    cycles: Some(pending.since(*time)),
                    place: 0,
                });
            }
            let is_zero = cleared_barriers(instruction) >> barrier & 1 == 1;
            if is_zero || counted.is_some_and(|(_, left)| left == 0) {
                pending.set[usize::from(barrier)].clear();
            }
        }
    }

    /// Loads without a barrier whose results the instruction takes, where it waits for a load of the same unit.
    fn wait_in_order(&self, pending: &Pending, instruction: &Instruction, candidates: &mut Vec<Candidate>) {
        let same_unit = |candidate: &Candidate| {
            let producer = &self.instructions[candidate.producer];
            producer.class == Class::Shared && matches!(candidate.through, Through::Written(_))
        };
        if !candidates.iter().any(same_unit) {
            return;
        }
        for (producer, time) in &pending.unmarked {
            if touches(instruction, &self.instructions[*producer].writes) {
                let cycles = Some(pending.since(*time));
                candidates.push(Candidate {
                    producer: *producer,
                    through: Through::InOrder,
                    cycles,
                    place: 0,
                });
            }
        }
    }

    /// A load without a barrier is no longer pending when its result is used.
    fn consume(&self, pending: &mut Pending, instruction: &Instruction) {
        if !pending.unmarked.is_empty() {
            let instructions = self.instructions;
            pending.unmarked.retain(|index, _| !touches(instruction, &instructions[*index].writes));
        }
    }

    fn issue(&mut self, pending: &mut Pending, index: usize) {
        let instruction = &self.instructions[index];
        let (now, control) = (pending.now, instruction.control);
        if let Some(kind) = closed_group(instruction) {
            self.close_group(pending, index, kind);
        } else {
            for barrier in [control.write_barrier, control.read_barrier].into_iter().flatten() {
                if let Some(set) = pending.set.get_mut(usize::from(barrier)) {
                    set.insert(index, now);
                }
            }
        }
        if group_kind(instruction).is_some() {
            pending.open.insert(index);
        }
        if is_store(instruction) {
            push(&mut pending.stores, index, now, MOST_STORES);
        }
        let is_load = instruction.class == Class::Shared && !instruction.writes.is_empty();
        if is_load && control.write_barrier.is_none() {
            push(&mut pending.unmarked, index, now, MOST_UNMARKED);
        }
    }

    fn close_group(&mut self, pending: &mut Pending, commit: usize, kind: Group) {
        let instructions = self.instructions;
        let barrier = instructions[commit].control.write_barrier;
        for (other, ages) in &mut pending.groups {
            if instructions[*other].control.write_barrier == barrier {
                *ages <<= 1;
            }
        }
        pending.groups.retain(|_, ages| *ages != 0);
        *pending.groups.entry(commit).or_default() |= 1;
        let members = self.members.entry(commit).or_default();
        members.extend(pending.open.iter().filter(|copy| group_kind(&instructions[**copy]) == Some(kind)));
        pending.open.retain(|copy| group_kind(&instructions[*copy]) != Some(kind));
    }
}

/// True if samples find the warp at the next instruction: a DEPBAR has issued when it waits.
fn is_found_behind(instruction: &Instruction) -> bool {
    matches!(instruction.barrier_wait(), Some(BarrierWait::Scoreboard { .. }))
}

/// Adds a wait: of the instruction itself and, where samples find the warp there, of the next one.
fn note(found: &mut Vec<Waiting>, index: usize, also_behind: bool, candidates: Vec<Candidate>) {
    match found.last_mut().filter(|last| last.waiter == index) {
        Some(known) => known.candidates.extend(&candidates),
        None => found.push(Waiting { waiter: index, candidates: candidates.clone() }),
    }
    if also_behind {
        found.push(Waiting { waiter: index + 1, candidates });
    }
}

fn wait_for_stores(pending: &mut Pending, instruction: &Instruction, candidates: &mut Vec<Candidate>) {
    let is_fence = instruction.mnemonic == Some("MEMBAR");
    if is_fence || matches!(instruction.flow, Flow::Exit { .. }) {
        let through = Through::Store;
        let store = |(producer, time): (&usize, &i64)| Candidate {
            producer: *producer,
            through,
            cycles: Some(pending.since(*time)),
            place: 0,
        };
        candidates.extend(pending.stores.iter().map(store));
    }
    if is_fence {
        pending.stores.clear();
    }
}

/// Barriers that an instruction may wait for until they are zero. A warp that ends waits for all, in no mask.
fn waited_barriers(instruction: &Instruction) -> u8 {
    let ends = matches!(instruction.flow, Flow::Exit { .. });
    if ends { (1 << BARRIERS) - 1 } else { cleared_barriers(instruction) }
}

/// Barriers that are zero behind an instruction. Behind the end of some lanes, those of other lanes are unchanged.
fn cleared_barriers(instruction: &Instruction) -> u8 {
    match instruction.barrier_wait() {
        Some(BarrierWait::Scoreboard { empty, .. }) => instruction.control.wait_mask | empty,
        _ => instruction.control.wait_mask,
    }
}

/// The barrier that an instruction waits for until only so many of its groups are left, and how many.
fn counted_barrier(instruction: &Instruction) -> Option<(u8, u8)> {
    match instruction.barrier_wait() {
        Some(BarrierWait::Scoreboard { counted, .. }) => counted,
        _ => None,
    }
}

fn touches(instruction: &Instruction, registers: &Registers) -> bool {
    instruction.reads.intersects(registers) || instruction.writes.intersects(registers)
}

/// True if the memory that an instruction writes is the device's.
fn is_store(instruction: &Instruction) -> bool {
    instruction.memory.is_some_and(|memory| {
        let is_device = matches!(memory.space, Space::Global | Space::Generic);
        let writes =
            matches!(memory.kind, Access::Write | Access::Reduction | Access::Atomic | Access::CopyOut);
        is_device && writes
    })
}

/// Groups that an asynchronous copy belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// LDGSTS, closed by LDGDEPBAR.
    Lanes,
    /// Tensor-map and bulk copies out of shared memory, closed by UTMACMDFLUSH.
    Bulk,
}

fn group_kind(instruction: &Instruction) -> Option<Group> {
    let memory = instruction.memory.filter(|_| instruction.class == Class::Async)?;
    match memory.kind {
        Access::CopyIn if instruction.mnemonic == Some("LDGSTS") => Some(Group::Lanes),
        Access::CopyOut | Access::Reduction => Some(Group::Bulk),
        _ => None,
    }
}

fn closed_group(instruction: &Instruction) -> Option<Group> {
    match instruction.mnemonic {
        Some("LDGDEPBAR") => Some(Group::Lanes),
        Some("UTMACMDFLUSH") => Some(Group::Bulk),
        _ => None,
    }
}
