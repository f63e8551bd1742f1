//! Conversion between folder and file. Packing an unpacked capture gives the same bytes.

use std::fs;
use std::io;
use std::path::Path;

use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;

use crate::container;
use crate::writer::{StagingFolder, put};

/// Packs an open capture, wherever it is, into a file.
pub fn pack(reader: &CaptureReader, file: &Path) -> Result<(), CaptureError> {
    refuse_existing(file)?;
    let staging = StagingFolder::next_to(file)?;
    write_entries(reader, &staging.0)?;
    let zip = staging.0.join("capture.zip");
    let entries: Vec<_> = reader.manifest().entries().map(|(name, _, _)| name).collect();
    container::write(&staging.0, &entries, &zip)?;
    put(&zip, file)
}

/// Unpacks an open capture, wherever it is, into a new folder.
pub fn unpack(reader: &CaptureReader, folder: &Path) -> Result<(), CaptureError> {
    refuse_existing(folder)?;
    let staging = StagingFolder::next_to(folder)?;
    write_entries(reader, &staging.0)?;
    put(&staging.0, folder)
}

pub(crate) fn write_entries(reader: &CaptureReader, folder: &Path) -> Result<(), CaptureError> {
    let names = std::iter::once(entry::MANIFEST.to_owned());
    for name in names.chain(reader.manifest().entries().map(|(name, _, _)| name)) {
        let path = folder.join(&name);
        let parent = path.parent().unwrap_or(folder);
        fs::create_dir_all(parent).map_err(CaptureError::io("create folder", parent))?;
        container::write_entry(reader.entry_bytes(&name)?, &path)?;
    }
    Ok(())
}

fn refuse_existing(path: &Path) -> Result<(), CaptureError> {
    if path.symlink_metadata().is_err() {
        return Ok(());
    }
    let source = io::ErrorKind::AlreadyExists.into();
    Err(CaptureError::Io { action: "create capture", path: path.to_owned(), source })
}
