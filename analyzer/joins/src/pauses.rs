//! Pauses of joins that work for long without a pause of their own: a rule of the optimizer.
//!
//! A query is cancelled between two steps of its task. DataFusion's scans end a step after some batches, but a join can
//! make many rows of one batch: a nested loop compares each row of a batch with all rows of its first side before it
//! asks for the next batch, and a filter above can drop all rows that a join returns. Here, the second side of a nested
//! loop gives away as many rows at a time as are compared in a moment, and every join counts its batches as a scan does.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coop::make_cooperative;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt as _;

use crate::texts;

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
            Ok(Transformed::yes(Arc::new(SliceExec {
                role: PauseRole::Rests,
                rows: Arc::default(),
                input: plan,
            }) as _))
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
        role => Arc::new(SliceExec { role, rows: Arc::clone(&rows), input: Arc::clone(side) }) as _,
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
struct SliceExec {
    role: PauseRole,
    /// Rows of the first side.
    rows: Arc<AtomicUsize>,
    input: Arc<dyn ExecutionPlan>,
}

impl DisplayAs for SliceExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.role {
            PauseRole::Rests => "SliceExec: rests",
            PauseRole::Counts => "SliceExec: counts",
            PauseRole::Passes | PauseRole::Slices | PauseRole::Paced => "SliceExec",
        })
    }
}

impl ExecutionPlan for SliceExec {
    fn name(&self) -> &'static str {
        "SliceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        self.replace_children(children, options)
    }

    fn replace_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let input =
            children.pop().ok_or_else(|| DataFusionError::Internal("SliceExec has one child".into()))?;
        Ok(Arc::new(Self { role: self.role, rows: Arc::clone(&self.rows), input }))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (rows, schema) = (Arc::clone(&self.rows), self.schema());
        let input = self.input.execute(partition, context)?;
        let passed = match self.role {
            PauseRole::Counts => {
                rows.store(0, Ordering::Relaxed);
                let count = move |batch: &Result<RecordBatch>| {
                    let more = batch.as_ref().map_or(0, RecordBatch::num_rows);
                    rows.fetch_add(more, Ordering::Relaxed);
                };
                Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&schema), input.inspect(count)))
            }
            PauseRole::Slices => sliced(input, move || PAIRS_AT_A_TIME / rows.load(Ordering::Relaxed).max(1)),
            PauseRole::Paced => {
                let mut pace = SlicePace { rows: SlicePace::FIRST, handed: None };
                sliced(input, move || {
                    let rows = pace.next();
                    pace.handed = Some(Instant::now());
                    rows
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

/// The rows of a stream in slices of up to so many rows each, with a pause before each.
fn sliced(
    input: SendableRecordBatchStream,
    most: impl FnMut() -> usize + Send + 'static,
) -> SendableRecordBatchStream {
    let schema = input.schema();
    let next = async |(mut input, rest, mut most): (SendableRecordBatchStream, Option<RecordBatch>, _)| {
        let batch = match rest {
            Some(rest) => Ok(rest),
            None => input.next().await?,
        };
        let Ok(batch) = batch else { return Some((batch, (input, None, most))) };
        tokio::task::yield_now().await;
        let count = slice_rows(&mut most, &batch);
        let rest = batch.num_rows() - count;
        let rest = (rest > 0).then(|| batch.slice(count, rest));
        Some((Ok(batch.slice(0, count)), (input, rest, most)))
    };
    Box::pin(RecordBatchStreamAdapter::new(schema, futures::stream::unfold((input, None, most), next)))
}

fn slice_rows(most: &mut impl FnMut() -> usize, batch: &RecordBatch) -> usize {
    most().max(1).min(batch.num_rows())
}
