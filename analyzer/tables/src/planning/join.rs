//! The join of rows with the rows whose interval holds a number of theirs: `a.x BETWEEN b.low AND b.high`.
//!
//! DataFusion 55 has no interval join: it compares every pair of rows, or every pair with equal keys. Here, one side's
//! intervals are collected and sorted, by their keys first, and the other side streams. The complete condition is evaluated
//! on the pairs found, so it may have more parts.

use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::compute::{cast, concat_batches, filter, take};
use arrow::datatypes::{DataType, Decimal128Type, Int64Type, SchemaRef, UInt64Type};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use tokio::sync::OnceCell;

use crate::planning::groups::{KeyGroups, in_group};
use crate::planning::intervals::{IntervalFinder, RowIntervals};

/// Pairs whose condition is evaluated at once.
const PAIRS_AT_A_TIME: usize = 1 << 15;

/// The parts of a condition that make it an interval join.
#[derive(Clone, Debug)]
pub(super) struct IntervalCondition {
    /// The side with the intervals.
    pub(super) intervals: JoinSide,
    /// A number of each row of the other side.
    pub(super) point: Arc<dyn PhysicalExpr>,
    /// The ends of each row's interval, inclusive or not.
    pub(super) low: Arc<dyn PhysicalExpr>,
    pub(super) high: Arc<dyn PhysicalExpr>,
    /// Keys that are equal in both rows of a pair: of the intervals, and of the points.
    pub(super) keys: [Vec<Arc<dyn PhysicalExpr>>; 2],
    /// True if a row with a point is wanted once, however many intervals it meets.
    pub(super) is_semi: bool,
}

impl IntervalCondition {
    /// True if a join of this type can be one by these bounds: an inner join, or a semi join that returns points.
    pub(super) fn is_for(&self, kind: JoinType) -> bool {
        match kind {
            JoinType::Inner => true,
            JoinType::LeftSemi => self.intervals == JoinSide::Right,
            JoinType::RightSemi => self.intervals == JoinSide::Left,
            _ => false,
        }
    }
}

/// An inner join or semi join by intervals.
#[derive(Debug)]
pub(super) struct IntervalJoinExec {
    /// Left and right.
    inputs: [Arc<dyn ExecutionPlan>; 2],
    bounds: IntervalCondition,
    filter: JoinFilter,
    /// The output columns, by their side and position.
    columns: Vec<(JoinSide, usize)>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    collected: Arc<OnceCell<CollectedSide>>,
}

/// All rows of the side with the intervals.
#[derive(Debug)]
struct CollectedSide {
    rows: RecordBatch,
    groups: KeyGroups,
    intervals: RowIntervals,
    _memory: MemoryReservation,
}

impl IntervalJoinExec {
    /// A join of two inputs, with these of their columns or all, by the bounds that its condition has.
    pub(super) fn new(
        inputs: [Arc<dyn ExecutionPlan>; 2],
        projection: Option<&[usize]>,
        schema: SchemaRef,
        filter: JoinFilter,
        bounds: IntervalCondition,
    ) -> Self {
        let of = |side: JoinSide, input: &Arc<dyn ExecutionPlan>| {
            (0..input.schema().fields().len()).map(move |column| (side, column))
        };
        let mut all: Vec<_> = of(JoinSide::Left, &inputs[0]).chain(of(JoinSide::Right, &inputs[1])).collect();
        if bounds.is_semi {
            all.retain(|(side, _)| *side != bounds.intervals);
        }
        let columns = match projection {
            Some(places) => places.iter().filter_map(|&place| all.get(place).copied()).collect(),
            None => all,
        };
        let equivalences = EquivalenceProperties::new(schema);
        Self::over(inputs, bounds, filter, columns, equivalences)
    }

    fn over(
        inputs: [Arc<dyn ExecutionPlan>; 2],
        bounds: IntervalCondition,
        filter: JoinFilter,
        columns: Vec<(JoinSide, usize)>,
        equivalences: EquivalenceProperties,
    ) -> Self {
        let points = usize::from(bounds.intervals == JoinSide::Left);
        let partitions = inputs[points].output_partitioning().partition_count();
        let partitioning = datafusion::physical_expr::Partitioning::UnknownPartitioning(partitions);
        let (emission, boundedness) = (EmissionType::Incremental, Boundedness::Bounded);
        let properties = Arc::new(PlanProperties::new(equivalences, partitioning, emission, boundedness));
        let metrics = ExecutionPlanMetricsSet::new();
        Self { inputs, bounds, filter, columns, properties, metrics, collected: Arc::default() }
    }

