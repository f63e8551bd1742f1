//! The code of a cubin, with and without some of its memory instructions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::cubin::{CodeSection, Cubin, CubinError};
use stallmap_sass::decode;
use stallmap_sass::instruction::{MemoryEffect, MemorySpace, SassInstruction};
use stallmap_sass::line::LineTable;
use stallmap_sass::slice::analysis::{SectionAnalysis, analyze};
use stallmap_sass::slice::graph::FlowGraph;
use stallmap_sass::slice::work::AnalysisBudget;
use stallmap_sass::word::{INSTRUCTION_BYTES, InstructionWord, Sm};

use crate::ablate::calls::SectionCalls;
use crate::ablate::reach::{self, OmissionRefusal};

/// The bits of an instruction's guard: the number of a predicate, and its negation. All set: `@!PT`, which lets it
/// execute in no lane. It is issued as before, takes its cycles, and releases its scoreboard at once.
const GUARD_BITS: u16 = 0xf000;

/// An instruction: its function's mangled name, and its offset in bytes from the function's start.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstructionAddress {
    /// Function.
    pub function: String,
    /// Offset.
    pub pc: u32,
}

/// The effect of instructions that are left out, other than on time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OmissionEffect {
    /// True if a result reaches a branch.
    pub branch: bool,
    /// Loads of device memory whose addresses depend on a result.
    pub loads: BTreeSet<InstructionAddress>,
}

/// A cubin whose functions can be found.
#[derive(Debug)]
pub struct FunctionCubin<'a> {
    bytes: &'a [u8],
    cubin: Cubin,
    lines: LineTable,
    /// Sections that were decoded, by their position.
    decoded: BTreeMap<usize, DecodedSection>,
    /// Sections whose copies were followed, by their position.
    followed: BTreeMap<usize, SectionFills>,
}

/// A copy between device and shared memory that no instrument observes, and the parameters that lead to its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceCopy {
    /// The copy.
    pub instruction: InstructionAddress,
    /// True if it writes device memory.
    pub is_store: bool,
    /// Offsets among the kernel's parameters of its tensor map, or of pointers. Empty where it was not followed.
    pub parameters: Vec<u32>,
}

/// The copies of a section, and the instructions that fill the shared memory that others read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SectionFills {
    /// By read: the copies, the loads whose results are stored, else the stores.
    by_read: BTreeMap<usize, BTreeSet<usize>>,
    /// By read of these: the stores that put it there.
    stores_of: BTreeMap<usize, BTreeSet<usize>>,
    /// By copy into shared memory: offsets of parameters.
    copies: BTreeMap<usize, Vec<u32>>,
    /// By copy out of shared memory: the same.
    stores: BTreeMap<usize, Vec<u32>>,
}

impl SectionFills {
    /// True if any of these instructions copies into shared memory.
    pub(crate) fn any_copy(&self, instructions: &BTreeSet<usize>) -> bool {
        self.copies.keys().any(|copy| instructions.contains(copy))
    }

    /// True if a read of shared memory may find what some copies and loads brought, or some stores wrote.
    pub(crate) fn bring_others(
        &self,
        read: usize,
        loads: &BTreeSet<usize>,
        stores: &BTreeSet<usize>,
    ) -> bool {
        let Some(fills) = self.by_read.get(&read) else { return !stores.is_empty() || self.any_copy(loads) };
        let by_stores = self.stores_of.get(&read).is_some_and(|its| !its.is_disjoint(stores));
        by_stores || !fills.is_disjoint(loads)
    }
}

/// The instructions of a section.
#[derive(Debug)]
pub(crate) struct DecodedSection {
    pub(crate) instructions: Vec<SassInstruction>,
    pub(crate) flow: FlowGraph,
    pub(crate) calls: SectionCalls,
}

impl<'a> FunctionCubin<'a> {
    /// Reads a cubin.
    ///
    /// # Errors
    /// Bytes that are no cubin.
    pub fn read(bytes: &'a [u8]) -> Result<Self, CubinError> {
        let cubin = Cubin::read(bytes)?;
        // A cubin without lines has no experiments on lines.
        let lines = LineTable::read(bytes, &cubin).unwrap_or_default();
        Ok(Self { bytes, cubin, lines, decoded: BTreeMap::new(), followed: BTreeMap::new() })
    }

