//! A view as a table: a leaf of the plans that read it, until the complete statement is planned.
//!
//! DataFusion inlines a view's plan at its name, and walks all of it again for every SELECT above it. stallmap's views
//! depend on each other many layers deep. Therefore they are leaves while SQL is read, and are inlined once at the end:
//! as their plans, or as cached rows.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::config::Dialect;
use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::datasource::{TableType, provider_as_source, source_as_provider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::logical_expr::{
    DdlStatement, Expr, LogicalPlan, LogicalPlanBuilder, TableProviderFilterPushDown, TableScan,
};
use datafusion::physical_plan::ExecutionPlan;
use stallmap_tables::collected::{HeldRows, ViewRows};
use stallmap_tables::packed;
use tokio::sync::OnceCell;

use super::empty::{self, EmptyTables};
use crate::library::ViewDoc;
use crate::session::bounded;
use crate::session::resources::SessionResources;
use crate::session::stored::{StoredRows, StoredView, ViewStore};

/// A view whose rows or plan are inlined by [`expanded`].
#[derive(Debug)]
pub(crate) struct InlinedView {
    name: String,
    table: ViewTable,
    /// Its rows, if cached. None if there were too many.
    rows: OnceCell<Option<Arc<dyn TableProvider>>>,
    /// The tables that it reads through all others.
    sources: OnceLock<BTreeSet<String>>,
    /// The tables whose lack leaves it without rows, if it has none.
    causes: Mutex<Option<ViewCauses>>,
    /// Tables each of which, without rows, leaves it without rows.
    required: OnceLock<BTreeSet<String>>,
    /// The number of its rows, if cached.
    count: OnceLock<usize>,
    /// The memory of its rows.
    memory: OnceLock<MemoryReservation>,
    /// The place that keeps its rows for later sessions.
    store: Option<Arc<ViewStore>>,
    /// True if its rows are those of an earlier session, and its plan reads them.
    is_stored: bool,
}

/// The tables whose lack leaves a view without rows, if it has none.
#[derive(Clone, Debug)]
struct ViewCauses(Option<EmptyTables>);

impl InlinedView {
    fn new(plan: LogicalPlan, view: &ViewDoc) -> Self {
        let table = ViewTable::new(plan, Some(view.sql.clone()));
        Self {
            name: view.name.clone(),
            table,
            rows: OnceCell::new(),
            sources: OnceLock::new(),
            causes: Mutex::default(),
            required: OnceLock::new(),
            count: OnceLock::new(),
            memory: OnceLock::new(),
            store: None,
            is_stored: false,
        }
    }

    /// A view of the library with its stored rows. None if none are stored.
    pub(crate) fn stored(view: &ViewDoc, store: &ViewStore) -> Result<Option<Self>> {
        let (rows, count, sources): (Arc<dyn TableProvider>, _, _) = match store.get(view) {
            Some(StoredView::Few(StoredRows { schema, rows, sources })) => {
                let count = rows.iter().map(RecordBatch::num_rows).sum();
                (Arc::new(MemTable::try_new(schema, vec![rows])?), count, sources)
            }
            Some(StoredView::Many { table, rows, sources }) => (table, rows, sources),
            None => return Ok(None),
        };
        let source = provider_as_source(Arc::clone(&rows));
        let view = Self::new(LogicalPlanBuilder::scan(&view.name, source, None)?.build()?, view);
        let rows = OnceCell::new_with(Some(Some(rows)));
        Ok(Some(Self { rows, sources: sources.into(), count: count.into(), is_stored: true, ..view }))
    }

    /// The same view, whose rows will be stored when they are cached.
    pub(crate) fn storing(self, store: &Arc<ViewStore>) -> Self {
        Self { store: Some(Arc::clone(store)), ..self }
    }

    /// Its name, without the capture.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The tables that it reads through all others.
    pub(crate) fn sources(&self) -> &BTreeSet<String> {
        self.sources.get_or_init(|| sources(self.plan()).into_iter().map(|(_, name)| name).collect())
    }

    /// Its plan, with views as leaves.
    pub(crate) fn plan(&self) -> &LogicalPlan {
        self.table.logical_plan()
    }

    /// The tables whose lack leaves it without rows. None if it may have some, or its stored rows do not say. This takes
    /// no planning.
    pub(crate) fn causes(&self) -> Option<EmptyTables> {
        let known = self.known_causes().clone();
        if let Some(ViewCauses(causes)) = known {
            return causes;
        }
        let causes = if self.is_stored { None } else { empty::causes(self.plan()) };
        self.explain(causes.clone());
        causes
    }

    /// Replaces what is known of them.
    pub(crate) fn explain(&self, causes: Option<EmptyTables>) {
        *self.known_causes() = Some(ViewCauses(causes));
    }

    fn known_causes(&self) -> MutexGuard<'_, Option<ViewCauses>> {
        self.causes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its statement, if its plan reads stored rows instead.
    pub(crate) fn stored_statement(&self) -> Option<&str> {
        self.table.get_table_definition().filter(|_| self.is_stored)
    }

    /// Tables each of which, without rows, leaves it without rows. This takes no planning.
    pub(crate) fn required(&self) -> &BTreeSet<String> {
        self.required.get_or_init(|| empty::required(self.plan()))
    }

    /// The number of its rows, if they are cached.
    pub(crate) fn count(&self) -> Option<usize> {
        self.count.get().copied()
    }

    /// True if its rows are cached.
    pub(crate) fn is_kept(&self) -> bool {
        self.cached_rows().is_some()
    }

    /// Rows times columns above which its rows are held as a file.
    pub(crate) fn most_cells(&self) -> usize {
        self.store.as_ref().map_or(SessionResources::NONE.most_cells, |store| store.most_cells())
    }

    /// True if it has too many rows to cache.
    pub(crate) fn is_too_long(&self) -> bool {
        matches!(self.rows.get(), Some(None))
    }

    /// Caches its rows, unless `compute` finds them to be too many, or its types cannot hold them.
    pub(crate) async fn keep(&self, compute: impl AsyncFnOnce() -> Result<Option<ViewRows>>) -> Result<()> {
        let keep = async || {
            let Some(ViewRows { held, count, memory }) = compute().await? else { return Ok(None) };
            let table = self.table_of(held)?;
            self.count.get_or_init(|| count);
            self.memory.get_or_init(|| memory);
            Ok(Some(table))
        };
        self.rows.get_or_try_init(keep).await.map(|_| ())
    }

    /// A table of its rows, which are stored. Those that cannot be stored are computed again by the next session.
    fn table_of(&self, held: HeldRows) -> Result<Arc<dyn TableProvider>> {
        let store = self.store.as_ref();
        match held {
            HeldRows::Batches(rows) => {
                let schema = self.table.schema();
                if let Some(store) = store {
                    let (schema, sources) = (Arc::clone(&schema), self.sources().clone());
                    store.put(&self.name, &StoredRows { schema, rows: rows.clone(), sources });
                }
                Ok(Arc::new(MemTable::try_new(schema, vec![rows])?))
            }
            HeldRows::File(content) => {
                if let Some(store) = store {
                    store.put_packed(&self.name, &content);
                }
                packed::open(&self.name, content.into())
                    .map_err(|error| DataFusionError::External(error.into()))
            }
        }
    }

    fn cached_rows(&self) -> Option<Arc<dyn TableProvider>> {
        self.rows.get()?.clone()
    }
}

/// A view as a table, from a statement for it. `state` resolves the names that it reads.
pub(crate) async fn planned(
    state: &SessionState,
    view: &ViewDoc,
    statement: &str,
) -> Result<InlinedView, DataFusionError> {
    Ok(InlinedView::new(plan_of_view(state, statement).await?, view))
}

/// The plan of a view from a statement for it, with views as leaves.
pub(crate) async fn plan_of_view(state: &SessionState, statement: &str) -> Result<LogicalPlan> {
    let statement = state.sql_to_statement(statement, &Dialect::Generic)?;
    let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = bounded::plan_of(state, statement).await? else {
        return Err(DataFusionError::Plan("not a CREATE VIEW".into()));
    };
    Ok(create.input.as_ref().clone())
}

/// The tables that a plan reads through views: schema and name, without schema if the plan names none.
pub(crate) fn sources(plan: &LogicalPlan) -> BTreeSet<(String, String)> {
    let mut sources = BTreeSet::new();
    let visited = plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let schema = scan.table_name.schema().unwrap_or_default();
            let table = source_as_provider(&scan.source).ok();
            match table.as_ref().and_then(|table| table.downcast_ref::<InlinedView>()) {
                Some(view) => {
                    sources.extend(view.sources().iter().map(|name| (schema.to_owned(), name.clone())));
                }
                None => drop(sources.insert((schema.to_owned(), scan.table_name.table().to_owned()))),
            }
        }
        Ok(TreeNodeRecursion::Continue)
    });
    // A visit that never fails.
    drop(visited);
    sources
}

