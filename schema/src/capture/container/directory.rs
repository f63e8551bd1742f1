//! The directory at the end of a ZIP file: its entries with the offsets of their headers.
//!
//! Read from any [`RangeSource`], with one read where the directory is small. Nothing in it is believed: every offset
//! must lie within the file, and every entry must be one that a capture has.

use std::collections::BTreeSet;
use std::ops::Range;

use bytes::Bytes;

use super::super::entry;
use super::super::error::CaptureError;
use super::super::source::RangeSource;

/// Bytes at the end of a file that are read first: all of most directories.
pub(super) const TAIL_BYTES: u64 = 64 << 10;
/// Most bytes that a directory may have.
const MAX_DIRECTORY_BYTES: u64 = 64 << 20;
const LOCAL_MAGIC: [u8; 4] = *b"PK\x03\x04";
const LOCAL_BYTES: u64 = 30;
const CENTRAL_MAGIC: [u8; 4] = *b"PK\x01\x02";
const CENTRAL_BYTES: usize = 46;
const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
const END_BYTES: usize = 22;
const END_64_MAGIC: [u8; 4] = *b"PK\x06\x06";
const END_64_BYTES: u64 = 56;
const LOCATOR_MAGIC: [u8; 4] = *b"PK\x06\x07";
const LOCATOR_BYTES: usize = 20;
/// The extra field that holds numbers of 64 bits.
const EXTRA_64: u16 = 1;
const ENCRYPTED: u16 = 1;
const STORED: u16 = 0;

/// An entry's range, as the directory says.
#[derive(Clone, Debug)]
pub(in super::super) struct DirectoryEntry {
    pub(in super::super) name: String,
    /// Bytes of its data.
    pub(in super::super) size: u64,
    /// Offset of its local header.
    header: u64,
    /// Latest offset at which the entry may end: the directory begins there.
    end: u64,
}

/// Location of an entry's data.
pub(in super::super) struct DataLocation {
    pub(in super::super) data_start: u64,
}

impl DirectoryEntry {
    /// Reads the entry's local header, behind which its data begins.
    pub(in super::super) fn locate(&self, source: &dyn RangeSource) -> Result<DataLocation, CaptureError> {
        let wrong = |cause: &str| {
            CaptureError::corrupt(format!("ZIP entry `{}`", self.name), cause, source.location())
        };
        let name_bytes = self.name.len() as u64;
        let header = self.header..self.header.saturating_add(LOCAL_BYTES + name_bytes);
        if header.end > self.end {
            return Err(wrong("its header does not lie within the file"));
        }
        let bytes = read(source, header)?;
        let same_name = bytes.get(30..).is_some_and(|name| name == self.name.as_bytes());
        if !bytes.starts_with(&LOCAL_MAGIC)
            || u16_at(&bytes, 26).map(u64::from) != Some(name_bytes)
            || !same_name
        {
            return Err(wrong("its header is damaged or another entry's"));
        }
        let extra = u64::from(u16_at(&bytes, 28).unwrap_or(0));
        let data_start = self.header + LOCAL_BYTES + name_bytes + extra;
        match data_start.checked_add(self.size) {
            Some(end) if end <= self.end => Ok(DataLocation { data_start }),
            _ => Err(wrong("it does not lie within the file")),
        }
    }

    /// The approximate range of the entry in the file: the distance from header to data is not known yet.
    pub(in super::super) fn whole(&self) -> Range<u64> {
        self.header..self.tail(0).end
    }

    /// The part of the file in which the local header lies.
    pub(in super::super) fn head(&self) -> Range<u64> {
        self.header..self.header.saturating_add(LOCAL_BYTES + self.name.len() as u64).min(self.end)
    }

    /// The last bytes of the data, about: where the header's end is not known, it may be a little less.
    pub(in super::super) fn tail(&self, bytes: u64) -> Range<u64> {
        let end =
            self.head().end.saturating_add(self.size).saturating_add(entry::ALIGNMENT.into()).min(self.end);
        end.saturating_sub(bytes.min(self.size)).max(self.header)..end
    }
}

/// Every entry of a ZIP file.
pub(super) fn read_directory(source: &dyn RangeSource) -> Result<Vec<DirectoryEntry>, CaptureError> {
    let size = source.size_bytes();
    let tail_start = size.saturating_sub(TAIL_BYTES + END_BYTES as u64);
    let tail = read(source, tail_start..size)?;
    let directory_end = find(&tail, tail_start, source)?;
    let end = directory_end.range.end;
    let directory = if directory_end.range.start >= tail_start {
        let at = |offset: u64| usize::try_from(offset - tail_start).unwrap_or(usize::MAX);
        tail.slice(at(directory_end.range.start)..at(end))
    } else {
        read(source, directory_end.range.clone())?
    };
    let mut slots = Vec::new();
    let mut names = BTreeSet::new();
    let mut rest = &directory[..];
    for index in 0..directory_end.entries {
        let (slot, length) = central(rest, directory_end.range.start)
            .map_err(|cause| CaptureError::corrupt(format!("ZIP entry {index}"), cause, source.location()))?;
        if !names.insert(slot.name.to_ascii_lowercase()) {
            let thing = format!("ZIP entry `{}`", slot.name);
            let cause = "it is listed twice, or another differs only by case";
            return Err(CaptureError::corrupt(thing, cause, source.location()));
        }
        slots.push(slot);
        rest = &rest[length..];
    }
    let foreign = slots.iter().find(|slot| !entry::is_allowed(&slot.name));
    // A ZIP file without a manifest is something else, which is another error.
    match foreign.filter(|_| names.contains(entry::MANIFEST)) {
        Some(slot) => {
            let cause = "a capture holds tables and cubins only";
            Err(CaptureError::corrupt(format!("ZIP entry {:?}", slot.name), cause, source.location()))
        }
        None => Ok(slots),
    }
}

