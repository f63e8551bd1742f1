//! The schema `every`: each table and view of all open captures together, with the capture's name as first column.
//!
//! `SELECT capture, kernel, samples FROM every.kernel_cost` queries all captures at once. Tables of only some captures
//! are absent: a result that omits captures would not show it. Plans are made on first use of a name, so unused ones
//! cost nothing.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};

/// Its name in SQL.
pub const EVERY: &str = "every";

/// The column that names the capture.
const CAPTURE: &str = "capture";

/// The schema, over those of the captures in the given order.
#[derive(Debug)]
pub(super) struct UnionSchema {
    captures: Vec<(String, Arc<dyn SchemaProvider>)>,
}

impl UnionSchema {
    pub(super) fn new(captures: Vec<(String, Arc<dyn SchemaProvider>)>) -> Self {
        Self { captures }
    }
}

#[async_trait]
impl SchemaProvider for UnionSchema {
    fn table_names(&self) -> Vec<String> {
        let names = self.captures.first().map(|(_, schema)| schema.table_names()).unwrap_or_default();
        let names: BTreeSet<String> = names.into_iter().filter(|name| self.table_exist(name)).collect();
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut all: Option<LogicalPlanBuilder> = None;
        for (capture, schema) in &self.captures {
            let Some(table) = schema.table(name).await? else { return Ok(None) };
            let rows = named(capture, name, table)?;
            all = Some(match all {
                None => LogicalPlanBuilder::from(rows),
                Some(others) => others.union_by_name(rows)?,
            });
        }
        let Some(all) = all else { return Ok(None) };
        Ok(Some(Arc::new(ViewTable::new(all.build()?, None))))
    }

    fn table_exist(&self, name: &str) -> bool {
        !self.captures.is_empty() && self.captures.iter().all(|(_, schema)| schema.table_exist(name))
    }
}

/// A capture's table with its name before it.
fn named(capture: &str, name: &str, table: Arc<dyn TableProvider>) -> Result<LogicalPlan> {
    let rows = LogicalPlanBuilder::scan(name, provider_as_source(table), None)?;
    let columns: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    rows.project(std::iter::once(lit(capture).alias(CAPTURE)).chain(columns))?.build()
}
