//! The derived tables in a schema: plans the scan below the operator and builds the index on first use.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::array::{Array as _, RecordBatch};
use arrow::datatypes::{Int32Type, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{binary, col, lit};
use datafusion::physical_optimizer::PhysicalOptimizerRule as _;
use datafusion::physical_plan::streaming::StreamingTableExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, collect_partitioned, execute_stream};
use datafusion::prelude::SessionContext;
use futures::TryStreamExt as _;
use stallmap_schema::table::{TableDef, TableRow as _};
use tokio::sync::{Mutex, OnceCell};

use super::access::{COLUMNS, LANES};
use super::analyses::{self, AnalysisKind, AnalysisRows};
use super::copies::{self, CaptureCopies};
use super::defects::CodeFacts;
use super::derived::{PointerTensor, TensorMapTensor};
use super::exec::{RowGrain, TensorExec};
use super::index::{IndexTables, SOURCES, TensorIndex, column};
use super::parameters;
use super::pointer;
use super::resolve::AddressResolver;
use super::runs::{MEASURES, measures};
use super::straddle::StraddlesExpr;
use super::summarized::{self, SummarizedLaunches, SummarizedRows};
use super::summary::{self, SummaryPieces};
use super::tensor_map;
use super::together::TensorBins;
use super::values::BundledMemory;
use stallmap_tables::captured::CapturedTable;
use stallmap_tables::guard::GuardScans;
use stallmap_tables::provider::{DerivedRows, DerivedScan, DerivedTable, RowCount, captured, read_all};

/// Rows of a table up to which it is cached.
pub(super) const MAX_KEPT_ROWS: usize = 4_000_000;

/// Shared state of all derived tables of a capture.
#[derive(Debug)]
pub struct CaptureEngine {
    access: Arc<CapturedTable>,
    summary: Arc<CapturedTable>,
    pub(super) parameter: Arc<CapturedTable>,
    tensor_map: Arc<CapturedTable>,
    launch: Arc<CapturedTable>,
    texture: Arc<CapturedTable>,
    device: Arc<CapturedTable>,
    memcpy: Arc<CapturedTable>,
    memset: Arc<CapturedTable>,
    page: Arc<CapturedTable>,
    content: Arc<CapturedTable>,
    /// Memory of bundled launches, read on first use.
    bundles: OnceLock<Arc<BundledMemory>>,
    /// The tables that [`SOURCES`] names, in its order.
    pub(super) sources: [Arc<CapturedTable>; SOURCES.len()],
    index: OnceCell<Arc<TensorIndex>>,
    /// Launches whose rows of `pc_tensor_part` come from `access_summary` or another launch, if there are any.
    summarized: OnceCell<Option<Arc<SummarizedLaunches>>>,
    /// True if `pc_tensor_part` is computed once, with the columns that are asked for.
    keeps_parts: AtomicBool,
    /// Its rows, if cached: all columns, and those that take no lanes' addresses.
    parts: [OnceCell<Vec<Vec<RecordBatch>>>; 2],
    /// The rows of analyses that were computed together.
    analyzed: [OnceLock<(Vec<RecordBatch>, MemoryReservation)>; AnalysisKind::ALL.len()],
    /// `barrier_step` and `access_pointer_use`, if the code's tables are known.
    pub(super) code: OnceLock<[Arc<dyn TableProvider>; 2]>,
    /// Their rows.
    pub(super) code_facts: OnceCell<Arc<CodeFacts>>,
    /// Set once wrong accesses were searched for.
    pub(super) has_defects: OnceCell<()>,
    /// The bins that were asked for last.
    bins: TensorBins,
    /// See [`AnalysisScan::turn`](super::analyses::AnalysisScan::turn).
    turn: Arc<Mutex<()>>,
    /// All of `tensor_map_tensor`.
    maps: OnceCell<RecordBatch>,
    /// All of `pointer_tensor`.
    pointers: OnceCell<RecordBatch>,
}