/// The directory's range and its number of entries.
struct DirectoryRange {
    range: Range<u64>,
    entries: u64,
}

fn find(tail: &Bytes, tail_start: u64, source: &dyn RangeSource) -> Result<DirectoryRange, CaptureError> {
    let end = (0..=tail.len().saturating_sub(END_BYTES)).rev().find(|&at| is_end(tail, at));
    let Some(end) = end.filter(|_| tail.len() >= END_BYTES) else {
        return Err(no_directory(source));
    };
    let number = |at: usize| u64::from(u32_at(tail, end + at).unwrap_or(0));
    let (mut entries, mut bytes, mut start) =
        (u64::from(u16_at(tail, end + 10).unwrap_or(0)), number(12), number(16));
    let mut limit = tail_start + end as u64;
    if entries == 0xffff || bytes == 0xffff_ffff || start == 0xffff_ffff {
        let locator = end.checked_sub(LOCATOR_BYTES).filter(|&at| tail[at..].starts_with(&LOCATOR_MAGIC));
        let at = locator.and_then(|at| u64_at(tail, at + 8)).ok_or_else(|| no_directory(source))?;
        let fits = at.checked_add(END_64_BYTES).is_some_and(|end| end <= limit);
        let record = if fits { read(source, at..at + END_64_BYTES)? } else { Bytes::new() };
        let number = |at: usize| u64_at(&record, at).filter(|_| record.starts_with(&END_64_MAGIC));
        let numbers = number(32).zip(number(40)).zip(number(48));
        ((entries, bytes), start) = numbers.ok_or_else(|| no_directory(source))?;
        limit = at;
    }
    let range = start..start.saturating_add(bytes);
    let is_plausible = range.end <= limit && entries <= bytes / CENTRAL_BYTES as u64;
    let wrong = |cause: String| Err(CaptureError::corrupt("ZIP directory", cause, source.location()));
    match () {
        () if !is_plausible => wrong("it does not lie within the file".to_owned()),
        () if bytes > MAX_DIRECTORY_BYTES => wrong(format!("it has more than {MAX_DIRECTORY_BYTES} bytes")),
        () => Ok(DirectoryRange { range, entries }),
    }
}

/// True if the directory's end record is here: its comment ends with the file.
fn is_end(tail: &[u8], at: usize) -> bool {
    let comment = || u16_at(tail, at + 20).map(usize::from);
    tail[at..].starts_with(&END_MAGIC)
        && comment().is_some_and(|comment| at + END_BYTES + comment == tail.len())
}

/// The first entry of the rest of a directory, and its length.
fn central(rest: &[u8], directory_start: u64) -> Result<(DirectoryEntry, usize), String> {
    let cut = || "the directory is truncated".to_owned();
    if rest.len() < CENTRAL_BYTES || !rest.starts_with(&CENTRAL_MAGIC) {
        return Err(cut());
    }
    let short = |at: usize| u16_at(rest, at).unwrap_or(0);
    let long = |at: usize| u64::from(u32_at(rest, at).unwrap_or(0));
    let name_end = CENTRAL_BYTES + usize::from(short(28));
    let extra_end = name_end + usize::from(short(30));
    let length = extra_end + usize::from(short(32));
    let (Some(name), Some(extra), true) =
        (rest.get(CENTRAL_BYTES..name_end), rest.get(name_end..extra_end), length <= rest.len())
    else {
        return Err(cut());
    };
    let name = String::from_utf8_lossy(name).into_owned();
    if short(10) != STORED || short(8) & ENCRYPTED != 0 {
        return Err(format!("`{name}` is compressed or encrypted, but entries of a capture are stored"));
    }
    let mut wide = wide_numbers(extra).into_iter();
    let mut widen = |number: u64| if number == 0xffff_ffff { wide.next() } else { Some(number) };
    let numbers = (widen(long(24)), widen(long(20)), widen(long(42)));
    match numbers {
        (Some(size), Some(stored), Some(header)) if size == stored && header < directory_start => {
            Ok((DirectoryEntry { name, size, header, end: directory_start }, length))
        }
        _ => Err(format!("`{name}` does not lie within the file")),
    }
}

/// The numbers of the extra field for numbers of 64 bits.
fn wide_numbers(mut extra: &[u8]) -> Vec<u64> {
    while let (Some(kind), Some(length)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let end = 4 + usize::from(length);
        let Some(body) = extra.get(4..end) else { break };
        if kind == EXTRA_64 {
            return (0..body.len() / 8).filter_map(|index| u64_at(body, index * 8)).collect();
        }
        extra = &extra[end..];
    }
    Vec::new()
}

fn no_directory(source: &dyn RangeSource) -> CaptureError {
    let path = source.location().to_owned();
    let head = read(source, 0..source.size_bytes().min(4)).unwrap_or_default();
    if head.starts_with(&LOCAL_MAGIC) || LOCAL_MAGIC.starts_with(&head) {
        CaptureError::Truncated { cause: "its directory is not at its end".to_owned(), path }
    } else {
        CaptureError::NotACapture { cause: "it is not a ZIP file".to_owned(), path }
    }
}

fn read(source: &dyn RangeSource, range: Range<u64>) -> Result<Bytes, CaptureError> {
    Ok(source.read(&[range])?.pop().unwrap_or_default())
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}
