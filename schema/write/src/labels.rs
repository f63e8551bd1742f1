//! Labels of a capture that is there already: see [`stallmap_schema::capture::labels`].

use std::fs;

use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::labels::{CaptureLabels, check_labels};
use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::capture::reader::CaptureReader;

use crate::container;
use crate::pack::write_entries;
use crate::writer::StagingFolder;

/// Replaces the labels of a capture, file or folder. Everything else stays as it is.
pub fn write(reader: &CaptureReader, labels: CaptureLabels) -> Result<(), CaptureError> {
    let path = reader.path();
    check_labels(&labels).map_err(|cause| CaptureError::refused("labels", cause, path))?;
    let mut manifest = reader.manifest().clone();
    manifest.labels = labels;
    if !path.is_dir() {
        let staging = StagingFolder::next_to(path)?;
        write_entries(reader, &staging.0)?;
        return replace_file(reader, &staging, &manifest);
    }
    let staging = StagingFolder::next_to(&path.join(entry::MANIFEST))?;
    let listing = staging.0.join(entry::MANIFEST);
    write_manifest(reader, &staging, &manifest)?;
    fs::rename(listing, path.join(entry::MANIFEST)).map_err(CaptureError::io("replace manifest of", path))
}

/// Replaces a capture's file by its entries in a folder, under another manifest.
pub(crate) fn replace_file(
    reader: &CaptureReader,
    staging: &StagingFolder,
    manifest: &Manifest,
) -> Result<(), CaptureError> {
    write_manifest(reader, staging, manifest)?;
    let zip = staging.0.join("capture.zip");
    let entries: Vec<_> = manifest.entries().map(|(name, _, _)| name).collect();
    container::write(&staging.0, &entries, &zip)?;
    CaptureReader::open(&zip)?;
    fs::rename(zip, reader.path()).map_err(CaptureError::io("replace capture", reader.path()))
}

fn write_manifest(
    reader: &CaptureReader,
    staging: &StagingFolder,
    manifest: &Manifest,
) -> Result<(), CaptureError> {
    let json = manifest
        .to_json()
        .map_err(|cause| CaptureError::refused("manifest", cause.to_string(), reader.path()))?;
    let listing = staging.0.join(entry::MANIFEST);
    fs::write(&listing, json).map_err(CaptureError::io("write", &listing))
}
