//! Sources of an entry's bytes: memory, or a source that is read by ranges.
//!
//! A local capture is mapped, and its entries are slices of the map. A capture elsewhere is a [`RangeSource`]: an
//! entry of it knows where it lies, and fetches requested ranges. Parquet's reader takes both.

use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use bytes::{Buf as _, Bytes};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};

use super::container::{Place, Slot};
use super::error::CaptureError;

/// Bytes per fetch when a complete entry is read piece by piece.
const PIECE_BYTES: u64 = 8 << 20;
/// Maximum bytes that are fetched ahead of requests.
const PREFETCH_BYTES: u64 = 64 << 20;
/// Bytes that a reader of a stream takes at once.
const STREAM_BYTES: u64 = 16 << 10;

/// An object that is read by ranges. It may cache data, and never changes while it is open.
pub trait RangeSource: fmt::Debug + Send + Sync {
    /// Bytes of the object.
    fn size_bytes(&self) -> u64;

    /// The location, as errors name it.
    fn location(&self) -> &Path;

    /// The bytes of ranges within the object, each complete.
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError>;
}

/// The bytes of an entry. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EntryBytes(Form);

#[derive(Clone, Debug)]
enum Form {
    Memory(Bytes),
    Remote(Arc<Remote>),
}

/// An entry of an object that is read by ranges.
#[derive(Debug)]
struct Remote {
    source: Arc<dyn RangeSource>,
    slot: Slot,
    /// Offset of the entry's data. Its local header states it and is read with the first bytes.
    start: OnceLock<u64>,
}

impl From<Bytes> for EntryBytes {
    fn from(bytes: Bytes) -> Self {
        Self(Form::Memory(bytes))
    }
}

impl EntryBytes {
    pub(super) fn remote(source: Arc<dyn RangeSource>, slot: Slot) -> Self {
        Self(Form::Remote(Arc::new(Remote { source, slot, start: OnceLock::new() })))
    }

    /// Number of bytes.
    pub fn size_bytes(&self) -> u64 {
        match &self.0 {
            Form::Memory(bytes) => bytes.len() as u64,
            Form::Remote(remote) => remote.slot.size,
        }
    }

    /// All of them, where they are in memory.
    pub fn in_memory(&self) -> Option<&Bytes> {
        match &self.0 {
            Form::Memory(bytes) => Some(bytes),
            Form::Remote(_) => None,
        }
    }

    /// All of them.
    pub fn whole(&self) -> Result<Bytes, CaptureError> {
        self.read(0..self.size_bytes())
    }

    /// The bytes of a range.
    pub fn read(&self, range: Range<u64>) -> Result<Bytes, CaptureError> {
        Ok(self.read_ranges(&[range])?.pop().unwrap_or_default())
    }

    /// The bytes of several ranges, fetched together.
    pub fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        match &self.0 {
            Form::Memory(bytes) => ranges.iter().map(|range| slice(bytes, range)).collect(),
            Form::Remote(remote) => remote.read(ranges),
        }
    }

    /// Their BLAKE3 hash, in hexadecimal digits, read piece by piece.
    pub fn hash(&self) -> Result<String, CaptureError> {
        if let Some(bytes) = self.in_memory() {
            return Ok(blake3::hash(bytes).to_hex().to_string());
        }
        let mut hasher = blake3::Hasher::new();
        let size = self.size_bytes();
        let mut at = 0;
        while at < size {
            let end = size.min(at.saturating_add(PIECE_BYTES));
            hasher.update(&self.read(at..end)?);
            at = end;
        }
        Ok(hasher.finalize().to_hex().to_string())
    }
}

/// Fetches entries together, as many as a source can be expected to keep.
pub(super) fn prefetch<'a>(entries: impl Iterator<Item = &'a EntryBytes>) {
    let mut source: Option<&Arc<dyn RangeSource>> = None;
    let mut ranges = Vec::new();
    let mut left = PREFETCH_BYTES;
    for entry in entries {
        let Form::Remote(remote) = &entry.0 else { continue };
        let range = remote.slot.whole();
        let Some(rest) = left.checked_sub(range.end - range.start) else { break };
        left = rest;
        ranges.push(range);
        source = Some(&remote.source);
    }
    // What fails here fails again, with its name, when it is read.
    source.map(|source| source.read(&ranges)).into_iter().for_each(drop);
}

impl Remote {
    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        let start = self.start()?;
        let within = |range: &Range<u64>| {
            if range.start > range.end || range.end > self.slot.size {
                return Err(outside(range, self.slot.size, self.source.location()));
            }
            Ok(start + range.start..start + range.end)
        };
        let ranges: Vec<_> = ranges.iter().map(within).collect::<Result<_, _>>()?;
        self.source.read(&ranges)
    }

    fn start(&self) -> Result<u64, CaptureError> {
        if let Some(start) = self.start.get() {
            return Ok(*start);
        }
        let Place { data_start, .. } = self.slot.locate(self.source.as_ref())?;
        Ok(*self.start.get_or_init(|| data_start))
    }
}

fn slice(bytes: &Bytes, range: &Range<u64>) -> Result<Bytes, CaptureError> {
    let place = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
    match place {
        Some((start, end)) if start <= end && end <= bytes.len() => Ok(bytes.slice(start..end)),
        _ => Err(outside(range, bytes.len() as u64, Path::new("memory"))),
    }
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
        let mut stream = EntryStream { entry: self.clone(), at: start, rest: Bytes::new() };
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

/// Reads an entry from a place on.
#[derive(Debug)]
pub struct EntryStream {
    entry: EntryBytes,
    at: u64,
    rest: Bytes,
}

impl Read for EntryStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.at < self.entry.size_bytes() {
            let end = self.entry.size_bytes().min(self.at.saturating_add(STREAM_BYTES));
            self.rest = self.entry.read(self.at..end).map_err(io::Error::other)?;
            self.at = end;
        }
        let length = buffer.len().min(self.rest.len());
        self.rest.split_to(length).copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}
