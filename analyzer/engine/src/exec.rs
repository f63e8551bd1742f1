//! The operator in a plan: streams `memory_access` from its input, in its order, and returns targets or shapes.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Precision;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::statistics::{ChildStats, StatisticsArgs};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use futures::StreamExt;
use stallmap_schema::table::{TableDef, TableRow as _};

use super::derived::{AccessShape, AccessTensor, PcTensorPart};
use super::index::TensorIndex;
use super::resolve::AddressResolver;
use super::rows::AccessTensorRows;
use super::runs::TensorPartRows;
use super::shapes::AccessShapeRows;
use super::summarized::SummarizedLaunches;
use stallmap_tables::plain;

/// Level of a result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowGrain {
    /// A request and a target: `access_tensor`.
    Request,
    /// An instruction of a launch and a target: `pc_tensor_part`.
    Instruction,
    /// A request with its shape: `access_shape`.
    Shape,
}

impl RowGrain {
    /// The schema of that table, without the docs that its declaration carries: DataFusion 55 compares fields with
    /// their metadata, and fails to plan a UNION of columns that are documented differently.
    pub fn schema(self) -> SchemaRef {
        plain(&self.table().schema())
    }

    /// Its table.
    pub fn table(self) -> TableDef {
        match self {
            Self::Request => AccessTensor::TABLE,
            Self::Instruction => PcTensorPart::TABLE,
            Self::Shape => AccessShape::TABLE,
        }
    }
}

/// Address × lifetime -> tensor, or request -> shape, over a scan of `memory_access`.
#[derive(Debug)]
pub struct TensorExec {
    /// The scan, and maybe a second one with the lanes of the requests that the first one's columns do not decide.
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    index: Arc<TensorIndex>,
    grain: RowGrain,
    /// The output columns, by position in the table.
    columns: Vec<usize>,
    /// Launches whose rows come from elsewhere.
    summarized: Option<Arc<SummarizedLaunches>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl TensorExec {
    /// The operator over an input with the columns that the grain needs. A second input has the same rows with the
    /// addresses of lanes, or those of them that [`StraddlesExpr`](super::straddle::StraddlesExpr) selects.
    pub fn new(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        index: Arc<TensorIndex>,
        grain: RowGrain,
        columns: Vec<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(grain.schema().project(&columns)?);
        let sort =
            grain.table().sort.iter().map_while(|name| schema.index_of(name).ok().map(|at| (*name, at)));
        let sort = sort.map(|(name, at)| PhysicalSortExpr::new_default(Arc::new(Column::new(name, at))));
        let Some(input) = inputs.first() else { return Err(wrong_inputs()) };
        // DataFusion keeps an order through repartitions, and each part waits for the one before. Instructions are few, so
        // sums of them need no order.
        let is_divided = grain == RowGrain::Shape && input.output_partitioning().partition_count() > 1;
        let is_sorted = input.output_ordering().is_some() && !is_divided;
        let sort: Vec<_> = if is_sorted { sort.collect() } else { Vec::new() };
        let properties = PlanProperties::new(
            EquivalenceProperties::new_with_orderings(schema, (!sort.is_empty()).then_some(sort)),
            input.output_partitioning().clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let properties = Arc::new(properties);
        let metrics = ExecutionPlanMetricsSet::new();
        Ok(Self { inputs, index, grain, columns, summarized: None, properties, metrics })
    }

    /// The same without the rows of summarized launches.
    pub(super) fn without(self, summarized: Option<Arc<SummarizedLaunches>>) -> Self {
        Self { summarized, ..self }
    }
}

impl DisplayAs for TensorExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorExec: table={}", self.grain.table().name)
    }
}

impl ExecutionPlan for TensorExec {
    stallmap_tables::plan_methods!("TensorExec");
    stallmap_tables::plan_methods!(no_expressions);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    // It does, as the properties state. But the rule that calls this would push a sort below, onto other columns.
    fn maintains_input_order(&self) -> Vec<bool> {
        self.inputs.iter().map(|_| false).collect()
    }

