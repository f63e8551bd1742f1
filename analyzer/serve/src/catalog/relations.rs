//! Tables and views of the open captures, with their columns and docs.

use stallmap::error::AnalyzeError;
use stallmap::session::Session;

use crate::kind::ColumnType;

/// The first number of a relation. Smaller ones belong to PostgreSQL's own.
const FIRST_ID: i64 = 16_384;
/// The first number of a schema.
const FIRST_SCHEMA: i64 = 2_200;

/// A table or view.
pub(super) struct CatalogRelation {
    /// The capture's number.
    pub(super) schema: i64,
    pub(super) name: String,
    pub(super) doc: String,
    /// The text of a view.
    pub(super) sql: Option<String>,
    pub(super) rows: i64,
    /// Name, type and doc.
    pub(super) columns: Vec<(String, ColumnType, String)>,
}

/// All of them, by number.
pub(super) struct CatalogRelations {
    /// The names of captures, numbered from 2,200 on.
    pub(super) schemas: Vec<String>,
    list: Vec<CatalogRelation>,
}

impl CatalogRelations {
    /// The relations of every capture.
    pub(super) async fn from_session(session: &Session) -> Result<Self, AnalyzeError> {
        let schemas: Vec<String> = session.captures().iter().map(|capture| capture.name.clone()).collect();
        let mut list = Vec::new();
        let tables = session.tables();
        for (schema, capture) in (FIRST_SCHEMA..).zip(&schemas) {
            for table in tables.iter().filter(|table| table.capture == *capture) {
                let docs = table.columns.iter().map(|(name, _, doc)| (name.as_str(), doc.as_str())).collect();
                let columns = columns(session, capture, &table.name, docs).await?;
                let (name, doc) = (table.name.clone(), table.doc.clone());
                list.push(CatalogRelation { schema, name, doc, sql: None, rows: table.rows, columns });
            }
            for view in session.library()? {
                let docs =
                    view.columns.iter().map(|column| (column.name.as_str(), column.doc.as_str())).collect();
                let columns = columns(session, capture, &view.name, docs).await?;
                let (name, doc, sql) = (view.name.clone(), view.doc.clone(), Some(view.sql.clone()));
                list.push(CatalogRelation { schema, name, doc, sql, rows: -1, columns });
            }
        }
        Ok(Self { schemas, list })
    }

    /// The relations with their numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (i64, &CatalogRelation)> {
        (FIRST_ID..).zip(&self.list)
    }

    /// The relation of a number.
    pub(super) fn get(&self, id: i64) -> Option<&CatalogRelation> {
        self.list.get(usize::try_from(id.checked_sub(FIRST_ID)?).ok()?)
    }

    /// The captures with their numbers.
    pub(super) fn schemas(&self) -> impl Iterator<Item = (i64, &str)> {
        (FIRST_SCHEMA..).zip(self.schemas.iter().map(String::as_str))
    }
}

async fn columns(
    session: &Session,
    capture: &str,
    name: &str,
    docs: Vec<(&str, &str)>,
) -> Result<Vec<(String, ColumnType, String)>, AnalyzeError> {
    let schema = session.context().table_provider(format!("{capture}.{name}")).await?.schema();
    let doc =
        |column: &str| docs.iter().find(|(name, _)| *name == column).map_or("", |(_, doc)| doc).to_owned();
    let fields = schema.fields().iter();
    Ok(fields
        .map(|field| (field.name().clone(), ColumnType::from_arrow(field.data_type()), doc(field.name())))
        .collect())
}
