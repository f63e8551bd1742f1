//! The schema of a capture: its tables, and the views over them, each planned on first use of its name.
//!
//! A query reads a few of the library's views. Planning all of them costs more than most queries.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, MemoryCatalogProvider, MemoryCatalogProviderList,
    MemorySchemaProvider, SchemaProvider, TableProvider,
};
use datafusion::common::exec_err;
use datafusion::datasource::TableType;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::session_state::SessionStateBuilder;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::spawn;

use super::inline::{self, InlinedView};
use crate::lexer;
use crate::library::ViewDoc;
use crate::session::plain::sources;
use crate::session::stored::ViewStore;

/// Tables, and views that are planned on first use.
#[derive(Debug)]
pub(crate) struct PlannedSchema {
    /// The tables, the planned views, and objects created in the session.
    made: MemorySchemaProvider,
    /// The unused views, by name.
    waiting: Mutex<BTreeMap<String, &'static ViewDoc>>,
    /// Views that are planned, or were: a view that several threads name is planned once.
    planning: Mutex<BTreeMap<String, Arc<OnceCell<()>>>>,
    /// Plans views with the names of this schema.
    state: SessionState,
    /// Rows of views from earlier sessions.
    store: Arc<ViewStore>,
}

impl PlannedSchema {
    /// A schema without tables. `state` finds unqualified names in the schema `name` of its default catalog.
    pub(crate) fn new(
        state: SessionState,
        views: &'static [ViewDoc],
        store: Arc<ViewStore>,
    ) -> Result<Arc<Self>> {
        let names = state.config_options().catalog.clone();
        let catalogs = Arc::new(MemoryCatalogProviderList::new());
        let catalog = Arc::new(MemoryCatalogProvider::new());
        catalogs.register_catalog(names.default_catalog, Arc::clone(&catalog) as _);
        let schema = Arc::new(Self {
            made: MemorySchemaProvider::new(),
            waiting: Mutex::new(views.iter().map(|view| (view.name.clone(), view)).collect()),
            planning: Mutex::default(),
            state: SessionStateBuilder::new_from_existing(state).with_catalog_list(catalogs).build(),
            store,
        });
        catalog.register_schema(&names.default_schema, Arc::new(WeakSchema(Arc::downgrade(&schema))))?;
        Ok(schema)
    }

    /// The unused views. No holder can panic between two states, so a poisoned lock is sound.
    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, &'static ViewDoc>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Plans a view, if it waits and its rows are not stored.
    async fn plan(&self, name: &str) -> Result<()> {
        let Some(view) = self.waiting().get(name).copied() else { return Ok(()) };
        let planned = {
            let mut planning = self.planning.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(planning.entry(name.to_owned()).or_default())
        };
        planned.get_or_try_init(|| self.plan_now(name, view)).await.copied()
    }

    /// Begins to plan the views that a view names, each on a thread of its own. The view waits for those that it reads.
    fn plan_sources(&self, view: &ViewDoc) {
        let names = &self.state.config_options().catalog;
        let catalog = self.state.catalog_list().catalog(&names.default_catalog);
        let schema = catalog.and_then(|catalog| catalog.schema(&names.default_schema));
        let Some(schema) = schema.filter(|_| Handle::try_current().is_ok()) else { return };
        for name in sources(&view.sql).into_iter().filter(|name| self.waiting().contains_key(*name)) {
            let (schema, name) = (Arc::clone(&schema), name.to_owned());
            // The view itself reports an error.
            spawn(async move { drop(schema.table(&name).await) });
        }
    }

    async fn plan_now(&self, name: &str, view: &ViewDoc) -> Result<()> {
        let table = if let Some(table) = InlinedView::stored(view, &self.store)? {
            table
        } else {
            self.plan_sources(view);
            inline::planned(&self.state, view, &lexer::compact(&view.sql))
                .await
                .map_err(|error| error.context(format!("view `{name}` of the library")))?
                .storing(&self.store)
        };
        // The session may have replaced it.
        let mut waiting = self.waiting();
        if waiting.remove(name).is_some() {
            self.made.register_table(name.to_owned(), Arc::new(table))?;
        }
        Ok(())
    }
}

#[async_trait]
impl SchemaProvider for PlannedSchema {
    fn table_names(&self) -> Vec<String> {
        let mut names: BTreeSet<String> = self.waiting().keys().cloned().collect();
        names.extend(self.made.table_names());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.plan(name).await?;
        self.made.table(name).await
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if self.waiting().contains_key(name) {
            return Ok(Some(TableType::View));
        }
        self.made.table_type(name).await
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        // A capture's table is not a built-in view, whatever its name.
        if self.waiting().contains_key(&name) {
            return exec_err!("{name} is a view of the library");
        }
        self.made.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.waiting().remove(name);
        self.made.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.made.table_exist(name) || self.waiting().contains_key(name)
    }
}

/// The schema for its own state. A strong reference would be a cycle and leak.
#[derive(Debug)]
struct WeakSchema(Weak<PlannedSchema>);

#[async_trait]
impl SchemaProvider for WeakSchema {
    fn table_names(&self) -> Vec<String> {
        self.0.upgrade().map(|schema| schema.table_names()).unwrap_or_default()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        match self.0.upgrade() {
            Some(schema) => schema.table(name).await,
            None => Ok(None),
        }
    }

    fn table_exist(&self, name: &str) -> bool {
        self.0.upgrade().is_some_and(|schema| schema.table_exist(name))
    }
}
