//! A copy of a cubin whose kernel runs other code before its first instruction, and before its exits.
//!
//! ```text
//! kernel:  BRA begin          was its first instruction
//!     next: ...
//!          @P BRA end         was @P EXIT, for each exit
//! begin:   (other code)       its stores are waited for: registers are the kernel's from here on
//!          first instruction
//!          BRA next
//! end:     MEMBAR.SC.CTA      the kernel's stores have read their registers
//!          (other code)
//!          EXIT
//! ```
//!
//! Nothing is alive before a kernel's first instruction, nor at an exit: the other code uses any register. It is appended to
//! the kernel's section, and all sections behind it move.

mod markers;

use goblin::elf::Elf;

use crate::cubin::{CodeSection, Cubin};
use crate::decode::decode;
use crate::instruction::SassInstruction;
use crate::word::{InstructionWord, Sm};
use markers::MarkerPlan;
pub use markers::{EVENT_BYTES, MARKER_BITS, WarpMarker};

/// Instructions by their lowest twelve bits: family and form.
mod opcode {
    pub(super) const NOP: u128 = 0x918;
    pub(super) const BRANCH: u128 = 0x947;
    pub(super) const EXIT: u128 = 0x94d;
    pub(super) const STORE: u128 = 0x986;
    /// A store to shared memory. It ends the code for a begin, and is left out of copies: its registers may be used.
    pub(super) const SHARED_STORE: u128 = 0x988;
    /// Operations on the flow of control, whose meaning may depend on where they are.
    pub(super) const CONTROL: std::ops::Range<u128> = 0x940..0x960;
    /// Calls and branches with an offset.
    pub(super) const RELATIVE: [u128; 2] = [0x944, BRANCH];
}

/// An unguarded branch to itself, as the compiler ends a function.
const BRANCH_TO_ITSELF: u128 = 0x000f_c000_0383_ffff_ffff_fffc_00fc_7947;
/// `MEMBAR.SC.CTA`. It sets barrier 0 when it is done.
const FENCE: u128 = 0x0001_ec00_0000_0000_0000_0000_0000_7992;
/// A NOP that waits for nothing and sets no barrier, without the cycles to the next instruction.
const NO_OPERATION: u128 = 0x000f_c000_0000_0000_0000_0000_0000_7918;
/// The bits of an instruction with its waits and the cycles to the next one.
const SCHEDULE: u128 = ALL_BARRIERS << WAIT_SHIFT | 0x1f << 105;
const PADDING: u128 = NO_OPERATION;

/// An unconditional guard: the predicate that is always true.
const ALWAYS: u128 = 7;
const GUARD_SHIFT: u32 = 12;
const GUARD_MASK: u128 = 0xf;
/// Barriers that an instruction waits for before it is issued.
const WAIT_SHIFT: u32 = 116;
const ALL_BARRIERS: u128 = 0x3f;
/// The barrier that an instruction sets when it has read its registers. 7: none.
const READ_SHIFT: u32 = 113;
const READ_MASK: u128 = 7;

/// Bytes of an instruction.
const INSTRUCTION: usize = 16;
/// Bytes that a code section's size and offset are multiples of.
const ALIGNMENT: usize = 128;

/// The architecture whose encoding of branches is written here.
const ARCHITECTURE: Sm = Sm(90);

/// Bytes of headers and symbols in ELF files of 64 bits, and offsets of their fields.
mod elf {
    pub(super) const PROGRAM_HEADERS: usize = 0x20;
    pub(super) const SECTION_HEADERS: usize = 0x28;
    pub(super) const SECTION_BYTES: usize = 64;
    pub(super) const SECTION_OFFSET: usize = 0x18;
    pub(super) const SECTION_SIZE: usize = 0x20;
    pub(super) const SECTION_INFO: usize = 0x2c;
    pub(super) const PROGRAM_BYTES: usize = 56;
    pub(super) const PROGRAM_OFFSET: usize = 0x08;
    pub(super) const PROGRAM_FILE_SIZE: usize = 0x20;
    pub(super) const PROGRAM_MEMORY_SIZE: usize = 0x28;
    pub(super) const SYMBOL_BYTES: usize = 24;
    pub(super) const SYMBOL_SIZE: usize = 0x10;
}

/// Code for the begin and the end of a kernel.
#[derive(Clone, Debug)]
pub struct SplicedCode {
    begin: Vec<u128>,
    end: Vec<u128>,
    registers: u32,
    /// Bytes of a warp's ring of events. `None` where warps note no moments.
    ring_bytes: Option<u32>,
}

