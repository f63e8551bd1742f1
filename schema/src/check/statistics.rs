//! Check of a file's statistics: queries skip row groups and pages by them, and take extremes of columns from them.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, PrimitiveArray, Scalar, downcast_primitive_array,
};
use arrow::compute::kernels::cmp;
use arrow::compute::{max, min};
use arrow::datatypes::{DataType, Field};
use arrow::error::ArrowError;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};

use crate::capture::pages;
use crate::capture::reader::CaptureReader;
use crate::capture::source::EntryBytes;
use crate::check::{CaptureRule, ViolationList};
use crate::contained::contained;
use crate::table::TableDef;

/// Reads a table that has been read to its end: its pages are within their bounds.
pub(super) fn check(reader: &CaptureReader, table: &TableDef, found: &mut ViolationList) {
    let Ok(bytes) = reader.table_entry(table.name) else { return };
    let checked = contained(|| wrong(table.name, bytes));
    let columns = match checked {
        Ok(Ok(columns)) => columns,
        Ok(Err(error)) => {
            return found.add(CaptureRule::Statistics, || format!("table `{}`: {error}", table.name));
        }
        Err(_) => {
            return found
                .add(CaptureRule::Statistics, || format!("table `{}`: they are malformed", table.name));
        }
    };
    for column in columns {
        found.add(CaptureRule::Statistics, || {
            format!("column `{column}` of table `{}` has other values than its file states", table.name)
        });
    }
}

/// Columns whose statistics are not those of their rows.
fn wrong(table: &str, bytes: &EntryBytes) -> Result<Vec<String>, ParquetError> {
    let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
    let file = ArrowReaderMetadata::load(bytes, options)?;
    pages::check(table, bytes, file.metadata(), |_| true).map_err(ParquetError::General)?;
    let mut wrong = Vec::new();
    for field in file.schema().fields() {
        if !are_true(bytes, &file, field)? {
            wrong.push(field.name().clone());
        }
    }
    Ok(wrong)
}

