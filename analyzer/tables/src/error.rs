//! The errors of reading a capture's tables and code.

use datafusion::error::DataFusionError;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::source::EntryBytes;

/// A capture's bytes that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A table is not valid Parquet, or not the table that its name declares.
    #[error("table `{table}` cannot be read: {reason}; hint: `stallmap check` lists the damage")]
    Table {
        /// The table.
        table: String,
        /// The reader's message.
        reason: String,
    },
    /// The container cannot be read.
    #[error(transparent)]
    Capture(#[from] CaptureError),
}

/// The error of a query over a table that is damaged, or beyond a bound.
pub(crate) fn unreadable(table: &str, reason: String) -> DataFusionError {
    DataFusionError::External(Box::new(TableError::Table { table: table.to_owned(), reason }))
}

/// The error of a query that could not read a table: it is damaged, unless its file was changed since it was opened.
pub(crate) fn failed(table: &str, bytes: &EntryBytes, reason: String) -> DataFusionError {
    match bytes.unchanged() {
        Err(changed) => DataFusionError::External(Box::new(TableError::Capture(changed))),
        Ok(()) => unreadable(table, reason),
    }
}
