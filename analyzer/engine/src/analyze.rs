//! The operator in a plan that runs an analysis over ordered scans of `memory_access`, one for each partition.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::{SchemaRef, UInt64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::{Column, DynamicFilterPhysicalExpr};
use datafusion::physical_expr::{
    Distribution, EquivalenceProperties, LexOrdering, OrderingRequirements, Partitioning, PhysicalExpr,
    PhysicalSortExpr,
};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::StreamExt;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinSet;

use super::analyses::{AnalysisKind, AnalysisScan};
use super::analysis::{AccessAnalysis, COLUMNS, LaunchJob};
use super::index::{TensorIndex, wrong};
use super::resolve::AddressResolver;

/// Number of leading columns that accesses must be sorted by: launch, function, pc.
const ORDERED: usize = 3;

/// An analysis over scans that hold different launches.
#[derive(Debug)]
pub(super) struct AnalyzeExec {
    inputs: Vec<Arc<dyn ExecutionPlan>>,
    index: Arc<TensorIndex>,
    kind: AnalysisKind,
    asked: Arc<AnalysisScan>,
    /// The output columns, by position in the table.
    columns: Vec<usize>,
    /// Joins that select launches. The inputs read no others once these have collected them.
    launches: Vec<Arc<DynamicFilterPhysicalExpr>>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl AnalyzeExec {
    /// The operator over inputs of one partition each, with the columns of analyses. No two hold the same launch.
    pub(super) fn new(
        inputs: Vec<Arc<dyn ExecutionPlan>>,
        index: Arc<TensorIndex>,
        kind: AnalysisKind,
        asked: Arc<AnalysisScan>,
        columns: Vec<usize>,
    ) -> Result<Self> {
        let schema = Arc::new(kind.schema().project(&columns)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(inputs.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Ok(Self { inputs, index, kind, asked, columns, launches: Vec::new(), properties, metrics })
    }

    /// The same of some launches, over scans that leave out all other launches. None if launches depend on each other,
    /// or the filter's column is another.
    pub(super) fn of_launches(
        &self,
        column: usize,
        launches: &Arc<DynamicFilterPhysicalExpr>,
        scan: impl Fn(&Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>>,
    ) -> Result<Option<Self>> {
        let is_launch = self.schema().fields().get(column).is_some_and(|field| field.name() == "kernel_id");
        if !is_launch || !self.kind.is_by_launch() {
            return Ok(None);
        }
        let inputs = self.inputs.iter().map(scan).collect::<Result<_>>()?;
        let mut narrowed = self.over(inputs)?;
        narrowed.launches.push(Arc::clone(launches));
        Ok(Some(narrowed))
    }

    /// The same over other inputs.
    fn over(&self, inputs: Vec<Arc<dyn ExecutionPlan>>) -> Result<Self> {
        let (index, asked) = (Arc::clone(&self.index), Arc::clone(&self.asked));
        let launches = self.launches.clone();
        Ok(Self { launches, ..Self::new(inputs, index, self.kind, asked, self.columns.clone())? })
    }

    /// The order of accesses in every input.
    fn order(input: &Arc<dyn ExecutionPlan>) -> Option<OrderingRequirements> {
        let schema = input.schema();
        let column = |name: &&str| Some(Column::new(name, schema.index_of(name).ok()?));
        let columns = COLUMNS.iter().take(ORDERED).filter_map(column);
        let order = columns.map(|column| PhysicalSortExpr::new_default(Arc::new(column)));
        LexOrdering::new(order).map(OrderingRequirements::from)
    }
}

impl DisplayAs for AnalyzeExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnalyzeExec: table={}", self.kind.table().name)
    }
}

impl ExecutionPlan for AnalyzeExec {
    stallmap_tables::plan_methods!("AnalyzeExec");

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inputs.iter().collect()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inputs.iter().map(|_| false).collect()
    }

    // One launch's accesses have to stay together, and those of an instruction in it. If the planner divides a scan
    // anyway, it merges the parts again. If the file has no order, it sorts.
    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition; self.inputs.len()]
    }

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.inputs.iter().map(Self::order).collect()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.inputs.iter().map(|_| false).collect()
    }

    fn apply_expressions(
        &self,
        visit: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        for launches in &self.launches {
            if visit(&(Arc::clone(launches) as _))? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        if children.len() != self.inputs.len() {
            return Err(DataFusionError::Internal("AnalyzeExec keeps the number of its inputs".to_owned()));
        }
        Ok(Arc::new(self.over(children)?))
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let input = self.inputs.get(partition);
        let input = input.ok_or_else(|| DataFusionError::Internal("AnalyzeExec has no such input".into()))?;
        let name = format!("{} of partition {partition}", self.kind.table().name);
        let analysis =
            self.kind.start(AddressResolver::new(Arc::clone(&self.index)), &self.asked, room(&context));
        let running = RunningAnalysis {
            launches: self.launches.clone(),
            ..RunningAnalysis::new(
                input.execute(0, Arc::clone(&context))?,
                analysis,
                name,
                &self.asked.turn,
                &context,
            )
        };
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let columns = self.columns.clone();
        let next = move |(running, metrics, columns): (
            Option<RunningAnalysis>,
            BaselineMetrics,
            Vec<usize>,
        )| async move {
            let mut running = running?;
            let batch = running.next().await.transpose()?;
            let batch = batch.and_then(|batch| Ok(batch.project(&columns)?));
            let running = batch.is_ok().then_some(running);
            Some((batch.record_output(&metrics), (running, metrics, columns)))
        };
        let stream = futures::stream::unfold((Some(running), metrics, columns), next);
        let schema: SchemaRef = self.schema();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream.boxed())))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        // Other columns have another meaning below, or need the rest of the launch.
        let schema = self.schema();
        let columns = self.kind.grouped_by().iter();
        let allowed: HashSet<usize> = columns.filter_map(|name| schema.index_of(name).ok()).collect();
        self.inputs.iter().try_fold(FilterDescription::new(), |description, input| {
            let child =
                ChildFilterDescription::from_child_with_allowed_indices(&filters, allowed.clone(), input)?;
            Ok(description.with_child(child))
        })
    }
}

