//! Bounds on the columns and pages of a Parquet file, before any of them is decompressed.
//!
//! The decoder allocates what a page's header states, and a dictionary repeats a long text for every row of a batch:
//! a file of a few KiB can ask for gigabytes. Headers are read here by themselves, in Thrift's compact protocol.

use std::sync::Arc;

use parquet::basic::Type;
use parquet::column::page::{Page, PageReader as _};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use parquet::file::serialized_reader::SerializedPageReader;

use super::bounds;
use super::source::EntryBytes;

/// Most columns of a file. The widest table has 37.
const COLUMNS: usize = 1 << 10;
/// Most bytes of a page, uncompressed. stallmap ends a page soon after 1 MiB.
const PAGE_BYTES: u64 = 128 << 20;
/// Most bytes of a value of fixed length: a decimal's. No table has one.
const FIXED_BYTES: i32 = 32;
/// Most values of a column of lists in a row group: 8 times as many as accesses with 32 irregular lanes each have.
const LIST_GROUP_VALUES: u64 = 1 << 25;
/// Most bytes of the texts of a batch of one column.
const BATCH_BYTES: u64 = 1 << 30;
/// Rows of a batch.
const BATCH_ROWS: u64 = 8 << 10;
/// A column's chunk in a file that is read by ranges is checked up to this size: larger ones are read in part.
const REMOTE_BYTES: u64 = 1 << 20;
/// Bytes that hold a header without statistics.
const HEADER_BYTES: u64 = 256;
/// Bytes that hold a header with statistics of long values.
const LONG_HEADER_BYTES: u64 = 1 << 20;
/// Thrift's nesting.
const MAX_LEVELS: usize = 8;
/// An encoding by which a short page holds long texts. stallmap does not use it.
const DELTA_BYTE_ARRAY: i64 = 7;

/// Checks the pages of some columns of a table. An error names the column and the bound.
pub fn check(
    table: &str,
    bytes: &EntryBytes,
    metadata: &ParquetMetaData,
    is_read: impl Fn(usize) -> bool,
) -> Result<(), String> {
    let columns = metadata.file_metadata().schema_descr().num_columns();
    if columns > COLUMNS {
        return Err(format!("it has {columns} columns, and the bound is {COLUMNS}"));
    }
    let is_here = bytes.is_near();
    for (index, group) in metadata.row_groups().iter().enumerate() {
        let rows = u64::try_from(group.num_rows()).unwrap_or(0);
        for (leaf, chunk) in group.columns().iter().enumerate().filter(|(leaf, _)| is_read(*leaf)) {
            let size = u64::try_from(chunk.compressed_size()).unwrap_or(u64::MAX);
            if is_here || size <= REMOTE_BYTES {
                check_type(chunk)
                    .and_then(|()| check_chunk(bytes, chunk, rows))
                    .and_then(|pages| {
                        check_rows(chunk, rows, &pages)?;
                        check_values(table, chunk, rows, &pages)?;
                        check_index(metadata, (index, leaf), &pages)
                    })
                    .map_err(|cause| format!("column `{}`: {cause}", chunk.column_path().string()))?;
            }
        }
    }
    Ok(())
}

/// A data page: its offset, its values, and its rows where its header states them.
struct PageLocation {
    offset: u64,
    values: Option<u64>,
    rows: Option<u64>,
}

/// Checks the types of all columns: of a footer, before its statistics are decoded. An error names the column.
pub fn check_types(metadata: &ParquetMetaData) -> Result<(), String> {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    chunks.into_iter().try_for_each(|chunk| {
        check_type(chunk).map_err(|cause| format!("column `{}`: {cause}", chunk.column_path().string()))
    })
}

/// A reader allocates values of fixed length for all rows of a batch before it decodes one.
fn check_type(chunk: &ColumnChunkMetaData) -> Result<(), String> {
    let length = chunk.column_descr().type_length();
    match chunk.column_type() {
        Type::FIXED_LEN_BYTE_ARRAY if length > FIXED_BYTES => {
            Err(format!("each value has {length} bytes, and the bound is {FIXED_BYTES}"))
        }
        Type::INT96 => Err("its values are numbers of 96 bits".to_owned()),
        _ => Ok(()),
    }
}

