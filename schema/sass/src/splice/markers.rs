//! Moments of warps: instructions before or behind which each warp notes the time.
//!
//! ```text
//! kernel:  BRA site           was BAR.SYNC
//!     next: ...
//! site:    (note the time)
//!          BAR.SYNC
//!          (note the time)
//!          BRA next
//! ```
//!
//! A note takes four general registers that nothing else uses while the warp has them, and uniform registers that the kernel
//! does not use: those hold the warp's ring of events from its begin on. So nothing is saved, and no predicate changes.

use std::collections::BTreeMap;

use petgraph::algo::dominators::simple_fast;
use petgraph::visit::EdgeRef;

use crate::control::{BARRIERS, IssueControl};
use crate::cubin::CodeSection;
use crate::instruction::{BarrierWait, SassInstruction, WarpFlow};
use crate::literal::Literal;
use crate::register::{Register, RegisterFile, Registers};
use crate::slice::graph::{BlockEdge, FlowGraph};
use crate::slice::work::AnalysisBudget;
use crate::word::{INSTRUCTION_BYTES, InstructionWord};

use super::{ALWAYS, GUARD_MASK, GUARD_SHIFT, READ_SHIFT, WAIT_SHIFT, branch};

/// Limit of markers of a kernel: their numbers take the lower bits of an event.
const MAX_MARKERS: usize = 1 << 12;
/// Bits of an event's second word that hold the number of its marker. Above them, events of the warp are counted.
pub const MARKER_BITS: u32 = 12;
/// Bytes of an event: clock of the multiprocessor, count and marker.
pub const EVENT_BYTES: usize = 8;

/// Limit of general registers of a lane.
const MAX_REGISTERS: u32 = 255;
/// A lane cannot use so many of its registers, the last ones.
const RESERVED_REGISTERS: u32 = 2;
/// Uniform registers of a warp since sm_75.
const UNIFORM_REGISTERS: u8 = 63;

/// A moment at which warps note the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpMarker {
    /// Its instruction, bytes from the kernel's start.
    pub offset: u32,
    /// True where the instruction is done. Else it is about to be issued.
    pub is_end: bool,
}

/// Registers in which a warp has its ring of events.
#[derive(Clone, Copy, Debug)]
struct RingRegisters {
    /// Two registers: the address of the newest event.
    newest: u8,
    /// Two registers: the descriptor of device memory.
    descriptor: u8,
    /// Events so far, above [`MARKER_BITS`].
    count: u8,
    /// Lower half of the ring's address.
    ring: u8,
}

/// The reason for markers at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MomentKind {
    /// It waits: its begin and end are noted.
    Wait,
    /// It starts what goes on behind it: only its begin is noted.
    Start,
    /// It is a loop's first one: the begin of a round is noted, whatever its own guard.
    Round,
}

/// An instruction with markers.
struct MarkedSite {
    index: usize,
    kind: MomentKind,
    /// Pairs of registers: for the address of an event, and for the event.
    address: u8,
    event: u8,
}

/// The markers of a kernel.
pub(super) struct MarkerPlan {
    sites: Vec<MarkedSite>,
    registers: RingRegisters,
    ring_bytes: u32,
    /// The barrier that says when an event's registers were read.
    barrier: u8,
    /// Instructions that change the number of registers: everything before is waited for.
    turns: Vec<usize>,
    /// General registers that a lane needs.
    pub(super) needed: u32,
    /// Moments without a marker: no registers were free.
    pub(super) unmarked: u32,
}

