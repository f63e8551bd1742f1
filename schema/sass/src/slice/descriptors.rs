//! Tensor maps that a kernel makes in device memory: the pointers that it stores into them.
//!
//! A warp stores a tensor's address into the first word of a tensor map, in shared memory or where it shall be, and
//! makes the map known to the unit that copies by UTMACCTL. Stores of eight bytes since the UTMACCTL before are the
//! candidates: into the map itself, or the first address in shared memory. Several maps that are made together lie in
//! shared memory in the order of their UTMACCTL. What is stored is a pointer of the kernel, or one of an array of
//! pointers in device memory. That is a rule, not a proof.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;

use crate::instruction::{MemoryEffect, MemoryOperand, MemorySpace, SassInstruction};
use crate::register::{Register, RegisterFile};
use crate::slice::copies::{mbarriers, tensor_map};
use crate::slice::graph::FlowGraph;
use crate::slice::value::{BasedConstant, ValueQuery};
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Bytes of a pointer.
const POINTER_BYTES: u32 = 8;
/// The position of an instruction's second source.
const SECOND_SOURCE: u32 = 32;
/// UTMACCTL brings a tensor map nearer (`.PF`), or forgets an old one (`.IV`).
const CONTROL: &str = "UTMACCTL";
/// Its bit of `.PF`.
const PREFETCH: u32 = 82;

/// An address of a tensor map.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct MapAddress {
    /// Words of constant bank 0 in its sum.
    words: BTreeSet<u32>,
    /// The numbers that are added to them.
    added: BTreeSet<i64>,
    /// Its values, by the ways to it.
    values: BTreeSet<BasedConstant>,
}

impl MapAddress {
    fn is_near(&self, other: &Self) -> bool {
        self.words == other.words && !self.added.is_disjoint(&other.added)
    }
}

/// Pointers that a kernel stores into a tensor map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct StoredPointers {
    /// Words of constant bank 0.
    pub(crate) words: BTreeSet<u32>,
    /// Words of constant bank 0 in the addresses of arrays in device memory from which pointers are loaded.
    pub(crate) arrays: BTreeSet<u32>,
}

impl StoredPointers {
    fn is_empty(&self) -> bool {
        self.words.is_empty() && self.arrays.is_empty()
    }

    fn extend(&mut self, other: &Self) {
        self.words.extend(&other.words);
        self.arrays.extend(&other.arrays);
    }
}

/// By tensor-map copy whose tensor map is no parameter: what the kernel stores into it.
pub(crate) fn made(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    copies: &BTreeMap<usize, BTreeSet<BasedConstant>>,
    question: &mut ValueQuery<'_>,
    work: &AnalysisBudget,
) -> Result<BTreeMap<usize, StoredPointers>, TooMuchWork> {
    let mut made = BTreeMap::new();
    let fences = instructions.iter().enumerate().filter(|(_, one)| is_fence(one));
    let fences: Vec<usize> = fences.map(|(index, _)| index).collect();
    if fences.is_empty() {
        return Ok(made);
    }
    // By address of a tensor map: what is stored into it.
    let mut stored: BTreeMap<MapAddress, StoredPointers> = BTreeMap::new();
    // Maps that are made together, by their place in shared memory, and those of them that have a fence by now.
    let (mut together, mut served) = (Vec::new(), 0);
    for fence in &fences {
        let Some(address) = address(instructions, question, *fence)? else { continue };
        let mut maker = DescriptorMaker { instructions, flow, question, work, address: &address };
        let maps = maker.maps(*fence)?;
        if maps.is_empty() {
            served += 1;
        } else {
            (together, served) = (maps, 0);
        }
        if let Some(pointers) = together.get(served) {
            stored.entry(address).or_default().extend(pointers);
        }
    }
    for copy in copies.keys().filter(|copy| instructions[**copy].mnemonic != Some(CONTROL)) {
        let Some(address) = address(instructions, question, *copy)? else { continue };
        work.spend(stored.len())?;
        let equal =
            |known: &&MapAddress| known.is_near(&address) && !known.values.is_disjoint(&address.values);
        let has_equal = stored.keys().any(|known| equal(&known));
        let mut its = StoredPointers::default();
        // A sum by another path, to which no tensor map was stored, is no address of the copy's.
        for (_, pointers) in
            stored.iter().filter(|(known, _)| if has_equal { equal(known) } else { known.is_near(&address) })
        {
            its.extend(pointers);
        }
        if !its.is_empty() {
            made.insert(*copy, its);
        }
    }
    Ok(made)
}

/// True if an instruction makes what was stored into a tensor map known to the unit that copies.
fn is_fence(instruction: &SassInstruction) -> bool {
    instruction.mnemonic == Some(CONTROL) && !instruction.word.bit(PREFETCH)
}

