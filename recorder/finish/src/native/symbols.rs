//! Functions and lines of one library, by its symbols and its line table.

use std::path::Path;

use addr2line::Context;
use gimli::{Dwarf, EndianRcSlice, LittleEndian, SectionId};
use stallmap_schema::capture::recording::NativeLibrary;
use stallmap_schema::contained::contained;
use stallmap_schema::hash;
use stallmap_schema::tables::native::NativeFrame;

use super::elf::{self, ElfFile};

/// Bytes of a symbol.
const SYMBOL_BYTES: usize = 24;
/// The type of symbols that are functions.
const FUNCTION: u8 = 2;
/// Functions that are inlined into each other.
const MAX_LEVELS: usize = 64;

type DebugBytes = EndianRcSlice<LittleEndian>;

/// Functions and lines of a library.
#[derive(Default)]
pub(super) struct LibrarySymbols {
    /// Address, bytes, offset of the name.
    functions: Vec<(u64, u64, u32)>,
    names: Vec<u8>,
    lines: Option<Context<DebugBytes>>,
    /// The reason for missing functions.
    no_function: &'static str,
    /// The reason for missing lines.
    no_line: &'static str,
}

/// A function and a line. Either may be unknown.
#[derive(Default)]
pub(super) struct FoundSymbol {
    function: Option<String>,
    file: Option<String>,
    line: Option<u32>,
    missing: Option<&'static str>,
}

impl FoundSymbol {
    pub(super) fn fill(self, frame: NativeFrame) -> NativeFrame {
        let Self { function, file, line, missing } = self;
        NativeFrame { function, file, line, missing: missing.map(str::to_owned), ..frame }
    }
}

impl LibrarySymbols {
    /// Reads a library's file, if it is the one that ran.
    pub(super) fn open(library: &NativeLibrary) -> Self {
        let none = |reason| Self { no_function: reason, no_line: reason, ..Self::default() };
        let Some(file) = ElfFile::open(Path::new(&library.path)) else {
            return none("the library's file cannot be read");
        };
        if !is_same(&file, library) {
            return none("the library's file is not the one that ran");
        }
        let mut symbols = none("the library is stripped");
        symbols.no_line = if file.is_compressed(".debug_info") {
            "the library's line table is compressed"
        } else {
            "the library has no line table"
        };
        let tables = [(".symtab", ".strtab"), (".dynsym", ".dynstr")];
        for (table, names) in tables {
            if let Some((table, names)) = file.section(table).zip(file.section(names)) {
                symbols.functions = functions(&table);
                symbols.names = names;
                break;
            }
        }
        symbols.lines = contained(|| lines(&file)).ok().flatten();
        symbols
    }

    /// The functions at an offset, the innermost first. At least one.
    pub(super) fn at(&self, offset: u64) -> Vec<FoundSymbol> {
        let mut found = contained(|| self.by_lines(offset)).unwrap_or_default();
        if found.is_empty() {
            found.push(FoundSymbol::default());
        }
        if let Some(outermost) = found.last_mut() {
            outermost.function = outermost.function.take().or_else(|| self.by_symbol(offset));
        }
        for symbol in &mut found {
            let reason = if symbol.function.is_none() { self.no_function } else { self.no_line };
            symbol.missing = (symbol.function.is_none() || symbol.line.is_none()).then_some(reason);
        }
        found
    }

    fn by_lines(&self, offset: u64) -> Vec<FoundSymbol> {
        let mut found = Vec::new();
        let frames = self.lines.as_ref().map(|lines| lines.find_frames(offset).skip_all_loads());
        let Some(Ok(mut frames)) = frames else { return found };
        while let Some(frame) = frames.next().ok().flatten().filter(|_| found.len() < MAX_LEVELS) {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let place = frame.location.and_then(|place| Some((place.file?.to_owned(), place.line?)));
            let (file, line) = place.unzip();
            found.push(FoundSymbol {
                function: name.map(|name| demangled(&name)),
                file,
                line,
                missing: None,
            });
        }
        found
    }

    fn by_symbol(&self, offset: u64) -> Option<String> {
        let index = self.functions.partition_point(|(start, ..)| *start <= offset).checked_sub(1)?;
        let (start, bytes, name) = self.functions.get(index)?;
        // Functions of hand-written code have no size, and end at the next.
        let is_inside = *bytes == 0 || offset - start < *bytes;
        is_inside.then(|| demangled(&elf::text(&self.names, *name)))
    }
}

/// True if the file has the code that was recorded.
fn is_same(file: &ElfFile, library: &NativeLibrary) -> bool {
    match (&library.build_id, &library.index_hash) {
        (Some(build_id), _) => file.section(".note.gnu.build-id").is_some_and(|note| {
            // Lengths of name and content, type, and the name GNU come first.
            hash::hexadecimal(note.get(16..).unwrap_or_default()) == *build_id
        }),
        (None, Some(index_hash)) => file
            .section(".eh_frame_hdr")
            .is_some_and(|index| format!("{:016x}", hash::content_hash(&index)) == *index_hash),
        // One file cannot be distinguished from another.
        (None, None) => false,
    }
}

/// Functions of a table of symbols, by address.
fn functions(table: &[u8]) -> Vec<(u64, u64, u32)> {
    let (symbols, _) = table.as_chunks::<SYMBOL_BYTES>();
    let symbol = |symbol: &[u8; SYMBOL_BYTES]| {
        let (name, rest) = symbol.split_first_chunk::<4>()?;
        let (&[kind, _, section_low, section_high], rest) = rest.split_first_chunk::<4>()?;
        let (address, bytes) = rest.split_first_chunk::<8>()?;
        let is_defined = [section_low, section_high] != [0, 0];
        let bytes = u64::from_le_bytes(*bytes.first_chunk()?);
        (kind & 15 == FUNCTION && is_defined)
            .then(|| (u64::from_le_bytes(*address), bytes, u32::from_le_bytes(*name)))
    };
    let mut functions: Vec<_> = symbols.iter().filter_map(symbol).collect();
    functions.sort_unstable();
    functions
}

fn lines(file: &ElfFile) -> Option<Context<DebugBytes>> {
    file.section(".debug_info")?;
    let section = |id: SectionId| {
        let bytes = file.section(id.name()).unwrap_or_default();
        Ok::<_, gimli::Error>(DebugBytes::new(bytes.into(), LittleEndian))
    };
    Context::from_dwarf(Dwarf::load(section).ok()?).ok()
}

/// A function's name without parameters, as Python's names are.
fn demangled(name: &str) -> String {
    match rustc_demangle::try_demangle(name) {
        Ok(rust) => format!("{rust:#}"),
        Err(_) => stallmap_sass::demangle_name(name),
    }
}