/// An analysis that runs.
pub(super) struct RunningAnalysis {
    input: SendableRecordBatchStream,
    analysis: Box<dyn AccessAnalysis>,
    /// Filters of the input that are not complete yet.
    launches: Vec<Arc<DynamicFilterPhysicalExpr>>,
    memory: AnalysisMemory,
    most_jobs: usize,
    /// Pending input: accesses of one launch each, or the input's end.
    pieces: VecDeque<Option<(u64, RecordBatch)>>,
    /// The launch that is open.
    kernel_id: Option<u64>,
    has_ended: bool,
    size: usize,
}

impl RunningAnalysis {
    /// An analysis of an input. The name is that of its memory.
    pub(super) fn new(
        input: SendableRecordBatchStream,
        analysis: Box<dyn AccessAnalysis>,
        name: String,
        turns: &Arc<Mutex<()>>,
        context: &TaskContext,
    ) -> Self {
        let reservation = MemoryConsumer::new(name).register(context.memory_pool());
        Self {
            input,
            analysis,
            launches: Vec::new(),
            memory: AnalysisMemory::new(reservation, context, turns),
            most_jobs: context.session_config().target_partitions(),
            pieces: VecDeque::new(),
            kernel_id: None,
            has_ended: false,
            size: context.session_config().batch_size(),
        }
    }

    /// The next rows. `None` after the last.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>> {
        // Operators between here and the join may ask for rows before the join has its launches.
        while let Some(launches) = self.launches.pop() {
            complete(&launches).await;
        }
        loop {
            self.work().await?;
            // With the turn, rows wait: whoever reads them may wait for another partition, which waits for the turn.
            if self.memory.turn.is_none()
                && let Some(batch) = self.analysis.take(self.size)?
            {
                return Ok(Some(batch));
            }
            if self.has_ended {
                return self.analysis.take(1);
            }
            match self.pieces.pop_front() {
                Some(Some((kernel_id, piece))) => {
                    if self.kernel_id.is_some_and(|open| open != kernel_id) {
                        self.kernel_id = None;
                        self.analysis.end_launch();
                        self.pieces.push_front(Some((kernel_id, piece)));
                    } else {
                        self.kernel_id = Some(kernel_id);
                        self.analysis.add(&piece)?;
                        self.memory.hold(self.analysis.bytes()).await?;
                    }
                }
                // The end is seen twice: work may remain after the first time.
                Some(None) if self.kernel_id.take().is_some() => {
                    self.analysis.end_launch();
                    self.pieces.push_front(None);
                }
                Some(None) => {
                    self.analysis.end();
                    self.has_ended = true;
                }
                None => match self.input.next().await.transpose()? {
                    Some(batch) => self.pieces.extend(launches(&batch)?.into_iter().map(Some)),
                    None => self.pieces.push_back(None),
                },
            }
        }
    }
}

/// Waits until a join has completed its filter.
///
/// DataFusion's wait looks at the filter first and then subscribes to its changes. A completion between the two reaches
/// no subscriber, and the wait never ends. The second wait looks after the first has subscribed.
async fn complete(filter: &DynamicFilterPhysicalExpr) {
    tokio::select! {
        biased;
        () = filter.wait_complete() => (),
        () = filter.wait_complete() => (),
    }
}

