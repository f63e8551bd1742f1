//! Tables that depend on a complete launch, or on a complete capture, and their computation.

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::table::Row;

use stallmap_tables::plain;

/// Columns of `memory_access` for every analysis, in table order.
pub(super) const COLUMNS: [&str; 15] = [
    "kernel_id",
    "function_id",
    "pc",
    "block",
    "warp",
    "sequence",
    "kind",
    "space",
    "access_bytes",
    "lane_mask",
    "address",
    "span_bytes",
    "stride_bytes",
    "offsets",
    "offset_shift",
];

/// Something that is computed from accesses, launch by launch, in the order in which a capture stores them.
pub(super) trait Analysis: Send {
    /// Adds accesses of one launch, which all have its kernel_id.
    fn add(&mut self, accesses: &RecordBatch) -> Result<()>;

    /// Ends the current launch.
    fn end_launch(&mut self);

    /// Does a part of the remaining work, small enough for a query to be cancelled in between. Returns true if more
    /// remains.
    fn work(&mut self) -> bool {
        false
    }

    /// Bytes of memory that it holds for the launch or the capture at hand.
    fn bytes(&self) -> usize;

    /// Ends the input.
    fn end(&mut self) {}

    /// The finished rows, if there are at least so many.
    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>>;
}

/// Rows that wait to be taken.
pub(super) struct Ready<R: Row> {
    builder: R::Builder,
    count: usize,
}

impl<R: Row> Default for Ready<R> {
    fn default() -> Self {
        Self { builder: R::Builder::default(), count: 0 }
    }
}

impl<R: Row> Ready<R> {
    pub(super) fn push(&mut self, row: R) {
        row.append(&mut self.builder);
        self.count += 1;
    }

    pub(super) fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        if self.count < least.max(1) {
            return Ok(None);
        }
        self.count = 0;
        Ok(Some(RecordBatch::try_new(plain(&R::TABLE.schema()), R::finish(&mut self.builder))?))
    }
}
