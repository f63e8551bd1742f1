//! Fatbins: containers of a program's cubins and PTX, one per architecture, compressed or not.
//!
//! A region is a header and entries. A section of a host file holds many regions one after the other. A damaged region
//! is an error in its place, and the walk goes on with the next one.

use std::borrow::Cow;

use crate::elf::ElfReader;
use crate::word::Sm;
use entry::EntryWalk;

mod entry;
mod lz4;

/// First bytes of a region.
const MAGIC: [u8; 4] = 0xba55_ed50_u32.to_le_bytes();
/// Sections of host files that hold fatbins: of linked code, and of code that is to be linked.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];
/// No entry may be larger than this when it is decompressed.
const MAX_BYTES: u64 = 512 << 20;
/// Nor this many times larger than it is compressed.
const MAX_RATIO: u64 = 1024;

/// The fatbins of a file.
#[derive(Clone, Debug)]
pub struct Fatbins<'a> {
    parts: Vec<&'a [u8]>,
}

/// A cubin, or the PTX to make one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FatbinEntry<'a> {
    /// The kind of entry.
    pub kind: FatbinEntryKind,
    /// The architecture that it is for. Of PTX the lowest.
    pub sm: Sm,
    /// True if it runs only on exactly this architecture, such as sm_90a.
    pub is_specific: bool,
    /// The name that it was given. Most have none.
    pub name: Option<&'a str>,
    /// As it is stored.
    stored: &'a [u8],
    compression: EntryCompression,
    /// Its size when decompressed, as the file claims.
    claimed_bytes: u64,
}

/// The kind of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FatbinEntryKind {
    /// Assembly for a virtual architecture.
    Ptx,
    /// A cubin.
    Cubin,
    /// Something else, by its number.
    Other(u16),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryCompression {
    None,
    /// A block of LZ4 without a frame: CUDA 11 and 12.
    Lz4,
    /// A frame of Zstandard: CUDA 13.
    Zstd,
}

/// Errors of reading fatbins, or one of their entries.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FatbinError {
    /// Neither a fatbin nor an ELF file with fatbins.
    #[error("it holds no fatbins: {cause}")]
    NoFatbins {
        /// The cause.
        cause: String,
    },
    /// A region or an entry that does not lie where it says.
    #[error("fatbin at {offset:#x}: {cause}")]
    Damaged {
        /// Where, from the begin of its section.
        offset: usize,
        /// The cause.
        cause: &'static str,
    },
    /// An entry that is too large.
    #[error(
        "{claimed_bytes} bytes of {stored_bytes} compressed ones exceed the limit: 512 MiB, and 1024 times as many"
    )]
    TooLarge {
        /// Bytes that it claims to have.
        claimed_bytes: u64,
        /// Bytes that it has in the file.
        stored_bytes: usize,
    },
    /// An entry whose decompressed data differs from its header.
    #[error("decompress {format}: {cause}")]
    Compressed {
        /// The compression format.
        format: &'static str,
        /// The cause.
        cause: String,
    },
}

impl<'a> Fatbins<'a> {
    /// Finds the fatbins of a host program, library or object, or takes the bytes as fatbins.
    pub fn find(bytes: &'a [u8]) -> Result<Self, FatbinError> {
        if bytes.starts_with(&MAGIC) {
            return Ok(Self { parts: vec![bytes] });
        }
        let elf = ElfReader::read(bytes).map_err(|cause| FatbinError::NoFatbins { cause })?;
        let holds_fatbins =
            |section: &usize| elf.section_name(*section).is_some_and(|name| SECTIONS.contains(&name));
        let sections = (0..elf.sections().len()).filter(holds_fatbins);
        let parts: Vec<_> = sections.filter_map(|section| elf.section_bytes(section)).collect();
        if parts.is_empty() {
            return Err(FatbinError::NoFatbins { cause: "none of its sections is for fatbins".to_owned() });
        }
        Ok(Self { parts })
    }

    /// Every entry, in the file's order. Errors stand where something is damaged.
    pub fn entries(&self) -> impl Iterator<Item = Result<FatbinEntry<'a>, FatbinError>> {
        self.parts.iter().flat_map(|part| EntryWalk::new(part))
    }
}

impl<'a> FatbinEntry<'a> {
    /// Its bytes, decompressed.
    pub fn bytes(&self) -> Result<Cow<'a, [u8]>, FatbinError> {
        let decompressed = match self.compression {
            EntryCompression::None => return Ok(Cow::Borrowed(self.without_padding(self.stored))),
            EntryCompression::Lz4 => {
                lz4::decompress(self.stored, self.claimed()?).map_err(|cause| ("LZ4", cause.to_owned()))
            }
            EntryCompression::Zstd => zstd::bulk::decompress(self.stored, self.claimed()?)
                .map_err(|cause| ("Zstandard", cause.to_string())),
        };
        let mut bytes = decompressed.map_err(|(format, cause)| FatbinError::Compressed { format, cause })?;
        if bytes.len() as u64 != self.claimed_bytes {
            let cause = format!("{} bytes instead of {}", bytes.len(), self.claimed_bytes);
            return Err(FatbinError::Compressed { format: "the entry", cause });
        }
        bytes.truncate(self.without_padding(&bytes).len());
        Ok(Cow::Owned(bytes))
    }

    /// Text ends before the zeros that fill it up.
    fn without_padding<'b>(&self, bytes: &'b [u8]) -> &'b [u8] {
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        if self.kind == FatbinEntryKind::Ptx { bytes.get(..end).unwrap_or(bytes) } else { bytes }
    }

    /// The claimed size, if it can be believed.
    fn claimed(&self) -> Result<usize, FatbinError> {
        let most = (self.stored.len() as u64).saturating_mul(MAX_RATIO).min(MAX_BYTES);
        let claimed = Some(self.claimed_bytes).filter(|claimed| *claimed <= most);
        claimed.and_then(|claimed| usize::try_from(claimed).ok()).ok_or(FatbinError::TooLarge {
            claimed_bytes: self.claimed_bytes,
            stored_bytes: self.stored.len(),
        })
    }
}