impl MarkerPlan {
    /// Chooses the markers of a kernel's own code. The section holds its instructions.
    ///
    /// # Errors
    /// The reason why the kernel can have none.
    pub(super) fn new(
        instructions: &[SassInstruction],
        section: &CodeSection,
        ring_bytes: u32,
    ) -> Result<Self, &'static str> {
        refuse(instructions, section)?;
        let budget = AnalysisBudget::for_instructions(instructions.len());
        let flow = FlowGraph::new(instructions, section, &budget).map_err(|_| "its code is too large")?;
        let registers = free_uniform(instructions).ok_or("no uniform registers are free")?;
        let turns: Vec<usize> =
            (0..instructions.len()).filter(|&index| is_turn(&instructions[index])).collect();
        let held = section.registers.unwrap_or(0);
        let entry =
            if turns.is_empty() { MAX_REGISTERS } else { held.next_multiple_of(8).min(MAX_REGISTERS) };
        let parts = register_parts(instructions, &flow, entry, &turns);
        let mut plan = Self {
            sites: Vec::new(),
            registers,
            ring_bytes,
            barrier: quietest_barrier(instructions),
            turns,
            needed: held,
            unmarked: 0,
        };
        let end =
            section.functions.iter().find(|function| function.offset == 0).map_or(0, |kernel| kernel.bytes);
        let own = (end / INSTRUCTION_BYTES) as usize;
        for (index, kind) in moments(instructions, &flow, own.min(instructions.len())) {
            match free_pairs(&parts, index).filter(|_| plan.sites.len() < MAX_MARKERS / 2) {
                Some((address, event)) => {
                    // Where warps change their number of registers, what they begin with is all that there is.
                    if plan.turns.is_empty() {
                        plan.needed = plan.needed.max(u32::from(event) + 2 + RESERVED_REGISTERS);
                    }
                    plan.sites.push(MarkedSite { index, kind, address, event });
                }
                None => plan.unmarked += 1,
            }
        }
        if plan.sites.is_empty() { Err("it has no moment that can be marked") } else { Ok(plan) }
    }

    /// Its markers, by number.
    pub(super) fn markers(&self) -> impl Iterator<Item = WarpMarker> {
        self.sites.iter().flat_map(|site| {
            let offset = u32::try_from(site.index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES);
            let end = (site.kind == MomentKind::Wait).then_some(WarpMarker { offset, is_end: true });
            std::iter::once(WarpMarker { offset, is_end: false }).chain(end)
        })
    }

    /// Code for a warp's begin, behind which two general registers hold the address of its ring.
    pub(super) fn begin(&self, address: (u8, u8), waits: u128) -> [u128; 8] {
        let of = self.registers;
        let nop = 0x7918 | stall(8);
        [
            r2ur(of.ring, address.0) | stall(4) & !(0x3f << WAIT_SHIFT) | waits << WAIT_SHIFT,
            r2ur(of.newest + 1, address.1) | stall(8),
            nop,
            nop,
            (0x3f << 32 | u128::from(of.count) << 16 | 0x7c82) | 0x0800_0000 << 64 | stall(8),
            // The first event is at the ring's start.
            add_uniform(of.newest, of.ring, self.ring_bytes - 8) | stall(8),
            (0x82 << 40 | u128::from(of.descriptor) << 16 | 0x7ab9) | 0x0a00 << 64 | stall(8),
            nop,
        ]
    }

    /// Adds the markers to a kernel's code.
    pub(super) fn apply(&self, code: &mut Vec<u128>) {
        let mut number = 0;
        for site in &self.sites {
            let moved = code[site.index];
            let own = InstructionWord(moved);
            let control = IssueControl::from_word(own);
            let start = code.len();
            let guard =
                if site.kind == MomentKind::Round { ALWAYS } else { moved >> GUARD_SHIFT & GUARD_MASK };
            // Its own waits are before it.
            code.extend(self.note(site, number, control.wait_mask, guard));
            number += 1;
            code.push(if is_barrier(own) { moved & !DEFERRED } else { moved });
            if site.kind == MomentKind::Wait {
                let result = control.write_barrier.map_or(0, |barrier| 1 << barrier);
                // Its guard may be its result.
                code.extend(self.note(site, number, result, ALWAYS));
                number += 1;
            }
            code.push(branch(code.len(), site.index + 1, ALWAYS, 0));
            code[site.index] = branch(site.index, start, ALWAYS, 0);
        }
        for &turn in &self.turns {
            code[turn] |= 0x3f << WAIT_SHIFT;
        }
    }

    /// Code that notes the time once barriers are zero, in lanes that a guard lets execute.
    fn note(&self, site: &MarkedSite, number: u32, waits: u8, guard: u128) -> [u128; 9] {
        let of = self.registers;
        let waits = u128::from(waits | 1 << self.barrier);
        let (address, event) = (site.address, site.event);
        let clock = u128::from(event) << 16 | 0x7805 | 0x5000 << 64;
        let wrapped = u128::from(self.ring_bytes - 8) << 32
            | u128::from(of.newest) << 24
            | u128::from(of.newest) << 16
            | 0x7892
            | (0x0f8e_ea00 | u128::from(of.ring)) << 64;
        let numbered =
            u128::from(number) << 32 | u128::from(event + 1) << 24 | u128::from(event + 1) << 16 | 0x7836;
        let store = u128::from(event) << 32
            | u128::from(address) << 24
            | guard << GUARD_SHIFT
            | 0x986
            | (0x0c10_1b00 | u128::from(of.descriptor)) << 64;
        let read = !(7 << READ_SHIFT) | u128::from(self.barrier) << READ_SHIFT;
        [
            clock | stall(1) | waits << WAIT_SHIFT,
            add_uniform(of.count, of.count, 1 << MARKER_BITS) | stall(1),
            add_uniform(of.newest, of.newest, 8) | stall(7),
            wrapped | stall(8),
            from_uniform(address, of.newest) | stall(1),
            from_uniform(address + 1, of.newest + 1) | stall(1),
            from_uniform(event + 1, of.count) | stall(7),
            numbered | stall(7),
            store | stall(2) & read,
        ]
    }
}

