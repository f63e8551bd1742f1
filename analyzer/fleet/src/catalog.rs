//! The schema of a fleet: the tables and views of this release, each with the rows of all captures.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::view::ViewTable;
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::common::config::Dialect;
use datafusion::common::plan_err;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan};
use stallmap::error::AnalyzeError;
use stallmap::library::{self, ViewDoc};
use stallmap::session::Session;
use stallmap::session::resources::SessionResources;

use crate::skipped::SkippedCaptures;
use crate::table::FleetTable;
use crate::{AllFacts, FLEET, facts};

/// Tables and views of all captures.
pub(crate) struct FleetSchema {
    /// A session over no rows, which knows the columns of every table and view.
    known: Session,
    facts: AllFacts,
    resources: SessionResources,
    skipped: Arc<SkippedCaptures>,
    /// The state that views over all captures are planned in. It holds this schema.
    state: Box<StateSource>,
    /// Tables and views of statements.
    made: MemorySchemaProvider,
}

/// The state of the session whose schema this is. None when the session is gone.
pub(crate) type StateSource = dyn Fn() -> Option<SessionState> + Send + Sync;

impl FleetSchema {
    pub(crate) fn new(
        known: Session,
        facts: AllFacts,
        resources: SessionResources,
        (skipped, state): (Arc<SkippedCaptures>, Box<StateSource>),
    ) -> Self {
        Self { known, facts, resources, skipped, state, made: MemorySchemaProvider::new() }
    }

    /// A view over all captures, planned.
    async fn view(&self, view: &ViewDoc) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(state) = (self.state)() else { return Ok(None) };
        let statement = state.sql_to_statement(&view.sql, &Dialect::Generic)?;
        let LogicalPlan::Ddl(DdlStatement::CreateView(create)) = state.statement_to_plan(statement).await?
        else {
            return plan_err!("{} is not a view", view.name);
        };
        Ok(Some(Arc::new(ViewTable::new(create.input.as_ref().clone(), None))))
    }
}

fn external(error: AnalyzeError) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}

impl std::fmt::Debug for FleetSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FleetSchema of {} captures", self.facts.len())
    }
}

#[async_trait]
impl SchemaProvider for FleetSchema {
    fn table_names(&self) -> Vec<String> {
        let tables = self.known.tables().into_iter().map(|table| table.name);
        let views = self.known.library().unwrap_or_default().iter().map(|view| view.name.clone());
        let over_all = library::fleet_views().unwrap_or_default().iter().map(|view| view.name.clone());
        let mut names: BTreeSet<String> =
            tables.chain(views).chain(over_all).chain(self.made.table_names()).collect();
        names.insert(FLEET.to_owned());
        names.into_iter().collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if name == FLEET {
            let rows = facts::catalog(&self.facts, &self.skipped)?;
            return Ok(Some(Arc::new(MemTable::try_new(rows.schema(), vec![vec![rows]])?)));
        }
        if let Some(made) = self.made.table(name).await? {
            return Ok(Some(made));
        }
        let over_all = library::fleet_views().map_err(external)?;
        if let Some(view) = over_all.iter().find(|view| view.name == name) {
            return self.view(view).await;
        }
        let Some(known) = self.known.table(name).await.map_err(external)? else { return Ok(None) };
        let needs = self.known.needs(name).await.map_err(external)?;
        let (facts, skipped) = (Arc::clone(&self.facts), Arc::clone(&self.skipped));
        let own = (&known.schema(), needs);
        Ok(Some(Arc::new(FleetTable::new(name, own, facts, self.resources.clone(), skipped)?)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.made.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.made.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.table_names().iter().any(|known| known == name)
    }
}
