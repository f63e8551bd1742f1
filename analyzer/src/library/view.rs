//! A view as a table: a leaf of the plans that read it, until a whole statement is planned.
//!
//! DataFusion puts a view's plan where its name stands, and walks all of it again for every SELECT above it. Our views
//! stand on each other many layers deep: so they are leaves while SQL is read, and put in at once at the end.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::{TableType, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::{
    Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan,
};
use datafusion::physical_plan::ExecutionPlan;

/// A view whose plan is put in by [`expanded`].
#[derive(Debug)]
pub(crate) struct View(ViewTable);

impl View {
    pub(super) fn new(plan: LogicalPlan, sql: &str) -> Self {
        Self(ViewTable::new(plan, Some(sql.to_owned())))
    }
}

/// A plan with the plans of views where their names stand.
pub(crate) fn expanded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let expand = |node| match node {
        LogicalPlan::TableScan(scan) => match plan_of(&scan)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        node => Ok(Transformed::no(node)),
    };
    // From above: what a view reads may be views.
    Ok(plan.transform_down_with_subqueries(expand)?.data)
}

/// What a scan of a view reads, under the scan's name.
fn plan_of(scan: &TableScan) -> Result<Option<LogicalPlan>> {
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(View(view)) = provider.downcast_ref::<View>() else { return Ok(None) };
    // A scan that was narrowed already is one that the view answers itself.
    if !scan.filters.is_empty() || scan.projection.is_some() || scan.fetch.is_some() {
        return Ok(None);
    }
    let plan = LogicalPlanBuilder::from(view.logical_plan().clone());
    plan.alias(scan.table_name.clone())?.build().map(Some)
}

#[async_trait]
impl TableProvider for View {
    fn schema(&self) -> arrow::datatypes::SchemaRef {
        self.0.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.0.get_table_definition()
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.0.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.scan(state, projection, filters, limit).await
    }
}