impl CaptureEngine {
    /// Over the tables of a capture, found by name.
    pub fn new(table: impl Fn(&str) -> Option<Arc<CapturedTable>>) -> Option<Self> {
        Some(Self {
            sources: captured(&SOURCES, &table)?,
            access: table("memory_access")?,
            summary: table("access_summary")?,
            parameter: table("launch_parameter")?,
            tensor_map: table("tensor_map")?,
            texture: table("texture")?,
            launch: table("launch")?,
            device: table("device")?,
            memcpy: table("memcpy")?,
            memset: table("memset")?,
            page: table("bundle_page")?,
            content: table("bundle_content")?,
            bundles: OnceLock::new(),
            index: OnceCell::new(),
            summarized: OnceCell::new(),
            keeps_parts: AtomicBool::new(false),
            parts: [OnceCell::new(), OnceCell::new()],
            analyzed: Default::default(),
            code: OnceLock::new(),
            code_facts: OnceCell::new(),
            has_defects: OnceCell::new(),
            bins: TensorBins::default(),
            turn: Arc::default(),
            maps: OnceCell::new(),
            pointers: OnceCell::new(),
        })
    }

    /// The accesses.
    pub(super) fn access(&self) -> &CapturedTable {
        &self.access
    }

    /// The number of accesses.
    pub fn accesses(&self) -> i64 {
        self.access.rows()
    }

    /// The rows of an analysis, if they are in memory.
    pub(super) fn analyzed(&self, kind: AnalysisKind) -> Option<&[RecordBatch]> {
        self.analyzed.get(kind as usize)?.get().map(|(rows, _)| rows.as_slice())
    }

    /// Keeps the rows of an analysis, with their memory.
    pub(super) fn keep(&self, kind: AnalysisKind, rows: Vec<RecordBatch>, memory: MemoryReservation) {
        if let Some(known) = self.analyzed.get(kind as usize) {
            known.get_or_init(|| (rows, memory));
        }
    }

    /// The bins that were asked for last.
    pub(super) fn last_bins(&self) -> &TensorBins {
        &self.bins
    }

    /// The turn of the launch that takes much memory.
    pub(super) fn turn(&self) -> Arc<Mutex<()>> {
        Arc::clone(&self.turn)
    }

    /// The multiprocessors of the largest GPU. 0 if none is known.
    pub(super) fn multiprocessors(&self) -> Result<u64> {
        let device = self.device.read(&["multiprocessor_count"])?;
        let counts = column::<Int32Type>(&device, "multiprocessor_count")?;
        Ok(counts.iter().flatten().filter_map(|count| u64::try_from(count).ok()).max().unwrap_or(0))
    }

    /// The memcpys and memsets between launches.
    pub(super) fn copies(&self, index: &TensorIndex) -> Result<CaptureCopies> {
        let [.., storage, _, allocation] = &self.sources;
        let tables = copies::CopyTables {
            launch: self.launch.read(&copies::LAUNCH)?,
            memcpy: self.memcpy.read(&copies::MEMCPY)?,
            memset: self.memset.read(&copies::MEMSET)?,
            storage: storage.read(&copies::STORAGE)?,
            allocation: allocation.read(&copies::ALLOCATION)?,
        };
        CaptureCopies::new(&tables, index)
    }

    /// Memory of bundled launches.
    pub(super) fn bundles(&self) -> Result<Arc<BundledMemory>> {
        if let Some(known) = self.bundles.get() {
            return Ok(Arc::clone(known));
        }
        let [.., tensor, _] = &self.sources;
        let bundles = BundledMemory::read(&self.page, &self.content, tensor)?;
        Ok(Arc::clone(self.bundles.get_or_init(|| Arc::new(bundles))))
    }

    /// Makes scans of `pc_tensor_part` compute it once and cache it: it is small compared with the accesses, and a
    /// report's queries read it repeatedly.
    pub async fn keep_parts(self: &Arc<Self>, context: &SessionContext) -> Result<()> {
        let summarized = self.summarized(&context.state()).await?;
        let is_short = summarized.is_none_or(|summarized| summarized.row_count() <= MAX_KEPT_ROWS);
        self.keeps_parts.fetch_or(is_short, Ordering::Relaxed);
        Ok(())
    }

