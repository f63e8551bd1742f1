//! Names: one catalog, a schema for each capture, its tables and views with their columns and docs.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use arrow::array::{Array as _, RecordBatch, StringArray};
use arrow::datatypes::{Field, Schema};
use arrow_flight::error::FlightError;
use arrow_flight::sql::{CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables};
use stallmap::session::Session;
use stallmap::session::every::EVERY;
use tonic::Status;

use crate::flight::columns::plain;
use crate::flight::status::failed;

/// The only catalog.
const CATALOG: &str = "stallmap";
/// The types of tables.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
/// Metadata of a column: its doc.
const DOC: &str = "ARROW:FLIGHT:SQL:REMARKS";

/// Docs of columns by their name.
type ColumnDocs = BTreeMap<String, String>;

/// The catalogs.
pub(crate) fn catalogs(query: CommandGetCatalogs) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    rows.append(CATALOG);
    Ok(rows.build()?)
}

/// The schemas that a call asks for.
pub(crate) fn schemas(session: &Session, query: CommandGetDbSchemas) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    for name in names(session) {
        rows.append(CATALOG, name);
    }
    Ok(rows.build()?)
}

/// The types of tables.
pub(crate) fn types(query: CommandGetTableTypes) -> Result<RecordBatch, Status> {
    let mut rows = query.into_builder();
    rows.append(TABLE);
    rows.append(VIEW);
    Ok(rows.build()?)
}

/// The tables and views that a call asks for. Only their columns are planned.
pub(crate) async fn tables(session: &Session, query: CommandGetTables) -> Result<RecordBatch, Status> {
    let all = relations(session);
    let with_columns = query.include_schema;
    let mut found = CommandGetTables { include_schema: false, ..query.clone() }.into_builder();
    let none = Schema::empty();
    for ((schema, name), (kind, _)) in &all {
        found.append(CATALOG, schema, name, kind, &none)?;
    }
    let found = found.build()?;
    if !with_columns {
        return Ok(found);
    }
    let mut rows = query.into_builder();
    let (schemas, names) = (texts(&found, 1)?, texts(&found, 2)?);
    for (schema, name) in schemas.iter().zip(names).filter_map(|(schema, name)| schema.zip(name)) {
        let Some((kind, docs)) = all.get(&(schema.to_owned(), name.to_owned())) else { continue };
        let columns = columns(session, schema, name, docs).await?;
        rows.append(CATALOG, schema, name, kind, &columns)?;
    }
    Ok(rows.build()?)
}

/// The names of schemas: captures, and that of all together if there are several.
fn names(session: &Session) -> Vec<&str> {
    let mut names: Vec<&str> = session.captures().iter().map(|capture| capture.name.as_str()).collect();
    if names.len() > 1 {
        names.push(EVERY);
    }
    names
}

/// Tables and views by schema and name, with their type and docs.
fn relations(session: &Session) -> BTreeMap<(String, String), (&'static str, ColumnDocs)> {
    let mut all = BTreeMap::new();
    for table in session.tables() {
        let docs: ColumnDocs = table.columns.into_iter().map(|(name, _, doc)| (name, doc)).collect();
        all.insert((table.capture, table.name), (TABLE, docs));
    }
    for view in session.library().unwrap_or_default() {
        let docs: ColumnDocs =
            view.columns.iter().map(|column| (column.name.clone(), column.doc.clone())).collect();
        for capture in session.captures() {
            all.insert((capture.name.clone(), view.name.clone()), (VIEW, docs.clone()));
        }
    }
    if session.captures().len() > 1 {
        let catalog = session.context().catalog(CATALOG);
        let every = catalog.and_then(|catalog| catalog.schema(EVERY));
        let names = every.map(|every| every.table_names()).unwrap_or_default();
        for name in names {
            let first = session.captures().first().map(|capture| (capture.name.clone(), name.clone()));
            let docs = first.and_then(|first| all.get(&first)).map(|(_, docs)| docs.clone());
            all.insert((EVERY.to_owned(), name), (VIEW, docs.unwrap_or_default()));
        }
    }
    all
}

/// The columns of a table, with their docs.
async fn columns(session: &Session, schema: &str, name: &str, docs: &ColumnDocs) -> Result<Schema, Status> {
    let path = format!("{schema}.{name}");
    let table = session.context().table_provider(path.as_str()).await;
    let table = table.map_err(|error| failed(error.into(), session, &path))?;
    let schema = plain(&table.schema());
    let with_doc = |field: &Arc<Field>| {
        let doc = docs.get(field.name()).filter(|doc| !doc.is_empty());
        let metadata: HashMap<String, String> =
            doc.map(|doc| (DOC.to_owned(), doc.clone())).into_iter().collect();
        field.as_ref().clone().with_metadata(metadata)
    };
    Ok(Schema::new(schema.fields().iter().map(with_doc).collect::<Vec<_>>()))
}

/// A column of texts.
fn texts(batch: &RecordBatch, index: usize) -> Result<&StringArray, FlightError> {
    let column = batch.column(index).as_any().downcast_ref();
    column.ok_or_else(|| FlightError::DecodeError("names are no texts".to_owned()))
}
