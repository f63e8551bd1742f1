//! ELF files, read part by part: a damaged part does not affect the rest.
//!
//! goblin reads the records. The bounds are here: sections lie in the file, and together they are not much larger
//! than it. Reading all of them is therefore linear in the file's size.

use std::ffi::CStr;
use std::ops::Range;

use goblin::container::{Container, Ctx, Endian};
use goblin::elf::Elf as Goblin;
use goblin::elf::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, Header};
use goblin::elf::reloc::RelocSection;
use goblin::elf::section_header::{SHF_COMPRESSED, SHT_NOBITS, SHT_NULL, SHT_REL, SHT_RELA, SectionHeader};
use goblin::elf::sym::{Sym, Symtab};

/// Sections may be this many times larger than the file, together: a damaged one covers others.
const MAX_OVERLAP: usize = 4;
/// Types of sections that have no bytes in the file. The last three are NVIDIA's global, local and shared memory.
const WITHOUT_BYTES: [u32; 5] = [SHT_NULL, SHT_NOBITS, 0x7000_0007, 0x7000_0009, 0x7000_000a];
/// No name is longer: without a bound, many could share one long text.
const LONGEST_NAME: usize = 1 << 16;
const CTX: Ctx = Ctx { container: Container::Big, le: Endian::Little };

/// An ELF file of 64 bits, little endian.
pub(crate) struct ElfReader<'a> {
    bytes: &'a [u8],
    header: Header,
    headers: Vec<SectionHeader>,
    /// Per section: where it is in the file; `None` without bytes there, or where they cannot be trusted.
    ranges: Vec<Option<Range<usize>>>,
    /// Sections that cannot be trusted, and why.
    pub(crate) damage: Vec<String>,
}

/// One relocation of a section.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SectionRelocation {
    /// The bytes that it completes.
    pub(crate) offset: u64,
    /// How: a number of the machine.
    pub(crate) kind: u32,
    /// The index of the symbol by which it does so.
    pub(crate) symbol: usize,
    /// The addend. `None` where the relocated bytes hold it.
    pub(crate) addend: Option<i64>,
}

impl<'a> ElfReader<'a> {
    /// Reads the headers. The error is the reason.
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, String> {
        let header = Goblin::parse_header(bytes).map_err(|cause| cause.to_string())?;
        if header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB {
            return Err("it is not of 64 bits, little endian".to_owned());
        }
        let table = usize::try_from(header.e_shoff).ok().filter(|start| *start < bytes.len());
        let table = table.ok_or_else(|| "its table of sections lies outside the file".to_owned())?;
        let headers = SectionHeader::parse(bytes, table, usize::from(header.e_shnum), CTX)
            .map_err(|cause| format!("its table of sections: {cause}"))?;
        let mut elf = Self { bytes, header, headers, ranges: Vec::new(), damage: Vec::new() };
        elf.set_section_ranges();
        Ok(elf)
    }

    /// The file's header.
    pub(crate) fn header(&self) -> &Header {
        &self.header
    }

    /// The headers of its sections.
    pub(crate) fn sections(&self) -> &[SectionHeader] {
        &self.headers
    }

    /// Range of a section's bytes in the file.
    pub(crate) fn range(&self, section: usize) -> Option<Range<usize>> {
        self.ranges.get(section)?.clone()
    }

