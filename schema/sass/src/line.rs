//! Source lines of instructions, with the functions that were inlined around them.
//!
//! `.debug_line` is DWARF's, with three habits of NVIDIA's. Every kernel begins at address 0 until relocations are
//! applied. A row may name the function that it was inlined from, and the row of the call. `-lineinfo` writes no other
//! debug information, which leaves this as the only record of inlined functions.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::cubin::{CodeSection, Cubin, CubinError};
use crate::elf::ElfReader;
use names::LineNames;
use program::LineRows;

mod names;
mod program;

/// Calls around an instruction that are followed.
const MAX_FRAMES: usize = 128;

/// The lines of a cubin's instructions. Empty for one that was compiled without `-lineinfo`.
#[derive(Clone, Debug, Default)]
pub struct LineTable {
    rows: Vec<LineTableRow>,
    /// Per section of the cubin.
    starts: Vec<RowStarts>,
    names: LineNames,
    /// The unreadable parts, with reasons. The rest is valid.
    pub damage: Vec<String>,
}

/// One line of the source, on the way from an instruction out to its kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineFrame<'a> {
    /// The inlined function that holds the line, demangled. None for the function whose code it is.
    pub function: Option<&'a str>,
    /// The file's path as the compiler stored it. Empty where it is not known.
    pub file: &'a str,
    /// The line, from 1 on; 0 where the compiler names none.
    pub line: u32,
}

/// A row's position among all rows.
type RowId = u32;
/// First offset of each row. `None`: the lines end there.
type RowStarts = Vec<(u32, Option<RowId>)>;

/// Fields of a row of the table.
#[derive(Clone, Copy, Debug)]
struct LineTableRow {
    /// Index among the names' files.
    file: u32,
    line: u32,
    /// The row of the call by which this line was inlined: always an earlier one.
    call: Option<RowId>,
    /// Index among the names' functions.
    function: Option<u32>,
}

impl LineTable {
    /// Reads the lines of a cubin. What is damaged in them is named in [`LineTable::damage`] and missing.
    pub fn read(bytes: &[u8], cubin: &Cubin) -> Result<Self, CubinError> {
        // As with cubins: a panic of readers on malformed input ends here.
        catch_unwind(AssertUnwindSafe(|| parse(bytes, cubin))).unwrap_or(Err(CubinError::Malformed))
    }

    /// True if it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The lines of an instruction, innermost first. `section` is an index into the cubin's sections.
    pub fn frames(&self, section: usize, offset: u32) -> impl Iterator<Item = LineFrame<'_>> {
        let row = |id: RowId| self.rows.get(id as usize);
        let first = self.row_at(section, offset).and_then(row);
        let rows = std::iter::successors(first, move |inner| inner.call.and_then(row));
        rows.take(MAX_FRAMES).map(|row| self.frame(row))
    }

    /// The lines of all instructions in a range of a section's offsets, with those around them.
    pub fn all_frames(&self, section: usize, offsets: Range<u32>) -> impl Iterator<Item = LineFrame<'_>> {
        let starts = self.starts.get(section).map(Vec::as_slice).unwrap_or_default();
        let starts = starts.iter().map(|(start, _)| *start).filter(move |start| offsets.contains(start));
        starts.flat_map(move |start| self.frames(section, start))
    }

    fn row_at(&self, section: usize, offset: u32) -> Option<RowId> {
        let starts = self.starts.get(section)?;
        let behind = starts.partition_point(|(start, _)| *start <= offset);
        starts.get(behind.checked_sub(1)?)?.1
    }

    fn frame(&self, row: &LineTableRow) -> LineFrame<'_> {
        let function = row.function.and_then(|function| self.names.function(function));
        LineFrame { function, file: self.names.file(row.file), line: row.line }
    }
}

fn parse(bytes: &[u8], cubin: &Cubin) -> Result<LineTable, CubinError> {
    let elf = ElfReader::read(bytes).map_err(|cause| CubinError::Elf { cause })?;
    let Some(section) = elf.find(".debug_line") else { return Ok(LineTable::default()) };
    let Some(programs) = elf.section_bytes(section) else {
        let damage = vec!["its line table lies outside the file".to_owned()];
        return Ok(LineTable { damage, ..LineTable::default() });
    };
    let text = |name: &str| elf.find(name).and_then(|section| elf.section_bytes(section)).unwrap_or_default();
    let sources = program::LineSections {
        programs: &relocated(&elf, section, programs, cubin),
        strings: text(".debug_str"),
        line_strings: text(".debug_line_str"),
    };
    // A function without lines of its own does not continue those of the function before it.
    let functions =
        |section: &CodeSection| section.functions.iter().map(|function| (function.offset, None)).collect();
    let starts = cubin.sections.iter().map(functions).collect();
    let LineRows { all: rows, mut starts, names, damage } = program::rows(&sources, starts);
    starts.iter_mut().for_each(keep_last);
    Ok(LineTable { rows, starts, names, damage })
}

/// A copy of the line programs whose addresses are (one more than the section's index, offset in it).
fn relocated(elf: &ElfReader<'_>, section: usize, programs: &[u8], cubin: &Cubin) -> Vec<u8> {
    /// `R_CUDA_64`: an address of eight bytes.
    const ADDRESS: u32 = 2;
    let mut programs = programs.to_vec();
    let Some(symbols) = elf.symbols() else { return programs };
    let sections = section_indices(elf, cubin);
    for relocation in elf.relocations(section).filter(|relocation| relocation.kind == ADDRESS) {
        let Some(symbol) = symbols.get(relocation.symbol) else { continue };
        let Some(index) = sections.get(&symbol.st_shndx) else { continue };
        let Ok(start) = usize::try_from(relocation.offset) else { continue };
        let Some(bytes) = programs.get_mut(start..).and_then(|rest| rest.first_chunk_mut::<8>()) else {
            continue;
        };
        let addend = relocation.addend.map_or_else(|| u64::from_le_bytes(*bytes), i64::cast_unsigned);
        let offset = symbol.st_value.wrapping_add(addend);
        *bytes = program::address(*index, offset).to_le_bytes();
    }
    programs
}

/// Sections of code: by index in the file, index in the cubin.
fn section_indices(elf: &ElfReader<'_>, cubin: &Cubin) -> BTreeMap<usize, usize> {
    let by_range: BTreeMap<_, _> = cubin
        .sections
        .iter()
        .enumerate()
        .map(|(index, section)| ((section.bytes.start, section.bytes.end), index))
        .collect();
    let indices = 0..elf.sections().len();
    indices
        .filter_map(|at| {
            let range = elf.range(at)?;
            Some((at, *by_range.get(&(range.start, range.end))?))
        })
        .collect()
}

/// Sorts rows by offset. Of those at one offset the last holds.
fn keep_last(starts: &mut RowStarts) {
    starts.sort_by_key(|(offset, _)| *offset);
    starts.dedup_by(|later, stored| {
        let same = later.0 == stored.0;
        if same {
            stored.1 = later.1;
        }
        same
    });
}
