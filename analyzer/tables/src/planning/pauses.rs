//! Pauses of joins that work for long without a pause of their own: a rule of the optimizer.
//!
//! A query is cancelled between two steps of its task. DataFusion's scans end a step after some batches, but a join can
//! make many rows of one batch: a nested loop compares each row of a batch with all rows of its first side before it
//! asks for the next batch, and a filter above can drop all rows that a join returns. Here, the second side of a nested
//! loop gives away as many rows at a time as are compared in a moment, and every join counts its batches as a scan does.
//!
//! Operators that repeat a row, once for each element of its lists or for each row of the other side, make one batch of each
//! that they read, of any size. They read as few rows at a time as fit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use futures::StreamExt as _;

use crate::planning::pass::{PassExec, RowPass};
use crate::planning::repeats::{self, ListPass};
use crate::planning::texts;

/// Pairs of rows that a nested loop compares in one step.
const PAIRS_AT_A_TIME: usize = 1 << 22;

/// Gives joins pauses. Runs after the rules that look for joins.
#[derive(Debug)]
pub struct JoinPauses;

impl PhysicalOptimizerRule for JoinPauses {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let pause = |plan: Arc<dyn ExecutionPlan>| {
            let has_filter = plan.downcast_ref::<HashJoinExec>().is_some_and(|join| join.filter().is_some());
            let plan = if plan.is::<NestedLoopJoinExec>() {
                in_slices(plan, [PauseRole::Counts, PauseRole::Slices])?
            } else if has_filter {
                in_slices(plan, [PauseRole::Passes, PauseRole::Paced])?
            } else if plan.is::<CrossJoinExec>() {
                in_slices(plan, [PauseRole::Measures, PauseRole::Repeats])?
            } else if let Some(unnest) = plan.downcast_ref::<UnnestExec>() {
                let input = PassExec::over(Arc::clone(unnest.input()), ListPass::for_unnest(unnest));
                plan.replace_children(vec![input], ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))?
            } else {
                plan
            };
            let multiplies = plan.is::<NestedLoopJoinExec>()
                || plan.is::<HashJoinExec>()
                || plan.is::<CrossJoinExec>()
                || plan.is::<SortMergeJoinExec>()
                || plan.is::<UnnestExec>();
            if !multiplies {
                return Ok(Transformed::no(plan));
            }
            // Its own operator instead of DataFusion's: the operators above keep what is known of their inputs.
            let pass = SlicePass { role: PauseRole::Rests, rows: Arc::default() };
            Ok(Transformed::yes(PassExec::over(plan, pass)))
        };
        plan.transform_up(pause).data()
    }

    fn name(&self) -> &'static str {
        "pauses"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A join that reads its sides in other batches.
fn in_slices(join: Arc<dyn ExecutionPlan>, roles: [PauseRole; 2]) -> Result<Arc<dyn ExecutionPlan>> {
    let rows = Arc::new(AtomicUsize::new(0));
    let sides = join.children().into_iter().zip(roles);
    let sides = sides.map(|(side, role)| match role {
        PauseRole::Passes => Arc::clone(side),
        role => PassExec::over(Arc::clone(side), SlicePass { role, rows: Arc::clone(&rows) }),
    });
    let sides = sides.collect();
    join.replace_children(sides, ReplaceChildrenOptions::new(ChildrenPropertiesMode::Keep))
}

/// The treatment of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PauseRole {
    /// Nothing.
    Passes,
    /// Each counts as a batch of a scan does, and has texts of its own.
    Rests,
    /// Their rows are counted.
    Counts,
    /// They are cut by that count: the order of a nested loop's results depends on the cuts, so these may depend on
    /// nothing else.
    Slices,
    /// They are cut by the time that the join takes: its results have the order of their rows.
    Paced,
    /// The bytes of their rows are noted.
    Measures,
    /// They are cut by those bytes: each of their rows has one of the first side with it.
    Repeats,
}

/// The size of slices that keeps the time between two of them short.
struct SlicePace {
    rows: usize,
    handed: Option<Instant>,
}

impl SlicePace {
    /// Rows of the first slice: each may meet as many rows as the first side has.
    const FIRST: usize = 64;
    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_millis(50);