    /// The effect of leaving some instructions out.
    ///
    /// # Errors
    /// The reason that they cannot be left out.
    pub fn effect(
        &mut self,
        addresses: &BTreeSet<InstructionAddress>,
    ) -> Result<OmissionEffect, OmissionRefusal> {
        let mut effect = OmissionEffect::default();
        for (section, left_out) in self.by_section(addresses)? {
            let reached = reach::reached(self.decoded(section)?, &left_out)?;
            effect.branch |= reached.branch;
            effect.loads.extend(reached.loads.iter().filter_map(|&index| self.address(section, index)));
        }
        Ok(effect)
    }

    /// The effect of other values behind the reads of some instructions.
    ///
    /// # Errors
    /// The reason that these values would change the work.
    pub fn effect_of_values(
        &mut self,
        reads: &BTreeSet<InstructionAddress>,
    ) -> Result<OmissionEffect, OmissionRefusal> {
        let mut effect = OmissionEffect::default();
        for (section, reads) in self.by_section(reads)? {
            self.decode(section)?;
            self.follow(section)?;
            let (Some(code), Some(fills)) = (self.decoded.get(&section), self.followed.get(&section)) else {
                return Err(OmissionRefusal::NotFound);
            };
            let reached = reach::reached_by_other_values(code, fills, &reads)?;
            effect.branch |= reached.branch;
            effect.loads.extend(reached.loads.iter().filter_map(|&index| self.address(section, index)));
        }
        Ok(effect)
    }

    /// The copies by tensor maps and by bulk copies in the section of a function.
    ///
    /// # Errors
    /// Code that cannot be followed.
    pub fn source_copies(&mut self, function: &str) -> Result<Vec<SourceCopy>, OmissionRefusal> {
        let start = InstructionAddress { function: function.to_owned(), pc: 0 };
        let (section, _) = self.find(&start).ok_or(OmissionRefusal::NotFound)?;
        self.decode(section)?;
        self.follow(section)?;
        let (Some(code), Some(fills)) = (self.decoded.get(&section), self.followed.get(&section)) else {
            return Err(OmissionRefusal::NotFound);
        };
        let is_observed = |index: usize| code.instructions[index].mnemonic == Some("LDGSTS");
        let copy = |(&index, parameters): (&usize, &Vec<u32>), is_store: bool| {
            let instruction = self.address(section, index).filter(|_| !is_observed(index))?;
            Some(SourceCopy { instruction, is_store, parameters: parameters.clone() })
        };
        let loads = fills.copies.iter().filter_map(|one| copy(one, false));
        Ok(loads.chain(fills.stores.iter().filter_map(|one| copy(one, true))).collect())
    }

    fn by_section(
        &self,
        addresses: &BTreeSet<InstructionAddress>,
    ) -> Result<BTreeMap<usize, BTreeSet<usize>>, OmissionRefusal> {
        let mut by_section: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for address in addresses {
            let (section, offset) = self.find(address).ok_or(OmissionRefusal::NotFound)?;
            by_section.entry(section).or_default().insert((offset / INSTRUCTION_BYTES) as usize);
        }
        Ok(by_section)
    }

    /// Follows the copies of a section, once.
    fn follow(&mut self, position: usize) -> Result<(), OmissionRefusal> {
        let section = self.cubin.sections.get(position).ok_or(OmissionRefusal::NotFound)?;
        let code = self.bytes.get(section.bytes.clone()).ok_or(OmissionRefusal::NotFound)?;
        if let Entry::Vacant(vacant) = self.followed.entry(position) {
            vacant.insert(SectionFills::new(&analyze(code, section, self.cubin.sm)?));
        }
        Ok(())
    }

    /// The innermost source line of an instruction: file and line.
    pub fn line(&self, address: &InstructionAddress) -> Option<(String, u32)> {
        let (section, offset) = self.find(address)?;
        let frame = self.lines.frames(section, offset).next()?;
        (frame.line > 0).then(|| (frame.file.to_owned(), frame.line))
    }

