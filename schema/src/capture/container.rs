//! The ZIP form: stored entries, aligned, in the order of the manifest.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;

use bytes::Bytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

use super::entry;
use super::error::CaptureError;

/// Every entry's data begins at a multiple of this many bytes of the file.
pub(super) const ALIGNMENT: u16 = 64;
/// Entries of this size and more get ZIP64 fields.
const LARGE_BYTES: u64 = 0xf000_0000;
const LOCAL_MAGIC: &[u8] = b"PK\x03\x04";

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
pub(super) fn entries(whole: &Bytes, path: &Path) -> Result<BTreeMap<String, Bytes>, CaptureError> {
    if whole.is_empty() {
        return Err(CaptureError::NotACapture { cause: "it is empty".to_owned(), path: path.to_owned() });
    }
    let mut archive =
        ZipArchive::new(Cursor::new(whole)).map_err(|cause| no_directory(whole, &cause, path))?;
    let mut entries = BTreeMap::new();
    for index in 0..archive.len() {
        let (name, data) = slice(&mut archive, index, whole)
            .map_err(|cause| CaptureError::corrupt(format!("ZIP entry {index}"), cause, path))?;
        if entries.insert(name.clone(), data).is_some() {
            return Err(CaptureError::corrupt(format!("ZIP entry `{name}`"), "it is there twice", path));
        }
    }
    Ok(entries)
}

fn slice(
    archive: &mut ZipArchive<Cursor<&Bytes>>,
    index: usize,
    whole: &Bytes,
) -> Result<(String, Bytes), String> {
    let file = archive.by_index_raw(index).map_err(|cause| cause.to_string())?;
    let name = file.name().map_err(|cause| cause.to_string())?.into_owned();
    if !entry::is_safe(&name) {
        return Err(format!("its name {name:?} is not one that a capture has"));
    }
    if file.compression() != CompressionMethod::Stored || file.encrypted() {
        return Err(format!("`{name}` is compressed or encrypted, and entries of a capture are stored"));
    }
    let start = file.data_start().and_then(|start| usize::try_from(start).ok());
    let end = start.zip(usize::try_from(file.size()).ok()).and_then(|(start, size)| start.checked_add(size));
    match start.zip(end).filter(|(_, end)| *end <= whole.len() && file.size() == file.compressed_size()) {
        Some((start, end)) => Ok((name, whole.slice(start..end))),
        None => Err(format!("`{name}` does not lie within the file")),
    }
}

fn no_directory(whole: &[u8], cause: &zip::result::ZipError, path: &Path) -> CaptureError {
    let path = path.to_owned();
    if whole.starts_with(LOCAL_MAGIC) || LOCAL_MAGIC.starts_with(whole) {
        CaptureError::Truncated { cause: format!("its directory is not at its end: {cause}"), path }
    } else {
        CaptureError::NotACapture { cause: "it is not a ZIP file".to_owned(), path }
    }
}

/// Reads at most `limit` bytes of a file.
pub(super) fn read_bounded(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}
