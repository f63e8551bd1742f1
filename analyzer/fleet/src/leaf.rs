//! The operator over captures: each runs its part of a query, one after the other in each partition. Tables, and views with
//! stored rows, are read without a session of the capture. All else takes one, which is closed before the next one opens.
//! So memory does not grow with the number of captures.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::SchemaRef;
use datafusion::catalog::{
    CatalogProvider as _, CatalogProviderList as _, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider, SchemaProvider as _, TableProvider,
};
use datafusion::common::Column;
use datafusion::common::config::Dialect;
use datafusion::datasource::provider_as_source;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState, SessionStateBuilder, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, execute_stream,
};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use stallmap::error::AnalyzeError;
use stallmap::library;
use stallmap::session::leaf::held_table;
use stallmap::session::resources::SessionResources;
use stallmap::session::{Session, UNNAMED};
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored::StoredAnswer;
use stallmap_schema::table::TableRow as _;
use stallmap_tables::error::TableError;
use tokio::task::spawn_blocking;

use crate::FoundCapture;
use crate::skipped::SkippedCaptures;

/// Maximum size of the rows of a capture that wait until all of them are read. The rows of a capture that is damaged
/// further on are not returned, unless it has more.
const MAX_HELD_BYTES: usize = 32 << 20;
/// Captures on servers that are opened before their turn.
const REMOTE_AHEAD: usize = 8;
/// Maximum size of a table that is fetched whole.
const MAX_PREFETCHED_BYTES: u64 = 1 << 20;

/// A part of a query for the session of one capture.
#[derive(Clone, Debug)]
pub(crate) struct CaptureQuery {
    pub(crate) table: String,
    /// The table's own columns that are read.
    pub(crate) columns: Vec<String>,
    /// Conditions on the table's own columns.
    pub(crate) filters: Vec<Expr>,
    pub(crate) limit: Option<usize>,
}

impl CaptureQuery {
    /// The query over all rows of the capture's table.
    fn part_of(&self, mut plan: LogicalPlanBuilder) -> Result<LogicalPlan> {
        for filter in &self.filters {
            plan = plan.filter(filter.clone())?;
        }
        let column = |name: &String| Expr::Column(Column::new_unqualified(name));
        // A row without columns still counts.
        let shown = if self.columns.is_empty() {
            vec![lit(1).alias("row")]
        } else {
            self.columns.iter().map(column).collect()
        };
        plan.project(shown)?.limit(0, self.limit)?.build()
    }
}

/// A query for one capture: by its parts, or as text from another process, with the table that it reads.
#[derive(Clone, Debug)]
pub(crate) enum LeafQuery {
    Parts(CaptureQuery),
    Text { sql: String, table: String },
}

impl LeafQuery {
    pub(crate) fn table(&self) -> &str {
        match self {
            Self::Parts(query) => &query.table,
            Self::Text { table, .. } => table,
        }
    }
}

impl fmt::Display for LeafQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts(query) => write!(f, "table={}", query.table),
            Self::Text { sql, .. } => write!(f, "sql={sql}"),
        }
    }
}

/// The parts that all leaves of a query share.
#[derive(Clone)]
pub(crate) struct LeafContext {
    /// The fleet's own state, for tables that need no session of their capture. The captures are the partitions.
    state: Option<Arc<SessionState>>,
    resources: SessionResources,
    skipped: Arc<SkippedCaptures>,
}

impl LeafContext {
    pub(crate) fn new(
        state: &dyn datafusion::catalog::Session,
        resources: SessionResources,
        skipped: Arc<SkippedCaptures>,
    ) -> Self {
        let alone = |state: &SessionState| {
            let mut state = state.clone();
            state.config_mut().options_mut().execution.target_partitions = 1;
            Arc::new(state)
        };
        let state = state.as_any().downcast_ref::<SessionState>().map(alone);
        Self { state, resources, skipped }
    }
}

/// Runs a query in the session of each capture, and returns all rows with the facts of their capture.
pub struct FleetExec {
    pub(crate) query: LeafQuery,
    /// Captures with their facts: a row each.
    pub(crate) captures: Vec<(FoundCapture, RecordBatch)>,
    pub(crate) context: LeafContext,
    pub(crate) properties: Arc<PlanProperties>,
}

