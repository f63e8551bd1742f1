//! Sources of an entry's bytes: memory, or a source that is read by ranges.
//!
//! A small local capture is in memory, and its entries are slices of it. A large one and one elsewhere are a
//! [`RangeSource`]: an entry of it knows where it lies, and reads requested ranges. Parquet's reader takes all.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::{Buf as _, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::container::{DataLocation, DirectoryEntry};
use super::error::CaptureError;

/// Bytes per fetch when a complete entry is read piece by piece.
const PIECE_BYTES: u64 = 8 << 20;
/// The same of a file: a piece stays in the processor's cache.
const FILE_PIECE_BYTES: u64 = 1 << 20;
/// Maximum bytes that are fetched ahead of requests.
const PREFETCH_BYTES: u64 = 64 << 20;
/// Bytes that a reader of a stream takes at first: most take a page's header only. The next pieces of a file are larger.
const STREAM_BYTES: u64 = 16 << 10;

/// An object that is read by ranges. It may cache data, and never changes while it is open.
pub trait RangeSource: fmt::Debug + Send + Sync {
    /// Bytes of the object.
    fn size_bytes(&self) -> u64;

    /// The location, as errors name it.
    fn location(&self) -> &Path;

    /// The bytes of ranges within the object, each complete.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError>;

    /// An error if the object is known to have changed since it was opened.
    fn unchanged(&self) -> Result<(), CaptureError> {
        Ok(())
    }
}

/// The bytes of an entry. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EntryBytes(SourceForm);

#[derive(Clone, Debug)]
enum SourceForm {
    Memory(Bytes),
    /// A range of a local file.
    Part(Arc<dyn RangeSource>, Range<u64>),
    Remote(Arc<RemoteEntry>),
}

/// An entry of an object that is read by ranges.
#[derive(Debug)]
struct RemoteEntry {
    source: Arc<dyn RangeSource>,
    slot: DirectoryEntry,
    /// Offset of the entry's data. Its local header states it and is read with the first bytes.
    start: OnceLock<u64>,
}

impl From<Vec<u8>> for EntryBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Bytes::from(bytes).into()
    }
}

impl From<Bytes> for EntryBytes {
    fn from(bytes: Bytes) -> Self {
        Self(SourceForm::Memory(bytes))
    }
}

impl EntryBytes {
    /// A range of a local file.
    pub(super) fn part(file: Arc<dyn RangeSource>, range: Range<u64>) -> Self {
        Self(SourceForm::Part(file, range))
    }

    pub(super) fn remote(source: Arc<dyn RangeSource>, slot: DirectoryEntry) -> Self {
        Self(SourceForm::Remote(Arc::new(RemoteEntry { source, slot, start: OnceLock::new() })))
    }

    /// Number of bytes.
    pub fn size_bytes(&self) -> u64 {
        match &self.0 {
            SourceForm::Memory(bytes) => bytes.len() as u64,
            SourceForm::Part(_, range) => range.end - range.start,
            SourceForm::Remote(remote) => remote.slot.size,
        }
    }

    /// All of them, where they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            SourceForm::Memory(bytes) => Some(bytes),
            SourceForm::Part(..) | SourceForm::Remote(_) => None,
        }
    }

    /// True if they are in memory or in a local file: nothing is gained by reading ranges together, or in advance.
    pub fn is_near(&self) -> bool {
        !matches!(self.0, SourceForm::Remote(_))
    }

    /// All of them.
    pub fn whole(&self) -> Result<Bytes, CaptureError> {
        self.read(0..self.size_bytes())
    }

    /// An error if a local file was changed since it was opened: the reason for every other error of reading it.
    pub fn unchanged(&self) -> Result<(), CaptureError> {
        match &self.0 {
            SourceForm::Part(file, _) => file.unchanged(),
            SourceForm::Memory(_) | SourceForm::Remote(_) => Ok(()),
        }
    }

    /// The bytes of a range.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, CaptureError> {
        Ok(self.read_ranges(&[range])?.pop().unwrap_or_default())
    }

    /// The bytes of several ranges, fetched together.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        match &self.0 {
            SourceForm::Memory(bytes) => ranges.iter().map(|range| slice(bytes, range)).collect(),
            SourceForm::Part(file, own) => {
                let absolute = |range| within(range, own.start, own.end - own.start, file.location());
                file.read(&ranges.iter().map(absolute).collect::<Result<Vec<_>, _>>()?)
            }
            SourceForm::Remote(remote) => remote.read(ranges),
        }
    }

    /// Their BLAKE3 hash, in hexadecimal digits, read piece by piece.
    pub fn hash(&self) -> Result<String, CaptureError> {
        let mut hasher = blake3::Hasher::new();
        for piece in self.pieces() {
            hasher.update(&piece?);
        }
        Ok(hasher.finalize().to_hex().to_string())
    }

    /// All of them, in order: at once where they are in memory.
    pub fn pieces(&self) -> impl Iterator<Item = Result<Bytes, CaptureError>> {
        let size = self.size_bytes();
        let length = match self.0 {
            SourceForm::Memory(_) => size.max(1),
            SourceForm::Part(..) => FILE_PIECE_BYTES,
            SourceForm::Remote(_) => PIECE_BYTES,
        };
        let ranges = (0..size.div_ceil(length)).map(move |piece| piece * length);
        ranges.map(move |start| self.read(start..size.min(start.saturating_add(length))))
    }
}