    /// The rows of the next slice.
    fn next(&mut self) -> usize {
        match self.handed.map(|handed| handed.elapsed()) {
            Some(time) if time > Self::LONG => self.rows = (self.rows / 4).max(1),
            Some(time) if time < Self::SHORT => self.rows = self.rows.saturating_mul(2),
            _ => {}
        }
        self.rows
    }
}

/// Passes its input's rows on.
#[derive(Debug)]
struct SlicePass {
    role: PauseRole,
    /// Rows of the first side, or bytes of a row.
    rows: Arc<AtomicUsize>,
}

impl RowPass for SlicePass {
    fn name(&self) -> &'static str {
        "SliceExec"
    }

    fn line(&self) -> String {
        let role = match self.role {
            PauseRole::Rests => ": rests",
            PauseRole::Counts => ": counts",
            PauseRole::Measures => ": measures",
            PauseRole::Passes | PauseRole::Slices | PauseRole::Paced | PauseRole::Repeats => "",
        };
        format!("{}{role}", self.name())
    }

    /// A nested loop whose first side does not fit reads it again, to write it to a file. DataFusion 55.2 panics where that
    /// side is repartitioned ("partition not used yet", apache/datafusion#24676), and an outer, semi or anti join over
    /// several partitions returns rows that are wrong (apache/datafusion#22641). Both are mended after it.
    fn is_once(&self) -> bool {
        self.role == PauseRole::Counts
    }

    fn pass(
        &self,
        input: &Arc<dyn ExecutionPlan>,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let (rows, schema) = (Arc::clone(&self.rows), input.schema());
        let input = input.execute(partition, context)?;
        let passed: SendableRecordBatchStream = match self.role {
            PauseRole::Counts => {
                rows.store(0, Ordering::Relaxed);
                let count = move |batch: &Result<RecordBatch>| {
                    let more = batch.as_ref().map_or(0, RecordBatch::num_rows);
                    rows.fetch_add(more, Ordering::Relaxed);
                };
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), input.inspect(count)))
            }
            PauseRole::Measures => {
                rows.store(0, Ordering::Relaxed);
                let measure = move |batch: &Result<RecordBatch>| {
                    rows.fetch_max(batch.as_ref().map_or(0, repeats::row_bytes), Ordering::Relaxed);
                };
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), input.inspect(measure)))
            }
            PauseRole::Slices => {
                sliced(input, move |_| Ok(PAIRS_AT_A_TIME / rows.load(Ordering::Relaxed).max(1)))
            }
            PauseRole::Repeats => {
                sliced(input, move |_| Ok(repeats::AT_ONCE_BYTES / rows.load(Ordering::Relaxed).max(1)))
            }
            PauseRole::Paced => {
                let mut pace = SlicePace { rows: SlicePace::FIRST, handed: None };
                sliced(input, move |_| {
                    let rows = pace.next();
                    pace.handed = Some(Instant::now());
                    Ok(rows)
                })
            }
            PauseRole::Rests => {
                let own = input.map(|batch| Ok(texts::owned(batch?)?));
                make_cooperative(Box::pin(RecordBatchStreamAdapter::new(schema, own)))
            }
            PauseRole::Passes => input,
        };
        Ok(passed)
    }
}

/// The rows of a stream in slices of up to so many rows of a batch each, with a pause before each.
pub(crate) fn sliced(
    input: SendableRecordBatchStream,
    most: impl FnMut(&RecordBatch) -> Result<usize> + Send + 'static,
) -> SendableRecordBatchStream {
    let schema = input.schema();
    let next = async |(mut input, rest, mut most): (SendableRecordBatchStream, Option<RecordBatch>, _)| {
        let batch = match rest {
            Some(rest) => Ok(rest),
            None => input.next().await?,
        };
        tokio::task::yield_now().await;
        let slices = batch.and_then(|batch| {
            let count = slice_rows(&mut most, &batch)?;
            let rest = batch.num_rows() - count;
            let rest = (rest > 0).then(|| batch.slice(count, rest));
            Ok((batch.slice(0, count), rest))
        });
        Some(match slices {
            Ok((slice, rest)) => (Ok(slice), (input, rest, most)),
            Err(error) => (Err(error), (input, None, most)),
        })
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::unfold((input, None, most), next)))
}

fn slice_rows(most: &mut impl FnMut(&RecordBatch) -> Result<usize>, batch: &RecordBatch) -> Result<usize> {
    Ok(most(batch)?.max(1).min(batch.num_rows()))
}
