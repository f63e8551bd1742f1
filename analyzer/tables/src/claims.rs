//! The statements of a file about its rows: statistics of columns and pages, and filters of values.
//!
//! Queries skip rows by them, so a false one changes answers. One column's are used, the first that a table is sorted
//! by, after they were compared with its rows. The rest is dropped: it skips few rows, as they are in another order.

use std::sync::Arc;

use datafusion::common::Statistics;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::errors::Result;
use parquet::file::metadata::{
    ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataBuilder, RowGroupMetaData,
};
use parquet::file::page_index::column_index::ColumnIndexMetaData;
use stallmap_schema::capture::source::EntryBytes;
use stallmap_schema::check::are_true;

/// A file's metadata without statements about other columns than one.
pub(super) fn only_of(metadata: &ParquetMetaData, column: Option<&str>) -> Result<ParquetMetaData> {
    let is_used = |chunk: &ColumnChunkMetaData| Some(chunk.column_path().string().as_str()) == column;
    let without = |chunk: &ColumnChunkMetaData| {
        let plain = chunk.clone().into_builder().set_bloom_filter_offset(None).set_bloom_filter_length(None);
        let plain = plain.set_column_index_offset(None).set_column_index_length(None);
        if is_used(chunk) { plain } else { plain.clear_statistics() }.build()
    };
    let group = |group: &RowGroupMetaData| {
        let chunks: Result<Vec<_>> = group.columns().iter().map(without).collect();
        group.clone().into_builder().set_column_metadata(chunks?).build()
    };
    let groups: Result<Vec<_>> = metadata.row_groups().iter().map(group).collect();
    let index = metadata.column_index().map(|index| {
        let of_group = |(pages, group): (&Vec<ColumnIndexMetaData>, &RowGroupMetaData)| {
            let both = pages.iter().zip(group.columns());
            let believed = both.map(
                |(pages, chunk)| {
                    if is_used(chunk) { pages.clone() } else { ColumnIndexMetaData::NONE }
                },
            );
            believed.collect()
        };
        index.iter().zip(metadata.row_groups()).map(of_group).collect()
    });
    let builder = ParquetMetaDataBuilder::new(metadata.file_metadata().clone());
    let builder = builder.set_row_groups(groups?).set_column_index(index);
    Ok(builder.set_offset_index(metadata.offset_index().cloned()).build())
}

/// Statistics for plans only: no answer is taken from them but the number of rows, which the pages' headers confirm.
pub(super) fn estimated(statistics: Statistics) -> Statistics {
    let (rows, estimates) = (statistics.num_rows, statistics.to_inexact());
    Statistics { num_rows: rows, ..estimates }
}

/// Compares the statements about a column with its rows.
pub(super) fn check(bytes: &EntryBytes, metadata: &Arc<ParquetMetaData>, column: &str) -> Result<(), String> {
    let text = |error: parquet::errors::ParquetError| error.to_string();
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let states = chunks
        .filter(|chunk| chunk.column_path().string() == column)
        .any(|chunk| chunk.statistics().is_some());
    if !states && metadata.column_index().is_none() {
        return Ok(());
    }
    let file = ArrowReaderMetadata::try_new(Arc::clone(metadata), ArrowReaderOptions::new()).map_err(text)?;
    let Ok(field) = file.schema().field_with_name(column) else { return Ok(()) };
    if are_true(bytes, &file, field).map_err(text)? {
        Ok(())
    } else {
        Err(format!("column `{column}` has other values than its file states"))
    }
}
