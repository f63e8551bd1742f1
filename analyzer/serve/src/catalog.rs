//! A part of PostgreSQL's catalog: relations, columns and types, for `\d` of psql and for tools that list tables.

mod functions;
mod relations;
pub(crate) mod rewrite;
mod tables;

use std::sync::Arc;

use datafusion::catalog::{MemorySchemaProvider, SchemaProvider};
use stallmap::error::AnalyzeError;
use stallmap::session::Session;
use tokio::sync::OnceCell;

use relations::CatalogRelations;

/// The schema of the catalog.
const SCHEMA: &str = "pg_catalog";

/// The catalog of a session. It is built when a statement asks for it: the columns of all views must be planned.
#[derive(Default)]
pub(crate) struct SessionCatalog {
    built: OnceCell<()>,
}

impl SessionCatalog {
    /// Adds the functions that need no relations.
    pub(crate) fn new(session: &Session) -> Self {
        let first = session.captures().first().map_or("", |capture| capture.name.as_str());
        for function in functions::constant(first) {
            session.context().register_udf(function);
        }
        Self::default()
    }

    /// Builds the catalog if a statement names it.
    pub(crate) async fn prepare(&self, session: &Session, sql: &str) -> Result<(), AnalyzeError> {
        if !sql.contains("pg_") && !functions::of_relations_names().any(|name| sql.contains(name)) {
            return Ok(());
        }
        self.built.get_or_try_init(|| build(session)).await.copied()
    }
}

async fn build(session: &Session) -> Result<(), AnalyzeError> {
    let relations = Arc::new(CatalogRelations::from_session(session).await?);
    let schema = Arc::new(MemorySchemaProvider::new());
    for (name, table) in tables::all(&relations)? {
        schema.register_table(name.to_owned(), table)?;
    }
    let context = session.context();
    for catalog in context.catalog_names().iter().filter_map(|name| context.catalog(name)) {
        catalog.register_schema(SCHEMA, Arc::clone(&schema) as Arc<dyn SchemaProvider>)?;
    }
    for function in functions::of_relations(&relations) {
        context.register_udf(function);
    }
    Ok(())
}
