//! Pointers among a kernel's parameters from which the addresses of its accesses are computed, and those that it stores.

use std::collections::{BTreeMap, BTreeSet};

use crate::cubin::CodeSection;
use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace, SassInstruction};
use crate::register::{Register, RegisterFile};
use crate::slice::analysis::{AccessPointer, PointerStore, offset};
use crate::slice::copies::pointer_parameters;
use crate::slice::definitions::RegisterWrites;
use crate::slice::graph::FlowGraph;
use crate::slice::value::{BaseTerms, ValueQuery};
use crate::slice::work::{AnalysisBudget, TooMuchWork};
use crate::word::Sm;

/// Bytes of a pointer.
const POINTER_BYTES: u32 = 8;
/// The position of a store's data.
const SECOND_SOURCE: u32 = 32;

/// The accesses of a section and the stores of pointers, by offset. None if they take too many steps, which the rest of the
/// analysis has for itself.
pub(crate) fn parameter_pointers(
    instructions: &[SassInstruction],
    section: &CodeSection,
    flow: &FlowGraph,
    definitions: &RegisterWrites,
    sm: Sm,
) -> (Vec<AccessPointer>, Vec<PointerStore>) {
    let work = AnalysisBudget::for_instructions(instructions.len());
    let mut question = ValueQuery::new(instructions, flow, definitions, sm, &work);
    let found = accesses_and_stores(instructions, section, &mut question, &work);
    found.unwrap_or_default()
}

fn accesses_and_stores(
    instructions: &[SassInstruction],
    section: &CodeSection,
    question: &mut ValueQuery<'_>,
    work: &AnalysisBudget,
) -> Result<(Vec<AccessPointer>, Vec<PointerStore>), TooMuchWork> {
    let (mut accesses, mut stores) = (Vec::new(), Vec::new());
    for (index, instruction) in instructions.iter().enumerate() {
        let Some(register) = address(instruction) else { continue };
        let bases = base(question, (index, register), section, work)?;
        let offset = offset(index);
        accesses.extend(bases.iter().map(|base| AccessPointer { offset, parameter_offset: *base }));
        if bases.is_empty() || !stores_pointer(instruction) {
            continue;
        }
        let data = Register { file: RegisterFile::General, index: instruction.word.byte(SECOND_SOURCE) };
        let pointers = base(question, (index, data), section, work)?;
        work.spend(bases.len() * pointers.len())?;
        let store = |(base, pointer): (&u32, &u32)| PointerStore {
            offset,
            parameter_offset: *base,
            stored_offset: *pointer,
        };
        let pairs = bases.iter().flat_map(|base| pointers.iter().map(move |pointer| (base, pointer)));
        stores.extend(pairs.map(store));
    }
    Ok((accesses, stores))
}

/// True if an instruction stores as many bytes as a pointer has.
fn stores_pointer(instruction: &SassInstruction) -> bool {
    instruction
        .memory
        .is_some_and(|memory| memory.kind == MemoryEffect::Write && memory.bytes == POINTER_BYTES)
}

/// The register that holds the address of a lane's access to device memory.
fn address(instruction: &SassInstruction) -> Option<Register> {
    let memory = instruction.memory?;
    let is_access = matches!(memory.space, MemorySpace::Global | MemorySpace::Generic)
        && instruction.class != ExecutionUnit::Async;
    memory.address.filter(|_| is_access)
}

/// Pointers of which one is a term of a register's value on every path. None if there is a path without.
fn base(
    question: &mut ValueQuery<'_>,
    use_of: (usize, Register),
    section: &CodeSection,
    work: &AnalysisBudget,
) -> Result<BTreeSet<u32>, TooMuchWork> {
    let mut terms = BTreeMap::new();
    let mut open = vec![use_of];
    while let Some(at) = open.pop() {
        if terms.contains_key(&at) {
            continue;
        }
        let found = question.base_terms(at)?;
        open.extend(found.iter().flat_map(|one| &one.registers));
        terms.insert(at, found);
    }
    let pointers = |one: &BaseTerms| pointer_parameters(&one.words, section).collect::<BTreeSet<u32>>();
    // What is not shown to have a base is removed until nothing changes: a loop has the base that it starts with.
    let mut based: BTreeSet<(usize, Register)> = terms.keys().copied().collect();
    loop {
        work.spend(terms.len())?;
        let has_base = |one: &BaseTerms| {
            let known = one.registers.iter().filter(|register| based.contains(register)).count();
            let has_all = known == one.registers.len() && !one.registers.is_empty();
            if one.is_choice {
                has_all && one.words.is_empty()
            } else {
                known > 0 || !pointers(one).is_empty()
            }
        };
        let without = terms.iter().filter(|(at, all)| based.contains(at) && !all.iter().all(has_base));
        let without: Vec<(usize, Register)> = without.map(|(at, _)| *at).collect();
        if without.is_empty() {
            break;
        }
        for at in without {
            based.remove(&at);
        }
    }
    let all = terms.values().flatten().flat_map(pointers).collect();
    Ok(if based.contains(&use_of) { all } else { BTreeSet::new() })
}