fn address(
    instructions: &[SassInstruction],
    question: &mut ValueQuery<'_>,
    index: usize,
) -> Result<Option<MapAddress>, TooMuchWork> {
    let Some(register) = tensor_map(&instructions[index]) else { return Ok(None) };
    let words = question.bank_words(index, register)?;
    let values = question.starts(index, register)?;
    let added = values.iter().map(|value| value.constant).collect();
    Ok((!words.is_empty()).then_some(MapAddress { words, added, values }))
}

/// A store of eight bytes: where it lies in shared memory, `None` in the tensor map itself, and what is stored.
type MapStore = (Option<i64>, usize, StoredPointers);

struct DescriptorMaker<'m, 'q> {
    instructions: &'m [SassInstruction],
    flow: &'m FlowGraph,
    question: &'m mut ValueQuery<'q>,
    work: &'m AnalysisBudget,
    address: &'m MapAddress,
}

impl DescriptorMaker<'_, '_> {
    /// The pointers stored into the tensor maps that a fence and those behind it make known, by their place.
    fn maps(&mut self, fence: usize) -> Result<Vec<StoredPointers>, TooMuchWork> {
        let since = self.since_the_fence_before(fence)?;
        let mut found: Vec<MapStore> = Vec::new();
        for index in since {
            found.extend(self.stored(index)?);
        }
        // The map itself, else places in shared memory: an address is a tensor map's first word. The last of several
        // stores there is the one that stays.
        found.sort_by_key(|(address, index, _)| (*address, *index >= fence, std::cmp::Reverse(*index)));
        found.dedup_by_key(|(address, ..)| *address);
        let is_itself = found.first().is_some_and(|(address, ..)| address.is_none());
        found.truncate(if is_itself { 1 } else { found.len() });
        Ok(found.into_iter().map(|(.., pointers)| pointers).collect())
    }

    /// The instructions between a fence and those before it.
    fn since_the_fence_before(&self, fence: usize) -> Result<BTreeSet<usize>, TooMuchWork> {
        let mut found = BTreeSet::new();
        let Some(home) = self.flow.block_of.get(fence).copied() else { return Ok(found) };
        let (mut seen, mut open) = (BTreeSet::new(), vec![(home, fence)]);
        while let Some((block, end)) = open.pop() {
            let range = self.flow.graph[block].start..end;
            self.work.spend(1 + range.len())?;
            let last = range.clone().rev().find(|index| is_fence(&self.instructions[*index]));
            found.extend(last.map_or(range.start, |last| last + 1)..end);
            if last.is_some() {
                continue;
            }
            for earlier in self.flow.graph.neighbors_directed(block, Direction::Incoming) {
                self.work.spend(1)?;
                if seen.insert(earlier) {
                    open.push((earlier, self.flow.graph[earlier].end));
                }
            }
        }
        Ok(found)
    }

    fn stored(&mut self, index: usize) -> Result<Option<MapStore>, TooMuchWork> {
        let instruction = &self.instructions[index];
        let Some(memory) = instruction.memory else { return Ok(None) };
        if memory.kind != MemoryEffect::Write || memory.bytes != POINTER_BYTES {
            return Ok(None);
        }
        let address = match memory.space {
            MemorySpace::Shared => {
                let addresses = mbarriers(self.question, index, instruction)?;
                let Some(address) = addresses.into_iter().map(|address| address.start).min() else {
                    return Ok(None);
                };
                Some(address)
            }
            MemorySpace::Global | MemorySpace::Generic if self.is_the_map(index, instruction)? => None,
            _ => return Ok(None),
        };
        let data = Register { file: RegisterFile::General, index: instruction.word.byte(SECOND_SOURCE) };
        let words = self.question.bank_words(index, data)?;
        let arrays = if words.is_empty() { self.arrays(index, data)? } else { BTreeSet::new() };
        let pointers = StoredPointers { words, arrays };
        Ok((!pointers.is_empty()).then_some((address, index, pointers)))
    }

    /// Words in the addresses of device memory from which a pointer is loaded.
    fn arrays(&mut self, index: usize, data: Register) -> Result<BTreeSet<u32>, TooMuchWork> {
        let mut words = BTreeSet::new();
        for load in self.question.definitions_before(index, data)? {
            let is_pointer =
                |memory: &MemoryOperand| memory.space == MemorySpace::Global && memory.bytes == POINTER_BYTES;
            if let Some(address) =
                self.instructions[load].memory.filter(is_pointer).and_then(|memory| memory.address)
            {
                words.extend(self.question.bank_words(load, address)?);
            }
        }
        Ok(words)
    }

    /// True if an instruction stores to the first word of the tensor map.
    fn is_the_map(&mut self, index: usize, instruction: &SassInstruction) -> Result<bool, TooMuchWork> {
        let Some(memory) = instruction.memory else { return Ok(false) };
        let Some(register) = memory.address else { return Ok(false) };
        let words = self.question.bank_words(index, register)?;
        let offset = i64::from(memory.offset);
        let starts = self.question.starts(index, register)?;
        let added: BTreeSet<i64> = starts.into_iter().map(|value| value.constant + offset).collect();
        Ok(words == self.address.words && added == self.address.added)
    }
}
