//! Tables that depend on a complete launch, or on a complete capture, and their computation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::table::TableRow;

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

/// A part of the work on a launch that needs no other part.
pub(super) trait LaunchJob: Send {
    /// Does a bit of it, small enough for a query to be cancelled in between. Returns true if more remains.
    fn step(&mut self) -> bool;

    /// Bytes of memory that it holds, without the data that jobs share.
    fn bytes(&self) -> usize;
}

/// Something that is done to data, a bit at a time.
pub(super) trait DataStep<D>: Send {
    /// See [`LaunchJob::step`].
    fn step(&mut self, data: &D) -> bool;

    /// See [`LaunchJob::bytes`].
    fn bytes(&self) -> usize;
}

/// Steps that an analysis gives away as a job, and takes back when it is done.
pub(super) type LentSteps<S> = Arc<Mutex<S>>;

/// Access to lent steps. A step that panicked ends the query, so its state is never read.
pub(super) fn lent<S>(steps: &LentSteps<S>) -> MutexGuard<'_, S> {
    steps.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The jobs of steps over the same data.
pub(super) fn jobs<D: Send + Sync + 'static, S: DataStep<D> + 'static>(
    data: &Arc<D>,
    steps: &[LentSteps<S>],
) -> Vec<Box<dyn LaunchJob>> {
    let job = |steps: &LentSteps<S>| StepsOver { data: Arc::clone(data), steps: Arc::clone(steps) };
    steps.iter().map(|steps| Box::new(job(steps)) as _).collect()
}

struct StepsOver<D, S> {
    data: Arc<D>,
    steps: LentSteps<S>,
}

impl<D: Send + Sync, S: DataStep<D>> LaunchJob for StepsOver<D, S> {
    fn step(&mut self) -> bool {
        lent(&self.steps).step(&self.data)
    }

    fn bytes(&self) -> usize {
        lent(&self.steps).bytes()
    }
}

/// Something that is computed from accesses, launch by launch, in the order in which a capture stores them.
pub(super) trait AccessAnalysis: Send {
    /// Adds accesses of one launch, which all have its kernel_id.
    fn add(&mut self, accesses: &RecordBatch) -> Result<()>;

    /// Ends the current launch.
    fn end_launch(&mut self);

    /// The next stage of the work on the ended launch, as up to about so many parts that may be done at the same time.
    /// It is asked for the stage after that when all are done. None if no work remains.
    ///
    /// The rows are the same for every number of parts.
    fn jobs(&mut self, _most: usize) -> Vec<Box<dyn LaunchJob>> {
        Vec::new()
    }

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
pub(super) struct ReadyRows<R: TableRow> {
    builder: R::Builder,
    count: usize,
}

impl<R: TableRow> Default for ReadyRows<R> {
    fn default() -> Self {
        Self { builder: R::Builder::default(), count: 0 }
    }
}

impl<R: TableRow> ReadyRows<R> {
    pub(super) fn push(&mut self, row: R) {
        row.append(&mut self.builder);
        self.count += 1;
    }

    pub(super) fn extend(&mut self, rows: impl IntoIterator<Item = R>) {
        rows.into_iter().for_each(|row| self.push(row));
    }

    /// Rows that wait.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        if self.count < least.max(1) {
            return Ok(None);
        }
        self.count = 0;
        Ok(Some(RecordBatch::try_new(plain(&R::TABLE.schema()), R::finish(&mut self.builder))?))
    }
}
