//! Stored answers: rows of views that a release computed from a capture, as one more table of it.
//!
//! The table is no recorded content: the content id ignores it, and every command that changes a capture drops it. A
//! release that does not know it reads the capture as before. Answers are those of one version of the rules and of one
//! content. Others are never returned.

use std::collections::BTreeMap;
use std::fs;

use parquet::arrow::ArrowWriter;

use super::error::CaptureError;
use super::manifest::{self, TableEntry};
use super::pack::write_entries;
use super::reader::CaptureReader;
use super::writer::Staging;
use super::{container, encoding, entry};
use crate::cell::Blob;
use crate::table::Row as _;

/// Bytes of a part: half the bound of a blob.
const PART_BYTES: usize = 2 << 20;
/// Maximum parts of a capture's answers: 4 GiB.
const MOST_PARTS: usize = 2048;

crate::tables! {
    /// A part of the stored rows of one view.
    StoredAnswer "stored_answer" key [view, part] sort [view, part] {
        /// The view.
        view: String,
        /// Number of the part, from 0: parts have up to 2 MiB.
        part: u32,
        /// Hash of the code and SQL that computed the rows.
        rules: String,
        /// Content that they were computed from: `Manifest::recorded_id`.
        content: String,
        /// A part of a Parquet file with the rows.
        bytes: Blob,
    }
}

/// True for the table of stored answers.
pub fn is_table(name: &str) -> bool {
    name == StoredAnswer::TABLE.name
}

/// The answers that a capture holds, by view: those of its content and of some rules.
pub fn read(reader: &CaptureReader, rules: &str) -> Result<BTreeMap<String, Vec<u8>>, CaptureError> {
    let mut answers = BTreeMap::<String, Vec<u8>>::new();
    let content = reader.manifest().recorded_id();
    reader.for_each_row(MOST_PARTS, |row: StoredAnswer| {
        if row.rules == rules && row.content == content {
            answers.entry(row.view).or_default().extend(row.bytes.0);
        }
    })?;
    Ok(answers)
}

/// Replaces a capture file by itself with these answers, by view, and no others. Everything else stays as it is.
pub fn write(
    reader: &CaptureReader,
    rules: &str,
    answers: &BTreeMap<String, Vec<u8>>,
) -> Result<(), CaptureError> {
    let path = reader.path();
    let refused = |cause: &str| Err(CaptureError::refused("stored answers", cause, path));
    if reader.is_renumbered() {
        return refused("the capture has format 1 (`stallmap pack` writes it in the present format)");
    }
    if !path.is_file() {
        return refused("the capture is not a file (`stallmap pack` makes one of a folder)");
    }
    let staging = Staging::next_to(path)?;
    write_entries(reader, &staging.0)?;
    let name = entry::table(StoredAnswer::TABLE.name);
    let (rows, bytes) = encode(reader, rules, answers)?;
    let table = staging.0.join(&name);
    fs::write(&table, &bytes).map_err(CaptureError::io("write", &table))?;
    let mut manifest = reader.manifest().clone();
    manifest.tables.retain(|table| !is_table(&table.name));
    manifest.tables.push(TableEntry {
        name: StoredAnswer::TABLE.name.to_owned(),
        rows,
        bytes: bytes.len() as u64,
        blake3: blake3::hash(&bytes).to_hex().to_string(),
    });
    manifest.format.minor = manifest.format.minor.max(manifest::MINOR);
    manifest.capture_id = manifest.compute_capture_id();
    let json =
        manifest.to_json().map_err(|cause| CaptureError::refused("manifest", cause.to_string(), path))?;
    let listing = staging.0.join(entry::MANIFEST);
    fs::write(&listing, json).map_err(CaptureError::io("write", &listing))?;
    let zip = staging.0.join("capture.zip");
    let entries: Vec<_> = manifest.entries().map(|(name, _, _)| name).collect();
    container::write(&staging.0, &entries, &zip, true)?;
    CaptureReader::open(&zip)?;
    fs::rename(zip, path).map_err(CaptureError::io("replace capture", path))
}

/// The table's rows and its Parquet file.
fn encode(
    reader: &CaptureReader,
    rules: &str,
    answers: &BTreeMap<String, Vec<u8>>,
) -> Result<(u64, Vec<u8>), CaptureError> {
    let content = reader.manifest().recorded_id();
    let parts = |(view, bytes): (&String, &Vec<u8>)| {
        let part = |(part, bytes): (u32, &[u8])| StoredAnswer {
            view: view.clone(),
            part,
            rules: rules.to_owned(),
            content: content.clone(),
            bytes: Blob(bytes.to_vec()),
        };
        (0..).zip(bytes.chunks(PART_BYTES)).map(part).collect::<Vec<_>>()
    };
    let rows: Vec<StoredAnswer> = answers.iter().flat_map(parts).collect();
    let count = rows.len() as u64;
    let refused = |cause: String| CaptureError::refused("rows of stored answers", cause, reader.path());
    let batch = StoredAnswer::batch(rows).map_err(|cause| refused(cause.to_string()))?;
    let properties = encoding::properties(Some(&StoredAnswer::TABLE));
    let file = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))
        .and_then(|mut writer| {
            writer.write(&batch)?;
            writer.into_inner()
        })
        .map_err(|cause| refused(cause.to_string()))?;
    Ok((count, file))
}
