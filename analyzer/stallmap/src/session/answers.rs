//! Stored answers of a capture: stored by `prepare --in-place`, read by every command, verified by `check`.
//!
//! Only views of numbers and names are stored and read: see [`super::plain`]. A stored view of another version of the
//! rules, or of another content, is never read.

use std::collections::BTreeMap;

use arrow::array::{RecordBatch, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, Rows, SortField};
use datafusion::error::DataFusionError;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored::{self as table, StoredAnswer};
use stallmap_schema::table::TableRow as _;
use stallmap_tables::collected::exact;

use super::plain::plain_views;
use super::resources::CostFrom;
use super::stored::{StoredRows, encode_small, read_bounded, rules_for};
use super::{OpenCapture, Session};
use crate::error::AnalyzeError;
use crate::library;

/// The part of a capture's size that its answers may add: one of so many.
const MAX_PART: usize = 10;
/// Size that answers may have in any capture.
const MIN_BYTES: usize = 40 << 10;

/// The choices of samples for costs that a capture holds rows of this release for, and a text for each other one that is
/// none of this release's.
pub fn stored_choices(reader: &CaptureReader) -> Result<(Vec<CostFrom>, Vec<String>), CaptureError> {
    let found = table::rules(reader)?;
    let (own, known) = (rules_for(CostFrom::Auto), CostFrom::ALL.map(rules_for));
    let choices = CostFrom::ALL.into_iter().filter(|choice| found.contains(&rules_for(*choice)));
    let others = found.iter().filter(|rules| rules.starts_with(&own) && !known.contains(rules));
    let text = |rules: &String| format!("stored answer: rows are of `{rules}`, which no release writes");
    Ok((choices.collect(), others.map(text).collect()))
}

impl Session {
    /// Stores rows of views of the first capture in its file, and replaces earlier ones: of the plain views that commands
    /// read, and that the views with prose read. The session must have a cache, and not read earlier answers. Returns the
    /// number of stored views. Views of too many rows, and those beyond a part of the capture's size, are not stored.
    pub async fn store_answers(&self) -> Result<usize, AnalyzeError> {
        let Some(capture) = self.captures.first() else { return Ok(0) };
        let plain = plain_views(library::views()?, library::whole_statements()?.into_iter());
        self.keep(&plain.keys().copied().collect::<Vec<_>>()).await?;
        let mut answers = BTreeMap::new();
        for view in plain.keys() {
            if let Some(stored) = capture.store.written(view) {
                let bytes = encode_small(&in_order(stored).map_err(failed)?).map_err(failed)?;
                answers.insert((*view).to_owned(), bytes);
            }
        }
        fit(&mut answers, &plain, capture.recorded_bytes()).map_err(failed)?;
        stallmap_write::stored::write(&capture.reader, &capture.store.rules(), &answers)?;
        Ok(answers.len())
    }

    /// Computes the stored answers of the first capture again. Returns those that differ, one text each. The session
    /// must have no cache, and not read them.
    pub async fn differing_answers(&self) -> Result<Vec<String>, AnalyzeError> {
        let differing = self.differing_among(|_| true).await?;
        Ok(differing.iter().map(|view| difference(view)).collect())
    }

    /// The views that the first capture has stored rows of.
    pub(super) fn stored_views(&self) -> Result<Vec<String>, AnalyzeError> {
        let Some(capture) = self.captures.first() else { return Ok(Vec::new()) };
        Ok(table::read(&capture.reader, &capture.store.rules())?.into_keys().collect())
    }

    /// The views whose stored rows differ from what they compute, of those that are asked for.
    pub(super) async fn differing_among(
        &self,
        is_asked: impl Fn(&str) -> bool,
    ) -> Result<Vec<String>, AnalyzeError> {
        let Some(capture) = self.captures.first() else { return Ok(Vec::new()) };
        let mut differing = Vec::new();
        for (view, bytes) in table::read(&capture.reader, &capture.store.rules())? {
            if !is_asked(&view) {
                continue;
            }
            let is_known = self.views.iter().any(|known| known.name == view);
            let is_equal = match read_bounded(bytes).filter(|_| is_known) {
                Some(stored) => self.has_rows(&view, &stored).await?,
                None => false,
            };
            if !is_equal {
                differing.push(view);
            }
        }
        Ok(differing)
    }

