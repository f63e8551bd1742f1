//! A folder with one Parquet file per table, in the bounds of captures.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::error::{ReadError, ReadResult};
use arrow::array::{Array, ArrayRef, AsArray as _, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Int64Type};
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::errors::ParquetError;
use stallmap_schema::capture::pages;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::contained::contained;

use super::MAX_ROWS;
use super::cell::{SqlCell, SqlRow, latest};

/// Most bytes of a table's file, which is held in memory.
const MAX_FILE_BYTES: u64 = 8 << 30;
/// The ending of tables.
const ENDING: &str = "parquet";

/// A folder of tables.
#[derive(Debug)]
pub(super) struct TableFolder {
    path: PathBuf,
}

impl TableFolder {
    /// The folder of a path.
    pub(super) fn open(path: &Path) -> Self {
        Self { path: path.to_owned() }
    }

    /// Visits the rows of a table. Columns that it lacks are null. False if there is no such table.
    pub(super) fn rows(
        &self,
        base: &str,
        columns: &[&str],
        mut visit: impl FnMut(&SqlRow),
    ) -> ReadResult<bool> {
        let Some(table) = latest(self.tables()?.into_iter(), base) else { return Ok(false) };
        let path = self.path.join(format!("{table}.{ENDING}"));
        let wrong = |cause: String| failure(&path, &cause);
        let bytes = EntryBytes::from(read(&path)?);
        let mut reader = decoded(|| open(&bytes, columns)).map_err(wrong)?;
        let mut left = MAX_ROWS;
        while let Some(batch) = decoded(|| reader.next().transpose()).map_err(wrong)? {
            let cells = decoded(|| cells(&batch, columns)).map_err(wrong)?;
            for row in 0..batch.num_rows() {
                visit(&SqlRow(cells.iter().map(|cells| cell(cells.as_ref(), row)).collect()));
            }
            left = left
                .checked_sub(batch.num_rows() as u64)
                .ok_or_else(|| wrong("it has too many rows".to_owned()))?;
        }
        Ok(true)
    }

    /// The names of the tables.
    fn tables(&self) -> ReadResult<Vec<String>> {
        let wrong = |error| ReadError::io(error, format!("read `{}`", self.path.display()));
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path).map_err(wrong)? {
            let path = entry.map_err(wrong)?.path();
            let is_table = path.extension().is_some_and(|ending| ending == ENDING);
            names.extend(
                path.file_stem().filter(|_| is_table).and_then(|name| name.to_str()).map(str::to_owned),
            );
        }
        Ok(names)
    }
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
fn open(bytes: &EntryBytes, columns: &[&str]) -> Result<ParquetRecordBatchReader, ParquetError> {
    let builder = ParquetRecordBatchReaderBuilder::try_new(bytes.clone())?;
    let known = builder.schema().fields().iter().enumerate();
    let wanted = known.filter(|(_, field)| columns.contains(&field.name().as_str()));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted.map(|(index, _)| index));
    pages::check(bytes, builder.metadata(), |leaf| mask.leaf_included(leaf))
        .map_err(ParquetError::General)?;
    builder.with_projection(mask).build()
}

/// Columns of a batch by names, as integers and texts. None for those that it lacks.
fn cells(batch: &RecordBatch, columns: &[&str]) -> Result<Vec<Option<ArrayRef>>, arrow::error::ArrowError> {
    let column = |name: &&str| batch.column_by_name(name).map(plain).transpose().map(Option::flatten);
    columns.iter().map(column).collect()
}

fn plain(array: &ArrayRef) -> Result<Option<ArrayRef>, arrow::error::ArrowError> {
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
        Err(_) => Err("its Parquet file is malformed".to_owned()),
    }
}

fn failure(path: &Path, cause: &str) -> ReadError {
    ReadError::message(format!("`{}` cannot be read as Parquet: {cause}", path.display()))
        .hint("export it again with `nsys export -t parquetdir`".to_owned())
}
