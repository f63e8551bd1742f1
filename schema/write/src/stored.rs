//! Stored answers of a capture that is there already: see [`stallmap_schema::capture::stored`].

use std::collections::BTreeMap;
use std::fs;

use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::manifest::{self, TableEntry};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored::{StoredAnswer, is_table};
use stallmap_schema::cell::Blob;
use stallmap_schema::table::TableRow as _;

use crate::encoding;
use crate::labels::replace_file;
use crate::pack::write_entries;
use crate::writer::StagingFolder;

/// Compression of the answers.
pub const ZSTD_LEVEL: i32 = 9;
/// Bytes of a part: half the bound of a blob.
const PART_BYTES: usize = 2 << 20;

/// Replaces a capture file by itself with these answers, by view, and no others. Everything else stays as it is.
pub fn write(
    reader: &CaptureReader,
    rules: &str,
    answers: &BTreeMap<String, Vec<u8>>,
) -> Result<(), CaptureError> {
    let path = reader.path();
    let refused = |cause: &str| Err(CaptureError::refused("stored answers", cause, path));
    if !path.is_file() {
        return refused("the capture is not a file (`stallmap pack` makes one of a folder)");
    }
    let staging = StagingFolder::next_to(path)?;
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
    replace_file(reader, &staging, &manifest)
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
    let level = ZstdLevel::try_new(ZSTD_LEVEL).map_err(|cause| refused(cause.to_string()))?;
    let properties = encoding::properties(Some(&StoredAnswer::TABLE)).into_builder();
    let properties = properties.set_compression(Compression::ZSTD(level)).build();
    let file = ArrowWriter::try_new(Vec::new(), batch.schema(), Some(properties))
        .and_then(|mut writer| {
            writer.write(&batch)?;
            writer.into_inner()
        })
        .map_err(|cause| refused(cause.to_string()))?;
    Ok((count, file))
}