    /// True if `pc_tensor_part` is to be cached, and is not yet: its rows are those of the accesses alone.
    pub(super) async fn is_without_parts(&self, state: &dyn Session) -> Result<bool> {
        let is_alone = self.summarized(state).await?.is_none();
        self.keeps_parts.fetch_or(is_alone, Ordering::Relaxed);
        Ok(is_alone && self.parts.iter().all(|parts| !parts.initialized()))
    }

    /// Caches all columns of `pc_tensor_part`.
    pub(super) fn set_parts(&self, rows: Vec<RecordBatch>) {
        let [all, _] = &self.parts;
        // Another thread may have computed them by now.
        drop(all.set(vec![rows]));
    }

    /// The index, built on first use.
    pub async fn index(&self) -> Result<Arc<TensorIndex>> {
        let build = async || {
            let [launch, launch_run, op, op_tensor, storage, tensor, device_allocation] =
                read_all(&self.sources, &SOURCES)?;
            // Ops know their tensors. Where there is none, the parameters do.
            let is_outside_ops = launch.column_by_name("op_id").is_none_or(|op| op.null_count() > 0);
            let launch_parameter =
                is_outside_ops.then(|| self.parameter.read(&parameters::COLUMNS)).transpose()?;
            Ok(Arc::new(TensorIndex::build(&IndexTables {
                launch,
                launch_run,
                op,
                op_tensor,
                storage,
                tensor,
                device_allocation,
                launch_parameter,
            })?))
        };
        self.index.get_or_try_init(build).await.map(Arc::clone)
    }
}

impl CaptureEngine {
    /// The tables that it computes.
    pub fn tables(self: &Arc<Self>) -> Vec<DerivedTable> {
        let engine = || Arc::clone(self);
        let grains = [RowGrain::Request, RowGrain::Instruction, RowGrain::Shape].map(|grain| {
            DerivedTable::new(Arc::new(GrainRows { engine: engine(), grain, schema: grain.schema() }))
        });
        let parameters = [ParameterTables::TensorMaps, ParameterTables::Pointers]
            .map(|table| DerivedTable::new(Arc::new(ParameterRows { engine: engine(), table })));
        let analyses =
            AnalysisKind::ALL.map(|kind| DerivedTable::new(Arc::new(AnalysisRows::new(engine(), kind))));
        grains.into_iter().chain(parameters).chain(analyses).collect()
    }

    /// Launches whose rows of `pc_tensor_part` come from elsewhere, read on first use.
    async fn summarized(&self, state: &dyn Session) -> Result<Option<Arc<SummarizedLaunches>>> {
        self.summarized.get_or_try_init(|| self.read_summarized(state)).await.cloned()
    }

    async fn read_summarized(&self, state: &dyn Session) -> Result<Option<Arc<SummarizedLaunches>>> {
        let (summary, launch) =
            (self.summary.read(&summary::COLUMNS)?, self.launch.read(&summarized::LAUNCH)?);
        let Some(mut summarized) = SummarizedLaunches::new(&summary, &launch)? else { return Ok(None) };
        if summarized.has_models() {
            summarized.read_parameters(&self.parameter.read(&parameters::COLUMNS)?)?;
        }
        let mut resolver = AddressResolver::new(self.index().await?);
        let needed = summarized.needed(&mut resolver);
        let mut pieces = SummaryPieces::new(AddressResolver::new(self.index().await?));
        if let (Some(&first), Some(&last)) = (needed.first(), needed.last()) {
            let mut rows = execute_stream(self.rows_of(state, first, last)?, state.task_ctx())?;
            while let Some(batch) = rows.try_next().await? {
                summarized.add_rows(&mut pieces, &batch, &needed)?;
            }
        }
        summarized.finish(pieces, &mut resolver);
        Ok(Some(Arc::new(summarized)))
    }

