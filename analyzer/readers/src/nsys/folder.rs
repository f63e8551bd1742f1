//! A folder with one file of Parquet or Arrow per table. Parquet is read in the bounds of captures.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::io::{Cursor, Read as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ARROW;
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use arrow::error::ArrowError;
use arrow::ipc::reader::{FileReader, StreamReader};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use stallmap_schema::capture::pages;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::contained::contained;

use super::MAX_ROWS;
use super::cell::{SqlCell, SqlRow, latest};

/// Most bytes of a table's file, which is held in memory.
const MAX_FILE_BYTES: u64 = 8 << 30;
/// The endings of tables.
const ENDINGS: [&str; 2] = ["parquet", "arrow"];

/// Batches of a table.
type BatchReader = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

/// A folder of tables.
#[derive(Debug)]
pub(crate) struct TableFolder {
    path: PathBuf,
    /// Tables of which a part cannot be read, with the reason.
    damage: Rc<RefCell<Vec<String>>>,
}

impl TableFolder {
    /// The folder of a path.
    pub(crate) fn open(path: &Path) -> Self {
        Self { path: path.to_owned(), damage: Rc::default() }
    }

    /// The damages that reading finds from now on, each of one table.
    pub(super) fn damage(&self) -> Rc<RefCell<Vec<String>>> {
        self.damage.clone()
    }

    /// Visits the rows of a table, up to a damage. Columns that it lacks are null. False if there is no such table.
    pub(crate) fn rows(&self, base: &str, columns: &[&str], visit: impl FnMut(&SqlRow)) -> ReadResult<bool> {
        let Some((table, path)) = self.file(base)? else { return Ok(false) };
        if let Err(cause) = visit_rows(&path, read(&path)?, columns, visit) {
            let damage = format!("{table}: {cause}");
            let mut known = self.damage.borrow_mut();
            if !known.contains(&damage) {
                known.push(damage);
            }
        }
        Ok(true)
    }

    /// The names of the tables, in order.
    pub(super) fn names(&self) -> ReadResult<Vec<String>> {
        Ok(self.tables()?.into_keys().collect())
    }

    /// The number of rows of a table. None for a damaged one.
    pub(super) fn count(&self, table: &str) -> Option<u64> {
        let (_, path) = self.file(table).ok()??;
        let mut count = 0;
        visit_rows(&path, read(&path).ok()?, &[], |_| count += 1).ok()?;
        Some(count)
    }

    /// The name and the file of a table of a name, or of that name with the largest version.
    fn file(&self, base: &str) -> ReadResult<Option<(String, PathBuf)>> {
        let mut tables = self.tables()?;
        let table = latest(tables.keys().cloned(), base);
        Ok(table.and_then(|table| tables.remove_entry(&table)))
    }

    /// The files of the tables, by name.
    fn tables(&self) -> ReadResult<BTreeMap<String, PathBuf>> {
        let wrong = |error| ReadError::io(error, format!("read `{}`", self.path.display()));
        let mut tables = BTreeMap::new();
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            let is_table =
                path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known));
            let name = path.file_stem().filter(|_| is_table).and_then(|name| name.to_str());
            tables.extend(name.map(|name| (name.to_owned(), path.clone())));
        }
        Ok(tables)
    }
}

/// Visits the rows of a table's file.
fn visit_rows(
    path: &Path,
    bytes: Bytes,
    columns: &[&str],
    mut visit: impl FnMut(&SqlRow),
) -> Result<(), String> {
    let is_parquet = path.extension().is_some_and(|ending| ending == ENDINGS[0]);
    let mut reader = decoded(|| if is_parquet { parquet(bytes, columns) } else { arrow(bytes) })?;
    let mut left = MAX_ROWS;
    while let Some(batch) = decoded(|| reader.next().transpose())? {
        let cells = decoded(|| cells(&batch, columns))?;
        for row in 0..batch.num_rows() {
            visit(&SqlRow(cells.iter().map(|cells| cell(cells.as_ref(), row)).collect()));
        }
        left = left.checked_sub(batch.num_rows() as u64).ok_or("it has too many rows")?;
    }
    Ok(())
}

/// The bytes of a file.
fn read(path: &Path) -> ReadResult<Bytes> {
    let wrong = |error| ReadError::io(error, format!("read `{}`", path.display()));
    let mut bytes = Vec::new();
    let mut file = fs::File::open(path).map_err(wrong)?.take(MAX_FILE_BYTES + 1);
    file.read_to_end(&mut bytes).map_err(wrong)?;
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return Err(failure(path, "it has more than 8 GiB"));
    }
    Ok(bytes.into())
}

/// A reader of some columns whose pages are in bounds.
fn parquet(bytes: Bytes, columns: &[&str]) -> Result<BatchReader, ArrowError> {
    let bytes = EntryBytes::from(bytes);
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?;
    let known = builder.schema().fields().iter().enumerate();
    let wanted = known.filter(|(_, field)| columns.contains(&field.name().as_str()));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(index, _)| index));
    pages::check("", &bytes, builder.metadata(), |leaf| mask.leaf_included(leaf))
        .map_err(ParquetError::General)?;
    Ok(Box::new(builder.with_projection(mask).build()?))
}

fn arrow(bytes: Bytes) -> Result<BatchReader, ArrowError> {
    // Other files are streams.
    let is_file = bytes.starts_with(ARROW);
    let bytes = Cursor::new(bytes);
    Ok(if is_file {
        Box::new(FileReader::try_new(bytes, None)?)
    } else {
        Box::new(StreamReader::try_new(bytes, None)?)
    })
}

/// Columns of a batch by names, as integers and texts. None for those that it lacks.
fn cells(batch: &RecordBatch, columns: &[&str]) -> Result<Vec<Option<ArrayRef>>, ArrowError> {
    let column = |name: &&str| batch.column_by_name(name).map(plain).transpose().map(Option::flatten);
    columns.iter().map(column).collect()
}

fn plain(array: &ArrayRef) -> Result<Option<ArrayRef>, ArrowError> {
    let wanted = match array.data_type() {
        kind if kind.is_integer() => DataType::Int64,
        DataType::Timestamp(..) | DataType::Duration(_) | DataType::Boolean => DataType::Int64,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(..) => {
            DataType::Utf8
        }
        _ => return Ok(None),
    };
    cast(array, &wanted).map(Some)
}

fn cell(array: Option<&ArrayRef>, row: usize) -> SqlCell {
    let Some(array) = array.filter(|array| array.is_valid(row)) else { return SqlCell::Null };
    let integer = array.as_primitive_opt::<Int64Type>().map(|array| SqlCell::Integer(array.value(row)));
    let text = || array.as_string_opt::<i32>().map(|array| SqlCell::Text(array.value(row).to_owned()));
    integer.or_else(text).unwrap_or(SqlCell::Null)
}

/// Runs a reader of bytes from elsewhere: its panic becomes an error.
fn decoded<T, E: std::fmt::Display>(read: impl FnOnce() -> Result<T, E>) -> Result<T, String> {
    match contained(read) {
        Ok(result) => result.map_err(|cause| cause.to_string()),
        Err(_) => Err("it is malformed".to_owned()),
    }
}

/// The failure of a folder of which nothing can be read, or of one file.
pub(super) fn failure(path: &Path, cause: &str) -> ReadError {
    ReadError::message(format!("`{}` cannot be read as a table: {cause}", path.display()))
        .hint("export it again with `nsys export -t parquetdir`".to_owned())
}
