//! Stored answers of a capture: stored by `prepare --in-place`, verified by `check`, read with `--trust-stored`.
//!
//! Rows of views can say anything, as advice of this release. So nothing reads those of a file unless the user trusts
//! its sender. A stored view of another version of the rules, or of another content, is never read.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use datafusion::error::DataFusionError;
use stallmap_schema::capture::stored as table;
use stallmap_tables::collected::typed;

use super::stored::{StoredRows, encode_small, read_bounded};
use super::{OpenCapture, Session};
use crate::error::AnalyzeError;

impl Session {
    /// Stores the rows of views of the first capture in its file, and replaces earlier ones. The cache must have them:
    /// see [`Session::prepare`]. Returns the number of stored views. Views of too many rows are not stored.
    pub fn store_answers(&self, views: &[&str]) -> Result<usize, AnalyzeError> {
        let Some(capture) = self.captures.first() else { return Ok(0) };
        let mut answers = BTreeMap::new();
        for view in views {
            if let Some(stored) = capture.store.written(view) {
                let bytes = encode_small(&stored)
                    .map_err(|error| AnalyzeError::from(DataFusionError::External(Box::new(error))))?;
                answers.insert((*view).to_owned(), bytes);
            }
        }
        stallmap_write::stored::write(&capture.reader, &capture.store.rules(), &answers)?;
        Ok(answers.len())
    }

    /// Computes the stored answers of the first capture again. Returns those that differ, one text each. The session
    /// must have no cache, and not trust them.
    pub async fn differing_answers(&self) -> Result<Vec<String>, AnalyzeError> {
        let Some(capture) = self.captures.first() else { return Ok(Vec::new()) };
        let mut differing = Vec::new();
        for (view, bytes) in table::read(&capture.reader, &capture.store.rules())? {
            let is_known = self.views.iter().any(|known| known.name == view);
            let is_equal = match read_bounded(bytes).filter(|_| is_known) {
                Some(stored) => self.has_rows(&view, &stored).await?,
                None => false,
            };
            if !is_equal {
                differing
                    .push(format!("stored answer: rows of view `{view}` are not those that it computes"));
            }
        }
        Ok(differing)
    }

    /// True if a view has these rows, in any order.
    async fn has_rows(&self, view: &str, stored: &StoredRows) -> Result<bool, AnalyzeError> {
        let computed = self.sql(&format!("SELECT * FROM {view}")).await?.collect().await?;
        let typed = computed.iter().map(|batch| typed(batch, &stored.schema));
        let Ok(computed) = typed.collect::<Result<Vec<_>, _>>() else { return Ok(false) };
        let sorted = |rows: &[RecordBatch]| sorted(&stored.schema, rows);
        Ok(match (sorted(&computed), sorted(&stored.rows)) {
            (Ok(computed), Ok(stored)) => computed == stored,
            _ => false,
        })
    }
}

impl OpenCapture {
    /// Views whose rows come from the capture itself, because its sender is trusted.
    pub fn answered_views(&self) -> impl Iterator<Item = &str> {
        self.store.answers().keys().map(String::as_str)
    }
}

/// Rows as comparable bytes, sorted.
fn sorted(schema: &SchemaRef, rows: &[RecordBatch]) -> Result<Vec<Vec<u8>>, ArrowError> {
    let batch = concat_batches(schema, rows)?;
    if batch.num_columns() == 0 || batch.num_rows() == 0 {
        return Ok(Vec::new());
    }
    let fields = schema.fields().iter().map(|field| SortField::new(field.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(batch.columns())?;
    let mut rows: Vec<Vec<u8>> = rows.iter().map(|row| row.as_ref().to_vec()).collect();
    rows.sort_unstable();
    Ok(rows)
}