    /// The cubin without some instructions. Those that are not in it are left as they are.
    pub fn without(&self, addresses: &BTreeSet<InstructionAddress>) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        for address in addresses {
            let Some((section, offset)) = self.find(address) else { continue };
            let at = self.cubin.sections[section].bytes.start + offset as usize;
            if let Some(low) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
                *low = (u16::from_le_bytes(*low) | GUARD_BITS).to_le_bytes();
            }
        }
        bytes
    }

    /// The section of an instruction, and its offset there.
    fn find(&self, address: &InstructionAddress) -> Option<(usize, u32)> {
        self.cubin.sections.iter().enumerate().find_map(|(position, section)| {
            let function = section.functions.iter().find(|function| function.name == address.function)?;
            let offset = function.offset.checked_add(address.pc)?;
            let is_inside = address.pc < function.bytes && (offset as usize) < section.bytes.len();
            (is_inside && address.pc.is_multiple_of(INSTRUCTION_BYTES)).then_some((position, offset))
        })
    }

    /// The instruction at an index of a section.
    fn address(&self, section: usize, index: usize) -> Option<InstructionAddress> {
        let offset = u32::try_from(index).ok()?.checked_mul(INSTRUCTION_BYTES)?;
        let function = self.cubin.sections.get(section)?.function_at(offset)?;
        Some(InstructionAddress { function: function.name.clone(), pc: offset - function.offset })
    }

    fn decoded(&mut self, position: usize) -> Result<&DecodedSection, OmissionRefusal> {
        self.decode(position)?;
        self.decoded.get(&position).ok_or(OmissionRefusal::NotFound)
    }

    /// Decodes a section, once.
    fn decode(&mut self, position: usize) -> Result<(), OmissionRefusal> {
        let section = self.cubin.sections.get(position).ok_or(OmissionRefusal::NotFound)?;
        let code = self.bytes.get(section.bytes.clone()).ok_or(OmissionRefusal::NotFound)?;
        if let Entry::Vacant(vacant) = self.decoded.entry(position) {
            vacant.insert(DecodedSection::new(code, section, self.cubin.sm)?);
        }
        Ok(())
    }
}

impl SectionFills {
    fn new(analysis: &SectionAnalysis) -> Self {
        let index = |offset: u32| (offset / INSTRUCTION_BYTES) as usize;
        let mut fills = Self::default();
        for fill in &analysis.fills {
            fills.by_read.entry(index(fill.offset)).or_default().insert(index(fill.fill));
        }
        for (read, store) in &analysis.fill_stores {
            fills.stores_of.entry(index(*read)).or_default().insert(index(*store));
        }
        for (at, instruction) in analysis.instructions.iter().enumerate() {
            match instruction.memory.map(|memory| (memory.kind, memory.space)) {
                Some((MemoryEffect::CopyIn, MemorySpace::Global)) => {
                    fills.copies.insert(at, Vec::new());
                }
                Some((MemoryEffect::CopyOut, _)) => {
                    fills.stores.insert(at, Vec::new());
                }
                _ => {}
            }
        }
        let maps = analysis.tensor_maps.iter().map(|map| (map.offset, map.parameter_offset));
        let pointers = analysis.pointers.iter().map(|pointer| (pointer.offset, pointer.parameter_offset));
        for (copy, parameter) in maps.chain(pointers) {
            let parameters = fills.copies.get_mut(&index(copy)).or(fills.stores.get_mut(&index(copy)));
            if let Some(parameters) = parameters {
                parameters.push(parameter);
            }
        }
        fills
    }
}

impl DecodedSection {
    pub(crate) fn new(code: &[u8], section: &CodeSection, sm: Sm) -> Result<Self, OmissionRefusal> {
        let words = code.as_chunks::<16>().0.iter();
        let instructions: Vec<_> = words.map(|word| decode(InstructionWord::from_bytes(*word), sm)).collect();
        let flow =
            FlowGraph::new(&instructions, section, &AnalysisBudget::for_instructions(instructions.len()))?;
        let calls = SectionCalls::new(&instructions, &flow, section);
        Ok(Self { instructions, flow, calls })
    }
}
