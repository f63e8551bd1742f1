//! The code of a cubin, with and without some of its memory instructions.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::cubin::{CodeSection, Cubin, CubinError};
use stallmap_sass::decode;
use stallmap_sass::instruction::SassInstruction;
use stallmap_sass::line::LineTable;
use stallmap_sass::word::{INSTRUCTION_BYTES, InstructionWord, Sm};
use stallmap_slice::graph::FlowGraph;
use stallmap_slice::work::AnalysisBudget;

use crate::calls::SectionCalls;
use crate::reach::{self, OmissionRefusal};

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
        Ok(Self { bytes, cubin, lines, decoded: BTreeMap::new() })
    }

    /// The effect of leaving some instructions out.
    ///
    /// # Errors
    /// The reason that they cannot be left out.
    pub fn effect(
        &mut self,
        places: &BTreeSet<InstructionAddress>,
    ) -> Result<OmissionEffect, OmissionRefusal> {
        let mut by_section: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
        for place in places {
            let (section, offset) = self.find(place).ok_or(OmissionRefusal::NotFound)?;
            by_section.entry(section).or_default().insert((offset / INSTRUCTION_BYTES) as usize);
        }
        let mut effect = OmissionEffect::default();
        for (section, left_out) in by_section {
            let reached = reach::reached(self.decoded(section)?, &left_out)?;
            effect.branch |= reached.branch;
            effect.loads.extend(reached.loads.iter().filter_map(|&index| self.place(section, index)));
        }
        Ok(effect)
    }

    /// The innermost source line of an instruction: file and line.
    pub fn line(&self, place: &InstructionAddress) -> Option<(String, u32)> {
        let (section, offset) = self.find(place)?;
        let frame = self.lines.frames(section, offset).next()?;
        (frame.line > 0).then(|| (frame.file.to_owned(), frame.line))
    }

    /// The cubin without some instructions. Those that are not in it are left as they are.
    pub fn without(&self, places: &BTreeSet<InstructionAddress>) -> Vec<u8> {
        let mut bytes = self.bytes.to_vec();
        for place in places {
            let Some((section, offset)) = self.find(place) else { continue };
            let at = self.cubin.sections[section].bytes.start + offset as usize;
            if let Some(low) = bytes.get_mut(at..).and_then(|rest| rest.first_chunk_mut::<2>()) {
                *low = (u16::from_le_bytes(*low) | GUARD_BITS).to_le_bytes();
            }
        }
        bytes
    }

    /// The section of an instruction, and its offset there.
    fn find(&self, place: &InstructionAddress) -> Option<(usize, u32)> {
        self.cubin.sections.iter().enumerate().find_map(|(position, section)| {
            let function = section.functions.iter().find(|function| function.name == place.function)?;
            let offset = function.offset.checked_add(place.pc)?;
            let is_inside = place.pc < function.bytes && (offset as usize) < section.bytes.len();
            (is_inside && place.pc.is_multiple_of(INSTRUCTION_BYTES)).then_some((position, offset))
        })
    }

    /// The instruction at an index of a section.
    fn place(&self, section: usize, index: usize) -> Option<InstructionAddress> {
        let offset = u32::try_from(index).ok()?.checked_mul(INSTRUCTION_BYTES)?;
        let function = self.cubin.sections.get(section)?.function_at(offset)?;
        Some(InstructionAddress { function: function.name.clone(), pc: offset - function.offset })
    }

    fn decoded(&mut self, position: usize) -> Result<&DecodedSection, OmissionRefusal> {
        let section = self.cubin.sections.get(position).ok_or(OmissionRefusal::NotFound)?;
        let code = self.bytes.get(section.bytes.clone()).ok_or(OmissionRefusal::NotFound)?;
        match self.decoded.entry(position) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(DecodedSection::new(code, section, self.cubin.sm)?)),
        }
    }
}

impl DecodedSection {
    pub(crate) fn new(code: &[u8], section: &CodeSection, sm: Sm) -> Result<Self, OmissionRefusal> {
        let words = code.as_chunks::<16>().0.iter();
        let instructions: Vec<_> = words.map(|word| decode(InstructionWord::from_bytes(*word), sm)).collect();
        let flow = FlowGraph::new(&instructions, section, &AnalysisBudget::of(instructions.len()))?;
        let calls = SectionCalls::new(&instructions, &flow, section);
        Ok(Self { instructions, flow, calls })
    }
}
