//! ELF files that are taken apart, extended and put together again, for tests.

/// A place for bytes in an ELF file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ElfPosition {
    /// A section of a name and a type, added.
    Section(&'static str, u32),
    /// The name of a symbol for a function.
    Function,
    /// The name of a symbol for an object.
    Variable,
    /// The name of a symbol for a source file.
    File,
    /// A text of the string table to which nothing refers.
    Unnamed,
    /// The name of a section that no release knows.
    NameOfSection,
    /// Bytes between sections.
    Gap,
    /// Bytes after everything.
    End,
    /// The header of the section without a type, which is the first of all files: the first 56 bytes of the text.
    FirstHeader,
}

const HEADER_BYTES: usize = 64;
const SYMBOLS: u32 = 2;

#[derive(Clone, Debug)]
struct TestSection {
    header: Vec<u8>,
    bytes: Vec<u8>,
}

/// An ELF file of 64 bits in parts.
#[derive(Clone, Debug)]
pub(crate) struct TestElf {
    header: Vec<u8>,
    segments: Vec<u8>,
    sections: Vec<TestSection>,
    gap: Vec<u8>,
    end: Vec<u8>,
}

fn number(bytes: &[u8], at: usize, width: usize) -> usize {
    bytes[at..at + width].iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte))
}

fn set(bytes: &mut [u8], at: usize, width: usize, value: usize) {
    bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
}

impl TestSection {
    fn kind(&self) -> u32 {
        u32::try_from(number(&self.header, 4, 4)).unwrap()
    }

    /// Adds a text that ends with a zero. Returns its offset.
    fn add_text(&mut self, text: &[u8]) -> usize {
        let at = self.bytes.len();
        self.bytes.extend([text, b"\0"].concat());
        at
    }
}

impl TestElf {
    /// Takes a file apart.
    pub(crate) fn read(file: &[u8]) -> Self {
        let (table, count) = (number(file, 0x28, 8), number(file, 0x3c, 2));
        let sections = (0..count).map(|index| {
            let header = file[table + HEADER_BYTES * index..][..HEADER_BYTES].to_vec();
            let has_bytes = !matches!(number(&header, 4, 4), 0 | 8);
            let range = if has_bytes {
                number(&header, 24, 8)..number(&header, 24, 8) + number(&header, 32, 8)
            } else {
                0..0
            };
            TestSection { header, bytes: file[range].to_vec() }
        });
        let (start, bytes) = (number(file, 0x20, 8), number(file, 0x36, 2) * number(file, 0x38, 2));
        Self {
            header: file[..HEADER_BYTES].to_vec(),
            segments: file[start..start + bytes].to_vec(),
            sections: sections.collect(),
            gap: Vec::new(),
            end: Vec::new(),
        }
    }

    /// Puts the file together.
    pub(crate) fn write(mut self) -> Vec<u8> {
        let mut file = self.header.clone();
        for section in &mut self.sections {
            file.extend(&self.gap);
            if !matches!(section.kind(), 0 | 8) {
                set(&mut section.header, 24, 8, file.len());
                set(&mut section.header, 32, 8, section.bytes.len());
                file.extend(&section.bytes);
            }
        }
        let segments = file.len();
        file.extend(&self.segments);
        set(&mut file, 0x20, 8, segments);
        let table = file.len();
        set(&mut file, 0x28, 8, table);
        set(&mut file, 0x3c, 2, self.sections.len());
        file.extend(self.sections.iter().flat_map(|section| &section.header));
        file.extend(&self.end);
        file
    }

    /// Says that headers of segments have another size.
    pub(crate) fn set_segment_bytes(&mut self, bytes: usize) {
        set(&mut self.header, 0x36, 2, bytes);
    }

    /// Puts bytes into a place.
    pub(crate) fn plant(&mut self, place: ElfPosition, bytes: &[u8]) {
        match place {
            ElfPosition::Section(name, kind) => self.add_section(name.as_bytes(), kind, bytes),
            ElfPosition::Function => self.add_symbol(bytes, 2),
            ElfPosition::Variable => self.add_symbol(bytes, 1),
            ElfPosition::File => self.add_symbol(bytes, 4),
            ElfPosition::Unnamed => drop(self.strings().add_text(bytes)),
            ElfPosition::NameOfSection => self.add_section(bytes, 0x7000_00fe, b"numbers"),
            ElfPosition::Gap => self.gap.extend(bytes),
            ElfPosition::End => self.end.extend(bytes),
            ElfPosition::FirstHeader => {
                let count = bytes.len().min(HEADER_BYTES - 8);
                self.sections[0].header[8..8 + count].copy_from_slice(&bytes[..count]);
            }
        }
    }

    fn add_section(&mut self, name: &[u8], kind: u32, bytes: &[u8]) {
        let names = number(&self.header, 0x3e, 2);
        let name = self.sections[names].add_text(name);
        let mut header = vec![0; HEADER_BYTES];
        set(&mut header, 0, 4, name);
        set(&mut header, 4, 4, usize::try_from(kind).unwrap());
        self.sections.push(TestSection { header, bytes: [b"\x01\0", bytes, b"\0"].concat() });
    }

    fn symbols(&self) -> usize {
        self.sections.iter().position(|section| section.kind() == SYMBOLS).unwrap()
    }

    fn strings(&mut self) -> &mut TestSection {
        let strings = number(&self.sections[self.symbols()].header, 40, 4);
        &mut self.sections[strings]
    }

    fn add_symbol(&mut self, name: &[u8], kind: u8) {
        let name = self.strings().add_text(name);
        let mut symbol = vec![0; 24];
        set(&mut symbol, 0, 4, name);
        symbol[4] = kind;
        let symbols = self.symbols();
        self.sections[symbols].bytes.extend(symbol);
    }
}
