//! The ZIP form: stored entries, aligned, in the order of the manifest.

mod directory;

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::entry;
use super::error::CaptureError;
use super::source::{EntryBytes, RangeSource};

pub(super) use directory::{Place, Slot};

/// Every entry's data begins at a multiple of this many bytes of the file.
pub(super) const ALIGNMENT: u16 = 64;
/// Entries of this size and more get ZIP64 fields.
const LARGE_BYTES: u64 = 0xf000_0000;
/// Bytes at the end of a table that are read ahead: most footers.
const FOOTER_BYTES: u64 = 16 << 10;

/// Writes the entries of a folder as a ZIP file, the manifest first. An entry's file is removed from the folder once
/// it is written, where `consume` says so.
pub(super) fn write(
    folder: &Path,
    entries: &[String],
    file: &Path,
    consume: bool,
) -> Result<(), CaptureError> {
    let output = File::create_new(file).map_err(CaptureError::io("create capture", file))?;
    let mut zip = ZipWriter::new(BufWriter::with_capacity(1 << 20, output));
    for name in std::iter::once(entry::MANIFEST).chain(entries.iter().map(String::as_str)) {
        let path = folder.join(name);
        append(&mut zip, name, &path).map_err(CaptureError::io("write capture", file))?;
        if consume {
            std::fs::remove_file(&path).map_err(CaptureError::io("remove", &path))?;
        }
    }
    let finish = || {
        let mut output = zip.finish()?;
        output.flush()?;
        output.get_ref().sync_all()
    };
    finish().map_err(CaptureError::io("write capture", file))
}

fn append(zip: &mut ZipWriter<BufWriter<File>>, name: &str, path: &Path) -> io::Result<()> {
    let mut source = File::open(path)?;
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(ALIGNMENT)
        .unix_permissions(0o644)
        .large_file(source.metadata()?.len() >= LARGE_BYTES);
    zip.start_file(name, options)?;
    io::copy(&mut BufReader::with_capacity(1 << 20, &mut source), zip).map(drop)
}

/// The entries of a ZIP file, each a slice of it.
pub(super) fn entries(whole: &Bytes, path: &Path) -> Result<BTreeMap<String, EntryBytes>, CaptureError> {
    let mapped = Mapped { whole, path };
    let slice = |slot: Slot| {
        let start = slot.locate(&mapped)?.data_start;
        let data = mapped.slice(&(start..start + slot.size))?;
        Ok((slot.name, data.into()))
    };
    directory(&mapped)?.into_iter().map(slice).collect()
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
    let entry = |slot: Slot| (slot.name.clone(), EntryBytes::remote(Arc::clone(source), slot));
    Ok(slots.into_iter().map(entry).collect())
}

fn directory(source: &dyn RangeSource) -> Result<Vec<Slot>, CaptureError> {
    if source.size_bytes() == 0 {
        let path = source.location().to_owned();
        return Err(CaptureError::NotACapture { cause: "it is empty".to_owned(), path });
    }
    directory::read_directory(source)
}

/// A file in memory.
struct Mapped<'a> {
    whole: &'a Bytes,
    path: &'a Path,
}

impl Mapped<'_> {
    fn slice(&self, range: &Range<u64>) -> Result<Bytes, CaptureError> {
        let place = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let within = place.filter(|(start, end)| start <= end && *end <= self.whole.len());
        let (start, end) = within.ok_or_else(|| {
            CaptureError::corrupt("ZIP directory", "it does not lie within the file", self.path)
        })?;
        Ok(self.whole.slice(start..end))
    }
}

impl fmt::Debug for Mapped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mapped").field(&self.path).finish()
    }
}

impl RangeSource for Mapped<'_> {
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
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
