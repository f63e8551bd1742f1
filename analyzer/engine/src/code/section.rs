//! A section of code in a capture: its bytes, its functions, its analysis.

use std::ops::Range;
use std::sync::Arc;

use stallmap_sass::cubin::CodeSection;
use stallmap_sass::instruction::SassInstruction;
use stallmap_sass::line::{LineFrame, LineTable};
use stallmap_sass::word::{INSTRUCTION_BYTES, InstructionWord, Sm};
use stallmap_schema::id::{FunctionId, ModuleId, Pc};

use super::findings::SectionFindings;

/// Version of the analysis: cache files of other versions are ignored.
const ANALYSIS_VERSION: &str = env!("STALLMAP_ANALYSIS_VERSION");

/// One section.
#[derive(Debug)]
pub struct SectionCode {
    /// The cubin that it is in.
    pub module_id: ModuleId,
    /// Its name there.
    pub name: String,
    /// Its architecture.
    pub sm: Sm,
    /// Its instructions.
    pub code: Vec<u8>,
    /// Its functions, by offset.
    pub functions: Vec<SectionFunction>,
    /// Its analysis.
    pub findings: Arc<SectionFindings>,
    /// The source lines of its instructions.
    pub lines: SectionLines,
}

/// The lines of one section of a cubin.
#[derive(Clone, Debug)]
pub struct SectionLines {
    table: Arc<LineTable>,
    section: usize,
}

impl SectionLines {
    /// The lines of the section at an index in its cubin.
    pub(super) fn new(table: Arc<LineTable>, section: usize) -> Self {
        Self { table, section }
    }

    /// The lines of the instruction at an offset, innermost first.
    pub fn at(&self, offset: u32) -> impl Iterator<Item = LineFrame<'_>> {
        self.table.frames(self.section, offset)
    }
}

/// A function in a section.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SectionFunction {
    /// The function.
    pub function_id: FunctionId,
    /// Mangled name.
    pub name: String,
    /// Offset in the section, bytes.
    pub offset: u32,
    /// Bytes of its own code.
    pub bytes: u32,
    /// True for a kernel.
    pub is_kernel: bool,
}

impl SectionCode {
    /// The function at an offset of the section, and the pc in it.
    pub fn location(&self, offset: u32) -> Option<(FunctionId, Pc)> {
        let function = self.function_at(offset)?;
        Some((function.function_id, Pc(offset - function.offset)))
    }

    /// The function that an offset in the section is in: the last that begins before it.
    pub fn function_at(&self, offset: u32) -> Option<&SectionFunction> {
        let behind = self.functions.partition_point(|function| function.offset <= offset);
        behind.checked_sub(1).and_then(|index| self.functions.get(index))
    }

    /// The offsets for which [`Self::function_at`] is a function.
    pub fn span(&self, function: &SectionFunction) -> Range<u32> {
        let behind = self.functions.partition_point(|other| other.offset <= function.offset);
        function.offset..self.functions.get(behind).map_or(u32::MAX, |next| next.offset)
    }

    /// The kernel whose section it is.
    pub fn kernel(&self) -> Option<&SectionFunction> {
        self.functions.iter().find(|function| function.is_kernel)
    }

    /// Number of instructions.
    pub fn instruction_count(&self) -> usize {
        self.code.len() / INSTRUCTION_BYTES as usize
    }

    /// The offsets of a function's instructions.
    pub fn offsets(&self, function: &SectionFunction) -> impl Iterator<Item = u32> + use<> {
        let end = u64::from(function.offset) + u64::from(function.bytes);
        let end = u32::try_from(end.min(self.code.len() as u64)).unwrap_or(u32::MAX);
        (function.offset..end).step_by(INSTRUCTION_BYTES as usize)
    }

    /// The instruction at an offset. `None` if incomplete.
    pub fn instruction(&self, offset: u32) -> Option<SassInstruction> {
        let bytes = self.code.get(offset as usize..)?.first_chunk()?;
        Some(stallmap_sass::decode(InstructionWord::from_bytes(*bytes), self.sm))
    }
}

/// Inputs of a section's analysis.
pub(super) fn key(code: &[u8], section: &CodeSection, sm: Sm) -> blake3::Hash {
    // All properties of the section except its location, including future ones. If their debug text changes with the
    // compiler, sections are analyzed once more.
    let facts = CodeSection { name: String::new(), bytes: 0..0, ..section.clone() };
    let facts = format!("{ANALYSIS_VERSION} {sm:?} {facts:?}");
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(facts.len() as u64).to_le_bytes());
    hasher.update(facts.as_bytes());
    hasher.update(code);
    hasher.finalize()
}
