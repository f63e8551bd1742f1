//! Tensor maps that a kernel makes in device memory: the pointers that it stores into them.
//!
//! A warp stores a tensor's address into the first word of a tensor map, in shared memory or where it shall be, and
//! makes the map known to the unit that copies by UTMACCTL. Stores of eight bytes since the UTMACCTL before are the
//! candidates: into the map itself, or the first address in shared memory. That is a rule, not a proof.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;

use crate::instruction::{MemoryEffect, MemorySpace, SassInstruction};
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

/// An address of a tensor map: words of constant bank 0 in its sum, and the numbers that are added to them.
type MapAddress = (BTreeSet<u32>, BTreeSet<i64>);

/// By tensor-map copy whose tensor map is no parameter: words of constant bank 0 that the kernel stores into it.
pub(crate) fn made(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    copies: &BTreeMap<usize, BTreeSet<BasedConstant>>,
    question: &mut ValueQuery<'_>,
    work: &AnalysisBudget,
) -> Result<BTreeMap<usize, BTreeSet<u32>>, TooMuchWork> {
    let mut made = BTreeMap::new();
    let fences = instructions.iter().enumerate().filter(|(_, one)| is_fence(one));
    let fences: Vec<usize> = fences.map(|(index, _)| index).collect();
    if fences.is_empty() {
        return Ok(made);
    }
    // By address of a tensor map: what is stored into it.
    let mut stored: BTreeMap<MapAddress, BTreeSet<u32>> = BTreeMap::new();
    for fence in &fences {
        if let Some(address) = address(instructions, question, *fence)? {
            let words =
                DescriptorMaker { instructions, flow, question, work, address: &address }.words(*fence)?;
            stored.entry(address).or_default().extend(words);
        }
    }
    for copy in copies.keys().filter(|copy| instructions[**copy].mnemonic != Some(CONTROL)) {
        let Some((words, added)) = address(instructions, question, *copy)? else { continue };
        work.spend(stored.len())?;
        // A sum by another path, to which no tensor map was stored, is no address of the copy's.
        let is_its = |known: &&MapAddress| known.0 == words && !known.1.is_disjoint(&added);
        let its: BTreeSet<u32> =
            stored.keys().filter(is_its).flat_map(|known| &stored[known]).copied().collect();
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
    let added = question.starts(index, register)?.into_iter().map(|value| value.constant).collect();
    Ok((!words.is_empty()).then_some((words, added)))
}

/// A store of eight bytes: where it lies in shared memory, `None` in the tensor map itself, and what is stored.
type MapStore = (Option<i64>, usize, BTreeSet<u32>);

struct DescriptorMaker<'m, 'q> {
    instructions: &'m [SassInstruction],
    flow: &'m FlowGraph,
    question: &'m mut ValueQuery<'q>,
    work: &'m AnalysisBudget,
    address: &'m MapAddress,
}

impl DescriptorMaker<'_, '_> {
    /// Words that are stored into the tensor map that a fence makes known.
    fn words(&mut self, fence: usize) -> Result<BTreeSet<u32>, TooMuchWork> {
        let since = self.since_the_fence_before(fence)?;
        let mut found: Vec<MapStore> = Vec::new();
        for index in since {
            found.extend(self.stored(index)?);
        }
        // The map itself, else the first address in shared memory: an address is a tensor map's first word. The last of
        // several stores there is the one that stays.
        let Some(address) = found.iter().map(|(address, ..)| *address).min() else {
            return Ok(BTreeSet::new());
        };
        let there = found.into_iter().filter(|(other, ..)| *other == address);
        let last = there.max_by_key(|(_, index, _)| (*index < fence, *index));
        Ok(last.map(|(.., words)| words).unwrap_or_default())
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
        Ok((!words.is_empty()).then_some((address, index, words)))
    }

    /// True if an instruction stores to the first word of the tensor map.
    fn is_the_map(&mut self, index: usize, instruction: &SassInstruction) -> Result<bool, TooMuchWork> {
        let Some(memory) = instruction.memory else { return Ok(false) };
        let Some(register) = memory.address else { return Ok(false) };
        let words = self.question.bank_words(index, register)?;
        let offset = i64::from(memory.offset);
        let starts = self.question.starts(index, register)?;
        let added: BTreeSet<i64> = starts.into_iter().map(|value| value.constant + offset).collect();
        Ok((words, added) == *self.address)
    }
}
