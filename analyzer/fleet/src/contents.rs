//! Contents of a capture: the rows of its tables, and its functions. A query that needs others never opens it.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::tables::code::Function;

/// Functions above which a capture is read for each of them.
const MAX_FUNCTIONS: usize = 100_000;

/// The contents of a capture, from its manifest and its table of functions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CaptureContents {
    /// Rows of tables that have some.
    pub(crate) rows: BTreeMap<String, u64>,
    /// Its functions with their source-level names. None if there are too many.
    pub(crate) functions: Option<Vec<(u64, String)>>,
}

impl CaptureContents {
    /// The contents of an open capture.
    pub(crate) fn read(reader: &CaptureReader) -> Result<Self, CaptureError> {
        let tables = reader.tables().iter().filter(|table| table.rows > 0);
        let rows: BTreeMap<String, u64> = tables.map(|table| (table.name.clone(), table.rows)).collect();
        let count = rows.get("function").copied().unwrap_or(0);
        if usize::try_from(count).is_ok_and(|count| count > MAX_FUNCTIONS) {
            return Ok(Self { rows, functions: None });
        }
        let mut functions = Vec::new();
        reader.for_each_row(MAX_FUNCTIONS, |row: Function| {
            functions.push((row.function_id.0, row.demangled_name));
        })?;
        Ok(Self { rows, functions: Some(functions) })
    }

    /// False if one of these tables has no rows.
    pub(crate) fn has_rows_of(&self, tables: &BTreeSet<String>) -> bool {
        tables.iter().all(|table| self.rows.contains_key(table))
    }

    /// The rows of tables as a text, such as `function=3 launch=13`.
    pub(crate) fn rows_text(&self) -> String {
        let rows = self.rows.iter().map(|(table, rows)| format!("{table}={rows}"));
        rows.collect::<Vec<_>>().join(" ")
    }

    /// The rows of tables from their text. None if it is none.
    pub(crate) fn rows_of_text(text: &str) -> Option<BTreeMap<String, u64>> {
        let row = |part: &str| {
            let (table, rows) = part.split_once('=')?;
            Some((table.to_owned(), rows.parse().ok()?))
        };
        text.split_whitespace().map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_from_their_text() {
        let rows = BTreeMap::from([("function".to_owned(), 3), ("launch".to_owned(), 13)]);
        let contents = CaptureContents { rows, functions: None };
        assert_eq!(contents.rows_text(), "function=3 launch=13");
        assert_eq!(CaptureContents::rows_of_text(&contents.rows_text()), Some(contents.rows.clone()));
        assert_eq!(CaptureContents::rows_of_text("launch"), None);
        let has = |table: &str| contents.has_rows_of(&BTreeSet::from([table.to_owned()]));
        assert!(has("launch") && !has("pc_sample") && contents.has_rows_of(&BTreeSet::new()));
    }
}