    /// The sides: intervals, points.
    fn sides(&self) -> (&Arc<dyn ExecutionPlan>, &Arc<dyn ExecutionPlan>) {
        let [left, right] = &self.inputs;
        if self.bounds.intervals == JoinSide::Left { (left, right) } else { (right, left) }
    }
}

impl DisplayAs for IntervalJoinExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let IntervalCondition { intervals, point, low, high, keys, is_semi } = &self.bounds;
        let semi = if *is_semi { " (semi)" } else { "" };
        write!(f, "IntervalJoinExec{semi}: intervals={intervals}, point={point}, low={low}, high={high}")?;
        keys[0].iter().zip(&keys[1]).try_for_each(|(key, other)| write!(f, ", {other} = {key}"))
    }
}

impl ExecutionPlan for IntervalJoinExec {
    crate::plan_methods!("IntervalJoinExec");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        let one = |side| {
            if self.bounds.intervals == side {
                Distribution::SinglePartition
            } else {
                Distribution::UnspecifiedDistribution
            }
        };
        vec![one(JoinSide::Left), one(JoinSide::Right)]
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        visit(self.filter.expression())
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let inputs = <[_; 2]>::try_from(children)
            .map_err(|_| DataFusionError::Internal("IntervalJoinExec has two children".to_owned()))?;
        let equivalences = EquivalenceProperties::new(self.schema());
        let (bounds, filter) = (self.bounds.clone(), self.filter.clone());
        Ok(Arc::new(Self::over(inputs, bounds, filter, self.columns.clone(), equivalences)))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let (intervals, points) = self.sides();
        let joining = RunningJoin {
            collect: CollectSide {
                input: Arc::clone(intervals),
                bounds: self.bounds.clone(),
                collected: Arc::clone(&self.collected),
                context: Arc::clone(&context),
            },
            points: points.execute(partition, context)?,
            filter: self.filter.clone(),
            columns: self.columns.clone(),
            schema: self.schema(),
            finder: IntervalFinder::default(),
            open: None,
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let joined = futures::stream::try_unfold(joining, |mut joining| async {
            Ok(joining.next().await?.map(|batch| (batch, joining)))
        });
        let joined = joined.map(move |batch| batch.record_output(&metrics));
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema(), joined.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }
}

/// Collects the side with the intervals, once for all partitions.
struct CollectSide {
    input: Arc<dyn ExecutionPlan>,
    bounds: IntervalCondition,
    collected: Arc<OnceCell<CollectedSide>>,
    context: Arc<TaskContext>,
}

impl CollectSide {
    async fn get(&self) -> Result<&CollectedSide> {
        self.collected.get_or_try_init(|| self.collect()).await
    }

    async fn collect(&self) -> Result<CollectedSide> {
        let memory = MemoryConsumer::new("IntervalJoinExec").register(self.context.memory_pool());
        let mut input = self.input.execute(0, Arc::clone(&self.context))?;
        let mut batches = Vec::new();
        while let Some(batch) = input.try_next().await? {
            // Rows are copied once more below.
            memory.try_grow(2 * batch.get_array_memory_size())?;
            batches.push(batch);
        }
        let rows = concat_batches(&self.input.schema(), &batches)?;
        drop(batches);
        let (mut low, mut high) = (numbers(&self.bounds.low, &rows)?, numbers(&self.bounds.high, &rows)?);
        let mut groups = KeyGroups::default();
        if let Some(of_rows) = groups.add(&self.bounds.keys[0], &rows)? {
            in_group(&mut low, &of_rows);
            in_group(&mut high, &of_rows);
        }
        let intervals = RowIntervals::new(&low, &high);
        memory.try_resize(rows.get_array_memory_size() + groups.bytes() + intervals.bytes())?;
        Ok(CollectedSide { rows, groups, intervals, _memory: memory })
    }
}

/// A join that runs.
struct RunningJoin {
    collect: CollectSide,
    points: SendableRecordBatchStream,
    filter: JoinFilter,
    columns: Vec<(JoinSide, usize)>,
    schema: SchemaRef,
    finder: IntervalFinder,
    open: Option<OpenPoints>,
}

/// A batch of points of which some rows remain.
struct OpenPoints {
    rows: RecordBatch,
    points: Vec<Option<i128>>,
    next: usize,
}

/// Rows of both sides, pair by pair.
struct RowPairs {
    intervals: UInt32Array,
    points: UInt32Array,
}