impl FleetExec {
    pub(crate) fn new(
        query: LeafQuery,
        captures: Vec<(FoundCapture, RecordBatch)>,
        schema: SchemaRef,
        partitions: usize,
        context: LeafContext,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { query, captures, context, properties: Arc::new(properties) }
    }
}

impl fmt::Debug for FleetExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FleetExec")
            .field("query", &self.query)
            .field("captures", &self.captures.len())
            .finish_non_exhaustive()
    }
}

impl DisplayAs for FleetExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FleetExec: {}, captures={}", self.query, self.captures.len())
    }
}

impl ExecutionPlan for FleetExec {
    stallmap_tables::plan_methods!("FleetExec");
    stallmap_tables::plan_methods!(no_expressions);

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn replace_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
        _: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, partition: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let partitions = self.properties.partitioning.partition_count().max(1);
        let own: Vec<_> = self.captures.iter().skip(partition).step_by(partitions).cloned().collect();
        let schema = self.schema();
        let leaf = Arc::new(CaptureLeaf {
            query: self.query.clone(),
            schema: Arc::clone(&schema),
            context: self.context.clone(),
        });
        let ahead =
            if own.iter().any(|(capture, _)| capture.location.is_remote()) { REMOTE_AHEAD } else { 1 };
        let opening = Arc::clone(&leaf);
        let rows = stream::iter(own)
            .map(move |(capture, facts)| {
                let leaf = Arc::clone(&opening);
                async move {
                    // Reading waits for disks and servers.
                    let opened = spawn_blocking({
                        let capture = capture.clone();
                        move || leaf.open(&capture)
                    });
                    (capture, facts, opened.await)
                }
            })
            .buffered(ahead)
            .then(move |(capture, facts, opened)| {
                let leaf = Arc::clone(&leaf);
                async move {
                    let opened = opened.map_err(|error| DataFusionError::External(Box::new(error)))?;
                    leaf.rows(capture, facts, opened).await
                }
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The rows of a capture.
type CaptureRows = BoxStream<'static, Result<RecordBatch>>;

/// A capture that was opened, with the table of the query if it takes no session.
type OpenedLeaf = Result<(CaptureReader, Option<Arc<dyn TableProvider>>), AnalyzeError>;

/// The query with all that it takes to run it.
struct CaptureLeaf {
    query: LeafQuery,
    schema: SchemaRef,
    context: LeafContext,
}

impl CaptureLeaf {
    /// Opens a capture, and reads what it stores of the query's table.
    fn open(&self, capture: &FoundCapture) -> OpenedLeaf {
        let reader = capture.location.open()?;
        let table = self.query.table();
        let is_view = library::views()?.iter().any(|view| view.name == table);
        let name = entry::table(if is_view { StoredAnswer::TABLE.name } else { table });
        let is_small =
            reader.entry_bytes(&name).is_ok_and(|bytes| bytes.size_bytes() <= MAX_PREFETCHED_BYTES);
        reader.prefetch(is_small.then_some(name.as_str()).into_iter());
        let held = held_table(&reader, table, &self.context.resources)?;
        Ok((reader, held.filter(|_| self.context.state.is_some())))
    }

    /// The rows of a capture. None of a capture that is damaged.
    async fn rows(
        self: Arc<Self>,
        capture: FoundCapture,
        facts: RecordBatch,
        opened: OpenedLeaf,
    ) -> Result<CaptureRows> {
        match self.run(&capture, &facts, opened).await {
            Ok(rows) => Ok(rows),
            Err(error) => match damage(&error) {
                Some(reason) => {
                    self.context.skipped.add(&capture.name, &reason);
                    Ok(stream::empty().boxed())
                }
                None => Err(in_capture(error, &capture)),
            },
        }
    }

    async fn run(
        self: &Arc<Self>,
        capture: &FoundCapture,
        facts: &RecordBatch,
        opened: OpenedLeaf,
    ) -> Result<CaptureRows, AnalyzeError> {
        let mut stream = self.stream(opened?).await?;
        let (mut held, mut held_bytes) = (Vec::new(), 0);
        while let Some(batch) = stream.try_next().await? {
            held_bytes += batch.get_array_memory_size();
            held.push(Ok(self.with_facts(&batch, facts)?));
            if held_bytes > MAX_HELD_BYTES {
                let (leaf, capture, facts) = (Arc::clone(self), capture.clone(), facts.clone());
                let rest = stream.map(move |batch| {
                    let batch = batch.map_err(|error| in_capture(error.into(), &capture))?;
                    leaf.with_facts(&batch, &facts)
                });
                return Ok(stream::iter(held).chain(rest).boxed());
            }
        }
        Ok(stream::iter(held).boxed())
    }

    /// The rows of the query, from the held table or in a session of the capture.
    async fn stream(
        &self,
        (reader, held): (CaptureReader, Option<Arc<dyn TableProvider>>),
    ) -> Result<SendableRecordBatchStream, AnalyzeError> {
        if let Some((table, state)) = held.zip(self.context.state.as_ref()) {
            let plan = match &self.query {
                LeafQuery::Parts(query) => {
                    let name = query.table.as_str();
                    query.part_of(LogicalPlanBuilder::scan(name, provider_as_source(table), None)?)?
                }
                LeafQuery::Text { sql, table: name } => plan_over(state, sql, (name, table)).await?,
            };
            let plan = state.create_physical_plan(&plan).await?;
            return Ok(execute_stream(plan, state.task_ctx())?);
        }
        let session = Session::over(vec![(UNNAMED.to_owned(), reader)], &self.context.resources)?;
        session.context().state_ref().write().config_mut().options_mut().execution.target_partitions = 1;
        let plan = match &self.query {
            LeafQuery::Text { sql, .. } => session.plan(sql).await?,
            LeafQuery::Parts(query) => {
                let all = session.plan(&format!("SELECT * FROM \"{}\"", query.table)).await?;
                query.part_of(LogicalPlanBuilder::from(all))?
            }
        };
        Ok(session.read(plan).await?.execute_stream().await?)
    }

    /// Rows with the facts of their capture, in the table's types.
    fn with_facts(&self, rows: &RecordBatch, facts: &RecordBatch) -> Result<RecordBatch> {
        let first = UInt32Array::from_value(0, rows.num_rows());
        let column = |(name, data_type): (&str, &arrow::datatypes::DataType)| -> Result<ArrayRef> {
            Ok(match (facts.column_by_name(name), rows.column_by_name(name)) {
                (Some(fact), _) => take(fact, &first, None)?,
                (None, Some(own)) => cast(own, data_type)?,
                (None, None) => new_null_array(data_type, rows.num_rows()),
            })
        };
        let fields = self.schema.fields().iter().map(|field| (field.name().as_str(), field.data_type()));
        let columns = fields.map(column).collect::<Result<_>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?)
    }
}

/// The plan of a statement that only reads, and nothing but one table.
async fn plan_over(
    state: &SessionState,
    sql: &str,
    (name, table): (&str, Arc<dyn TableProvider>),
) -> Result<LogicalPlan, AnalyzeError> {
    let options = &state.config_options().catalog;
    let (schema, catalog) = (MemorySchemaProvider::new(), MemoryCatalogProvider::new());
    schema.register_table(name.to_owned(), table)?;
    catalog.register_schema(&options.default_schema, Arc::new(schema))?;
    let catalogs = MemoryCatalogProviderList::new();
    catalogs.register_catalog(options.default_catalog.clone(), Arc::new(catalog));
    let state =
        SessionStateBuilder::new_from_existing(state.clone()).with_catalog_list(Arc::new(catalogs)).build();
    let statement = state.sql_to_statement(sql, &Dialect::Generic)?;
    let plan = state.statement_to_plan(statement).await?;
    Session::check_reads_only(&plan)?;
    Ok(plan)
}

/// The reason, if an error is one of the capture and not of the query.
fn damage(error: &AnalyzeError) -> Option<String> {
    let query = match error {
        AnalyzeError::Query(query) => query,
        AnalyzeError::Capture(_) | AnalyzeError::Table(_) | AnalyzeError::StoredRows { .. } => {
            return Some(error.to_string());
        }
        _ => return None,
    };
    let mut next: Option<&(dyn Error + 'static)> = Some(query.find_root());
    while let Some(error) = next {
        if error.is::<CaptureError>() || error.is::<TableError>() {
            return Some(error.to_string());
        }
        next = error.source();
    }
    None
}

/// The error of a query, with the capture that it occurred in.
fn in_capture(error: AnalyzeError, capture: &FoundCapture) -> DataFusionError {
    let error = match error {
        AnalyzeError::Query(error) => *error,
        other => DataFusionError::External(Box::new(other)),
    };
    error.context(format!("capture `{}`", capture.name))
}
