//! The instructions that the results of others reach, through registers, shared memory and local memory.
//!
//! A result that is missing is an old value of its registers. Where no address, branch or barrier depends on it, the
//! kernel does the same work without it, on other numbers. Values that pass through device memory are not followed.
//! A result of other memory is followed in the same way.

use std::collections::BTreeSet;

use stallmap_sass::instruction::{
    ExecutionUnit, Guard, MemoryEffect, MemoryOperand, MemorySpace, SassInstruction, WarpFlow,
};
use stallmap_sass::register::{Register, RegisterFile, Registers};
use stallmap_sass::slice::work::TooMuchWork;

use crate::ablate::code::{DecodedSection, SectionFills};

/// The effect of instructions that are left out, other than on time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OmissionReach {
    /// True if a result reaches a branch.
    pub(crate) branch: bool,
    /// Loads of device memory whose addresses depend on a result, by their index.
    pub(crate) loads: BTreeSet<usize>,
}

/// The reason that instructions cannot be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OmissionRefusal {
    /// Not in the cubin.
    #[error("its code is not in the capture")]
    NotFound,
    /// Arithmetic, constants, mbarriers.
    #[error("an instruction is no access of device, shared or local memory")]
    NotMemory,
    /// UTMALDG, UBLKCP.
    #[error("an mbarrier waits for the bytes of the copy")]
    Awaited,
    /// An index, a pointer.
    #[error("its value reaches the address of an access")]
    Address,
    /// A predicate.
    #[error("its value decides which lanes access memory")]
    Guard,
    /// A barrier's number, an mbarrier.
    #[error("its value reaches a barrier")]
    Barrier,
    /// A kernel whose blocks wait for each other.
    #[error("it writes, and a loaded value decides a branch: blocks may wait for what is written")]
    Signal,
    /// An instruction that is not decoded.
    #[error("an instruction that may use its value is not known")]
    Unknown,
    /// A call by a pointer, or of a function in another section.
    #[error("a function that is not in the kernel's code may use its value")]
    Elsewhere,
    /// Atomics.
    #[error("an instruction writes the memory")]
    Written,
    /// Code with more jumps than compiled code has.
    #[error(transparent)]
    TooLong(#[from] TooMuchWork),
}

/// The effect of leaving some instructions of a section out, by their index.
pub(crate) fn reached(
    code: &DecodedSection,
    left_out: &BTreeSet<usize>,
) -> Result<OmissionReach, OmissionRefusal> {
    let mut writes = false;
    for &index in left_out {
        let instruction = code.instructions.get(index).ok_or(OmissionRefusal::NotFound)?;
        check(instruction)?;
        writes |= instruction.memory.is_some_and(|memory| is_write(&memory));
    }
    if writes && decides_by_a_load(code) {
        return Err(OmissionRefusal::Signal);
    }
    MissingResults::new(code, left_out).follow()
}

/// The effect of other values behind the reads of some instructions of a section, by their index. `fills` has the
/// instructions that fill the shared memory that others read.
pub(crate) fn reached_by_other_values(
    code: &DecodedSection,
    fills: &SectionFills,
    reads: &BTreeSet<usize>,
) -> Result<OmissionReach, OmissionRefusal> {
    for &index in reads {
        let instruction = code.instructions.get(index).ok_or(OmissionRefusal::NotFound)?;
        let memory = instruction.memory.ok_or(OmissionRefusal::NotMemory)?;
        let only_reads =
            matches!(memory.kind, MemoryEffect::Read | MemoryEffect::CopyIn | MemoryEffect::Prefetch);
        if !only_reads {
            return Err(OmissionRefusal::Written);
        }
    }
    let mut reach = MissingResults::new(code, reads);
    reach.fills = Some(fills);
    reach.follow()
}

/// Refuses an instruction that nothing can stand for.
fn check(instruction: &SassInstruction) -> Result<(), OmissionRefusal> {
    let memory = instruction.memory.ok_or(OmissionRefusal::NotMemory)?;
    let is_copy = instruction.mnemonic == Some("LDGSTS");
    match (instruction.class, memory.kind) {
        (
            ExecutionUnit::Global | ExecutionUnit::Local | ExecutionUnit::Shared | ExecutionUnit::Texture,
            _,
        )
        | (ExecutionUnit::Async, MemoryEffect::CopyOut | MemoryEffect::Prefetch) => Ok(()),
        (ExecutionUnit::Async, _) if is_copy => Ok(()),
        (ExecutionUnit::Async, _) => Err(OmissionRefusal::Awaited),
        _ => Err(OmissionRefusal::NotMemory),
    }
}

