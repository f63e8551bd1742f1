//! The ZIP form: stored entries, aligned, in the order of the manifest.

mod directory;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use super::entry;
use super::error::CaptureError;
use super::opened::{OpenFile, OpenedFile, open_regular};
use super::source::{EntryBytes, RangeSource};

pub(super) use directory::{DataLocation, DirectoryEntry};

/// Bytes at the end of a table that are read ahead: most footers.
const FOOTER_BYTES: u64 = 16 << 10;

/// The entries of a local ZIP file, each a slice or a range of it.
pub(super) fn entries(
    opened: &OpenedFile,
    path: &Path,
) -> Result<BTreeMap<String, EntryBytes>, CaptureError> {
    let memory;
    let source: &dyn RangeSource = match opened {
        OpenedFile::Read(whole) => {
            memory = FileMemory { whole, path };
            &memory
        }
        OpenedFile::File(file) => file.as_ref(),
    };
    let entry = |slot: DirectoryEntry| {
        let start = slot.locate(source)?.data_start;
        let range = start..start + slot.size;
        let bytes = match opened {
            OpenedFile::Read(whole) => FileMemory { whole, path }.slice(&range)?.into(),
            OpenedFile::File(file) => EntryBytes::part(Arc::<OpenFile>::clone(file), range),
        };
        Ok((slot.name, bytes))
    };
    directory(source)?.into_iter().map(entry).collect()
}

/// The entries of a ZIP file that is read by ranges. The tables' headers and footers, which are needed whatever is
/// asked, are read at once.
pub(super) fn remote_entries(
    source: &Arc<dyn RangeSource>,
) -> Result<BTreeMap<String, EntryBytes>, CaptureError> {
    let slots = directory(source.as_ref())?;
    let mut ahead = Vec::new();
    for slot in &slots {
        if slot.name == entry::MANIFEST {
            ahead.push(slot.whole());
        } else if entry::is_table(&slot.name) {
            ahead.extend([slot.head(), slot.tail(FOOTER_BYTES)]);
        }
    }
    source.read(&ahead)?;
    let entry = |slot: DirectoryEntry| (slot.name.clone(), EntryBytes::remote(Arc::clone(source), slot));
    Ok(slots.into_iter().map(entry).collect())
}

fn directory(source: &dyn RangeSource) -> Result<Vec<DirectoryEntry>, CaptureError> {
    if source.size_bytes() == 0 {
        let path = source.location().to_owned();
        return Err(CaptureError::NotACapture { cause: "it is empty".to_owned(), path });
    }
    directory::read_directory(source)
}

/// A file in memory.
struct FileMemory<'a> {
    whole: &'a Bytes,
    path: &'a Path,
}

impl FileMemory<'_> {
    fn slice(&self, range: &Range<u64>) -> Result<Bytes, CaptureError> {
        let bounds = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let within = bounds.filter(|(start, end)| start <= end && *end <= self.whole.len());
        let (start, end) = within.ok_or_else(|| {
            CaptureError::corrupt("ZIP directory", "it does not lie within the file", self.path)
        })?;
        Ok(self.whole.slice(start..end))
    }
}

impl fmt::Debug for FileMemory<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Memory").field(&self.path).finish()
    }
}

impl RangeSource for FileMemory<'_> {
    fn size_bytes(&self) -> u64 {
        self.whole.len() as u64
    }

    fn location(&self) -> &Path {
        self.path
    }

    fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, CaptureError> {
        ranges.iter().map(|range| self.slice(range)).collect()
    }
}

/// Reads up to `limit` bytes of a file.
pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
