//! A database that is only read: tables with a version in their name, and missing columns as null.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};

use super::MAX_ROWS;
use super::cell::{SqlCell, SqlRow, latest};

/// An open database.
pub(crate) struct OpenDatabase {
    connection: Connection,
    path: PathBuf,
    /// Tables of which a part cannot be read, with the reason.
    damage: Rc<RefCell<Vec<String>>>,
}

impl OpenDatabase {
    /// Opens a file. Nothing in it runs: its schema is not trusted.
    pub(crate) fn open(path: &Path) -> ReadResult<Self> {
        let wrong = |error: rusqlite::Error| failure(path, &error);
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(wrong)?;
        connection
            .execute_batch("PRAGMA trusted_schema = OFF;\nPRAGMA cell_size_check = ON")
            .map_err(wrong)?;
        Ok(Self { connection, path: path.to_owned(), damage: Rc::default() })
    }

    /// The damages that reading finds from now on, each of one table.
    pub(crate) fn damage(&self) -> Rc<RefCell<Vec<String>>> {
        self.damage.clone()
    }

    /// Visits the rows of a table, up to a damage. Columns that it lacks are null. False if there is no such table.
    pub(crate) fn rows(
        &self,
        base: &str,
        columns: &[&str],
        mut visit: impl FnMut(&SqlRow),
    ) -> ReadResult<bool> {
        let wrong = |error: rusqlite::Error| failure(&self.path, &error);
        let Some(table) = self.table(base).map_err(wrong)? else { return Ok(false) };
        let known = self.columns(&table).map_err(wrong)?;
        let column = |name: &&str| {
            if known.iter().any(|known| known == name) { format!("\"{name}\"") } else { "NULL".to_owned() }
        };
        let list: Vec<String> = columns.iter().map(column).collect();
        let sql = format!("SELECT {} FROM \"{table}\" LIMIT {MAX_ROWS}", list.join(", "));
        let mut statement = self.connection.prepare(&sql).map_err(wrong)?;
        let mut rows = statement.query([]).map_err(wrong)?;
        loop {
            match rows.next() {
                Ok(Some(row)) => visit(&SqlRow((0..columns.len()).map(|column| cell(row, column)).collect())),
                Ok(None) => return Ok(true),
                Err(error) => {
                    self.damage.borrow_mut().push(format!("{table}: {error}"));
                    return Ok(true);
                }
            }
        }
    }

    /// True if a table's name begins with a text.
    pub(crate) fn has(&self, begin: &str) -> ReadResult<bool> {
        let wrong = |error: rusqlite::Error| failure(&self.path, &error);
        let sql = "SELECT count(*) FROM sqlite_master WHERE substr(name, 1, length(?1)) = ?1";
        let count: i64 = self.connection.query_row(sql, [begin], |row| row.get(0)).map_err(wrong)?;
        Ok(count > 0)
    }

    /// The tables whose names begin with a text, in order.
    pub(crate) fn tables(&self, begin: &str) -> ReadResult<Vec<String>> {
        let wrong = |error: rusqlite::Error| failure(&self.path, &error);
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%' \
             AND substr(name, 1, length(?1)) = ?1 AND instr(name, '\"') = 0 ORDER BY name";
        let mut statement = self.connection.prepare(sql).map_err(wrong)?;
        let names = statement.query_map([begin], |row| row.get(0)).map_err(wrong)?;
        names.collect::<rusqlite::Result<_>>().map_err(wrong)
    }

    /// The number of rows of a table. None for a damaged one.
    pub(super) fn count(&self, table: &str) -> Option<u64> {
        let sql = format!("SELECT count(*) FROM \"{table}\"");
        let count: rusqlite::Result<i64> = self.connection.query_row(&sql, [], |row| row.get(0));
        count.ok().and_then(|count| u64::try_from(count).ok())
    }

    /// A table of a name, or of that name with the largest version, as in `_V2`.
    fn table(&self, base: &str) -> rusqlite::Result<Option<String>> {
        // A virtual table or a view could run code of the file.
        let sql = "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'";
        let mut statement = self.connection.prepare(sql)?;
        let names =
            statement.query_map([], |row| row.get::<_, String>(0))?.collect::<rusqlite::Result<Vec<_>>>()?;
        Ok(latest(names.into_iter().filter(|name| !name.contains('"')), base))
    }

    fn columns(&self, table: &str) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare("SELECT name FROM pragma_table_info(?1)")?;
        statement.query_map([table], |row| row.get(0))?.collect()
    }
}

fn cell(row: &rusqlite::Row<'_>, column: usize) -> SqlCell {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(value)) => SqlCell::Integer(value),
        Ok(ValueRef::Real(value)) => SqlCell::Real(value),
        Ok(ValueRef::Text(text)) => SqlCell::Text(String::from_utf8_lossy(text).into_owned()),
        _ => SqlCell::Null,
    }
}

/// The failure of a file of which nothing can be read.
pub(super) fn failure(path: &Path, error: &impl std::fmt::Display) -> ReadError {
    ReadError::message(format!("`{}` cannot be read as SQLite: {error}", path.display()))
        .hint("unpack it, or write it again, a report with `nsys export -t sqlite`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_version_of_the_exact_name_is_read_and_missing_columns_are_null() {
        let connection = Connection::open_in_memory().unwrap();
        let sql =
            "CREATE TABLE A (x); CREATE TABLE A_V2 (x); CREATE TABLE A_V10 (x, y); CREATE TABLE A2_V99 (x);
            INSERT INTO A_V10 VALUES (7, 8); CREATE VIEW B AS SELECT 1 AS x";
        connection.execute_batch(sql).unwrap();
        let database = OpenDatabase { connection, path: PathBuf::new(), damage: Rc::default() };
        let mut found = Vec::new();
        let is_there = database.rows("A", &["x", "z"], |row| {
            found.push((row.integer(0), row.integer(1)));
        });
        assert!(is_there.unwrap());
        assert_eq!(found, [(Some(7), None)]);
        assert!(!database.rows("B", &["x"], |_| ()).unwrap());
        assert_eq!((database.count("A_V10"), database.count("C")), (Some(1), None));
    }
}