/// True if a column's statistics are those of its rows. Lists and floats have none that are compared.
///
/// # Errors
/// Fails where the column cannot be decoded.
pub fn are_true(bytes: &EntryBytes, file: &ArrowReaderMetadata, field: &Field) -> Result<bool, ParquetError> {
    if !is_compared(field.data_type()) {
        return Ok(true);
    }
    for group in 0..file.metadata().num_row_groups() {
        if !is_true(bytes, file, field, group)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Lists have none, and a float's depend on the treatment of NaN.
fn is_compared(data_type: &DataType) -> bool {
    !data_type.is_nested() && !data_type.is_floating()
}

/// True if a column's statistics of a row group are those of its rows.
fn is_true(
    bytes: &EntryBytes,
    file: &ArrowReaderMetadata,
    field: &Field,
    group: usize,
) -> Result<bool, ParquetError> {
    let parts = parts(file, field, group)?;
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(bytes.clone(), file.clone());
    let mask = ProjectionMask::columns(builder.parquet_schema(), [field.name().as_str()]);
    let mut progress: Vec<ReadProgress> = parts.iter().map(|_| ReadProgress::default()).collect();
    let mut row = 0;
    for batch in builder.with_projection(mask).with_row_groups(vec![group]).build()? {
        let batch = batch?;
        let Some(array) = batch.columns().first() else { continue };
        for (part, progress) in parts.iter().zip(&mut progress) {
            let (start, end) = (part.first.max(row), part.end.min(row + array.len()));
            if start < end && !progress.add(part, &array.slice(start - row, end - start))? {
                return Ok(false);
            }
        }
        row += array.len();
    }
    Ok(parts.iter().zip(&progress).all(|(part, progress)| progress.is_complete(part)))
}

/// Rows of a row group, and what the file states of them.
struct RowGroupPart {
    first: usize,
    end: usize,
    least: ArrayRef,
    greatest: ArrayRef,
    /// False for texts of which only the beginning is stored.
    is_exact: bool,
    nulls: Option<u64>,
}

/// Rows of a part that have been read.
#[derive(Default)]
struct ReadProgress {
    has_least: bool,
    has_greatest: bool,
    nulls: u64,
}

impl ReadProgress {
    /// Adds rows. False if they are beyond the part's extremes.
    fn add(&mut self, part: &RowGroupPart, rows: &ArrayRef) -> Result<bool, ArrowError> {
        let any = |compared: &BooleanArray| compared.true_count() > 0;
        self.nulls += rows.null_count() as u64;
        let rows = &extremes(rows);
        if part.least.is_valid(0) {
            let least = Scalar::new(Arc::clone(&part.least));
            self.has_least |= any(&cmp::eq(rows, &least)?);
            if any(&cmp::lt(rows, &least)?) {
                return Ok(false);
            }
        }
        if part.greatest.is_valid(0) {
            let greatest = Scalar::new(Arc::clone(&part.greatest));
            self.has_greatest |= any(&cmp::eq(rows, &greatest)?);
            return Ok(!any(&cmp::gt(rows, &greatest)?));
        }
        Ok(true)
    }

    /// True if the part's extremes were among its rows, and its nulls are as many as stated.
    fn is_complete(&self, part: &RowGroupPart) -> bool {
        let least = self.has_least || !part.is_exact || part.least.is_null(0);
        let greatest = self.has_greatest || !part.is_exact || part.greatest.is_null(0);
        least && greatest && part.nulls.is_none_or(|nulls| nulls == self.nulls)
    }
}

/// The least and the greatest of some numbers. To find them takes less time than to compare each with both bounds. Texts are
/// returned as they are.
fn extremes(rows: &ArrayRef) -> ArrayRef {
    fn bounds_of<T: ArrowPrimitiveType>(rows: &PrimitiveArray<T>) -> Option<ArrayRef> {
        let extremes = PrimitiveArray::<T>::new(vec![min(rows)?, max(rows)?].into(), None);
        Some(Arc::new(extremes.with_data_type(rows.data_type().clone())))
    }
    let found = downcast_primitive_array!(rows => bounds_of(rows), _ => None);
    found.unwrap_or_else(|| Arc::clone(rows))
}

/// A row group as a whole, and its pages where the file has an index of them.
fn parts(file: &ArrowReaderMetadata, field: &Field, group: usize) -> Result<Vec<RowGroupPart>, ParquetError> {
    let metadata = file.metadata();
    let converter = StatisticsConverter::try_new(field.name(), file.schema(), file.parquet_schema())?
        .with_missing_null_counts_as_zero(false);
    let groups = || metadata.row_groups().iter().skip(group).take(1);
    let rows = metadata.row_group(group).num_rows();
    let exact = |is_exact: BooleanArray| is_exact.is_valid(0) && is_exact.value(0);
    let nulls = converter.row_group_null_counts(groups())?;
    let mut parts = vec![RowGroupPart {
        first: 0,
        end: usize::try_from(rows).unwrap_or(0),
        least: converter.row_group_mins(groups())?,
        greatest: converter.row_group_maxes(groups())?,
        is_exact: exact(converter.row_group_is_min_value_exact(groups())?)
            && exact(converter.row_group_is_max_value_exact(groups())?),
        nulls: nulls.is_valid(0).then(|| nulls.value(0)),
    }];
    parts.extend(pages(metadata, &converter, group, rows)?);
    Ok(parts)
}

fn pages(
    metadata: &ParquetMetaData,
    converter: &StatisticsConverter<'_>,
    group: usize,
    rows: i64,
) -> Result<Vec<RowGroupPart>, ParquetError> {
    let (Some(columns), Some(offsets)) = (metadata.column_index(), metadata.offset_index()) else {
        return Ok(Vec::new());
    };
    let Some(leaf) = converter.parquet_column_index() else { return Ok(Vec::new()) };
    let least = converter.data_page_mins(columns, offsets, [&group])?;
    let greatest = converter.data_page_maxes(columns, offsets, [&group])?;
    let nulls = converter.data_page_null_counts(columns, offsets, [&group])?;
    let locations = offsets[group][leaf].page_locations();
    let first = |page: usize| locations.get(page).map_or(rows, |location| location.first_row_index);
    let part = |page: usize| RowGroupPart {
        first: usize::try_from(first(page)).unwrap_or(0),
        end: usize::try_from(first(page + 1)).unwrap_or(0),
        least: least.slice(page, 1),
        greatest: greatest.slice(page, 1),
        // The index of pages does not say whether a text is complete. Its extremes are only for skipping rows.
        is_exact: false,
        nulls: nulls.is_valid(page).then(|| nulls.value(page)),
    };
    Ok((0..locations.len().min(least.len()).min(greatest.len())).map(part).collect())
}
