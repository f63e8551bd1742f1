//! The ZIP form: stored entries, aligned, in the order of the manifest.

mod sink;

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::source::EntryBytes;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use sink::ContainerSink;

/// Entries of this size and more get ZIP64 fields.
const LARGE_BYTES: u64 = 0xf000_0000;

/// Writes the entries of a folder as a ZIP file, the manifest first. An entry's file is removed from the folder once
/// it is written.
pub(crate) fn write(folder: &Path, entries: &[String], file: &Path) -> Result<(), CaptureError> {
    let output = File::create_new(file).map_err(CaptureError::io("create capture", file))?;
    std::thread::scope(|scope| {
        let mut zip = ZipWriter::new(ContainerSink::new(&output, scope));
        for name in std::iter::once(entry::MANIFEST).chain(entries.iter().map(String::as_str)) {
            let path = folder.join(name);
            append(&mut zip, name, &path).map_err(CaptureError::io("write capture", file))?;
            std::fs::remove_file(&path).map_err(CaptureError::io("remove", &path))?;
        }
        let finish = || zip.finish()?.flush();
        finish().map_err(CaptureError::io("write capture", file))
    })?;
    output.sync_all().map_err(CaptureError::io("write capture", file))
}

/// Writes an entry of another capture to a file, piece by piece. Returns its BLAKE3 hash, in hexadecimal digits.
pub(crate) fn write_entry(bytes: &EntryBytes, path: &Path) -> Result<String, CaptureError> {
    let failed = |cause| CaptureError::io("write", path)(cause);
    let mut file = File::create(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    for piece in bytes.pieces() {
        let piece = piece?;
        hasher.update(&piece);
        file.write_all(&piece).map_err(failed)?;
    }
    Ok(hasher.finalize().to_hex().to_string())
}

fn append(zip: &mut ZipWriter<ContainerSink<'_>>, name: &str, path: &Path) -> io::Result<()> {
    let mut source = File::open(path)?;
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .with_alignment(entry::ALIGNMENT)
        .unix_permissions(0o644)
        .large_file(source.metadata()?.len() >= LARGE_BYTES);
    zip.start_file(name, options)?;
    io::copy(&mut BufReader::with_capacity(1 << 20, &mut source), zip).map(drop)
}