/// Lists of a page of a few bytes can have millions of values, because equal ones are encoded by their number.
fn check_values(
    table: &str,
    chunk: &ColumnChunkMetaData,
    rows: u64,
    pages: &[PageLocation],
) -> Result<(), String> {
    if chunk.column_descr().max_rep_level() == 0 {
        return Ok(());
    }
    // Of fewer, the list that is too long is found when it is read, and its row is named.
    let least = bounds::LIST_VALUES as u64;
    let most = rows.saturating_mul(bounds::list_values(table) as u64).clamp(least, LIST_GROUP_VALUES);
    let sum = pages.iter().try_fold(0_u64, |sum, page| sum.checked_add(page.values?));
    match sum {
        Some(sum) if sum <= most => Ok(()),
        Some(sum) => Err(format!("its lists have {sum} values in {rows} rows, and the bound is {most}")),
        None => Err("its pages state no values".to_owned()),
    }
}

/// The pages of a column have the rows that the file states.
fn check_rows(chunk: &ColumnChunkMetaData, rows: u64, pages: &[PageLocation]) -> Result<(), String> {
    let sum = pages.iter().try_fold(0_u64, |sum, page| sum.checked_add(page.rows?));
    match sum {
        Some(sum) if sum != rows => Err(format!("its pages have {sum} rows, and the file states {rows}")),
        None if chunk.column_descr().max_rep_level() == 0 => Err("its pages state no rows".to_owned()),
        _ => Ok(()),
    }
}

/// The index of a file says where its pages are, and which rows they have: nowhere but here, and no others.
fn check_index(
    metadata: &ParquetMetaData,
    (group, leaf): (usize, usize),
    pages: &[PageLocation],
) -> Result<(), String> {
    let index = metadata.offset_index().and_then(|groups| groups.get(group)?.get(leaf));
    let Some(index) = index else { return Ok(()) };
    let wrong = || "the index of its pages is not that of its pages".to_owned();
    if index.page_locations().len() != pages.len() {
        return Err(wrong());
    }
    let mut first = Some(0);
    for (stated, page) in index.page_locations().iter().zip(pages) {
        let is_first = first.is_none_or(|first| u64::try_from(stated.first_row_index) == Ok(first));
        if u64::try_from(stated.offset) != Ok(page.offset) || !is_first {
            return Err(wrong());
        }
        first = first.zip(page.rows).and_then(|(first, rows)| first.checked_add(rows));
    }
    Ok(())
}

/// A chunk's data pages.
fn check_chunk(
    bytes: &EntryBytes,
    chunk: &ColumnChunkMetaData,
    rows: u64,
) -> Result<Vec<PageLocation>, String> {
    let outside = || "its pages do not lie within the file".to_owned();
    let number = |number: i64| u64::try_from(number).map_err(|_| outside());
    let start = number(chunk.dictionary_page_offset().unwrap_or(chunk.data_page_offset()))?;
    let end = start.checked_add(number(chunk.compressed_size())?).filter(|end| *end <= bytes.size_bytes());
    let (mut at, end) = (start, end.ok_or_else(outside)?);
    let (mut has_dictionary, mut pages) = (false, Vec::new());
    let is_flat = chunk.column_descr().max_rep_level() == 0;
    while at < end {
        let header = PageHeader::read(bytes, at, end).ok_or("a page's header is damaged")?;
        if header.uncompressed_bytes > PAGE_BYTES {
            let size = header.uncompressed_bytes;
            return Err(format!("a page has {size} bytes, and the bound is {PAGE_BYTES}"));
        }
        let is_text = chunk.column_type() == Type::BYTE_ARRAY;
        if is_text && header.encoding == Some(DELTA_BYTE_ARRAY) {
            return Err("its texts are encoded by their differences".to_owned());
        }
        has_dictionary |= is_text && header.is_dictionary;
        // A page of version 1 counts values: a list has several.
        let stated = header.rows.or(header.values.filter(|_| is_flat));
        let number = |stated: Option<i64>| stated.and_then(|stated| u64::try_from(stated).ok());
        let page = PageLocation { offset: at, values: number(header.values), rows: number(stated) };
        pages.extend((!header.is_dictionary).then_some(page));
        at = at.saturating_add(header.own_bytes).saturating_add(header.compressed_bytes);
    }
    if has_dictionary {
        check_dictionary(bytes, chunk, rows)?;
    }
    Ok(pages)
}

