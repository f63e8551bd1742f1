//! The walk over regions and their entries.

use super::{EntryCompression, FatbinEntry, FatbinEntryKind, FatbinError, MAGIC};
use crate::elf::text_at;
use crate::word::Sm;

/// Bytes of a region's header.
const REGION_HEADER: usize = 16;
/// Bytes of an entry's header that are always there.
const ENTRY_HEADER: usize = 64;
/// Regions begin at multiples of this.
const ALIGNMENT: usize = 8;

/// Bits of an entry's flags.
const LZ4: u64 = 0x2000;
const ZSTD: u64 = 0x8000;
const SPECIFIC: u64 = 0x10_0000;

/// The entries of fatbins that lie one after the other.
pub(super) struct EntryWalk<'a> {
    bytes: &'a [u8],
    /// Offset of the next entry.
    at: usize,
    /// End of the region that holds `at`. Not greater than `at` outside regions.
    region_end: usize,
}

impl<'a> EntryWalk<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, region_end: 0 }
    }

    /// Goes on to the next region's first entry; `None` behind the last.
    fn enter_region(&mut self) -> Option<Result<(), FatbinError>> {
        let offset = (self.at.next_multiple_of(ALIGNMENT)..self.bytes.len())
            .step_by(ALIGNMENT)
            .find(|offset| self.bytes.get(*offset..).is_some_and(|rest| rest.starts_with(&MAGIC)))?;
        self.at = offset + REGION_HEADER;
        self.region_end = self.at;
        let damaged = |cause| Some(Err(FatbinError::Damaged { offset, cause }));
        let Some(header) = self.bytes.get(offset..self.at) else { return damaged("its header is cut off") };
        let header_bytes = usize::from(short(header, 6)?);
        if header_bytes < REGION_HEADER {
            return damaged("its header is too short");
        }
        let begin = offset + header_bytes;
        let end = usize::try_from(long(header, 8)?).ok().and_then(|bytes| begin.checked_add(bytes));
        let Some(end) = end.filter(|end| *end <= self.bytes.len()) else {
            return damaged("it reaches beyond its section");
        };
        (self.at, self.region_end) = (begin, end);
        Some(Ok(()))
    }

    /// The entry at the current offset, and where it ends.
    fn read_entry(&self) -> Result<(FatbinEntry<'a>, usize), &'static str> {
        let rest = self.bytes.get(self.at..self.region_end).ok_or("it lies outside its region")?;
        let header = EntryHeader::read(rest).ok_or("an entry's header is cut off")?;
        if header.own_bytes < ENTRY_HEADER {
            return Err("an entry's header is too short");
        }
        let end = header.own_bytes.saturating_add(header.payload_bytes);
        let payload = rest.get(header.own_bytes..end).ok_or("an entry reaches beyond its region")?;
        let compression = match (header.flags & LZ4 != 0, header.flags & ZSTD != 0) {
            (false, false) => EntryCompression::None,
            (true, false) => EntryCompression::Lz4,
            (false, true) => EntryCompression::Zstd,
            (true, true) => return Err("an entry is compressed in two ways"),
        };
        let compressed = payload.get(..header.compressed_bytes);
        let stored = match compression {
            EntryCompression::None => payload,
            _ => compressed.ok_or("an entry's compressed bytes reach beyond it")?,
        };
        let claimed =
            if compression == EntryCompression::None { stored.len() as u64 } else { header.claimed_bytes };
        let entry = FatbinEntry {
            kind: header.kind,
            sm: header.sm,
            is_specific: header.flags & SPECIFIC != 0,
            name: rest.get(..header.own_bytes).and_then(|bytes| name(bytes, header.name)),
            stored,
            compression,
            claimed_bytes: claimed,
        };
        Ok((entry, self.at + end))
    }
}

/// Fields of an entry's header.
struct EntryHeader {
    kind: FatbinEntryKind,
    /// Bytes of the header itself.
    own_bytes: usize,
    payload_bytes: usize,
    compressed_bytes: usize,
    sm: Sm,
    /// Offset of its name in the header, and its length.
    name: (u32, u32),
    flags: u64,
    claimed_bytes: u64,
}

impl EntryHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            kind: kind(short(bytes, 0)?),
            own_bytes: usize::try_from(word(bytes, 4)?).ok()?,
            payload_bytes: usize::try_from(long(bytes, 8)?).ok()?,
            compressed_bytes: usize::try_from(word(bytes, 16)?).ok()?,
            sm: Sm(word(bytes, 28)?),
            name: (word(bytes, 32)?, word(bytes, 36)?),
            flags: long(bytes, 40)?,
            claimed_bytes: long(bytes, 56)?,
        })
    }
}

impl<'a> Iterator for EntryWalk<'a> {
    type Item = Result<FatbinEntry<'a>, FatbinError>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at >= self.region_end {
            if let Err(error) = self.enter_region()? {
                return Some(Err(error));
            }
        }
        let offset = self.at;
        match self.read_entry() {
            Ok((entry, end)) => {
                self.at = end;
                Some(Ok(entry))
            }
            Err(cause) => {
                self.at = self.region_end;
                Some(Err(FatbinError::Damaged { offset, cause }))
            }
        }
    }
}

fn kind(number: u16) -> FatbinEntryKind {
    match number {
        1 => FatbinEntryKind::Ptx,
        2 => FatbinEntryKind::Cubin,
        other => FatbinEntryKind::Other(other),
    }
}

/// A name in an entry's header: it ends with a zero byte, too.
fn name(header: &[u8], (offset, bytes): (u32, u32)) -> Option<&str> {
    let name = text_at(header, usize::try_from(offset).ok()?)?;
    (bytes > 0 && !name.is_empty()).then_some(name)
}

fn short(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn word(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}

fn long(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(offset..)?.first_chunk()?))
}