/// A copy of a cubin with a kernel that runs other code, too.
#[derive(Clone, Debug)]
pub struct SplicedKernel {
    /// The cubin.
    pub cubin: Vec<u8>,
    /// The moments that its warps note, by number.
    pub markers: Vec<WarpMarker>,
    /// Moments that are not noted: no registers were free.
    pub unmarked: u32,
    /// General registers that a lane of the copy needs.
    pub registers: u32,
}

impl SplicedCode {
    /// Reads two compiled kernels. All lanes of a warp meet at the last exit of the first one: it has no other.
    ///
    /// # Errors
    /// Code of another form.
    pub fn read(bytes: &[u8], begin: &str, end: &str) -> Result<Self, String> {
        let cubin = Cubin::read(bytes).map_err(|error| error.to_string())?;
        let section = |name: &str| {
            let found = section_of(&cubin, name).map(|(_, section)| section);
            found.ok_or_else(|| format!("it has no {name}"))
        };
        let (enter, exit) = (section(begin)?, section(end)?);
        let begin = body(bytes, enter).ok_or("its code does not end as expected")?;
        let end = body(bytes, exit).ok_or("its code does not end as expected")?;
        // A second exit would make a warp diverge before the kernel begins.
        let exits = begin.iter().filter(|word| is(**word, opcode::EXIT)).count();
        if exits != 1 || !end.last().is_some_and(|word| is(*word, opcode::EXIT)) {
            return Err("its code has other exits than expected".to_owned());
        }
        let registers = enter.registers.max(exit.registers).ok_or("its registers are not known")?;
        Ok(Self { begin, end, registers, ring_bytes: None })
    }

    /// Lets warps note moments in rings of so many bytes, a power of two. The begin stores the address of a warp's ring.
    ///
    /// # Errors
    /// Code without such a store, or with branches.
    pub fn with_rings(mut self, ring_bytes: u32) -> Result<Self, String> {
        let stores = self.begin.iter().filter(|word| is(**word, opcode::SHARED_STORE)).count();
        let branches = self.begin.iter().any(|word| is(*word, opcode::BRANCH));
        if stores != 1 || branches || !ring_bytes.is_power_of_two() {
            return Err("its code has another form than expected".to_owned());
        }
        self.ring_bytes = Some(ring_bytes);
        Ok(self)
    }
}

/// The instructions of a compiled function up to its last exit.
fn body(bytes: &[u8], section: &CodeSection) -> Option<Vec<u128>> {
    let mut words: Vec<u128> = words(bytes.get(section.bytes.clone())?).collect();
    while words.last().is_some_and(|word| is(*word, opcode::NOP)) {
        words.pop();
    }
    let last = words.pop()?;
    (is(last, opcode::BRANCH) && words.last().is_some_and(|word| is(*word, opcode::EXIT))).then_some(words)
}

fn words(code: &[u8]) -> impl Iterator<Item = u128> {
    code.as_chunks::<INSTRUCTION>().0.iter().map(|word| u128::from_le_bytes(*word))
}

fn is(word: u128, opcode: u128) -> bool {
    word & 0xfff == opcode
}

/// The code section of a kernel, with its position among the cubin's code sections.
fn section_of<'a>(cubin: &'a Cubin, kernel: &str) -> Option<(usize, &'a CodeSection)> {
    let is_its = |section: &CodeSection| {
        section.functions.iter().any(|function| function.name == kernel && function.offset == 0)
    };
    cubin.sections.iter().enumerate().find(|(_, section)| is_its(section))
}

/// A copy of a cubin in which a kernel runs other code at its begin and its end.
///
/// # Errors
/// The reason why there is none.
pub fn spliced(bytes: &[u8], kernel: &str, other: &SplicedCode) -> Result<SplicedKernel, &'static str> {
    let cubin = Cubin::read(bytes).map_err(|_| "its cubin cannot be read")?;
    if cubin.sm != ARCHITECTURE {
        return Err("code of its architecture cannot be changed");
    }
    let (_, section) = section_of(&cubin, kernel).ok_or("its cubin has no such kernel")?;
    let code: Vec<u128> = bytes.get(section.bytes.clone()).map(words).into_iter().flatten().collect();
    let instructions: Vec<SassInstruction> =
        code.iter().map(|word| decode(InstructionWord(*word), cubin.sm)).collect();
    let plan =
        other.ring_bytes.map(|ring_bytes| MarkerPlan::new(&instructions, section, ring_bytes)).transpose()?;
    let held = section.registers.unwrap_or(0);
    let needed = plan.as_ref().map_or(held, |plan| plan.needed.max(other.registers));
    // Registers are given in units of eight.
    if section.registers.is_some() && needed.next_multiple_of(8) < other.registers {
        return Err("it has fewer registers than the code needs");
    }
    let code = changed(&code, section, other, plan.as_ref())?;
    let mut copy = grown(bytes, section, &code).ok_or("its cubin has another form than expected")?;
    if needed > held {
        set_registers(&mut copy, kernel, needed).ok_or("its cubin has another form than expected")?;
    }
    Ok(SplicedKernel {
        cubin: copy,
        markers: plan.iter().flat_map(MarkerPlan::markers).collect(),
        unmarked: plan.map_or(0, |plan| plan.unmarked),
        registers: needed,
    })
}

