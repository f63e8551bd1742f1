//! Rows of a damaged segment may come twice. A capture holds each key once.

use std::collections::{BTreeMap, HashSet};

use arrow::array::{BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::error::ArrowError;
use arrow::row::{RowConverter, SortField};
use stallmap_schema::hash;
use stallmap_schema::tables;

/// Tables whose repeated rows are merged, or count.
const MERGED: [&str; 8] = [
    "run",
    "run_option",
    "python_frame",
    "python_state",
    "compiled_origin",
    "triton_kernel",
    "module",
    "loss",
];

/// The keys of a run's rows.
#[derive(Debug, Default)]
pub(super) struct RowKeys {
    /// Hashes of the keys, by table: 8 bytes each, however long a key is.
    seen: BTreeMap<String, HashSet<u64>>,
}

impl RowKeys {
    /// The rows whose key no earlier row has.
    pub(super) fn first(&mut self, table: &str, batch: RecordBatch) -> Result<RecordBatch, ArrowError> {
        let known = tables::by_name(table).filter(|table| !MERGED.contains(&table.name));
        let Some(key) = known.map(|table| table.key).filter(|key| !key.is_empty()) else {
            return Ok(batch);
        };
        // A segment of another release may lack a column. Its reader says which.
        let columns: Option<Vec<_>> = key.iter().map(|name| batch.column_by_name(name).cloned()).collect();
        let Some(columns) = columns else { return Ok(batch) };
        let fields = columns.iter().map(|column| SortField::new(column.data_type().clone())).collect();
        let rows = RowConverter::new(fields)?.convert_columns(&columns)?;
        let seen = self.seen.entry(table.to_owned()).or_default();
        let is_first: BooleanArray =
            rows.iter().map(|row| Some(seen.insert(hash::checksum(row.as_ref())))).collect();
        if is_first.true_count() == batch.num_rows() {
            Ok(batch)
        } else {
            filter_record_batch(&batch, &is_first)
        }
    }
}
