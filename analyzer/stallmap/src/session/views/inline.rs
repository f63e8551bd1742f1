//! A view as a table: a leaf of the plans that read it, until the complete statement is planned.
//!
//! DataFusion inlines a view's plan at its name, and walks all of it again for every SELECT above it. stallmap's views
//! depend on each other many layers deep. Therefore they are leaves while SQL is read, and are inlined once at the end:
//! as their plans, or as cached rows.

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

/// A view whose plan or rows are inlined by [`expanded`].
#[derive(Debug)]
pub(crate) struct View {
    table: ViewTable,
    /// Its rows, if cached. None if there were too many.
    rows: OnceCell<Option<Arc<MemTable>>>,
}

/// Replacement of views in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// Their rows if cached, otherwise their plans.
    Rows,
    /// Their plans, to list the tables that they read.
    Plans,
}

impl View {
    fn new(plan: LogicalPlan, sql: &str) -> Self {
        Self { table: ViewTable::new(plan, Some(sql.to_owned())), rows: OnceCell::new() }
    }

    /// Its plan, with views as leaves.
    pub(crate) fn plan(&self) -> &LogicalPlan {
        self.table.logical_plan()
    }

    /// True if its rows are cached.
    pub(crate) fn is_kept(&self) -> bool {
        self.cached_rows().is_some()
    }

    /// True if it has too many rows to cache.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self.rows.get(), Some(None))
    }

    /// Caches its rows, unless `compute` finds them to be too many.
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

    fn cached_rows(&self) -> Option<Arc<MemTable>> {
        self.rows.get()?.clone()
    }
}

/// A view as a table. `state` resolves the names that it reads.
pub(crate) async fn planned(state: &SessionState, view: &ViewDoc) -> Result<View, DataFusionError> {
    let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = state.create_logical_plan(&view.sql).await?
    else {
        return Err(DataFusionError::Plan("not a CREATE VIEW".into()));
    };
    Ok(View::new(create.input.as_ref().clone(), &view.sql))
}

/// A plan with the plans or rows of views in place of their names.
pub(crate) fn expanded(plan: LogicalPlan, put: Put) -> Result<LogicalPlan> {
    let expand = |node| match node {
        LogicalPlan::TableScan(scan) => match plan_of(&scan, put)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        node => Ok(Transformed::no(node)),
    };
    // Top-down: inlined plans may contain views.
    Ok(plan.transform_down_with_subqueries(expand)?.data)
}

/// Plan of a scan of a view, under the scan's name.
fn plan_of(scan: &TableScan, put: Put) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(view) = provider.downcast_ref::<View>() else { return Ok(None) };
    // The view answers a narrowed scan itself.
    if !scan.filters.is_empty() || scan.projection.is_some() || scan.fetch.is_some() {
        return Ok(None);
    }
    if put == Put::Rows
        && let Some(rows) = view.cached_rows()
    {
        let source = provider_as_source(rows);
        return LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build().map(Some);
    }
    let plan = LogicalPlanBuilder::from(view.plan().clone());
    plan.alias(scan.table_name.clone())?.build().map(Some)
}

/// A batch with the names and types of a view: executed plans may encode texts differently from planned ones.
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
