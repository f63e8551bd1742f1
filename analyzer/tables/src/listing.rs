//! Tables of a capture, as a table.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::datasource::MemTable;
use datafusion::error::Result;
use stallmap_schema::table::TableRow as _;

use super::captured::CapturedTable;
use super::plain;

stallmap_schema::tables! {
    /// A table of this capture.
    CaptureTable "capture_table" key [name] sort [name] {
        /// Name in SQL.
        name: String,
        /// Rows.
        row_count: u64,
        /// Bytes of its Parquet file.
        size_bytes: u64,
        /// True if the capture lacks it although its writer knew it. It is then empty, as are tables that later
        /// releases added.
        is_missing: bool,
    }
}

/// The table `capture_table`.
pub fn listing<'a>(tables: impl Iterator<Item = &'a Arc<CapturedTable>>) -> Result<MemTable> {
    let rows = tables.map(|table| CaptureTable {
        name: table.name().to_owned(),
        row_count: u64::try_from(table.rows()).unwrap_or(0),
        size_bytes: table.size_bytes() as u64,
        is_missing: table.is_missing(),
    });
    let batch = CaptureTable::batch(rows)?;
    let schema = plain(&batch.schema());
    let batch = RecordBatch::try_new(Arc::clone(&schema), batch.columns().to_vec())?;
    MemTable::try_new(schema, vec![vec![batch]])
}