/// In BAR: the warp goes on until it next uses memory. Its wait would be in no moment.
const DEFERRED: u128 = 1 << 80;

fn is_barrier(word: InstructionWord) -> bool {
    word.family() == 0x11d
}

/// The scheduling of an instruction without barriers that lets the next one issue so many cycles later.
fn stall(cycles: u128) -> u128 {
    let has_no_yield = u128::from(cycles < 5);
    (7 << 5 | 7 << 8 | has_no_yield << 4 | cycles) << 105
}

fn add_uniform(to: u8, from: u8, number: u32) -> u128 {
    u128::from(number) << 32 | u128::from(from) << 24 | u128::from(to) << 16 | 0x7890 | 0x0fff_e03f << 64
}

fn from_uniform(to: u8, from: u8) -> u128 {
    u128::from(from) << 32 | 0xff << 24 | u128::from(to) << 16 | 0x7e24 | 0x0f8e_00ff << 64
}

fn r2ur(to: u8, from: u8) -> u128 {
    u128::from(from) << 24 | u128::from(to) << 16 | 0x72ca | 0x000e_0000 << 64
}

/// Refuses code whose registers cannot all be seen.
fn refuse(instructions: &[SassInstruction], section: &CodeSection) -> Result<(), &'static str> {
    if instructions.iter().any(|instruction| instruction.mnemonic.is_none()) {
        return Err("it has instructions that are not known");
    }
    let own = |name: &String| section.functions.iter().any(|function| function.name == *name);
    let leaves = instructions.iter().any(|one| matches!(one.flow, WarpFlow::Call { displacement: None, .. }));
    if leaves || !section.driver_calls.is_empty() || !section.references.values().all(own) {
        return Err("it calls functions elsewhere");
    }
    let is_unlisted = |(index, one): (u32, &SassInstruction)| {
        matches!(one.flow, WarpFlow::IndirectBranch { .. })
            && !section.branch_targets.contains_key(&(index * INSTRUCTION_BYTES))
    };
    if (0..).zip(instructions).any(is_unlisted) {
        return Err("it branches to where a register says");
    }
    Ok(())
}

/// The instructions of a kernel with a moment, in order.
fn moments(instructions: &[SassInstruction], flow: &FlowGraph, own: usize) -> Vec<(usize, MomentKind)> {
    let mut found: BTreeMap<usize, MomentKind> =
        (1..own).filter_map(|index| Some((index, moment(instructions, flow, index)?))).collect();
    let Some(entry) = flow.graph.node_indices().next() else { return Vec::new() };
    let dominators = simple_fast(&flow.graph, entry);
    let mut heads = Vec::new();
    for edge in flow.graph.edge_references().filter(|edge| *edge.weight() == BlockEdge::Branch) {
        let (end, head) = (&flow.graph[edge.source()], &flow.graph[edge.target()]);
        let is_loop = head.start <= end.start
            && dominators
                .dominators(edge.source())
                .is_some_and(|mut above| above.any(|one| one == edge.target()));
        // A loop that waits for nothing is arithmetic, in which notes would take most of the time.
        if is_loop && (1..own).contains(&head.start) && found.range(head.start..end.end).next().is_some() {
            heads.push(head.start);
        }
    }
    for head in heads {
        if instructions[head].flow == WarpFlow::Next && is_movable(&instructions[head]) {
            found.entry(head).or_insert(MomentKind::Round);
        }
    }
    found.into_iter().collect()
}

/// True if an instruction means the same elsewhere.
fn is_movable(instruction: &SassInstruction) -> bool {
    // A relocation may fill in an immediate that is zero.
    let is_relocated = matches!(instruction.literal(), Some(Literal::Immediate(0)));
    !super::opcode::CONTROL.contains(&(instruction.word.0 & 0xfff)) && !is_turn(instruction) && !is_relocated
}