const fn is_write(memory: &MemoryOperand) -> bool {
    let writes = matches!(
        memory.kind,
        MemoryEffect::Write | MemoryEffect::Atomic | MemoryEffect::Reduction | MemoryEffect::CopyOut
    );
    writes && matches!(memory.space, MemorySpace::Global | MemorySpace::Generic)
}

/// True if a value that other multiprocessors may have written reaches a branch: the load asks L2 for it.
fn decides_by_a_load(code: &DecodedSection) -> bool {
    let is_load = |instruction: &SassInstruction| {
        let reads = |memory: MemoryOperand| {
            memory.is_past_l1
                && matches!(memory.kind, MemoryEffect::Read | MemoryEffect::Atomic)
                && matches!(memory.space, MemorySpace::Global | MemorySpace::Generic)
        };
        instruction.memory.is_some_and(reads) && check(instruction).is_ok()
    };
    let found = code.instructions.iter().enumerate().filter(|(_, instruction)| is_load(instruction));
    let loads = found.map(|(index, _)| index).collect();
    let mut reach = MissingResults::new(code, &loads);
    reach.only_branches = true;
    reach.follow().is_ok_and(|reached| reached.branch)
}

/// Registers and memory that hold a missing result, followed until nothing is added.
struct MissingResults<'a> {
    code: &'a DecodedSection,
    left_out: &'a BTreeSet<usize>,
    /// By block: the registers at its begin.
    begins: Vec<Registers>,
    shared: bool,
    /// Stores to shared memory of what depends on a missing result.
    stores: BTreeSet<usize>,
    local: bool,
    reached: OmissionReach,
    /// Addresses and barriers are no reason to stop.
    only_branches: bool,
    /// The instructions that fill shared memory, where copies bring other values: mbarriers hold none of these.
    fills: Option<&'a SectionFills>,
}

impl<'a> MissingResults<'a> {
    fn new(code: &'a DecodedSection, left_out: &'a BTreeSet<usize>) -> Self {
        let begins = vec![Registers::default(); code.flow.graph.node_count()];
        let reached = OmissionReach::default();
        Self {
            code,
            left_out,
            begins,
            shared: false,
            stores: BTreeSet::new(),
            local: false,
            reached,
            only_branches: false,
            fills: None,
        }
    }

    fn follow(mut self) -> Result<OmissionReach, OmissionRefusal> {
        loop {
            let before = (self.stores.len(), self.shared, self.local);
            let mut has_grown = false;
            for (node, range) in self.code.flow.blocks() {
                let mut held = self.begins[node.index()];
                let mut replaced = ReplacedRegisters::default();
                for index in range.clone() {
                    self.step(index, &mut held, &mut replaced)?;
                }
                for (next, passed) in self.code.calls.next(&self.code.flow, node, &held) {
                    let begin = &mut self.begins[next.index()];
                    let joined = begin.or(&passed);
                    has_grown |= joined != *begin;
                    *begin = joined;
                }
            }
            if !has_grown && before == (self.stores.len(), self.shared, self.local) {
                return Ok(self.reached);
            }
        }
    }

    /// The effect of one instruction on what holds a missing result.
    fn step(
        &mut self,
        index: usize,
        held: &mut Registers,
        replaced: &mut ReplacedRegisters,
    ) -> Result<(), OmissionRefusal> {
        let instruction = &self.code.instructions[index];
        let missing = held.without(&replaced.under(instruction.guard));
        let reads_missing = instruction.reads.intersects(&missing);
        if instruction.mnemonic.is_none() && !held.is_empty() && !self.only_branches {
            return Err(OmissionRefusal::Unknown);
        }
        if self.code.calls.is_elsewhere(index) && !held.is_empty() && !self.only_branches {
            return Err(OmissionRefusal::Elsewhere);
        }
        if reads_missing {
            self.use_missing(index, &missing)?;
        }
        let is_left_out = self.left_out.contains(&index);
        let copies =
            is_left_out && instruction.memory.is_some_and(|memory| memory.kind == MemoryEffect::CopyIn);
        self.shared |= copies && self.fills.is_none();
        if reads_missing || is_left_out || self.loads_missing(index) {
            *held = held.or(&instruction.writes);
            replaced.forget(&instruction.writes);
        } else if let Some(guard) = instruction.guard {
            replaced.add(guard, &instruction.writes);
        } else {
            *held = held.without(&instruction.writes);
        }
        replaced.change(&instruction.writes);
        Ok(())
    }

