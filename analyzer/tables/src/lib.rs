//! The tables of a capture, as DataFusion reads them: Parquet in memory, or read by ranges of a file or an
//! object on a server.

pub mod captured;
mod claims;
pub mod collected;
pub mod column;
mod cuts;
pub mod defects;
pub mod derived;
pub mod error;
pub mod functions;
pub mod guard;
pub mod listing;
pub mod location;
pub mod memory;
mod order;
pub mod packed;
pub mod parameters;
pub mod planning;
pub mod pool;
pub mod provider;
mod reader;
pub mod remote;
pub mod spread;
pub mod tasks;
pub mod values;
pub mod words;
pub mod work;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::capture::stored;
use stallmap_schema::table::TableDef;

use captured::{CapturedTable, TablePresence};
use error::TableError;

/// The tables of one capture by name: all declared ones, and any other of the capture but stored answers.
///
/// A declared table that the capture lacks exists without rows. If its writer knew the table,
/// [`CapturedTable::is_missing`] is true, and the table `capture_table` and the view `coverage` report it.
pub fn open(reader: &CaptureReader) -> Result<BTreeMap<String, Arc<CapturedTable>>, TableError> {
    let mut files = BTreeMap::new();
    for table in reader.tables().iter().filter(|table| !stored::is_table(&table.name)) {
        files.insert(table.name.clone(), reader.table_entry(&table.name)?.clone());
    }
    let held: BTreeSet<String> = files.keys().cloned().collect();
    let mut tables = BTreeMap::new();
    for definition in stallmap_schema::tables::ALL {
        let table = if let Some(bytes) = files.remove(definition.name) {
            CapturedTable::open(definition.name, Some(definition), bytes)?
        } else {
            let is_missing = stallmap_schema::tables::is_missing(definition.name, |name| held.contains(name));
            let presence = if is_missing { TablePresence::Missing } else { TablePresence::Unknown };
            CapturedTable::without_rows(definition, presence)?
        };
        tables.insert(definition.name.to_owned(), Arc::new(table));
    }
    for (name, bytes) in files {
        let table = CapturedTable::open(&name, None, bytes)?;
        tables.insert(name, Arc::new(table));
    }
    Ok(tables)
}

/// One table of a capture, without rows if the capture lacks it. None for any other name.
pub fn open_one(reader: &CaptureReader, name: &str) -> Result<Option<CapturedTable>, TableError> {
    let is_held = reader.tables().iter().any(|table| table.name == name);
    if stored::is_table(name) {
        return Ok(None);
    }
    match definition(name) {
        definition if is_held => {
            CapturedTable::open(name, definition, reader.table_entry(name)?.clone()).map(Some)
        }
        Some(definition) => CapturedTable::without_rows(definition, TablePresence::Unknown).map(Some),
        None => Ok(None),
    }
}

/// The declaration of a table, if this version knows it.
pub fn definition(name: &str) -> Option<&'static TableDef> {
    stallmap_schema::tables::by_name(name)
}

/// A schema without docs and other metadata.
pub fn plain(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter();
    Arc::new(Schema::new(
        fields.map(|field| field.as_ref().clone().with_metadata(HashMap::new())).collect::<Vec<_>>(),
    ))
}