    /// True if a view has these rows, in any order, of its own types: those of others are not compared as they are.
    async fn has_rows(&self, view: &str, stored: &StoredRows) -> Result<bool, AnalyzeError> {
        let Some(planned) = self.table(view).await?.map(|table| table.schema()) else { return Ok(false) };
        let has_types = planned.fields().len() == stored.schema.fields().len()
            && planned.fields().iter().zip(stored.schema.fields()).all(|(planned, stored)| {
                planned.name() == stored.name() && planned.data_type() == stored.data_type()
            });
        if !has_types {
            return Ok(false);
        }
        let computed = self.sql(&format!("SELECT * FROM {view}")).await?.collect().await?;
        let exact = computed.iter().map(|batch| exact(batch, &stored.schema));
        let Some(computed) = exact.collect::<Option<Vec<_>>>() else { return Ok(false) };
        let sorted = |rows: &[RecordBatch]| sorted(&stored.schema, rows);
        Ok(match (sorted(&computed), sorted(&stored.rows)) {
            (Ok(computed), Ok(stored)) => computed == stored,
            _ => false,
        })
    }
}

impl OpenCapture {
    /// Bytes of all that was recorded.
    fn recorded_bytes(&self) -> usize {
        let answers = entry::table(StoredAnswer::TABLE.name);
        let entries = self.reader.manifest().entries().filter(|(path, _, _)| *path != answers);
        entries.fold(0, |sum, (_, bytes, _)| sum.saturating_add(usize::try_from(bytes).unwrap_or(usize::MAX)))
    }
}

/// The text of a difference.
pub(super) fn difference(view: &str) -> String {
    format!("stored answer: rows of view `{view}` are not those that it computes")
}

/// Removes answers until they are a small part of the capture: first those that are large for the number of their readers.
/// Removed ones that still fit stay.
fn fit(
    answers: &mut BTreeMap<String, Vec<u8>>,
    readers: &BTreeMap<&str, usize>,
    recorded_bytes: usize,
) -> std::io::Result<()> {
    let most = (recorded_bytes / MAX_PART).max(MIN_BYTES);
    let mut removed = Vec::new();
    while compressed_bytes(answers)? > most {
        let weight = |(view, bytes): &(&String, &Vec<u8>)| {
            bytes.len() / readers.get(view.as_str()).copied().unwrap_or(1).max(1)
        };
        let Some(view) = answers.iter().max_by_key(weight).map(|(view, _)| view.clone()) else { break };
        removed.extend(answers.remove_entry(&view));
    }
    for (view, bytes) in removed.into_iter().rev() {
        answers.insert(view.clone(), bytes);
        if compressed_bytes(answers)? > most {
            answers.remove(&view);
        }
    }
    Ok(())
}

/// Size of answers in a capture.
fn compressed_bytes(answers: &BTreeMap<String, Vec<u8>>) -> std::io::Result<usize> {
    let all: Vec<u8> = answers.values().flatten().copied().collect();
    Ok(zstd::bulk::compress(&all, stallmap_write::stored::ZSTD_LEVEL)?.len())
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> AnalyzeError {
    DataFusionError::External(Box::new(error)).into()
}

/// The same rows in one order: equal rows are equal bytes, and take the same part of a capture's size.
fn in_order(stored: StoredRows) -> Result<StoredRows, ArrowError> {
    let batch = concat_batches(&stored.schema, &stored.rows)?;
    let Some(rows) = comparable(&batch)? else { return Ok(stored) };
    let mut order: Vec<usize> = (0..rows.num_rows()).collect();
    order.sort_unstable_by_key(|row| rows.row(*row));
    let order: UInt64Array = order.into_iter().map(|row| row as u64).collect();
    Ok(StoredRows { rows: vec![take_record_batch(&batch, &order)?], ..stored })
}

/// Rows as comparable bytes, sorted.
fn sorted(schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Vec<Vec<u8>>, ArrowError> {
    let Some(rows) = comparable(&concat_batches(schema, rows)?)? else { return Ok(Vec::new()) };
    let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort_unstable();
    Ok(rows)
}

/// Rows as comparable bytes. None if there are none.
fn comparable(batch: &RecordBatch) -> Result<Option<Rows>, ArrowError> {
    if batch.num_columns() == 0 || batch.num_rows() == 0 {
        return Ok(None);
    }
    let schema = batch.schema();
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    RowConverter::new(fields)?.convert_columns(batch.columns()).map(Some)
}