/// Fetches entries together, as many as a source can be expected to keep.
pub(super) fn prefetch<'a>(entries: impl Iterator<Item = &'a EntryBytes>) {
    let mut source: Option<&Arc<dyn RangeSource>> = None;
    let mut ranges = Vec::new();
    let mut left = PREFETCH_BYTES;
    for entry in entries {
        let SourceForm::Remote(remote) = &entry.0 else { continue };
        let range = remote.slot.whole();
        let Some(rest) = left.checked_sub(range.end - range.start) else { break };
        left = rest;
        ranges.push(range);
        source = Some(&remote.source);
    }
    // What fails here fails again, with its name, when it is read.
    source.map(|source| source.read(&ranges)).into_iter().for_each(drop);
}

impl RemoteEntry {
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        let start = self.start()?;
        let absolute = |range| within(range, start, self.slot.size, self.source.location());
        self.source.read(&ranges.iter().map(absolute).collect::<Result<Vec<_>, _>>()?)
    }

    fn start(&self) -> Result<u64, CaptureError> {
        if let Some(start) = self.start.get() {
            return Ok(*start);
        }
        let DataLocation { data_start, .. } = self.slot.locate(self.source.as_ref())?;
        Ok(*self.start.get_or_init(|| data_start))
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Result<Bytes, CaptureError> {
    let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    match bounds {
        Some((start, end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => Err(outside(range, bytes.len() as u64, Path::new("memory"))),
    }
}

/// A range of an entry as a range of its source.
fn within(range: &Range<u64>, start: u64, size: u64, path: &Path) -> Result<Range<u64>, CaptureError> {
    if range.start > range.end || range.end > size {
        return Err(outside(range, size, path));
    }
    Ok(start + range.start..start + range.end)
}

fn outside(range: &Range<u64>, size: u64, path: &Path) -> CaptureError {
    let cause = format!("bytes {} to {} of {size} were requested", range.start, range.end);
    CaptureError::corrupt("entry", cause, path)
}

impl Length for EntryBytes {
    fn len(&self) -> u64 {
        self.size_bytes()
    }
}

impl ChunkReader for EntryBytes {
    type T = EntryStream;

    fn get_read(&self, start: u64) -> Result<EntryStream, ParquetError> {
        let mut stream =
            EntryStream { entry: self.clone(), at: start, rest: Bytes::new(), next_bytes: STREAM_BYTES };
        if let Some(bytes) = self.in_memory() {
            stream.rest = slice(bytes, &(start..bytes.len() as u64)).map_err(external)?;
            stream.at = bytes.len() as u64;
        }
        Ok(stream)
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        self.read(start..start.saturating_add(length as u64)).map_err(external)
    }
}

fn external(error: CaptureError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

/// Reads an entry from an offset on.
#[derive(Debug)]
pub struct EntryStream {
    entry: EntryBytes,
    at: u64,
    rest: Bytes,
    /// Bytes to read next.
    next_bytes: u64,
}

impl Read for EntryStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.at < self.entry.size_bytes() {
            let end = self.entry.size_bytes().min(self.at.saturating_add(self.next_bytes));
            self.rest = self.entry.read(self.at..end).map_err(io::Error::other)?;
            self.at = end;
            if self.entry.is_near() {
                self.next_bytes = FILE_PIECE_BYTES.min(self.next_bytes * 4);
            }
        }
        let length = buffer.len().min(self.rest.len());
        self.rest.split_to(length).copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
