//! The operator over captures: each runs its part of a query in a session of its own, one after the other in each
//! partition. A session is closed before the next one opens, so memory does not grow with the number of captures.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array};
use arrow::compute::{cast, take};
use arrow::datatypes::SchemaRef;
use datafusion::common::Column;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, ReplaceChildrenOptions};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use futures::stream::{self, BoxStream};
use futures::{StreamExt as _, TryStreamExt as _};
use stallmap::error::AnalyzeError;
use stallmap::session::resources::SessionResources;
use stallmap::session::{Session, UNNAMED};
use stallmap_schema::capture::error::CaptureError;
use stallmap_tables::error::TableError;

use crate::FoundCapture;
use crate::skipped::SkippedCaptures;

/// Maximum size of the rows of a capture that wait until all of them are read. The rows of a capture that is damaged
/// further on are not returned, unless it has more.
const MAX_HELD_BYTES: usize = 32 << 20;

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

/// A query for the session of one capture: by its parts, or as text from another process.
#[derive(Clone, Debug)]
pub(crate) enum LeafQuery {
    Parts(CaptureQuery),
    Text(String),
}

impl fmt::Display for LeafQuery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parts(query) => write!(f, "table={}", query.table),
            Self::Text(sql) => write!(f, "sql={sql}"),
        }
    }
}

/// Runs a query in the session of each capture, and returns all rows with the facts of their capture.
pub struct FleetExec {
    pub(crate) query: LeafQuery,
    /// Captures with their facts: a row each.
    pub(crate) captures: Vec<(FoundCapture, RecordBatch)>,
    pub(crate) resources: SessionResources,
    pub(crate) skipped: Arc<SkippedCaptures>,
    pub(crate) properties: Arc<PlanProperties>,
}

impl FleetExec {
    pub(crate) fn new(
        query: LeafQuery,
        captures: Vec<(FoundCapture, RecordBatch)>,
        schema: SchemaRef,
        partitions: usize,
        (resources, skipped): (SessionResources, Arc<SkippedCaptures>),
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { query, captures, resources, skipped, properties: Arc::new(properties) }
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
    fn name(&self) -> &'static str {
        "FleetExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, _: Vec<Arc<dyn ExecutionPlan>>) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
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
            resources: self.resources.clone(),
            skipped: Arc::clone(&self.skipped),
        });
        let rows = stream::iter(own)
            .then(move |(capture, facts)| {
                let leaf = Arc::clone(&leaf);
                async move { leaf.rows(capture, facts).await }
            })
            .try_flatten();
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }
}

/// The rows of a capture.
type CaptureRows = BoxStream<'static, Result<RecordBatch>>;

/// The query with all that it takes to run it.
struct CaptureLeaf {
    query: LeafQuery,
    schema: SchemaRef,
    resources: SessionResources,
    skipped: Arc<SkippedCaptures>,
}

impl CaptureLeaf {
    /// The rows of a capture. None of a capture that is damaged.
    async fn rows(self: Arc<Self>, capture: FoundCapture, facts: RecordBatch) -> Result<CaptureRows> {
        match self.run(&capture, &facts).await {
            Ok(rows) => Ok(rows),
            Err(error) => match damage(&error) {
                Some(reason) => {
                    self.skipped.add(&capture.name, &reason);
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
    ) -> Result<CaptureRows, AnalyzeError> {
        let reader = capture.location.open()?;
        let session = Session::over(vec![(UNNAMED.to_owned(), reader)], &self.resources)?;
        // The captures are the partitions.
        session.context().state_ref().write().config_mut().options_mut().execution.target_partitions = 1;
        let plan = self.plan(&session).await?;
        let mut stream = session.read(plan).await?.execute_stream().await?;
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

    /// The query over the capture's table.
    async fn plan(&self, session: &Session) -> Result<LogicalPlan, AnalyzeError> {
        let query = match &self.query {
            LeafQuery::Parts(query) => query,
            LeafQuery::Text(sql) => return session.plan(sql).await,
        };
        let CaptureQuery { table, columns, filters, limit } = query;
        let all = session.plan(&format!("SELECT * FROM \"{table}\"")).await?;
        let mut plan = LogicalPlanBuilder::from(all);
        for filter in filters {
            plan = plan.filter(filter.clone())?;
        }
        let column = |name: &String| Expr::Column(Column::new_unqualified(name));
        // A row without columns still counts.
        let shown =
            if columns.is_empty() { vec![lit(1).alias("row")] } else { columns.iter().map(column).collect() };
        Ok(plan.project(shown)?.limit(0, *limit)?.build()?)
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

/// The reason, if an error is one of the capture and not of the query.
fn damage(error: &AnalyzeError) -> Option<String> {
    let query = match error {
        AnalyzeError::Query(query) => query,
        AnalyzeError::Capture(_) | AnalyzeError::Table(_) => return Some(error.to_string()),
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
