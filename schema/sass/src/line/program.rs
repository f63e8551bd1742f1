//! Execution of line programs: rows, each with its first offset.

use gimli::{
    DebugLine, DebugLineOffset, EndianSlice, IncompleteLineProgram, LineInstruction, LineRow, LittleEndian,
    Reader,
};

use super::names::LineNames;
use super::{LineTableRow, RowId, RowStarts};

type SectionBytes<'a> = EndianSlice<'a, LittleEndian>;

/// The sections that lines are read from.
pub(super) struct LineSections<'a> {
    /// `.debug_line`, its addresses made by [`address`].
    pub(super) programs: &'a [u8],
    /// `.debug_str`.
    pub(super) strings: &'a [u8],
    /// `.debug_line_str`.
    pub(super) line_strings: &'a [u8],
}

/// All rows of a cubin.
#[derive(Default)]
pub(super) struct LineRows {
    pub(super) all: Vec<LineTableRow>,
    /// Per section: (offset, the row that holds from there on), in the programs' order.
    pub(super) starts: Vec<RowStarts>,
    pub(super) names: LineNames,
    pub(super) damage: Vec<String>,
}

/// The address of an offset in a section: addresses without relocation are in no section.
pub(super) fn address(section: usize, offset: u64) -> u64 {
    (section as u64 + 1) << 32 | offset & u64::from(u32::MAX)
}

/// The section and offset of an address.
fn section_offset(address: u64) -> Option<(usize, u32)> {
    let section = usize::try_from((address >> 32).checked_sub(1)?).ok()?;
    Some((section, u32::try_from(address & u64::from(u32::MAX)).ok()?))
}

/// Executes every program. One that is damaged ends early, and the next goes on where its length says.
pub(super) fn rows(sources: &LineSections<'_>, starts: Vec<RowStarts>) -> LineRows {
    let mut rows = LineRows { starts, ..LineRows::default() };
    let debug_line = DebugLine::new(sources.programs, LittleEndian);
    let mut offset = 0;
    while offset < sources.programs.len() {
        let program = match debug_line.program(DebugLineOffset(offset), ADDRESS_BYTES, None, None) {
            Ok(program) => program,
            Err(cause) => {
                rows.damage.push(format!("line table at {offset:#x}: {cause}"));
                break;
            }
        };
        let header = program.header();
        let length_bytes = header.format().initial_length_size();
        let next = offset.saturating_add(usize::from(length_bytes)).saturating_add(header.unit_length());
        if let Err(cause) = LineMachine::new(program, sources, &mut rows).run() {
            rows.damage.push(format!("line table at {offset:#x}: {cause}"));
        }
        offset = next;
    }
    rows
}

const ADDRESS_BYTES: u8 = 8;

/// A line program at work.
struct LineMachine<'a, 'r> {
    program: IncompleteLineProgram<SectionBytes<'a>>,
    rows: &'r mut LineRows,
    sources: &'r LineSections<'a>,
    registers: LineRow,
    /// Per file number of the program: its index among the names.
    files: Vec<u32>,
    /// The first row of the sequence.
    sequence: usize,
    /// The row of the call, and the function, that the next row is inlined by.
    inlined: Option<(RowId, Option<u32>)>,
}

impl<'a, 'r> LineMachine<'a, 'r> {
    fn new(
        program: IncompleteLineProgram<SectionBytes<'a>>,
        sources: &'r LineSections<'a>,
        rows: &'r mut LineRows,
    ) -> Self {
        let registers = LineRow::new(program.header());
        let files = rows.names.add_files(program.header(), sources);
        let sequence = rows.all.len();
        Self { program, rows, sources, registers, files, sequence, inlined: None }
    }

    fn run(mut self) -> gimli::Result<()> {
        /// NVIDIA's: the following rows were inlined.
        const INLINED: u8 = 0x90;
        let mut instructions = self.program.header().instructions();
        while let Some(instruction) = instructions.next_instruction(self.program.header())? {
            if let LineInstruction::UnknownExtended(opcode, operands) = instruction
                && opcode.0 == INLINED
            {
                self.inline(operands)?;
            } else if self.registers.execute(instruction, &mut self.program)? {
                self.emit();
            }
        }
        Ok(())
    }

    /// Operands: the number of the call's row in this sequence, from 1 on, and where the function's name is.
    fn inline(&mut self, mut operands: SectionBytes<'_>) -> gimli::Result<()> {
        let (call, name) = (operands.read_uleb128()?, operands.read_uleb128()?);
        let call =
            call.checked_sub(1).and_then(|call| self.sequence.checked_add(usize::try_from(call).ok()?));
        let known =
            call.filter(|call| *call < self.rows.all.len()).and_then(|call| RowId::try_from(call).ok());
        self.inlined = known.map(|call| (call, self.rows.names.add_function(self.sources.strings, name)));
        Ok(())
    }

    fn emit(&mut self) {
        let row = if self.registers.end_sequence() { None } else { Some(self.row()) };
        let id = row.and_then(|_| RowId::try_from(self.rows.all.len()).ok());
        self.rows.all.extend(row);
        if let Some((section, offset)) = section_offset(self.registers.address())
            && let Some(starts) = self.rows.starts.get_mut(section)
        {
            starts.push((offset, id));
        }
        if self.registers.end_sequence() {
            self.sequence = self.rows.all.len();
            self.inlined = None;
        }
        self.registers.reset(self.program.header());
    }

    fn row(&self) -> LineTableRow {
        let file = usize::try_from(self.registers.file_index()).ok();
        let file = file.and_then(|file| self.files.get(file)).copied().unwrap_or_default();
        let line = self.registers.line().and_then(|line| u32::try_from(line.get()).ok()).unwrap_or_default();
        LineTableRow {
            file,
            line,
            call: self.inlined.map(|(call, _)| call),
            function: self.inlined.and_then(|inlined| inlined.1),
        }
    }
}