impl RunningAnalysis {
    /// Does the work on an ended launch.
    async fn work(&mut self) -> Result<()> {
        let mut has_worked = false;
        loop {
            let jobs = self.analysis.jobs(self.most_jobs);
            if jobs.is_empty() {
                break;
            }
            has_worked = true;
            if jobs.len() == 1 || Handle::try_current().is_err() {
                for job in jobs {
                    run(job, self.memory.reservation.new_empty()).await?;
                }
            } else {
                let mut tasks = JoinSet::new();
                for job in jobs {
                    tasks.spawn(run(job, self.memory.reservation.new_empty()));
                }
                while let Some(done) = tasks.join_next().await {
                    done.map_err(|error| DataFusionError::External(Box::new(error)))??;
                }
            }
            self.memory.hold(self.analysis.bytes()).await?;
        }
        while self.analysis.work() {
            has_worked = true;
            self.memory.hold(self.analysis.bytes()).await?;
            tokio::task::yield_now().await;
        }
        let is_done = has_worked || self.memory.turn.is_some();
        if is_done { self.memory.hold(self.analysis.bytes()).await } else { Ok(()) }
    }
}

/// Does a job. Between two steps, the query can be cancelled.
async fn run(mut job: Box<dyn LaunchJob>, memory: MemoryReservation) -> Result<()> {
    while job.step() {
        memory.try_resize(job.bytes())?;
        tokio::task::yield_now().await;
    }
    Ok(())
}

/// The part of a limited pool that the data of one launch may take: a quarter. Jobs need as much again, and other
/// partitions have the rest. It does not depend on the number of threads, because samples depend on it.
pub(super) fn room(context: &TaskContext) -> usize {
    match context.memory_pool().memory_limit() {
        MemoryLimit::Finite(bytes) => bytes / 4,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// An analysis's share of the session's memory.
struct AnalysisMemory {
    reservation: MemoryReservation,
    /// A launch that takes more bytes waits for its turn: two would wait for the memory of each other.
    most_bytes: usize,
    turns: Arc<Mutex<()>>,
    turn: Option<OwnedMutexGuard<()>>,
}

impl AnalysisMemory {
    fn new(reservation: MemoryReservation, context: &TaskContext, turns: &Arc<Mutex<()>>) -> Self {
        let partitions = context.session_config().target_partitions().max(1);
        let most_bytes = room(context) / partitions;
        Self { reservation, most_bytes, turns: Arc::clone(turns), turn: None }
    }

    async fn hold(&mut self, bytes: usize) -> Result<()> {
        if bytes <= self.most_bytes {
            self.turn = None;
        } else if self.turn.is_none() {
            self.turn = Some(Arc::clone(&self.turns).lock_owned().await);
        }
        self.reservation.try_resize(bytes)
    }
}

/// A batch's accesses, launch by launch.
fn launches(batch: &RecordBatch) -> Result<Vec<(u64, RecordBatch)>> {
    let kernels =
        batch.column_by_name("kernel_id").and_then(|column| column.as_primitive_opt::<UInt64Type>());
    let kernels = kernels.ok_or_else(|| wrong("kernel_id"))?.values();
    let mut start = 0;
    let pieces = kernels.chunk_by(PartialEq::eq).map(|launch| {
        let piece = batch.slice(start, launch.len());
        start += launch.len();
        (launch[0], piece)
    });
    Ok(pieces.collect())
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use datafusion::physical_expr::expressions::lit;

    use super::*;

    /// Rounds in which a wait starts while its filter is completed.
    const ROUNDS: usize = 300_000;

    #[test]
    fn a_filter_that_completes_while_a_wait_starts_ends_the_wait() {
        let filter = || DynamicFilterPhysicalExpr::new(Vec::new(), lit(true));
        let filters: Arc<Vec<_>> = Arc::new((0..ROUNDS).map(|_| filter()).collect());
        let round = Arc::new(AtomicUsize::new(0));
        let (theirs, current) = (Arc::clone(&filters), Arc::clone(&round));
        let join = std::thread::spawn(move || {
            for (number, filter) in theirs.iter().enumerate() {
                while current.load(Ordering::Acquire) < number {
                    std::hint::spin_loop();
                }
                filter.mark_complete();
            }
        });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        for (number, filter) in filters.iter().enumerate() {
            round.store(number, Ordering::Release);
            let wait = async { tokio::time::timeout(Duration::from_secs(30), complete(filter)).await };
            assert!(runtime.block_on(wait).is_ok(), "round {number}");
        }
        join.join().unwrap();
    }
}
