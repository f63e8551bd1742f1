//! The tables and views of a fleet with their documentation, for listings and completion.

use arrow::datatypes::{Field, Schema};
use stallmap::error::AnalyzeError;
use stallmap::library::{self, ColumnDoc, ViewDoc};
use stallmap::session::{Session, TableInfo};
use stallmap::tables::captured::TablePresence;

use crate::FLEET;
use crate::facts::{self, CaptureFacts};

/// The tables of all captures with their rows together, the table of captures first.
pub(crate) fn tables(known: &Session, facts: &[CaptureFacts]) -> Vec<TableInfo> {
    let rows = |table: &str| {
        let counts = facts.iter().filter_map(|facts| facts.contents.as_ref()?.rows.get(table));
        i64::try_from(counts.sum::<u64>()).unwrap_or(i64::MAX)
    };
    let with_facts = |mut table: TableInfo| {
        let facts = facts::fields().into_iter().filter(|fact| !has(&table.columns, fact.name()));
        let mut columns: Vec<_> = facts.map(|fact| column(&fact)).collect();
        columns.append(&mut table.columns);
        let (capture, rows) = (FLEET.to_owned(), rows(&table.name));
        // Sizes in captures are not in the catalog, and a table that one capture lacks is not missing.
        TableInfo { capture, rows, size_bytes: 0, presence: TablePresence::Held, columns, ..table }
    };
    std::iter::once(captures(facts.len())).chain(known.tables().into_iter().map(with_facts)).collect()
}

/// The views of each capture behind the columns of facts, then those over all captures.
pub(crate) fn views() -> Result<Vec<ViewDoc>, AnalyzeError> {
    let with_facts = |view: &ViewDoc| {
        let own = |name: &str| view.columns.iter().any(|column| column.name == name);
        let facts = facts::fields().into_iter().filter(|fact| !own(fact.name()));
        let facts = facts.map(|fact| ColumnDoc { name: fact.name().clone(), doc: doc(fact.name()) });
        ViewDoc { columns: facts.chain(view.columns.iter().cloned()).collect(), ..view.clone() }
    };
    let views = library::views()?.iter().map(with_facts);
    Ok(views.chain(library::fleet_views()?.iter().cloned()).collect())
}

/// The table of captures.
fn captures(count: usize) -> TableInfo {
    let schema: &Schema = &facts::catalog_schema();
    TableInfo {
        capture: FLEET.to_owned(),
        name: FLEET.to_owned(),
        doc: "One capture of the fleet.".to_owned(),
        columns: schema.fields().iter().map(|field| column(field)).collect(),
        rows: i64::try_from(count).unwrap_or(i64::MAX),
        size_bytes: 0,
        presence: TablePresence::Held,
        is_derived: false,
    }
}

fn column(field: &Field) -> (String, String, String) {
    (field.name().clone(), field.data_type().to_string(), doc(field.name()))
}

fn doc(column: &str) -> String {
    let docs = facts::DOCS.iter().find(|(name, _)| *name == column);
    docs.map(|(_, doc)| (*doc).to_owned()).unwrap_or_default()
}

fn has(columns: &[(String, String, String)], name: &str) -> bool {
    columns.iter().any(|(own, ..)| own == name)
}