    /// A section's bytes.
    pub(crate) fn section_bytes(&self, section: usize) -> Option<&'a [u8]> {
        self.bytes.get(self.range(section)?)
    }

    /// A section's name.
    pub(crate) fn section_name(&self, section: usize) -> Option<&'a str> {
        let header = self.headers.get(section)?;
        text_at(self.section_bytes(usize::from(self.header.e_shstrndx))?, header.sh_name)
    }

    /// The first section of a name.
    pub(crate) fn find(&self, name: &str) -> Option<usize> {
        (0..self.headers.len()).find(|section| self.section_name(*section) == Some(name))
    }

    /// The table of symbols: its symbols, and the bytes of their names.
    pub(crate) fn symbols(&self) -> Option<SymbolTable<'a>> {
        const SHT_SYMTAB: u32 = 2;
        let table = self.headers.iter().position(|header| header.sh_type == SHT_SYMTAB)?;
        let bytes = self.section_bytes(table)?;
        let names = self.section_bytes(usize::try_from(self.headers.get(table)?.sh_link).ok()?)?;
        let count = bytes.len() / Sym::size(Container::Big);
        Some(SymbolTable { table: Symtab::parse(bytes, 0, count, CTX).ok()?, names })
    }

    /// The relocations of a section.
    pub(crate) fn relocations(&self, section: usize) -> impl Iterator<Item = SectionRelocation> {
        let tables = (0..self.headers.len()).filter(move |table| self.relocated(*table) == Some(section));
        tables.flat_map(|table| self.relocation_table(table).into_iter().flatten())
    }

    /// The section that a table of relocations is for. None for other tables.
    pub(crate) fn relocated(&self, table: usize) -> Option<usize> {
        let header = self.headers.get(table)?;
        matches!(header.sh_type, SHT_REL | SHT_RELA).then_some(header.sh_info as usize)
    }

    /// The relocations that a section holds, if it holds any.
    pub(crate) fn relocation_table(
        &self,
        table: usize,
    ) -> Option<impl Iterator<Item = SectionRelocation> + use<'a>> {
        let header = self.headers.get(table)?;
        let bytes = self.section_bytes(table).filter(|bytes| !bytes.is_empty())?;
        let relocations = RelocSection::parse(bytes, 0, bytes.len(), header.sh_type == SHT_RELA, CTX).ok()?;
        Some((0..relocations.len()).filter_map(move |index| relocations.get(index)).map(|relocation| {
            SectionRelocation {
                offset: relocation.r_offset,
                kind: relocation.r_type,
                symbol: relocation.r_sym,
                addend: relocation.r_addend,
            }
        }))
    }

    /// Finds out where sections are. Those that leave the file, are too many or are compressed are damage.
    fn set_section_ranges(&mut self) {
        let mut budget = self.bytes.len().saturating_mul(MAX_OVERLAP);
        for (index, header) in self.headers.iter().enumerate() {
            let range = section_range(header, self.bytes.len(), &mut budget);
            self.damage.extend(range.as_ref().err().map(|why| format!("section {index} {why}")));
            self.ranges.push(range.ok().flatten());
        }
    }
}

/// Range of a section in the file, if it has bytes there.
fn section_range(
    header: &SectionHeader,
    file_bytes: usize,
    budget: &mut usize,
) -> Result<Option<Range<usize>>, &'static str> {
    if WITHOUT_BYTES.contains(&header.sh_type) {
        return Ok(None);
    }
    if header.sh_flags & u64::from(SHF_COMPRESSED) != 0 {
        return Err("is compressed");
    }
    let start = usize::try_from(header.sh_offset).ok();
    let end =
        start.zip(usize::try_from(header.sh_size).ok()).and_then(|(start, size)| start.checked_add(size));
    let range = start.zip(end).filter(|(_, end)| *end <= file_bytes).ok_or("reaches beyond the file")?;
    *budget = budget.checked_sub(range.1 - range.0).ok_or("overlaps too many others")?;
    Ok(Some(range.0..range.1))
}

/// The symbols of a file.
pub(crate) struct SymbolTable<'a> {
    table: Symtab<'a>,
    names: &'a [u8],
}

impl<'a> SymbolTable<'a> {
    /// The symbol of an index.
    pub(crate) fn get(&self, index: usize) -> Option<Sym> {
        self.table.get(index)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Sym> {
        (0..self.table.len()).filter_map(|index| self.table.get(index))
    }

    /// A symbol's name.
    pub(crate) fn name(&self, symbol: &Sym) -> Option<&'a str> {
        text_at(self.names, symbol.st_name)
    }
}

/// The text that begins at an offset and ends before the next zero byte.
pub(crate) fn text_at(bytes: &[u8], offset: usize) -> Option<&str> {
    let rest = bytes.get(offset..)?;
    let rest = rest.get(..LONGEST_NAME).unwrap_or(rest);
    CStr::from_bytes_until_nul(rest).ok()?.to_str().ok()
}