    /// An instruction reads a register with a missing result.
    fn use_missing(&mut self, index: usize, held: &Registers) -> Result<(), OmissionRefusal> {
        let instruction = &self.code.instructions[index];
        let by_guard = instruction.guard.is_some_and(|guard| held.contains(guard.register));
        if instruction.flow != WarpFlow::Next {
            self.reached.branch = true;
        }
        if by_guard && instruction.memory.is_some() && !self.only_branches {
            return Err(OmissionRefusal::Guard);
        }
        if instruction.class == ExecutionUnit::Sync && !self.only_branches {
            return Err(OmissionRefusal::Barrier);
        }
        let Some(memory) = instruction.memory else { return Ok(()) };
        if addresses(instruction, &memory).intersects(held) && !self.only_branches {
            let is_load = memory.kind == MemoryEffect::Read && memory.space == MemorySpace::Global;
            if !is_load {
                return Err(OmissionRefusal::Address);
            }
            self.reached.loads.insert(index);
        }
        if matches!(memory.kind, MemoryEffect::Write | MemoryEffect::Atomic | MemoryEffect::Reduction) {
            self.shared |= matches!(memory.space, MemorySpace::Shared | MemorySpace::Generic);
            if matches!(memory.space, MemorySpace::Shared | MemorySpace::Generic) {
                self.stores.insert(index);
            }
            self.local |= matches!(memory.space, MemorySpace::Local | MemorySpace::Generic);
        }
        Ok(())
    }

    /// True if it loads from memory that may hold a missing result.
    fn loads_missing(&self, index: usize) -> bool {
        let instruction = &self.code.instructions[index];
        if let Some(fills) = self.fills {
            match (instruction.class, instruction.memory) {
                // It holds no value of a tensor.
                (ExecutionUnit::Sync, _) => return false,
                // A matrix product takes its operands from shared memory, by a description of it.
                (ExecutionUnit::Tensor, _) => return self.shared || fills.any_copy(self.left_out),
                (_, Some(memory)) if memory.space == MemorySpace::Shared => {
                    let is_load = matches!(memory.kind, MemoryEffect::Read | MemoryEffect::Atomic);
                    return is_load && fills.bring_others(index, self.left_out, &self.stores);
                }
                _ => {}
            }
        }
        let loads = |memory: MemoryOperand| {
            let is_load = matches!(memory.kind, MemoryEffect::Read | MemoryEffect::Atomic);
            let is_missing = match memory.space {
                MemorySpace::Shared => self.shared,
                MemorySpace::Local => self.local,
                MemorySpace::Generic => self.shared || self.local,
                _ => false,
            };
            is_load && is_missing
        };
        instruction.memory.is_some_and(loads)
    }
}

/// Registers that a guarded instruction of the block has written: instructions with the same guard find no missing
/// result there.
#[derive(Default)]
struct ReplacedRegisters(Vec<(Guard, Registers)>);

impl ReplacedRegisters {
    /// The registers that an instruction with this guard finds replaced.
    fn under(&self, guard: Option<Guard>) -> Registers {
        let found = self.0.iter().find(|(known, _)| Some(*known) == guard);
        found.map_or(Registers::NONE, |(_, registers)| *registers)
    }

    fn add(&mut self, guard: Guard, writes: &Registers) {
        match self.0.iter_mut().find(|(known, _)| *known == guard) {
            Some((_, registers)) => *registers = registers.or(writes),
            None => self.0.push((guard, *writes)),
        }
    }

    /// Forgets registers that hold a missing result again.
    fn forget(&mut self, writes: &Registers) {
        for (_, registers) in &mut self.0 {
            *registers = registers.without(writes);
        }
    }

    /// Forgets the guards that an instruction changes.
    fn change(&mut self, writes: &Registers) {
        self.0.retain(|(guard, _)| !writes.contains(guard.register));
    }
}

/// The registers of an access's address.
fn addresses(instruction: &SassInstruction, memory: &MemoryOperand) -> Registers {
    let is_copy =
        matches!(memory.kind, MemoryEffect::CopyIn | MemoryEffect::CopyOut | MemoryEffect::Prefetch);
    if is_copy || memory.space == MemorySpace::Texture {
        return instruction.reads;
    }
    let is_wide = matches!(memory.space, MemorySpace::Global | MemorySpace::Generic);
    let pair = |first: Register, is_wide: bool| {
        let mut registers = Registers::NONE;
        registers.insert_run(first, if is_wide { 2 } else { 1 });
        registers
    };
    let general = memory.address.map(|first| pair(first, is_wide));
    let uniform = memory.uniform.map(|first| pair(Register { file: RegisterFile::Uniform, ..first }, true));
    [general, uniform].into_iter().flatten().fold(Registers::NONE, |all, some| all.or(&some))
}

#[cfg(test)]
#[path = "reach_tests.rs"]
mod tests;
