//! Sections of a library's file, read one by one: libraries of gigabytes have small ones that matter here.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use goblin::elf64::header::{EI_CLASS, EI_DATA, ELFCLASS64, ELFDATA2LSB, ELFMAG, Header, SIZEOF_EHDR};
use goblin::elf64::section_header::{SHF_COMPRESSED, SHT_NOBITS, SIZEOF_SHDR, SectionHeader};

/// Maximum bytes of a section that is read.
const MAX_SECTION_BYTES: u64 = 2 << 30;

/// A library's file.
pub(super) struct ElfFile {
    file: File,
    sections: Vec<(String, SectionHeader)>,
}

impl ElfFile {
    /// Opens a file. `None` for what is not an ELF file of 64 bits.
    pub(super) fn open(path: &Path) -> Option<Self> {
        // A pipe would not open before something writes into it.
        path.metadata().ok().filter(std::fs::Metadata::is_file)?;
        let file = File::open(path).ok()?;
        let mut head = [0; SIZEOF_EHDR];
        file.read_exact_at(&mut head, 0).ok()?;
        let is_known =
            head.starts_with(ELFMAG) && head[EI_CLASS] == ELFCLASS64 && head[EI_DATA] == ELFDATA2LSB;
        if !is_known {
            return None;
        }
        let header = *Header::from_bytes(&head);
        let bytes = usize::from(header.e_shnum) * SIZEOF_SHDR;
        let table = read(&file, header.e_shoff, bytes as u64)?;
        let headers: Vec<SectionHeader> = table.as_chunks::<SIZEOF_SHDR>().0.iter().map(section).collect();
        let names = headers.get(usize::from(header.e_shstrndx))?;
        let names = read(&file, names.sh_offset, names.sh_size)?;
        let with_name = |header: SectionHeader| (text(&names, header.sh_name), header);
        Some(Self { sections: headers.into_iter().map(with_name).collect(), file })
    }

    /// The content of a section. `None` where there is none, and where it is compressed.
    pub(super) fn section(&self, name: &str) -> Option<Vec<u8>> {
        let header = self.header(name).filter(|header| !is_compressed(header))?;
        read(&self.file, header.sh_offset, header.sh_size)
    }

    /// True if a section is compressed.
    pub(super) fn is_compressed(&self, name: &str) -> bool {
        self.header(name).is_some_and(is_compressed)
    }

    fn header(&self, name: &str) -> Option<&SectionHeader> {
        let found = self.sections.iter().find(|(known, _)| known == name);
        found.map(|(_, header)| header).filter(|header| header.sh_type != SHT_NOBITS)
    }
}

fn is_compressed(header: &SectionHeader) -> bool {
    header.sh_flags & u64::from(SHF_COMPRESSED) != 0
}

/// The header of a section, in little endian.
fn section(bytes: &[u8; SIZEOF_SHDR]) -> SectionHeader {
    let word = |at: usize| {
        bytes.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |four| u32::from_le_bytes(*four))
    };
    let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
    SectionHeader {
        sh_name: word(0),
        sh_type: word(4),
        sh_flags: long(8),
        sh_addr: long(16),
        sh_offset: long(24),
        sh_size: long(32),
        sh_link: word(40),
        sh_info: word(44),
        sh_addralign: long(48),
        sh_entsize: long(56),
    }
}

fn read(file: &File, offset: u64, bytes: u64) -> Option<Vec<u8>> {
    let is_inside = offset.checked_add(bytes)? <= file.metadata().ok()?.len();
    let bytes = usize::try_from(bytes).ok().filter(|_| is_inside && bytes <= MAX_SECTION_BYTES)?;
    let mut content = vec![0; bytes];
    file.read_exact_at(&mut content, offset).ok()?;
    Some(content)
}

/// The text that begins at an offset of a table of texts.
pub(super) fn text(table: &[u8], offset: u32) -> String {
    let rest = table.get(offset as usize..).unwrap_or_default();
    let end = rest.iter().position(|byte| *byte == 0).unwrap_or(rest.len());
    String::from_utf8_lossy(&rest[..end]).into_owned()
}