    // The scan below is divided by row groups already. Redistributing its batches would separate neighbours.
    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inputs.iter().map(|_| false).collect()
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return Err(wrong_inputs());
        }
        let new = Self::new(children, Arc::clone(&self.index), self.grain, self.columns.clone())?;
        Ok(Arc::new(new.without(self.summarized.clone())))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let Some(input) = self.inputs.first() else { return Err(wrong_inputs()) };
        let input = input.execute(partition, Arc::clone(&context))?;
        let resolver = AddressResolver::new(Arc::clone(&self.index));
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let schema = self.schema();
        let size = context.session_config().batch_size();
        let (given, columns) = (Arc::clone(&schema), self.columns.clone());
        let stream = match self.grain {
            RowGrain::Request => {
                let mut rows = AccessTensorRows::new(resolver, schema);
                requests(input, move |batch| rows.convert(batch), metrics)
            }
            RowGrain::Shape => {
                let shapes = AccessShapeRows::new(schema);
                requests(input, move |batch| shapes.convert(batch), metrics)
            }
            RowGrain::Instruction => {
                let rows = TensorPartRows::new(resolver, schema, columns, self.summarized.clone());
                let lanes = self.inputs.get(1).map(Arc::clone);
                let lanes = LaneInput { partition, context, plan: lanes, stream: None, batch: None };
                runs(InstructionReader { input, runs: rows, lanes, metrics, size })
            }
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(given, stream)))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        let of = |place: usize| if place == 0 { ChildStats::At(partition) } else { ChildStats::Skip };
        (0..self.inputs.len()).map(of).collect()
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema());
        if let Some(Precision::Exact(rows) | Precision::Inexact(rows)) =
            inputs.first().map(|input| input.num_rows)
        {
            // An instruction of a launch makes tens of requests: an estimate that puts the smaller table first in
            // joins.
            let rows = if self.grain == RowGrain::Instruction { rows / 16 } else { rows };
            statistics.num_rows = Precision::Inexact(rows);
        }
        Ok(Arc::new(statistics))
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // Only columns that pass through unchanged: a filter on them means the same below.
        let schema = self.schema();
        let allowed: HashSet<usize> = PASSED.iter().filter_map(|name| schema.index_of(name).ok()).collect();
        self.inputs.iter().try_fold(FilterDescription::new(), |description, input| {
            let child =
                ChildFilterDescription::from_child_with_allowed_indices(&filters, allowed.clone(), input)?;
            Ok(description.with_child(child))
        })
    }
}

/// The error for a plan with other inputs than planned.
fn wrong_inputs() -> DataFusionError {
    DataFusionError::Internal("TensorExec keeps the number of its inputs".to_owned())
}

/// The columns passed through from the input.
const PASSED: [&str; 9] =
    ["kernel_id", "function_id", "pc", "block", "warp", "sequence", "kind", "space", "access_bytes"];

type BatchStream = futures::stream::BoxStream<'static, Result<RecordBatch>>;

fn requests(
    input: SendableRecordBatchStream,
    mut rows: impl FnMut(&RecordBatch) -> Result<RecordBatch> + Send + 'static,
    metrics: BaselineMetrics,
) -> BatchStream {
    let convert = move |batch: Result<RecordBatch>| {
        let timer = metrics.elapsed_compute().timer();
        let converted = rows(&batch?);
        timer.done();
        converted.record_output(&metrics)
    };
    input.map(convert).boxed()
}

/// The second input. It runs only if the first one leaves requests undecided.
struct LaneInput {
    partition: usize,
    context: Arc<TaskContext>,
    plan: Option<Arc<dyn ExecutionPlan>>,
    stream: Option<SendableRecordBatchStream>,
    /// A batch of which rows remain, and the first of these.
    batch: Option<(RecordBatch, usize)>,
}

impl LaneInput {
    /// Counts the requests that closed runs wait for.
    async fn complete(&mut self, runs: &mut TensorPartRows) -> Result<()> {
        while runs.missing() > 0 {
            if self.batch.is_none() {
                self.batch = Some((self.next().await?, 0));
            }
            if let Some((batch, row)) = self.batch.take() {
                let next = runs.add_lanes(&batch, row)?;
                self.batch = (next < batch.num_rows()).then_some((batch, next));
            }
        }
        Ok(())
    }

    async fn next(&mut self) -> Result<RecordBatch> {
        let ends = || DataFusionError::Internal("the scan of lanes ends before the other".to_owned());
        if self.stream.is_none() {
            let plan = self.plan.take().ok_or_else(ends)?;
            self.stream = Some(plan.execute(self.partition, Arc::clone(&self.context))?);
        }
        let stream = self.stream.as_mut().ok_or_else(ends)?;
        stream.next().await.ok_or_else(ends)?
    }
}

/// The rows of instructions, while they are read.
struct InstructionReader {
    input: SendableRecordBatchStream,
    runs: TensorPartRows,
    lanes: LaneInput,
    metrics: BaselineMetrics,
    size: usize,
}

impl InstructionReader {
    /// The next rows. `None` after the last.
    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            let batch = self.input.next().await.transpose()?;
            let timer = self.metrics.elapsed_compute().timer();
            match &batch {
                Some(batch) => self.runs.add(batch)?,
                None => self.runs.close(),
            }
            timer.done();
            self.lanes.complete(&mut self.runs).await?;
            let waiting = self.runs.waiting();
            if waiting >= self.size || (batch.is_none() && waiting > 0) {
                return self.runs.take().map(Some);
            }
            if batch.is_none() {
                return Ok(None);
            }
        }
    }
}

fn runs(reading: InstructionReader) -> BatchStream {
    let next = async |mut reading: InstructionReader| {
        let batch = reading.next().await?;
        let batch = batch.map(|batch| Ok(batch).record_output(&reading.metrics)).transpose()?;
        Ok(batch.map(|batch| (batch, reading)))
    };
    futures::stream::try_unfold(reading, next).boxed()
}