    /// A scan of the accesses of some launches.
    fn rows_of(&self, state: &dyn Session, first: u64, last: u64) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = self.access.schema();
        let bound = |operator: Operator, kernel_id: u64| {
            binary(col("kernel_id", &schema)?, operator, lit(kernel_id), &schema)
        };
        let within =
            binary(bound(Operator::GtEq, first)?, Operator::And, bound(Operator::LtEq, last)?, &schema)?;
        let columns = analyses::input(&schema)?;
        // This plan does not pass through the optimizer, which guards the scans of all others.
        GuardScans.optimize(self.access.scan_in_order(state, &columns, Some(within))?, state.config_options())
    }
}

/// Tables of launches' parameters: the memory that they lead to.
#[derive(Clone, Copy, Debug)]
enum ParameterTables {
    /// `tensor_map_tensor`.
    TensorMaps,
    /// `pointer_tensor`.
    Pointers,
}

/// The rows of one of them.
#[derive(Debug)]
struct ParameterRows {
    engine: Arc<CaptureEngine>,
    table: ParameterTables,
}

impl ParameterRows {
    fn known(&self) -> &OnceCell<RecordBatch> {
        match self.table {
            ParameterTables::TensorMaps => &self.engine.maps,
            ParameterTables::Pointers => &self.engine.pointers,
        }
    }

    async fn rows(&self) -> Result<RecordBatch> {
        let engine = &self.engine;
        let resolver = AddressResolver::new(engine.index().await?);
        match self.table {
            ParameterTables::TensorMaps => {
                tensor_map::rows(&engine.tensor_map.read(&tensor_map::COLUMNS)?, resolver)
            }
            ParameterTables::Pointers => {
                let texture = engine.texture.read(&pointer::TEXTURE)?;
                pointer::rows(&engine.parameter.read(&parameters::COLUMNS)?, &texture, resolver)
            }
        }
    }
}

#[async_trait]
impl DerivedRows for ParameterRows {
    fn table(&self) -> TableDef {
        match self.table {
            ParameterTables::TensorMaps => TensorMapTensor::TABLE,
            ParameterTables::Pointers => PointerTensor::TABLE,
        }
    }

    fn row_count(&self) -> RowCount {
        RowCount::Later.or(self.known().get().map(RecordBatch::num_rows))
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let rows = self.known().get_or_try_init(|| self.rows()).await?;
        scan.over(std::slice::from_ref(rows))
    }
}

/// The rows of a grain.
#[derive(Debug)]
pub struct GrainRows {
    engine: Arc<CaptureEngine>,
    grain: RowGrain,
    schema: SchemaRef,
}

impl GrainRows {
    /// The engine, if this is the table that it can cache.
    pub fn keeper(&self) -> Option<&Arc<CaptureEngine>> {
        (self.grain == RowGrain::Instruction).then_some(&self.engine)
    }

    /// The columns of `memory_access` that the operator needs for the requested columns.
    fn input_columns(&self, columns: &[usize], has_lanes: bool) -> Vec<usize> {
        let asked = columns.iter().map(|&column| self.schema.field(column).name().as_str());
        let instruction: &[&str] = match self.grain {
            RowGrain::Request | RowGrain::Shape => &[],
            RowGrain::Instruction => &["function_id", "pc", "kind"],
        };
        let needed = COLUMNS.into_iter().filter(|name| has_lanes || !LANES.contains(name));
        let names = asked.chain(needed).chain(instruction.iter().copied());
        let access = self.engine.access.schema();
        let mut input: Vec<usize> = names.filter_map(|name| access.index_of(name).ok()).collect();
        input.sort_unstable();
        input.dedup();
        input
    }

