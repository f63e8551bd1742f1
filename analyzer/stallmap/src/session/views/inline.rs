//! A view as a table: a leaf of the plans that read it, until a whole statement is planned.
//!
//! DataFusion puts a view's plan where its name stands, and walks all of it again for every SELECT above it. Our views
//! stand on each other many layers deep: so they are leaves while SQL is read, and put in at once at the end: as their
//! plans, or where a session has kept a view's rows, as those.

use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::compute::cast;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{TableType, provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan,
};
use datafusion::physical_plan::ExecutionPlan;
use tokio::sync::OnceCell;

use crate::library::ViewDoc;

/// A view whose plan or rows are put in by [`expanded`].
#[derive(Debug)]
pub(crate) struct View {
    table: ViewTable,
    /// Its rows, if they are kept; none, if they were found to be too many.
    rows: OnceCell<Option<Arc<MemTable>>>,
}

/// What stands for views in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Their rows, where they are kept, otherwise their plans.
    Rows,
    /// Their plans: for what asks which tables are read.
    Plans,
}

impl View {
    fn new(plan: LogicalPlan, sql: &str) -> Self {
        Self { table: ViewTable::new(plan, Some(sql.to_owned())), rows: OnceCell::new() }
    }

    /// What it reads; the views among it are leaves.
    pub(crate) fn plan(&self) -> &LogicalPlan {
        self.table.logical_plan()
    }

    /// Whether its rows are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept().is_some()
    }

    /// Whether its rows have been found to be too many.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self.rows.get(), Some(None))
    }

    /// Keeps its rows, unless `compute` finds them to be too many.
    pub(crate) async fn keep(
        &self,
        compute: impl AsyncFnOnce() -> Result<Option<Vec<RecordBatch>>>,
    ) -> Result<()> {
        let keep = async || {
            let Some(rows) = compute().await? else { return Ok(None) };
            let schema = self.table.schema();
            let rows = rows.iter().map(|batch| typed(batch, &schema)).collect::<Result<Vec<_>>>()?;
            MemTable::try_new(schema, vec![rows]).map(|table| Some(Arc::new(table)))
        };
        self.rows.get_or_try_init(keep).await.map(|_| ())
    }

    fn kept(&self) -> Option<Arc<MemTable>> {
        self.rows.get()?.clone()
    }
}

/// A view as a table; `state` finds what it reads.
pub(crate) async fn planned(state: &SessionState, view: &ViewDoc) -> Result<View, DataFusionError> {
    let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = state.create_logical_plan(&view.sql).await?
    else {
        return Err(DataFusionError::Plan("it is no CREATE VIEW".into()));
    };
    Ok(View::new(create.input.as_ref().clone(), &view.sql))
}

/// A plan with the plans or rows of views where their names stand.
pub(crate) fn expanded(plan: LogicalPlan, put: Put) -> Result<LogicalPlan> {
    let expand = |node| match node {
        LogicalPlan::TableScan(scan) => match plan_of(&scan, put)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        node => Ok(Transformed::no(node)),
    };
    // From above: what a view reads may be views.
    Ok(plan.transform_down_with_subqueries(expand)?.data)
}

/// What a scan of a view reads, under the scan's name.
fn plan_of(scan: &TableScan, put: Put) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(view) = provider.downcast_ref::<View>() else { return Ok(None) };
    // A scan that was narrowed already is one that the view answers itself.
    if !scan.filters.is_empty() || scan.projection.is_some() || scan.fetch.is_some() {
        return Ok(None);
    }
    if put == Put::Rows
        && let Some(rows) = view.kept()
    {
        let source = provider_as_source(rows);
        return LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build().map(Some);
    }
    let plan = LogicalPlanBuilder::from(view.plan().clone());
    plan.alias(scan.table_name.clone())?.build().map(Some)
}

/// A batch under the names and types of a view: what runs may have texts of another encoding than what was planned.
fn typed(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns = columns.map(|(column, field)| cast(column, field.data_type()));
    Ok(RecordBatch::try_new(Arc::clone(schema), columns.collect::<std::result::Result<_, _>>()?)?)
}

#[async_trait]
impl TableProvider for View {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.table.get_table_definition()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.table.scan(state, projection, filters, limit).await
    }
}