/// The code of a kernel's section with other code.
fn changed(
    code: &[u128],
    section: &CodeSection,
    other: &SplicedCode,
    plan: Option<&MarkerPlan>,
) -> Result<Vec<u128>, &'static str> {
    let first = *code.first().ok_or("its cubin has no such kernel")?;
    if opcode::CONTROL.contains(&(first & 0xfff)) || section.references.contains_key(&0) {
        return Err("its first instruction cannot move");
    }
    let returns = (0..).zip(code).any(|(at, word)| {
        opcode::RELATIVE.iter().any(|relative| is(*word, *relative)) && target(at, *word) == 0
    });
    if returns {
        return Err("it branches to its first instruction");
    }
    let mut changed = code.to_vec();
    let begin = changed.len();
    changed[0] = branch(0, begin, ALWAYS, 0);
    let (_, body) = other.begin.split_last().ok_or("it has fewer registers than the code needs")?;
    for word in body {
        match plan {
            Some(plan) if is(*word, opcode::SHARED_STORE) => {
                let low = InstructionWord(*word).byte(32);
                changed.extend(plan.begin((low, low + 1), *word >> WAIT_SHIFT & ALL_BARRIERS));
            }
            // What is behind it may rely on its waits.
            None if is(*word, opcode::SHARED_STORE) => changed.push(NO_OPERATION | *word & SCHEDULE),
            _ if is(*word, opcode::STORE) => changed.push(says_when_read(*word)),
            _ => changed.push(*word),
        }
    }
    changed.push(first);
    let back = changed.len();
    changed.push(branch(back, 1, ALWAYS, ALL_BARRIERS));
    let end = changed.len();
    changed.push(FENCE | ALL_BARRIERS << WAIT_SHIFT);
    let mut rest = other.end.iter();
    changed.extend(rest.next().map(|word| word | ALL_BARRIERS << WAIT_SHIFT));
    changed.extend(rest);
    for (at, word) in changed.iter_mut().enumerate().take(begin) {
        if is(*word, opcode::EXIT) {
            *word = branch(at, end, *word >> GUARD_SHIFT & GUARD_MASK, ALL_BARRIERS);
        }
    }
    if let Some(plan) = plan {
        plan.apply(&mut changed);
    }
    changed.push(BRANCH_TO_ITSELF);
    let whole = changed.len().next_multiple_of(ALIGNMENT / INSTRUCTION);
    changed.resize(whole, PADDING);
    Ok(changed)
}

/// Sets the general registers of a kernel's lanes: in its section's header, and in the information for the driver.
fn set_registers(bytes: &mut [u8], kernel: &str, registers: u32) -> Option<()> {
    let parsed = Elf::parse(bytes).ok()?;
    let section = format!(".text.{kernel}");
    let headers = usize::try_from(parsed.header.e_shoff).ok()?;
    let name = |offset| parsed.shdr_strtab.get_at(offset);
    let number = parsed.section_headers.iter().position(|header| name(header.sh_name) == Some(&section))?;
    let symbol =
        parsed.syms.iter().position(|symbol| parsed.strtab.get_at(symbol.st_name) == Some(kernel))?;
    let info = parsed.section_headers.iter().find(|header| name(header.sh_name) == Some(".nv.info"))?;
    let range = info.file_range()?;
    let record = [0x0008_2f04, u32::try_from(symbol).ok()?].map(u32::to_le_bytes).concat();
    let at = bytes.get(range.clone())?.windows(record.len()).position(|part| part == record)?;
    let at = range.start + at + record.len();
    *bytes.get_mut(at..)?.first_chunk_mut()? = registers.to_le_bytes();
    let field = headers + number * elf::SECTION_BYTES + elf::SECTION_INFO + 3;
    *bytes.get_mut(field)? = u8::try_from(registers).ok()?;
    Some(())
}

/// A store that sets barrier 0 when it has read its registers, unless it sets one already.
fn says_when_read(word: u128) -> u128 {
    let has_none = word >> READ_SHIFT & READ_MASK == READ_MASK;
    if has_none { word & !(READ_MASK << READ_SHIFT) } else { word }
}