impl RunningJoin {
    /// The next pairs that meet the condition. `None` after the last.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let Some(open) = &mut self.open else {
                let Some(rows) = self.points.try_next().await? else { return Ok(None) };
                let mut points = numbers(&self.collect.bounds.point, &rows)?;
                let groups = &self.collect.get().await?.groups;
                if let Some(of_rows) = groups.find(&self.collect.bounds.keys[1], &rows)? {
                    in_group(&mut points, &of_rows);
                }
                self.open = Some(OpenPoints { rows, points, next: 0 });
                continue;
            };
            let collected = self.collect.get().await?;
            let pairs = open.pairs(&collected.intervals, &mut self.finder);
            let IntervalCondition { intervals: side, is_semi, .. } = self.collect.bounds;
            let sides = JoinSides { side, is_semi, intervals: &collected.rows, points: &open.rows };
            let joined = sides.join(&pairs, &self.filter, &self.columns, &self.schema)?;
            if open.next >= open.points.len() {
                self.open = None;
            }
            if joined.num_rows() > 0 {
                return Ok(Some(joined));
            }
            tokio::task::yield_now().await;
        }
    }
}

impl OpenPoints {
    /// The candidates of the next rows.
    fn pairs(&mut self, intervals: &RowIntervals, finder: &mut IntervalFinder) -> RowPairs {
        let (mut found, mut rows) = (Vec::new(), Vec::new());
        while found.len() < PAIRS_AT_A_TIME
            && let Some(point) = self.points.get(self.next)
        {
            if let Some(point) = *point {
                found.extend_from_slice(finder.find(intervals, point));
                rows.resize(found.len(), u32::try_from(self.next).unwrap_or(u32::MAX));
            }
            self.next += 1;
        }
        RowPairs { intervals: found.into(), points: rows.into() }
    }
}

/// Rows of both sides.
#[derive(Clone, Copy)]
struct JoinSides<'a> {
    /// The side with the intervals.
    side: JoinSide,
    is_semi: bool,
    intervals: &'a RecordBatch,
    points: &'a RecordBatch,
}

impl JoinSides<'_> {
    /// The pairs that meet a condition, with some columns.
    fn join(
        self,
        pairs: &RowPairs,
        condition: &JoinFilter,
        columns: &[(JoinSide, usize)],
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.points.len()));
        let needed =
            condition.column_indices().iter().map(|column| self.column((column.side, column.index), pairs));
        let needed = needed.collect::<Result<_>>()?;
        let needed = RecordBatch::try_new_with_options(Arc::clone(condition.schema()), needed, &options)?;
        let met = condition.expression().evaluate(&needed)?.into_array(needed.num_rows())?;
        let met = met
            .as_boolean_opt()
            .ok_or_else(|| DataFusionError::Internal("a condition of a join is true or false".to_owned()))?;
        let chosen = |rows: &UInt32Array| Ok::<_, DataFusionError>(filter(rows, met)?.as_primitive().clone());
        let mut pairs = RowPairs { intervals: chosen(&pairs.intervals)?, points: chosen(&pairs.points)? };
        if self.is_semi {
            // All pairs of a row follow each other. No column of the intervals is asked for.
            let mut points = pairs.points.values().to_vec();
            points.dedup();
            pairs.points = points.into();
        }
        let columns = columns.iter().map(|&column| self.column(column, &pairs)).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(pairs.points.len()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)?)
    }

    /// A column of the pairs.
    fn column(self, (side, place): (JoinSide, usize), pairs: &RowPairs) -> Result<ArrayRef> {
        let (rows, numbers) =
            if side == self.side { (self.intervals, &pairs.intervals) } else { (self.points, &pairs.points) };
        Ok(take(rows.column(place), numbers, None)?)
    }
}

/// True if values of a type are whole numbers that [`numbers`] reads.
pub(super) fn is_number(data_type: &DataType) -> bool {
    data_type.is_integer() || matches!(data_type, DataType::Decimal128(_, 0))
}

/// The values of an expression.
fn numbers(expr: &Arc<dyn PhysicalExpr>, rows: &RecordBatch) -> Result<Vec<Option<i128>>> {
    let array = expr.evaluate(rows)?.into_array(rows.num_rows())?;
    Ok(match array.data_type() {
        DataType::UInt64 => array.as_primitive::<UInt64Type>().iter().map(|n| n.map(i128::from)).collect(),
        DataType::Decimal128(..) => array.as_primitive::<Decimal128Type>().iter().collect(),
        _ => {
            let array = cast(&array, &DataType::Int64)?;
            array.as_primitive::<Int64Type>().iter().map(|n| n.map(i128::from)).collect()
        }
    })
}
