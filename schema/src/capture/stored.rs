//! Stored answers: rows of views that a release computed from a capture, as one more table of it.
//!
//! The table is no recorded content: the content id ignores it, and every command that changes a capture drops it. A
//! release that does not know it reads the capture as before. Answers are those of one version of the rules and of one
//! content. Others are never returned.

use std::collections::{BTreeMap, BTreeSet};

use super::error::CaptureError;
use super::reader::CaptureReader;
use crate::cell::Blob;
use crate::table::TableRow as _;

/// Maximum parts of a capture's answers: 4 GiB.
const MAX_PARTS: usize = 2048;

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

/// The rules that a capture holds answers of its content of.
pub fn rules(reader: &CaptureReader) -> Result<BTreeSet<String>, CaptureError> {
    let mut rules = BTreeSet::new();
    let content = reader.manifest().recorded_id();
    reader.for_each_row(MAX_PARTS, |row: StoredAnswer| {
        if row.content == content {
            rules.insert(row.rules);
        }
    })?;
    Ok(rules)
}

/// The answers that a capture holds, by view: those of its content and of some rules.
pub fn read(reader: &CaptureReader, rules: &str) -> Result<BTreeMap<String, Vec<u8>>, CaptureError> {
    let mut answers = BTreeMap::<String, Vec<u8>>::new();
    let content = reader.manifest().recorded_id();
    reader.for_each_row(MAX_PARTS, |row: StoredAnswer| {
        if row.rules == rules && row.content == content {
            answers.entry(row.view).or_default().extend(row.bytes.0);
        }
    })?;
    Ok(answers)
}