/// The longest text of a dictionary may be that of every row of a batch.
fn check_dictionary(bytes: &EntryBytes, chunk: &ColumnChunkMetaData, rows: u64) -> Result<(), String> {
    let rows_of_reader = usize::try_from(rows).unwrap_or(usize::MAX);
    let opened = SerializedPageReader::new(Arc::new(bytes.clone()), chunk, rows_of_reader, None);
    let page = opened.and_then(|mut pages| pages.get_next_page()).map_err(|cause| cause.to_string())?;
    let Some(Page::DictionaryPage { buf, .. }) = page else { return Ok(()) };
    let longest = longest(&buf);
    if longest.saturating_mul(rows.min(BATCH_ROWS)) > BATCH_BYTES {
        return Err(format!("a text has {longest} bytes, and may be that of each of {rows} rows"));
    }
    Ok(())
}

/// Bytes of the longest text of a plain page: each begins with its length.
fn longest(mut page: &[u8]) -> u64 {
    let mut longest = 0;
    while let Some((length, rest)) = page.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length);
        longest = longest.max(u64::from(length));
        page = usize::try_from(length).ok().and_then(|length| rest.get(length..)).unwrap_or_default();
    }
    longest
}

/// The part of a page's header that is needed.
#[derive(Debug, Default, PartialEq, Eq)]
struct PageHeader {
    own_bytes: u64,
    uncompressed_bytes: u64,
    compressed_bytes: u64,
    is_dictionary: bool,
    encoding: Option<i64>,
    values: Option<i64>,
    rows: Option<i64>,
}

impl PageHeader {
    fn read(bytes: &EntryBytes, at: u64, end: u64) -> Option<Self> {
        let of = |most: u64| {
            let head = bytes.read(at..end.min(at.saturating_add(most))).ok()?;
            Self::parse(&head)
        };
        of(HEADER_BYTES).or_else(|| of(LONG_HEADER_BYTES))
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut thrift = ThriftReader(bytes);
        let mut header = Self::default();
        let (mut is_sized, mut is_measured) = (false, false);
        thrift.structure(0, &mut |thrift, field, kind, level| {
            match (field, kind) {
                (1, ThriftReader::I32) => header.is_dictionary = thrift.number()? == 2,
                (2, ThriftReader::I32) => {
                    header.uncompressed_bytes = u64::try_from(thrift.number()?).ok()?;
                    is_sized = true;
                }
                (3, ThriftReader::I32) => {
                    header.compressed_bytes = u64::try_from(thrift.number()?).ok()?;
                    is_measured = true;
                }
                // The encoding of a data page of version 1 and of version 2.
                (5, ThriftReader::STRUCT) => {
                    thrift.members(level, &mut [(1, &mut header.values), (2, &mut header.encoding)])?;
                }
                (8, ThriftReader::STRUCT) => {
                    let PageHeader { values, rows, encoding, .. } = &mut header;
                    thrift.members(level, &mut [(1, values), (3, rows), (4, encoding)])?;
                }
                _ => thrift.skip(kind, level)?,
            }
            Some(())
        })?;
        header.own_bytes = (bytes.len() - thrift.0.len()) as u64;
        (is_sized && is_measured).then_some(header)
    }
}

/// A reader of Thrift's compact protocol.
struct ThriftReader<'a>(&'a [u8]);

