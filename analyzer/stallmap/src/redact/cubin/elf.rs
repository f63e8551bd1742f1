//! Sections and symbols of a cubin, as needed to change texts in place.

use std::ops::Range;

const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_DYNSYM: u32 = 11;
/// Types of sections without bytes in the file. The last three are NVIDIA's.
const WITHOUT_BYTES: [u32; 5] = [0, 8, 0x7000_0007, 0x7000_0009, 0x7000_000a];
const HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const SEGMENT_BYTES: u64 = 56;
/// The type of the symbol that names a source file.
const STT_FILE: u8 = 4;
/// Types of symbols that have names of their own: objects and functions.
const NAMED: [u8; 2] = [1, 2];

/// A section.
#[derive(Clone, Debug)]
pub(super) struct ElfSection {
    pub(super) name: String,
    pub(super) bytes: Range<usize>,
    kind: u32,
    link: usize,
    /// Offset of its name in the string table of sections.
    name_at: usize,
}

impl ElfSection {
    /// True for a string table.
    pub(super) fn is_string_table(&self) -> bool {
        self.kind == SHT_STRTAB
    }
}

/// The sections of an ELF file of 64 bits, little endian.
pub(super) fn sections(file: &[u8]) -> Result<Vec<ElfSection>, String> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return Err("it is not an ELF file of 64 bits".to_owned());
    }
    let cut = || "its table of sections lies outside the file".to_owned();
    let table = usize::try_from(number::<8>(file, 0x28).ok_or_else(cut)?).map_err(|_| cut())?;
    let count = number::<2>(file, 0x3c).ok_or_else(cut)?;
    let names = number::<2>(file, 0x3e).ok_or_else(cut)?;
    let mut sections = Vec::new();
    for index in 0..usize::try_from(count).unwrap_or(0) {
        let at = table.checked_add(index * HEADER_BYTES).ok_or_else(cut)?;
        let header = file.get(at..at.saturating_add(HEADER_BYTES)).ok_or_else(cut)?;
        sections.push(
            section(header, file.len()).ok_or_else(|| format!("section {index} lies outside the file"))?,
        );
    }
    // Each section is read and searched: without overlaps that is the file once.
    let bytes =
        sections.iter().fold(0, |sum: usize, section: &ElfSection| sum.saturating_add(section.bytes.len()));
    if bytes > file.len() {
        return Err("its sections overlap".to_owned());
    }
    let strings = usize::try_from(names).ok().and_then(|names| Some(sections.get(names)?.bytes.clone()));
    let strings = strings.and_then(|range| file.get(range)).unwrap_or_default();
    let with_name = |section: ElfSection| ElfSection { name: text(strings, section.name_at), ..section };
    Ok(sections.into_iter().map(with_name).collect())
}

/// The parts of a file that say where its sections are: the header, and the headers of sections and segments. One
/// without a type says nothing, and is left out.
pub(super) fn headers(file: &[u8]) -> Result<Vec<Range<usize>>, String> {
    let table = |at: usize, size_at: usize, count: usize, size: u64| {
        let start = usize::try_from(number::<8>(file, at)?).ok()?;
        let count = number::<2>(file, count)?;
        // Larger ones would hold bytes that nothing reads.
        let bytes = if count == 0 { 0 } else { number::<2>(file, size_at).filter(|found| *found == size)? };
        let end = start.checked_add(usize::try_from(bytes * count).ok()?)?;
        Some(if count == 0 { 0..0 } else { start..end }).filter(|range| range.end <= file.len())
    };
    let tables = table(0x28, 0x3a, 0x3c, HEADER_BYTES as u64).zip(table(0x20, 0x36, 0x38, SEGMENT_BYTES));
    let (sections, segments) =
        tables.ok_or("a table of its headers lies outside the file, or has others than ELF's")?;
    let mut used = vec![0..HEADER_BYTES.min(file.len()), segments];
    let headers = sections.step_by(HEADER_BYTES).map(|start| start..start + HEADER_BYTES);
    used.extend(headers.filter(|header| number::<4>(file, header.start + 4) != Some(0)));
    Ok(used)
}