    /// Scans of the accesses for some columns: of all, and of those that need their lanes besides if the first scan has
    /// no lanes.
    fn inputs(
        &self,
        state: &dyn Session,
        columns: &[usize],
        index: &Arc<TensorIndex>,
        limit: Option<usize>,
    ) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
        let access = &self.engine.access;
        let has_lanes = self.grain != RowGrain::Instruction || has_measures(&self.schema, columns)?;
        let all = self.input_columns(columns, true);
        if has_lanes {
            // A shape has one row for each access.
            let limit = limit.filter(|_| self.grain == RowGrain::Shape);
            return Ok(vec![access.scan_plan(state, Some(&all), limit)?]);
        }
        let few = self.input_columns(columns, false);
        let straddles = StraddlesExpr::new(&access.schema(), Arc::clone(index))?;
        let late = access.scan_where(state, Some(&all), Arc::new(straddles))?;
        Ok(vec![access.scan_plan(state, Some(&few), None)?, late])
    }

    /// The operator for some columns.
    async fn operator(
        &self,
        state: &dyn Session,
        projection: &Vec<usize>,
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        // A shape is independent of the owner of the memory.
        let index = if self.grain == RowGrain::Shape { Arc::default() } else { self.engine.index().await? };
        let inputs = self.inputs(state, projection, &index, limit)?;
        let summarized = match self.grain {
            RowGrain::Instruction => self.engine.summarized(state).await?,
            RowGrain::Request | RowGrain::Shape => None,
        };
        let rows = TensorExec::new(inputs, Arc::clone(&index), self.grain, projection.clone())?;
        let rows = rows.without(summarized.clone());
        let Some(summarized) = summarized else { return Ok(Arc::new(rows)) };
        let others = SummarizedRows::new(summarized, index);
        let (schema, all) = (Arc::clone(&self.schema), Some(projection));
        let others = StreamingTableExec::try_new(schema, vec![Arc::new(others)], all, [], false, None)?;
        UnionExec::try_new(vec![Arc::new(rows), Arc::new(others)])
    }

    /// The cached rows for some columns, computed unless they are there.
    async fn cached(&self, state: &dyn Session, projection: &[usize]) -> Result<Arc<dyn ExecutionPlan>> {
        let [all, few] = &self.engine.parts;
        let is_measured = has_measures(&self.schema, projection)? || all.get().is_some();
        let is_in =
            |column: &usize| is_measured || !MEASURES.contains(&self.schema.field(*column).name().as_str());
        let columns: Vec<usize> = (0..self.schema.fields().len()).filter(is_in).collect();
        let compute = async || {
            // This plan does not pass through the optimizer, which guards the scans of all others.
            let plan =
                GuardScans.optimize(self.operator(state, &columns, None).await?, state.config_options())?;
            collect_partitioned(plan, state.task_ctx()).await
        };
        let parts = (if is_measured { all } else { few }).get_or_try_init(compute).await?;
        let position = |column: &usize| columns.iter().position(|known| known == column);
        let positions = projection.iter().filter_map(position).collect();
        let schema = Arc::new(self.schema.project(&columns)?);
        Ok(MemorySourceConfig::try_new_exec(parts, schema, Some(positions))?)
    }
}

/// True if columns of `pc_tensor_part` depend on the addresses of all lanes.
fn has_measures(schema: &SchemaRef, columns: &[usize]) -> Result<bool> {
    Ok(measures(&Arc::new(schema.project(columns)?)))
}

#[async_trait]
impl DerivedRows for GrainRows {
    fn table(&self) -> TableDef {
        self.grain.table()
    }

    fn row_count(&self) -> RowCount {
        let parts = self.keeper().and_then(|engine| engine.parts.iter().find_map(OnceCell::get));
        RowCount::Unknown.or(parts.map(|parts| parts.iter().flatten().map(RecordBatch::num_rows).sum()))
    }

    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = scan.columns();
        if self.grain == RowGrain::Instruction && self.engine.keeps_parts.load(Ordering::Relaxed) {
            return self.cached(scan.state, &columns).await;
        }
        self.operator(scan.state, &columns, scan.limit).await
    }
}
