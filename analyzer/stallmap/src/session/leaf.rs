//! Rows of one table or view of a capture without a session of its own: for a fleet, which reads a little of each of many
//! captures. A session plans 230 views, and costs more than most stored rows.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::catalog::{MemTable, TableProvider};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_tables::captured::CapturedTable;

use super::Session;
use super::resources::SessionResources;
use super::stored::{StoredRows, StoredView, ViewStore};
use super::views::inline::InlinedView;
use crate::error::AnalyzeError;
use crate::library;

/// A table of the capture, or the stored rows of a view. None if it takes a session to answer: a view without stored rows,
/// a table that is computed.
pub fn held_table(
    reader: &CaptureReader,
    name: &str,
    resources: &SessionResources,
) -> Result<Option<Arc<dyn TableProvider>>, AnalyzeError> {
    let Some(view) = library::views()?.iter().find(|view| view.name == name) else {
        let table = stallmap_tables::open_one(reader, name)?;
        return Ok(table.map(|table| Arc::new(table) as Arc<dyn TableProvider>));
    };
    let store = ViewStore::new(reader.clone(), resources);
    if let Some(view) = store.differing() {
        return Err(AnalyzeError::StoredRows { view, path: reader.path().to_owned() });
    }
    Ok(match store.get(view) {
        Some(StoredView::Few(StoredRows { schema, rows, .. })) => {
            Some(Arc::new(MemTable::try_new(schema, vec![rows])?))
        }
        Some(StoredView::Many { table, .. }) => Some(table),
        None => None,
    })
}

/// The recorded tables that a table or view depends on.
#[derive(Clone, Debug, Default)]
pub struct TableNeeds {
    /// Tables each of which, without rows, leaves it without rows.
    pub required: BTreeSet<String>,
    /// True if all its functions are rows of the table `function`. Machine code holds others, which were never launched.
    pub has_recorded_functions: bool,
}

impl Session {
    /// The needs of a table or view of the first capture.
    pub async fn needs(&self, name: &str) -> Result<TableNeeds, AnalyzeError> {
        let Some(table) = self.table(name).await? else { return Ok(TableNeeds::default()) };
        if let Some(view) = table.downcast_ref::<InlinedView>() {
            let is_code = |source: &String| stallmap_engine::code::table::is_table(source);
            let has_recorded_functions = !view.sources().iter().any(is_code);
            return Ok(TableNeeds { required: view.required().clone(), has_recorded_functions });
        }
        let table = table.downcast_ref::<CapturedTable>();
        let required = table.map(|table| table.name().to_owned()).into_iter().collect();
        Ok(TableNeeds { required, has_recorded_functions: table.is_some() })
    }
}
