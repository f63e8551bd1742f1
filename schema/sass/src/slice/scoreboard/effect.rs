//! Effects of single instructions on the scoreboard: the barriers that they set and wait for, their groups of copies.

use crate::control::BARRIERS;
use crate::instruction::{BarrierWait, ExecutionUnit, MemoryEffect, MemorySpace, SassInstruction, WarpFlow};
use crate::register::Registers;

/// Barriers that an instruction may wait for until they are zero. A warp that ends waits for all, in no mask.
pub(super) fn waited_barriers(instruction: &SassInstruction) -> u8 {
    let ends = matches!(instruction.flow, WarpFlow::Exit { .. });
    if ends { (1 << BARRIERS) - 1 } else { cleared_barriers(instruction) }
}

/// Barriers that are zero behind an instruction. Behind the end of some lanes, those of other lanes are unchanged.
pub(super) fn cleared_barriers(instruction: &SassInstruction) -> u8 {
    match instruction.barrier_wait() {
        Some(BarrierWait::Scoreboard { empty, .. }) => instruction.control.wait_mask | empty,
        _ => instruction.control.wait_mask,
    }
}

/// The barrier that an instruction waits for until only so many of its groups are left, and how many.
pub(super) fn counted_barrier(instruction: &SassInstruction) -> Option<(u8, u8)> {
    match instruction.barrier_wait() {
        Some(BarrierWait::Scoreboard { counted, .. }) => counted,
        _ => None,
    }
}

pub(super) fn touches(instruction: &SassInstruction, registers: &Registers) -> bool {
    instruction.reads.intersects(registers) || instruction.writes.intersects(registers)
}

/// True if the memory that an instruction writes is the device's.
pub(super) fn is_store(instruction: &SassInstruction) -> bool {
    instruction.memory.is_some_and(|memory| {
        let is_device =
            matches!(memory.space, MemorySpace::Global | MemorySpace::Generic | MemorySpace::Texture);
        let writes = matches!(
            memory.kind,
            MemoryEffect::Write | MemoryEffect::Reduction | MemoryEffect::Atomic | MemoryEffect::CopyOut
        );
        is_device && writes
    })
}

/// Groups that an asynchronous copy belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyGroup {
    /// LDGSTS, closed by LDGDEPBAR.
    Lanes,
    /// Tensor-map and bulk copies out of shared memory, closed by UTMACMDFLUSH.
    Bulk,
}

pub(super) fn group_kind(instruction: &SassInstruction) -> Option<CopyGroup> {
    let memory = instruction.memory.filter(|_| instruction.class == ExecutionUnit::Async)?;
    match memory.kind {
        MemoryEffect::CopyIn if instruction.mnemonic == Some("LDGSTS") => Some(CopyGroup::Lanes),
        MemoryEffect::CopyOut | MemoryEffect::Reduction => Some(CopyGroup::Bulk),
        _ => None,
    }
}

pub(super) fn closed_group(instruction: &SassInstruction) -> Option<CopyGroup> {
    match instruction.mnemonic {
        Some("LDGDEPBAR") => Some(CopyGroup::Lanes),
        Some("UTMACMDFLUSH") => Some(CopyGroup::Bulk),
        _ => None,
    }
}

/// The barrier that the end of a group is awaited by: what a copy out of shared memory has only to read counts as a source.
pub(super) fn group_barrier(commit: &SassInstruction) -> Option<u8> {
    commit.control.write_barrier.or(commit.control.read_barrier)
}

/// True if samples find the warp at the next instruction: a DEPBAR has issued when it waits.
pub(super) fn is_found_behind(instruction: &SassInstruction) -> bool {
    matches!(instruction.barrier_wait(), Some(BarrierWait::Scoreboard { .. }))
}

/// Barriers that an instruction sets until its result is written, or until its sources are read.
pub(super) fn set_barriers(instruction: &SassInstruction) -> impl Iterator<Item = u8> {
    let control = instruction.control;
    let written = control.write_barrier.filter(|_| closed_group(instruction).is_none());
    let read =
        control.read_barrier.filter(|read| closed_group(instruction).is_none() && Some(*read) != written);
    written.into_iter().chain(read).filter(|barrier| *barrier < BARRIERS)
}

/// Bit n: behind an instruction, nothing before it holds barrier n.
pub(super) fn zeroed_barriers(instruction: &SassInstruction) -> u8 {
    let counted = match counted_barrier(instruction) {
        Some((barrier, 0)) if barrier < BARRIERS => 1 << barrier,
        _ => 0,
    };
    (cleared_barriers(instruction) | counted) & ((1 << BARRIERS) - 1)
}