/// A branch at an instruction to another one, by their numbers. Offsets are in units of four bytes from the next one: eight
/// bits from bit 16 on, and 48 from bit 34 on.
fn branch(at: usize, to: usize, guard: u128, waits: u128) -> u128 {
    let offset = (to.cast_signed() - at.cast_signed() - 1) * 4;
    let offset = (offset as i128).cast_unsigned();
    let cleared = BRANCH_TO_ITSELF
        & !(0xff << 16 | OFFSET_MASK << 34 | GUARD_MASK << GUARD_SHIFT | ALL_BARRIERS << WAIT_SHIFT);
    cleared
        | (offset & 0xff) << 16
        | (offset >> 8 & OFFSET_MASK) << 34
        | guard << GUARD_SHIFT
        | waits << WAIT_SHIFT
}

const OFFSET_MASK: u128 = (1 << 48) - 1;

/// The number of the instruction that a branch or call at an instruction leads to.
fn target(at: i64, word: u128) -> i64 {
    let offset = word >> 16 & 0xff | (word >> 34 & OFFSET_MASK) << 8;
    // A number of 56 bits with a sign.
    let offset = (u64::try_from(offset).unwrap_or(0) << 8).cast_signed() >> 8;
    at + 1 + offset / 4
}

/// A cubin whose section holds longer code.
fn grown(bytes: &[u8], section: &CodeSection, code: &[u128]) -> Option<Vec<u8>> {
    let parsed = Elf::parse(bytes).ok()?;
    let code: Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
    let end = section.bytes.end;
    let added = code.len().checked_sub(section.bytes.len())?;
    let mut grown = bytes.get(..section.bytes.start)?.to_vec();
    grown.extend(&code);
    grown.extend(bytes.get(end..)?);
    let mut file = CubinBytes { bytes: grown, end: end as u64, added: added as u64 };

    let sections = file.move_offset(elf::SECTION_HEADERS)?;
    for (number, header) in parsed.section_headers.iter().enumerate() {
        let at = sections + number * elf::SECTION_BYTES;
        if header.sh_offset == section.bytes.start as u64 && header.sh_size == section.bytes.len() as u64 {
            file.add(at + elf::SECTION_SIZE)?;
        } else {
            file.move_offset(at + elf::SECTION_OFFSET)?;
        }
    }
    let programs = file.move_offset(elf::PROGRAM_HEADERS)?;
    for (number, header) in parsed.program_headers.iter().enumerate() {
        let at = programs + number * elf::PROGRAM_BYTES;
        let holds = header.p_offset < end as u64 && end as u64 <= header.p_offset + header.p_filesz;
        if holds {
            file.add(at + elf::PROGRAM_FILE_SIZE)?;
            file.add(at + elf::PROGRAM_MEMORY_SIZE)?;
        } else {
            file.move_offset(at + elf::PROGRAM_OFFSET)?;
        }
    }
    let own = parsed.section_headers.iter().position(|header| {
        header.sh_offset == section.bytes.start as u64 && header.sh_size == section.bytes.len() as u64
    })?;
    let table = parsed
        .section_headers
        .iter()
        .find(|header| header.sh_type == goblin::elf::section_header::SHT_SYMTAB)?;
    let table = usize::try_from(file.moved(table.sh_offset)).ok()?;
    for (number, symbol) in parsed.syms.iter().enumerate() {
        if symbol.st_shndx == own && symbol.is_function() && symbol.st_value == 0 {
            file.add(table + number * elf::SYMBOL_BYTES + elf::SYMBOL_SIZE)?;
        }
    }
    Some(file.bytes)
}

/// A cubin in which bytes were inserted.
struct CubinBytes {
    bytes: Vec<u8>,
    /// The offset before which nothing moved.
    end: u64,
    added: u64,
}

impl CubinBytes {
    fn moved(&self, offset: u64) -> u64 {
        if offset >= self.end { offset + self.added } else { offset }
    }

    fn field(&mut self, at: usize) -> Option<&mut [u8; 8]> {
        self.bytes.get_mut(at..)?.first_chunk_mut()
    }

    /// Corrects an offset in the file. Returns it.
    fn move_offset(&mut self, at: usize) -> Option<usize> {
        let offset = u64::from_le_bytes(*self.field(at)?);
        let moved = self.moved(offset);
        *self.field(at)? = moved.to_le_bytes();
        usize::try_from(moved).ok()
    }

    /// Corrects a size.
    fn add(&mut self, at: usize) -> Option<()> {
        let added = self.added;
        let field = self.field(at)?;
        *field = u64::from_le_bytes(*field).checked_add(added)?.to_le_bytes();
        Some(())
    }
}

#[cfg(test)]
mod tests;