/// A section without its name.
fn section(header: &[u8], file_bytes: usize) -> Option<ElfSection> {
    let field = |at| usize::try_from(number::<8>(header, at)?).ok();
    let kind = u32::try_from(number::<4>(header, 4)?).ok()?;
    let name_at = usize::try_from(number::<4>(header, 0)?).ok()?;
    let link = usize::try_from(number::<4>(header, 40)?).ok()?;
    let (start, size) = (field(24)?, field(32)?);
    let bytes = if WITHOUT_BYTES.contains(&kind) { 0..0 } else { start..start.checked_add(size)? };
    (bytes.end <= file_bytes).then_some(ElfSection { name: String::new(), bytes, kind, link, name_at })
}

/// Names of functions and variables, in the order of the tables of symbols.
pub(super) fn symbols(file: &[u8], sections: &[ElfSection]) -> Vec<String> {
    let mut names = Vec::new();
    for table in sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
        let strings = sections.get(table.link).and_then(|strings| file.get(strings.bytes.clone()));
        let (Some(strings), Some(entries)) = (strings, file.get(table.bytes.clone())) else { continue };
        for symbol in entries.chunks_exact(SYMBOL_BYTES) {
            let is_named = symbol.get(4).is_some_and(|info| NAMED.contains(&(info & 0xf)));
            let name = number::<4>(symbol, 0).and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
            let name = text(strings, name);
            if is_named && !name.is_empty() && !name.starts_with('.') {
                names.push(name);
            }
        }
    }
    names
}

/// A text of a string table that is the name of something.
#[derive(Clone, Debug)]
pub(super) struct SymbolName {
    pub(super) bytes: Range<usize>,
    /// The type of its symbol. None for a section.
    kind: Option<u8>,
}

impl SymbolName {
    /// True for the name of a source file.
    pub(super) fn is_file(&self) -> bool {
        self.kind == Some(STT_FILE)
    }
}

/// The names of all symbols and sections.
pub(super) fn names(file: &[u8], sections: &[ElfSection]) -> Vec<SymbolName> {
    let own = section_names(file, sections).into_iter().map(|bytes| SymbolName { bytes, kind: None });
    let mut names: Vec<SymbolName> = own.collect();
    for table in sections.iter().filter(|section| [SHT_SYMTAB, SHT_DYNSYM].contains(&section.kind)) {
        let (Some(strings), Some(entries)) = (sections.get(table.link), file.get(table.bytes.clone())) else {
            continue;
        };
        for symbol in entries.chunks_exact(SYMBOL_BYTES) {
            let at = number::<4>(symbol, 0).and_then(|at| usize::try_from(at).ok()).unwrap_or(0);
            names.push(SymbolName {
                bytes: text_range(file, strings, at),
                kind: symbol.get(4).map(|info| info & 0xf),
            });
        }
    }
    names
}

/// The ranges of the names of all sections.
pub(super) fn section_names(file: &[u8], sections: &[ElfSection]) -> Vec<Range<usize>> {
    let strings = number::<2>(file, 0x3e).and_then(|index| sections.get(usize::try_from(index).ok()?));
    let of =
        |section: &ElfSection| strings.map_or(0..0, |strings| text_range(file, strings, section.name_at));
    sections.iter().map(of).collect()
}

/// The range of a text in a string table, up to its zero.
fn text_range(file: &[u8], strings: &ElfSection, at: usize) -> Range<usize> {
    let start = strings.bytes.start.saturating_add(at);
    let Some(rest) = file.get(start..strings.bytes.end) else { return 0..0 };
    start..start + rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len())
}

fn text(strings: &[u8], at: usize) -> String {
    let rest = strings.get(at..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}

/// A number of some bytes, little endian.
pub(super) fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(BYTES)?)?;
    Some(field.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_that_overlap_are_refused() {
        let file = |sizes: &[u8]| {
            let mut file = vec![0; HEADER_BYTES];
            file[..6].copy_from_slice(b"\x7fELF\x02\x01");
            file[0x28] = 64;
            file[0x3c] = u8::try_from(sizes.len()).unwrap();
            for size in sizes {
                let mut header = [0; HEADER_BYTES];
                (header[4], header[32]) = (1, *size);
                file.extend(header);
            }
            file
        };
        assert_eq!(sections(&file(&[64, 128])).unwrap().len(), 2);
        assert_eq!(sections(&file(&[128, 128])).unwrap_err(), "its sections overlap");
    }
}