/// A plan with the rows of views, or else their plans, in place of their names.
pub(crate) fn expanded(plan: LogicalPlan) -> Result<LogicalPlan> {
    let expand = |node| match node {
        LogicalPlan::TableScan(scan) => match plan_of(&scan)? {
            Some(plan) => Ok(Transformed::yes(plan)),
            None => Ok(Transformed::no(LogicalPlan::TableScan(scan))),
        },
        node => Ok(Transformed::no(node)),
    };
    // Top-down: inlined plans may contain views.
    Ok(plan.transform_down_with_subqueries(expand)?.data)
}

/// Plan of a scan of a view, under the scan's name.
fn plan_of(scan: &TableScan) -> Result<Option<LogicalPlan>> {
    if let Some(empty) = empty::replaced(scan) {
        return Ok(Some(empty));
    }
    let Ok(provider) = source_as_provider(&scan.source) else { return Ok(None) };
    let Some(view) = provider.downcast_ref::<InlinedView>() else { return Ok(None) };
    // The view answers a narrowed scan itself.
    if !scan.filters.is_empty() || scan.projection.is_some() || scan.fetch.is_some() {
        return Ok(None);
    }
    if let Some(rows) = view.cached_rows() {
        // Nothing is planned above no rows.
        if view.count() == Some(0) {
            return Ok(Some(empty::of_scan(scan)));
        }
        let source = provider_as_source(rows);
        return LogicalPlanBuilder::scan(scan.table_name.clone(), source, None)?.build().map(Some);
    }
    let plan = LogicalPlanBuilder::from(view.plan().clone());
    plan.alias(scan.table_name.clone())?.build().map(Some)
}

#[async_trait]
impl TableProvider for InlinedView {
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
