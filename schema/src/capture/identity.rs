//! Identity of a capture's content as one number: the same for a file and a folder, for any encoding of its tables and
//! any location. Two people compare it to know that they look at the same recording.
//!
//! Rules, `stallmap-content/2`. All hashes are BLAKE3.
//!
//! - A value is one byte, 1, and its bytes: numbers little endian, text and binaries with their length before them as 8
//!   bytes, lists with their length and their values. A null is one byte, 0.
//! - A column is its values in the order of the rows. A word is its text.
//! - A table is, for each column in the order of names: its name with its length, and the hash of its values. A table
//!   without rows is as one that is not there, and so is a column of nulls that a later release added.
//! - Stored answers are no content.
//! - A file is its content, uncompressed where its name ends with `.zst`.
//! - A capture is, for each table and then each file in the order of names: the name with its length, and the hash.

use std::collections::BTreeMap;
use std::io::Read as _;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, ToByteSlice as _};
use arrow::downcast_primitive_array;

use super::error::CaptureError;
use super::manifest::TableEntry;
use super::reader::{CaptureReader, MAX_CUBIN_BYTES};
use super::{entry, stored};
use crate::tables;

/// Name and version of the rules in this file.
pub const RULES: &str = "stallmap-content/2";

/// The identity of a capture's content and of its parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaptureIdentity {
    /// Hash of the whole content, in hexadecimal digits.
    pub content_id: String,
    /// Rows and hash of each table that has rows.
    pub tables: BTreeMap<String, (u64, String)>,
    /// Hash of each file.
    pub files: BTreeMap<String, String>,
}

impl CaptureIdentity {
    /// The identity of a capture's content. Everything in it is read.
    pub fn from_capture(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let mut tables = BTreeMap::new();
        let recorded = |table: &&TableEntry| table.rows > 0 && !stored::is_table(&table.name);
        for table in reader.tables().iter().filter(recorded) {
            tables.insert(table.name.clone(), table_id(reader, &table.name)?);
        }
        let mut files = BTreeMap::new();
        for file in &reader.manifest().files {
            files.insert(file.path.clone(), file_id(reader, &file.path)?);
        }
        let mut all = blake3::Hasher::new();
        let hashes = tables.iter().map(|(name, (_, hash))| (name, hash)).chain(&files);
        for (name, hash) in hashes {
            name_and_hash(&mut all, name, hash);
        }
        Ok(Self { content_id: all.finalize().to_hex().to_string(), tables, files })
    }
}

fn name_and_hash(hasher: &mut blake3::Hasher, name: &str, hash: &str) {
    hasher.update(&(name.len() as u64).to_le_bytes());
    hasher.update(name.as_bytes());
    hasher.update(hash.as_bytes());
}

fn table_id(reader: &CaptureReader, table: &str) -> Result<(u64, String), CaptureError> {
    let mut columns: BTreeMap<String, ColumnRead> = BTreeMap::new();
    let mut rows = 0;
    for batch in reader.read_table(table)? {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        add(&batch, &mut columns)
            .map_err(|cause| CaptureError::corrupt(format!("table `{table}`"), cause, reader.path()))?;
    }
    let mut all = blake3::Hasher::new();
    for (name, column) in columns {
        if column.has_value || !tables::is_added_column(table, &name) {
            name_and_hash(&mut all, &name, column.hasher.finalize().to_hex().as_str());
        }
    }
    Ok((rows, all.finalize().to_hex().to_string()))
}

/// A column while it is read.
#[derive(Default)]
struct ColumnRead {
    hasher: blake3::Hasher,
    has_value: bool,
}

fn add(batch: &RecordBatch, columns: &mut BTreeMap<String, ColumnRead>) -> Result<(), String> {
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        let mut bytes = Vec::with_capacity(array.len() * 9);
        values(array.as_ref(), &mut bytes)?;
        let column = columns.entry(field.name().clone()).or_default();
        column.hasher.update(&bytes);
        column.has_value |= array.null_count() < array.len();
    }
    Ok(())
}

fn values(array: &dyn Array, bytes: &mut Vec<u8>) -> Result<(), String> {
    downcast_primitive_array! {
        array => {
            for value in array {
                match value {
                    Some(value) => { bytes.push(1); bytes.extend_from_slice(value.to_byte_slice()); }
                    None => bytes.push(0),
                }
            }
            Ok(())
        }
        DataType::Boolean => {
            bytes.extend(array.as_boolean().iter().flat_map(|value| match value {
                Some(value) => vec![1, u8::from(value)],
                None => vec![0],
            }));
            Ok(())
        }
        DataType::Utf8 => {
            array.as_string::<i32>().iter().for_each(|text| sized(text.map(str::as_bytes), bytes));
            Ok(())
        }
        DataType::Binary => {
            array.as_binary::<i32>().iter().for_each(|blob| sized(blob, bytes));
            Ok(())
        }
        DataType::List(_) => {
            for list in array.as_list::<i32>().iter() {
                bytes.push(u8::from(list.is_some()));
                let Some(list) = list else { continue };
                bytes.extend_from_slice(&(list.len() as u64).to_le_bytes());
                values(list.as_ref(), bytes)?;
            }
            Ok(())
        }
        // Words, and whatever a later release writes that reads as text.
        _ => {
            let text = cast(array, &DataType::Utf8).map_err(|cause| cause.to_string())?;
            values(text.as_ref(), bytes)
        }
    }
}

fn sized(value: Option<&[u8]>, bytes: &mut Vec<u8>) {
    bytes.push(u8::from(value.is_some()));
    if let Some(value) = value {
        bytes.extend_from_slice(&(value.len() as u64).to_le_bytes());
        bytes.extend_from_slice(value);
    }
}

fn file_id(reader: &CaptureReader, path: &str) -> Result<String, CaptureError> {
    let stored = reader.entry_bytes(path)?;
    if !entry::is_compressed(path) {
        return stored.hash();
    }
    let wrong = |cause: std::io::Error| {
        CaptureError::corrupt(format!("entry `{path}`"), cause.to_string(), reader.path())
    };
    let packed = stored.whole()?;
    let content = zstd::Decoder::new(&packed[..]).map_err(wrong)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(content.take(MAX_CUBIN_BYTES)).map_err(wrong)?;
    Ok(hasher.finalize().to_hex().to_string())
}
