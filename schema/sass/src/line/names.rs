//! Names of files and functions, each stored once.

use std::collections::BTreeMap;

use gimli::{AttributeValue, EndianSlice, LineProgramHeader, LittleEndian};

use super::program::LineSections;
use crate::demangle;
use crate::elf::text_at;

type NameBytes<'a> = EndianSlice<'a, LittleEndian>;

/// Names may be this many times longer than the sections that hold them: paths repeat their folder, demangled names
/// their arguments. What is beyond stays unnamed.
const MAX_NAMES: usize = 64;
/// The index of the file that is not known.
const UNKNOWN: u32 = 0;

/// Names that rows refer to by index.
#[derive(Clone, Debug)]
pub(super) struct LineNames {
    files: Vec<Box<str>>,
    functions: Vec<Box<str>>,
    by_offset: BTreeMap<u64, Option<u32>>,
    bytes: usize,
}

impl Default for LineNames {
    fn default() -> Self {
        Self { files: vec!["".into()], functions: Vec::new(), by_offset: BTreeMap::new(), bytes: 0 }
    }
}

impl LineNames {
    pub(super) fn file(&self, index: u32) -> &str {
        self.files.get(index as usize).map_or("", |file| file)
    }

    pub(super) fn function(&self, index: u32) -> Option<&str> {
        self.functions.get(index as usize).map(|function| &**function)
    }

    /// Adds the files of a program. Per number that the program gives to a file, its index.
    pub(super) fn add_files(
        &mut self,
        header: &LineProgramHeader<NameBytes<'_>>,
        sources: &LineSections<'_>,
    ) -> Vec<u32> {
        let count = header.file_names().len() as u64 + 1;
        let path = |number| {
            let file = header.file(number)?;
            let name = text(file.path_name(), sources)?;
            let folder = file.directory(header).and_then(|folder| text(folder, sources));
            Some(join(folder.unwrap_or_default(), name))
        };
        (0..count)
            .map(|number| path(number).and_then(|path| self.add_file(path, sources)).unwrap_or(UNKNOWN))
            .collect()
    }

    fn add_file(&mut self, path: String, sources: &LineSections<'_>) -> Option<u32> {
        self.spend(path.len(), sources.programs.len().saturating_add(sources.line_strings.len()))?;
        let index = u32::try_from(self.files.len()).ok()?;
        self.files.push(path.into());
        Some(index)
    }

    /// The index of the function whose name stands at an offset.
    pub(super) fn add_function(&mut self, strings: &[u8], offset: u64) -> Option<u32> {
        if let Some(known) = self.by_offset.get(&offset) {
            return *known;
        }
        let index = self.read_function(strings, offset);
        self.by_offset.insert(offset, index);
        index
    }

    fn read_function(&mut self, strings: &[u8], offset: u64) -> Option<u32> {
        // Before the text is looked at: looking costs time, too.
        self.spend(1, strings.len())?;
        let name = text_at(strings, usize::try_from(offset).ok()?).filter(|name| !name.is_empty())?;
        self.spend(name.len(), strings.len())?;
        let name = demangle(name);
        self.spend(name.len(), strings.len())?;
        let index = u32::try_from(self.functions.len()).ok()?;
        self.functions.push(name.into());
        Some(index)
    }

    /// Counts bytes of names against the limit for a section's size.
    fn spend(&mut self, bytes: usize, section_bytes: usize) -> Option<()> {
        self.bytes = self.bytes.checked_add(bytes)?;
        (self.bytes <= section_bytes.saturating_mul(MAX_NAMES)).then_some(())
    }
}

fn text<'a>(value: AttributeValue<NameBytes<'a>>, sources: &LineSections<'a>) -> Option<&'a str> {
    match value {
        AttributeValue::String(text) => std::str::from_utf8(text.slice()).ok(),
        AttributeValue::DebugStrRef(offset) => text_at(sources.strings, offset.0),
        AttributeValue::DebugLineStrRef(offset) => text_at(sources.line_strings, offset.0),
        _ => None,
    }
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() || name.starts_with('/') { name.to_owned() } else { format!("{folder}/{name}") }
}