impl ThriftReader<'_> {
    const I32: u8 = 5;
    const STRUCT: u8 = 12;

    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn bytes(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let zigzag = self.unsigned()?;
        Some(i64::try_from(zigzag >> 1).ok()? ^ -i64::try_from(zigzag & 1).ok()?)
    }

    /// Reads the fields of a structure: each is (field, kind), and must be consumed.
    fn structure(
        &mut self,
        level: usize,
        each: &mut dyn FnMut(&mut Self, i64, u8, usize) -> Option<()>,
    ) -> Option<()> {
        if level > MAX_LEVELS {
            return None;
        }
        let mut field = 0_i64;
        loop {
            let head = self.byte()?;
            let (step, kind) = (head >> 4, head & 15);
            if head == 0 {
                return Some(());
            }
            field = if step == 0 { self.number()? } else { field + i64::from(step) };
            each(self, field, kind, level + 1)?;
        }
    }

    /// Reads some numbers of a structure.
    fn members(&mut self, level: usize, wanted: &mut [(i64, &mut Option<i64>)]) -> Option<()> {
        self.structure(level, &mut |thrift, field, kind, level| {
            match wanted.iter_mut().find(|(wanted, _)| (*wanted, Self::I32) == (field, kind)) {
                Some((_, found)) => **found = Some(thrift.number()?),
                None => thrift.skip(kind, level)?,
            }
            Some(())
        })
    }

    fn skip(&mut self, kind: u8, level: usize) -> Option<()> {
        match kind {
            // True and false are their own kinds.
            1 | 2 => Some(()),
            3 => self.bytes(1),
            4..=6 => self.unsigned().map(drop),
            7 => self.bytes(8),
            8 => {
                let length = self.unsigned()?;
                self.bytes(length)
            }
            Self::STRUCT => self.structure(level, &mut |thrift, _, kind, level| thrift.skip(kind, level)),
            // Headers have no lists, maps or sets.
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read() {
        // Dictionary page, 300 bytes of which 20 are stored, 7 values, plain.
        let bytes = [0x15, 4, 0x15, 0xd8, 4, 0x15, 40, 0x4c, 0x15, 14, 0x15, 0, 0, 0, 99];
        let header = PageHeader::parse(&bytes).unwrap();
        let expected = PageHeader {
            own_bytes: 14,
            uncompressed_bytes: 300,
            compressed_bytes: 20,
            is_dictionary: true,
            ..PageHeader::default()
        };
        assert_eq!(header, expected);
        for end in 0..14 {
            assert_eq!(PageHeader::parse(&bytes[..end]), None);
        }
    }

    #[test]
    fn rows_are_read() {
        // Data pages: of version 1 with 7 values, plain, and of version 2 with 7 values, no nulls, 3 rows, plain.
        let one = [0x15, 0, 0x15, 40, 0x15, 40, 0x2c, 0x15, 14, 0x15, 0, 0, 0];
        let two = [0x15, 6, 0x15, 40, 0x15, 40, 0x5c, 0x15, 14, 0x15, 0, 0x15, 6, 0x15, 0, 0, 0];
        let [one, two] = [&one[..], &two[..]].map(|bytes| PageHeader::parse(bytes).unwrap());
        assert_eq!([one.values, one.rows], [Some(7), None]);
        assert_eq!([two.values, two.rows], [Some(7), Some(3)]);
        assert_eq!([one.encoding, two.encoding], [Some(0), Some(0)]);
    }

    #[test]
    fn negative_sizes_and_deep_structures_are_refused() {
        assert_eq!(PageHeader::parse(&[0x15, 4, 0x15, 1, 0x15, 40, 0]), None);
        assert_eq!(PageHeader::parse(&[0x1c; 1 << 10]), None);
    }

    #[test]
    fn the_longest_text_is_found() {
        let page = [&2_u32.to_le_bytes()[..], b"ab", &3_u32.to_le_bytes(), b"abc", &[9]].concat();
        assert_eq!(longest(&page), 3);
    }
}
