//! The schema of a fleet: the tables and views of this release, each with the rows of all captures.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemTable, MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
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
    /// Tables and views of statements.
    made: MemorySchemaProvider,
}

impl FleetSchema {
    pub(crate) fn new(
        known: Session,
        facts: AllFacts,
        resources: SessionResources,
        skipped: Arc<SkippedCaptures>,
    ) -> Self {
        Self { known, facts, resources, skipped, made: MemorySchemaProvider::new() }
    }
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
        let mut names: BTreeSet<String> = tables.chain(views).chain(self.made.table_names()).collect();
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
        let known =
            self.known.table(name).await.map_err(|error| DataFusionError::External(Box::new(error)))?;
        let Some(known) = known else { return Ok(None) };
        let (facts, skipped) = (Arc::clone(&self.facts), Arc::clone(&self.skipped));
        Ok(Some(Arc::new(FleetTable::new(name, &known.schema(), facts, self.resources.clone(), skipped)?)))
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
