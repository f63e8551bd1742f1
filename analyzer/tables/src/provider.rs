//! Tables whose rows are computed from other tables of a capture: one provider for all of them.

use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::TableType;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use stallmap_schema::table::TableDef;

use crate::captured::CapturedTable;
use crate::column::wrong;
use crate::plain;

/// Rows that are computed on demand.
#[async_trait]
pub trait DerivedRows: Any + Debug + Send + Sync {
    /// The table's declaration.
    fn table(&self) -> TableDef;

    /// Use of a condition on its columns.
    fn pushdown(&self, _: &Expr) -> TableProviderFilterPushDown {
        TableProviderFilterPushDown::Unsupported
    }

    /// Number of its rows.
    fn row_count(&self) -> RowCount;

    /// A plan of the columns of a scan.
    async fn plan(&self, scan: DerivedScan<'_>) -> Result<Arc<dyn ExecutionPlan>>;
}

/// Number of rows of a table, before a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCount {
    /// The number.
    Known(usize),
    /// Known after the first scan. Scans have one partition in any case.
    Later,
    /// Not known.
    Unknown,
}

impl RowCount {
    /// The number of rows that may be there.
    #[must_use]
    pub fn or(self, rows: Option<usize>) -> Self {
        rows.map_or(self, Self::Known)
    }
}

/// The request for rows of a table.
pub struct DerivedScan<'a> {
    /// The state of the query.
    pub state: &'a dyn Session,
    /// The table's schema.
    pub schema: SchemaRef,
    /// Positions of the columns. None for all.
    pub projection: Option<&'a Vec<usize>>,
    /// Conditions on the rows.
    pub filters: &'a [Expr],
    /// Rows that suffice.
    pub limit: Option<usize>,
}

impl DerivedScan<'_> {
    /// Positions of the columns.
    pub fn columns(&self) -> Vec<usize> {
        self.projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect())
    }

    /// A plan of rows in memory. They have all columns.
    pub fn over(&self, rows: &[RecordBatch]) -> Result<Arc<dyn ExecutionPlan>> {
        let plain =
            |rows: &RecordBatch| Ok(RecordBatch::try_new(Arc::clone(&self.schema), rows.columns().to_vec())?);
        let rows = rows.iter().map(plain).collect::<Result<Vec<_>>>()?;
        Ok(MemorySourceConfig::try_new_exec(&[rows], Arc::clone(&self.schema), self.projection.cloned())?)
    }
}

/// The provider of derived rows.
#[derive(Debug)]
pub struct DerivedTable {
    rows: Arc<dyn DerivedRows>,
    schema: SchemaRef,
}

impl DerivedTable {
    /// The table of some rows.
    pub fn new(rows: Arc<dyn DerivedRows>) -> Self {
        Self { schema: plain(&rows.table().schema()), rows }
    }

    /// The table's declaration.
    pub fn table(&self) -> TableDef {
        self.rows.table()
    }

    /// Number of its rows.
    pub fn row_count(&self) -> RowCount {
        self.rows.row_count()
    }

    /// The source of its rows, if it is of this type.
    pub fn source<T: DerivedRows>(&self) -> Option<&T> {
        let rows: &dyn Any = self.rows.as_ref();
        rows.downcast_ref()
    }
}

/// The source of the rows of a provider, if it is of this type.
pub fn source<T: DerivedRows>(provider: &dyn TableProvider) -> Option<&T> {
    provider.downcast_ref::<DerivedTable>()?.source()
}

#[async_trait]
impl TableProvider for DerivedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(filters.iter().map(|filter| self.rows.pushdown(filter)).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let schema = Arc::clone(&self.schema);
        self.rows.plan(DerivedScan { state, schema, projection, filters, limit }).await
    }
}

/// Names of tables that rows are computed from, with the columns that are read.
pub type SourceColumns<const N: usize> = [(&'static str, &'static [&'static str]); N];

/// The tables of a capture by name. None without one of them.
pub fn captured<const N: usize>(
    sources: &SourceColumns<N>,
    table: impl Fn(&str) -> Option<Arc<CapturedTable>>,
) -> Option<[Arc<CapturedTable>; N]> {
    let tables: Option<Vec<_>> = sources.iter().map(|(name, _)| table(name)).collect();
    tables?.try_into().ok()
}

/// The rows of these tables.
pub fn read_all<const N: usize>(
    tables: &[Arc<CapturedTable>; N],
    sources: &SourceColumns<N>,
) -> Result<[RecordBatch; N]> {
    let rows = tables.iter().zip(sources).map(|(table, (_, columns))| table.read(columns));
    rows.collect::<Result<Vec<_>>>()?.try_into().map_err(|_| wrong("sources"))
}
