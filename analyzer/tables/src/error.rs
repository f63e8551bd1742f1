//! The errors of reading a capture's tables and code.

use stallmap_schema::capture::error::CaptureError;

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
