//! Pieces of a sorted table with about equal numbers of rows, cut between two values of a column, by its statistics.

use std::ops::Range;

use arrow::array::AsArray;
use arrow::datatypes::{DataType, Field, Schema, UInt64Type};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};

/// The rows of a table with values from `from`, inclusive, to `to`, exclusive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ValueRange {
    pub(super) from: Option<u64>,
    pub(super) to: Option<u64>,
    /// The bytes of the row groups that hold them, and maybe other rows.
    pub(super) bytes: Range<i64>,
}

/// Some rows with their smallest value.
struct RowPage {
    least: u64,
    rows: u64,
}

/// Up to `wanted` pieces of a file sorted by a column of numbers. `None` without usable statistics.
pub(super) fn parts(
    metadata: &ParquetMetaData,
    column: &str,
    wanted: usize,
    end: i64,
) -> Option<Vec<ValueRange>> {
    let schema = Schema::new(vec![Field::new(column, DataType::UInt64, false)]);
    let converter =
        StatisticsConverter::try_new(column, &schema, metadata.file_metadata().schema_descr()).ok()?;
    let bounds = group_bounds(metadata, &converter)?;
    let begins = metadata.row_groups().iter().map(begin).collect::<Option<Vec<_>>>()?;
    if !begins.is_sorted_by(|one, next| one < next) {
        return None;
    }
    let pages = pages(metadata, &converter).or_else(|| groups(metadata, &bounds))?;
    let cuts = cuts(&pages, wanted);
    let froms = std::iter::once(None).chain(cuts.iter().copied().map(Some));
    let tos = cuts.iter().copied().map(Some).chain([None]);
    let part = |(from, to)| ValueRange { from, to, bytes: bytes(metadata, &bounds, (from, to), end) };
    Some(froms.zip(tos).map(part).collect())
}

/// The offset of the first page of a row group.
pub(super) fn begin(group: &RowGroupMetaData) -> Option<i64> {
    let first = group.columns().first()?;
    Some(first.dictionary_page_offset().unwrap_or(first.data_page_offset()))
}

/// The first value of each piece but the first, ascending.
fn cuts(pages: &[RowPage], wanted: usize) -> Vec<u64> {
    let (total, wanted) = (pages.iter().map(|page| page.rows).sum::<u64>(), wanted as u64);
    let Some(mut last) = pages.first().map(|page| page.least) else { return Vec::new() };
    let (mut cuts, mut rows, mut full) = (Vec::new(), 0, 1);
    for page in pages {
        if rows * wanted >= total * full && page.least > last {
            last = page.least;
            cuts.push(last);
            full = rows * wanted / total.max(1) + 1;
        }
        rows += page.rows;
    }
    cuts
}

/// The smallest and largest value of each row group.
fn group_bounds(metadata: &ParquetMetaData, converter: &StatisticsConverter<'_>) -> Option<Vec<(u64, u64)>> {
    let least = converter.row_group_mins(metadata.row_groups()).ok()?;
    let most = converter.row_group_maxes(metadata.row_groups()).ok()?;
    let (least, most) = (least.as_primitive_opt::<UInt64Type>()?, most.as_primitive_opt::<UInt64Type>()?);
    least.iter().zip(most).map(|(least, most)| Some((least?, most?))).collect()
}

/// Pages, from the page index.
fn pages(metadata: &ParquetMetaData, converter: &StatisticsConverter<'_>) -> Option<Vec<RowPage>> {
    let groups: Vec<usize> = (0..metadata.num_row_groups()).collect();
    let (index, offsets) = (metadata.column_index()?, metadata.offset_index()?);
    let least = converter.data_page_mins(index, offsets, &groups).ok()?;
    let rows = converter.data_page_row_counts(offsets, metadata.row_groups(), &groups).ok()??;
    let pages = least.as_primitive_opt::<UInt64Type>()?.iter().zip(&rows);
    pages.map(|(least, rows)| Some(RowPage { least: least?, rows: rows? })).collect()
}

/// Row groups as pages.
fn groups(metadata: &ParquetMetaData, bounds: &[(u64, u64)]) -> Option<Vec<RowPage>> {
    let groups = metadata.row_groups().iter().zip(bounds);
    groups
        .map(|(group, (least, _))| Some(RowPage { least: *least, rows: group.num_rows().try_into().ok()? }))
        .collect()
}

/// The bytes from the first row group that can hold a value to the last.
fn bytes(
    metadata: &ParquetMetaData,
    bounds: &[(u64, u64)],
    (from, to): (Option<u64>, Option<u64>),
    end: i64,
) -> Range<i64> {
    let holds =
        |&(least, most): &(u64, u64)| from.is_none_or(|from| most >= from) && to.is_none_or(|to| least < to);
    let first = bounds.iter().position(holds).unwrap_or(bounds.len());
    let past = bounds.iter().rposition(holds).map_or(bounds.len(), |last| last + 1);
    let offset = |index: usize| metadata.row_groups().get(index).and_then(begin);
    let start = if first == 0 { 0 } else { offset(first).unwrap_or(end) };
    start..offset(past).unwrap_or(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pages: &[(u64, u64)], wanted: usize, expected: &[u64]) {
        let pages: Vec<RowPage> = pages.iter().map(|&(least, rows)| RowPage { least, rows }).collect();
        assert_eq!(cuts(&pages, wanted), expected);
    }

    #[test]
    fn cuts_fall_between_values() {
        check(&[(0, 10), (3, 10), (5, 10), (9, 10)], 2, &[5]);
        check(&[(0, 10), (3, 10), (5, 10), (9, 10)], 4, &[3, 5, 9]);
        check(&[(0, 10), (3, 10)], 1, &[]);
        check(&[], 3, &[]);
    }

    #[test]
    fn a_value_of_many_pages_is_not_cut() {
        check(&[(7, 10), (7, 10), (7, 10), (7, 10)], 4, &[]);
        check(&[(0, 10), (1, 10), (1, 10), (1, 10), (2, 10)], 5, &[1, 2]);
        check(&[(0, 10), (1, 30), (2, 10), (3, 10)], 3, &[2]);
    }
}