fn moment(instructions: &[SassInstruction], flow: &FlowGraph, index: usize) -> Option<MomentKind> {
    let instruction = &instructions[index];
    let name = instruction.mnemonic?;
    let is_uniform = instruction.guard.is_some_and(|guard| guard.register.file != RegisterFile::Predicate);
    match name {
        // Warps that do not copy would note it, too.
        "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UBLKCP" | "UBLKRED" => {
            (!is_uniform).then_some(MomentKind::Start)
        }
        "LDGSTS" => {
            let first = flow.graph[flow.block_of[index]].start;
            let is_first = !instructions[first..index].iter().any(|one| one.mnemonic == Some("LDGSTS"));
            is_first.then_some(MomentKind::Start)
        }
        "BAR" | "DEPBAR" => Some(MomentKind::Wait),
        "SYNCS" => instruction.full_name().contains("TRYWAIT").then_some(MomentKind::Wait),
        "WARPGROUP" if matches!(instruction.barrier_wait(), Some(BarrierWait::Warpgroup { .. })) => {
            Some(MomentKind::Wait)
        }
        "WARPGROUP" => (instruction.full_name() == "WARPGROUP.ARRIVE").then_some(MomentKind::Start),
        _ => None,
    }
}

fn is_turn(instruction: &SassInstruction) -> bool {
    instruction.mnemonic == Some("USETMAXREG")
}

/// The barrier that fewest instructions set, those counted tenfold whose results it announces.
fn quietest_barrier(instructions: &[SassInstruction]) -> u8 {
    let weight = |barrier: u8| -> usize {
        let of = |one: &SassInstruction| {
            let sets = |set: Option<u8>| usize::from(set == Some(barrier));
            10 * sets(one.control.write_barrier) + sets(one.control.read_barrier)
        };
        instructions.iter().map(of).sum()
    };
    (0..BARRIERS).rev().min_by_key(|barrier| weight(*barrier)).unwrap_or(0)
}

/// Uniform registers that no instruction uses.
fn free_uniform(instructions: &[SassInstruction]) -> Option<RingRegisters> {
    let used = used(instructions.iter());
    // Compilers begin with the lowest ones.
    let mut free: Vec<u8> =
        (0..UNIFORM_REGISTERS).rev().filter(|index| !has(&used, RegisterFile::Uniform, *index)).collect();
    let mut pair = || {
        let at = free.windows(2).position(|two| two[1] % 2 == 0 && two[0] == two[1] + 1)?;
        free.remove(at);
        Some(free.remove(at))
    };
    let (newest, descriptor) = (pair()?, pair()?);
    let mut rest = free.into_iter();
    Some(RingRegisters { newest, descriptor, count: rest.next()?, ring: rest.next()? })
}

fn used<'a>(instructions: impl Iterator<Item = &'a SassInstruction>) -> Registers {
    instructions.fold(Registers::NONE, |all, one| all.or(&one.reads).or(&one.writes))
}

fn has(registers: &Registers, file: RegisterFile, index: u8) -> bool {
    registers.contains(Register { file, index })
}

/// Code that a warp executes with one number of registers.
struct RegisterPart {
    /// By instruction: true if it is in the part.
    holds: Vec<bool>,
    used: Registers,
    /// Registers that a lane has and can use.
    limit: u8,
}

/// The parts of a kernel: from its begin, and behind each instruction that changes the number of registers.
fn register_parts(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    entry: u32,
    turns: &[usize],
) -> Vec<RegisterPart> {
    let starts = std::iter::once((0, entry));
    let behind = turns.iter().map(|&turn| (turn + 1, u32::from(instructions[turn].word.byte(32))));
    let part = |(start, registers): (usize, u32)| {
        let limit = u8::try_from(registers.saturating_sub(RESERVED_REGISTERS)).unwrap_or(0);
        let mut holds: Vec<bool> = instructions.iter().map(|_| false).collect();
        let mut open = vec![start];
        while let Some(index) = open.pop() {
            let Some(is_known @ false) = holds.get_mut(index) else { continue };
            *is_known = true;
            if is_turn(&instructions[index]) {
                continue;
            }
            let block = flow.block_of[index];
            if index + 1 < flow.graph[block].end {
                open.push(index + 1);
            } else {
                open.extend(flow.graph.neighbors(block).map(|next| flow.graph[next].start));
            }
        }
        let used = used(instructions.iter().zip(&holds).filter(|(_, is_in)| **is_in).map(|(one, _)| one));
        RegisterPart { holds, used, limit }
    };
    starts.chain(behind).map(part).collect()
}

/// Two pairs of general registers that the parts around an instruction do not use.
fn free_pairs(parts: &[RegisterPart], index: usize) -> Option<(u8, u8)> {
    let around = || parts.iter().filter(|part| part.holds[index]);
    let limit = around().map(|part| part.limit).min()?;
    let used = around().fold(Registers::NONE, |all, part| all.or(&part.used));
    let is_free = |index: &u8| {
        !has(&used, RegisterFile::General, *index) && !has(&used, RegisterFile::General, *index + 1)
    };
    // R1 may be the stack's even where nothing uses it.
    let mut pairs = (2..limit.saturating_sub(1)).step_by(2).filter(is_free);
    Some((pairs.next()?, pairs.next()?))
}
