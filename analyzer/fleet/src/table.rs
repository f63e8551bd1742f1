//! A table of a fleet: conditions on facts choose captures, and all others go into each capture's own query.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{Field, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_plan::ExecutionPlan;
use stallmap::session::leaf::TableNeeds;
use stallmap::session::resources::SessionResources;

use crate::facts::CaptureFacts;
use crate::leaf::{CaptureQuery, FleetExec, LeafContext, LeafQuery};
use crate::skipped::SkippedCaptures;
use crate::{AllFacts, facts, prune};

/// The rows of one table or view in all captures.
#[derive(Debug)]
pub(crate) struct FleetTable {
    name: String,
    /// Facts, then the table's own columns.
    schema: SchemaRef,
    /// The facts of all captures that this table shows.
    rows: RecordBatch,
    /// The recorded tables that its rows depend on.
    needs: TableNeeds,
    facts: AllFacts,
    resources: SessionResources,
    skipped: Arc<SkippedCaptures>,
}

impl FleetTable {
    /// The table over captures. A fact whose name is that of a column is not shown: `run.rank` is that of the run.
    pub(crate) fn new(
        name: &str,
        (own, needs): (&SchemaRef, TableNeeds),
        facts: AllFacts,
        resources: SessionResources,
        skipped: Arc<SkippedCaptures>,
    ) -> Result<Self> {
        let all = facts::batch(&facts)?;
        let schema = all.schema();
        let shown = (0..schema.fields().len()).filter(|at| own.index_of(schema.field(*at).name()).is_err());
        let rows = all.project(&shown.collect::<Vec<_>>())?;
        let own = nullable(own);
        let fields: Vec<Arc<Field>> = rows.schema().fields().iter().chain(own.fields()).cloned().collect();
        Ok(Self {
            name: name.to_owned(),
            schema: Arc::new(Schema::new(fields)),
            rows,
            needs,
            facts,
            resources,
            skipped,
        })
    }

    /// Number of columns with facts.
    fn facts_len(&self) -> usize {
        self.rows.num_columns()
    }

    /// True for a condition on facts alone, false for one on the table's own columns alone.
    fn is_about_facts(&self, filter: &Expr) -> Option<bool> {
        if filter.is_volatile() {
            return None;
        }
        let sides = filter
            .column_refs()
            .into_iter()
            .map(|column| self.schema.index_of(&column.name).ok().map(|at| at < self.facts_len()));
        let sides: BTreeSet<Option<bool>> = sides.collect();
        if sides.len() == 1 { sides.into_iter().next().flatten() } else { None }
    }

    /// Positions of the captures that can have rows under conditions, without those that cannot be read.
    fn chosen(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<usize>> {
        let can_have_rows = |facts: &CaptureFacts| {
            self.skipped.reason(&facts.capture.name).is_none()
                && facts.contents.as_ref().is_none_or(|contents| contents.has_rows_of(&self.needs.required))
        };
        let mut chosen: Vec<bool> = self.facts.iter().map(can_have_rows).collect();
        let mut restrict = |values: Vec<bool>| {
            chosen.iter_mut().zip(values).for_each(|(is_chosen, value)| *is_chosen &= value);
        };
        for filter in filters {
            let is_about_facts = self.is_about_facts(filter);
            let filter = unqualified(filter.clone())?;
            match is_about_facts {
                Some(true) => restrict(prune::fulfilled(state, &filter, &self.rows)?),
                Some(false)
                    if self.needs.has_recorded_functions
                        && prune::is_about_functions(&filter, &self.schema) =>
                {
                    // A condition that fails on a function which no row names does not fail.
                    if let Ok(values) = prune::with_function(state, &filter, &self.schema, &self.facts) {
                        restrict(values);
                    }
                }
                _ => {}
            }
        }
        Ok(chosen.into_iter().enumerate().filter_map(|(at, is_chosen)| is_chosen.then_some(at)).collect())
    }
}

/// An expression whose columns have no table: the capture's own table has another name.
fn unqualified(expr: Expr) -> Result<Expr> {
    expr.transform(|node| match node {
        Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
        node => Ok(Transformed::no(node)),
    })
    .data()
}

/// A schema without docs, of nullable columns: a capture of an earlier release may lack some.
fn nullable(schema: &SchemaRef) -> SchemaRef {
    let plain = stallmap_tables::plain(schema);
    let fields = plain.fields().iter().map(|field| field.as_ref().clone().with_nullable(true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[async_trait]
impl TableProvider for FleetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        let support = |filter: &&Expr| match self.is_about_facts(filter) {
            Some(true) => TableProviderFilterPushDown::Exact,
            Some(false) => TableProviderFilterPushDown::Inexact,
            None => TableProviderFilterPushDown::Unsupported,
        };
        Ok(filters.iter().map(support).collect())
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let columns = projection.cloned().unwrap_or_else(|| (0..self.schema.fields().len()).collect());
        let own = columns.iter().filter(|at| **at >= self.facts_len());
        let own = own.map(|at| self.schema.field(*at).name().clone()).collect();
        let own_filters = filters.iter().filter(|filter| self.is_about_facts(filter) == Some(false));
        let query = CaptureQuery {
            table: self.name.clone(),
            columns: own,
            filters: own_filters.map(|filter| unqualified(filter.clone())).collect::<Result<_>>()?,
            limit,
        };
        let chosen = self.chosen(state, filters)?;
        let partitions = state.config().target_partitions().min(chosen.len()).max(1);
        let mut resources = self.resources.clone();
        resources.memory_bytes = resources.memory_bytes.map(|bytes| bytes / partitions);
        let captures =
            chosen.iter().map(|at| (self.facts[*at].capture.clone(), self.rows.slice(*at, 1))).collect();
        let schema = Arc::new(self.schema.project(&columns)?);
        let context = LeafContext::new(state, resources, Arc::clone(&self.skipped));
        Ok(Arc::new(FleetExec::new(LeafQuery::Parts(query), captures, schema, partitions, context)))
    }
}
