//! Columns that are encoded here, page by page: their compression, statistics and indexes.

use std::cell::RefCell;

use arrow::array::{ArrayRef, ArrowPrimitiveType, AsArray as _};
use bytes::Bytes;
use parquet::basic::{BoundaryOrder, Compression, Encoding, PageType, Type};
use parquet::column::page::{CompressedPage, Page, PageWriter as _};
use parquet::column::writer::ColumnCloseResult;
use parquet::data_type::ByteArray;
use parquet::errors::ParquetError;
use parquet::file::metadata::{
    ColumnChunkMetaData, ColumnIndexBuilder, OffsetIndexBuilder, PageEncodingStats,
};
use parquet::file::statistics::{Statistics, ValueStatistics};
use parquet::file::writer::{SerializedPageWriter, TrackedWrite};
use parquet::schema::types::ColumnDescPtr;
use zstd::bulk::Compressor;

/// An encoded column of a row group.
pub(super) struct EncodedChunk {
    pub(super) bytes: Bytes,
    pub(super) close: ColumnCloseResult,
}

/// The form of a column's pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageForm {
    pub(super) encoding: Encoding,
    pub(super) codec: Compression,
    pub(super) has_dictionary: bool,
}

/// The values of a column without nulls and lists, by batches. `None` for another column, or for another type.
pub(super) fn flat_values<'a, T: ArrowPrimitiveType>(
    column: &ColumnDescPtr,
    batches: &[&'a ArrayRef],
) -> Option<Vec<&'a [T::Native]>> {
    if column.max_rep_level() > 0 || column.max_def_level() > 0 {
        return None;
    }
    batches.iter().map(|array| Some(&array.as_primitive_opt::<T>()?.values()[..])).collect()
}

thread_local! {
    /// Compressors of this thread, by level: to make one takes as long as to compress a page.
    static COMPRESSORS: RefCell<Vec<(i32, Compressor<'static>)>> = const { RefCell::new(Vec::new()) };
}

/// Writes pages as a column of a row group of so many rows, behind a dictionary's plain values and their number.
pub(super) fn write<'a>(
    column: &ColumnDescPtr,
    (form, rows): (PageForm, usize),
    dictionary: Option<(Vec<u8>, u32)>,
    pages: impl Iterator<Item = EncodedPage<'a>>,
) -> Result<EncodedChunk, ParquetError> {
    let mut sink = TrackedWrite::new(Vec::new());
    let mut writer = SerializedPageWriter::new(&mut sink);
    let mut chunk = ChunkPages::new(column);
    if let Some((values, num_values)) = dictionary {
        chunk.has_dictionary = true;
        let size = values.len();
        let buf = compressed(values, form.codec)?;
        let page = Page::DictionaryPage { buf, num_values, encoding: Encoding::PLAIN, is_sorted: false };
        chunk.uncompressed += writer.write_page(CompressedPage::new(page, size))?.uncompressed_size as u64;
    }
    for page in pages {
        chunk.add(&page);
        let (size, num_values) = (page.bytes.len(), u32::try_from(page.levels).unwrap_or(u32::MAX));
        let data = Page::DataPage {
            buf: compressed(page.bytes, form.codec)?,
            num_values,
            encoding: form.encoding,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let written = writer.write_page(CompressedPage::new(data, size))?;
        chunk.set_offset(written.offset, written.compressed_size, written.uncompressed_size);
    }
    writer.close()?;
    let bytes = Bytes::from(sink.into_inner()?);
    let close = chunk.close((form, rows), bytes.len())?;
    Ok(EncodedChunk { bytes, close })
}

fn compressed(bytes: Vec<u8>, codec: Compression) -> Result<Bytes, ParquetError> {
    let Compression::ZSTD(level) = codec else { return Ok(bytes.into()) };
    let level = level.compression_level();
    let compressed = COMPRESSORS.with_borrow_mut(|compressors| {
        let known = compressors.iter().position(|(other, _)| *other == level);
        let at = known.unwrap_or(compressors.len());
        if known.is_none() {
            compressors.push((level, Compressor::new(level)?));
        }
        compressors[at].1.compress(&bytes)
    });
    Ok(compressed.map_err(|cause| ParquetError::External(cause.into()))?.into())
}

/// A value of a column. All values of a column are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum PageValue {
    Signed(i64),
    Unsigned(u64),
    Text(String),
}

impl PageValue {
    /// As an index of pages has it: numbers in the width of their column, texts without their length.
    pub(super) fn bytes(&self, kind: Type) -> Vec<u8> {
        let eight = match self {
            Self::Signed(number) => number.to_le_bytes(),
            Self::Unsigned(number) => number.to_le_bytes(),
            Self::Text(text) => return text.clone().into_bytes(),
        };
        if kind == Type::INT32 { eight[..4].to_vec() } else { eight.to_vec() }
    }

    fn long(&self) -> Option<i64> {
        match self {
            Self::Signed(number) => Some(*number),
            Self::Unsigned(number) => Some(number.cast_signed()),
            Self::Text(_) => None,
        }
    }

    /// The bits of a number of 32 bits, whichever its sign.
    #[expect(clippy::cast_possible_truncation, reason = "the column has 32 bits")]
    fn int(&self) -> Option<i32> {
        self.long().map(|number| number as i32)
    }

    fn text(&self) -> Option<ByteArray> {
        match self {
            Self::Text(text) => Some(ByteArray::from(text.as_str())),
            _ => None,
        }
    }
}

/// A page before compression.
pub(super) struct EncodedPage<'a> {
    /// Levels and values.
    pub(super) bytes: Vec<u8>,
    pub(super) rows: usize,
    /// Levels: as many as rows, but for lists.
    pub(super) levels: usize,
    pub(super) null_count: usize,
    /// Least and greatest value; `None` where all are null.
    pub(super) extremes: Option<(&'a PageValue, &'a PageValue)>,
}

impl<'a> EncodedPage<'a> {
    /// Values of a column without nulls and lists.
    pub(super) fn flat(
        bytes: Vec<u8>,
        rows: usize,
        extremes: Option<(&'a PageValue, &'a PageValue)>,
    ) -> Self {
        Self { bytes, rows, levels: rows, null_count: 0, extremes }
    }
}

/// Sizes, statistics and indexes of a column's pages.
struct ChunkPages<'a> {
    column: ColumnDescPtr,
    index: ColumnIndexBuilder,
    offsets: OffsetIndexBuilder,
    pages: Vec<(&'a PageValue, &'a PageValue)>,
    page_count: i32,
    levels: usize,
    has_dictionary: bool,
    data_offset: Option<u64>,
    null_count: u64,
    uncompressed: u64,
}

impl<'a> ChunkPages<'a> {
    fn new(column: &ColumnDescPtr) -> Self {
        Self {
            column: column.clone(),
            index: ColumnIndexBuilder::new(column.physical_type()),
            offsets: OffsetIndexBuilder::new(),
            pages: Vec::new(),
            page_count: 0,
            levels: 0,
            has_dictionary: false,
            data_offset: None,
            null_count: 0,
            uncompressed: 0,
        }
    }

    fn add(&mut self, page: &EncodedPage<'a>) {
        let kind = self.column.physical_type();
        let [min, max] =
            page.extremes.map_or_else(Default::default, |(min, max)| [min.bytes(kind), max.bytes(kind)]);
        let nulls = i64::try_from(page.null_count).unwrap_or(i64::MAX);
        self.index.append(page.extremes.is_none(), min, max, nulls);
        self.offsets.append_row_count(i64::try_from(page.rows).unwrap_or(i64::MAX));
        self.pages.extend(page.extremes);
        self.null_count += page.null_count as u64;
        self.page_count += 1;
        self.levels += page.levels;
    }

    fn set_offset(&mut self, offset: u64, stored: usize, uncompressed: usize) {
        self.data_offset.get_or_insert(offset);
        self.uncompressed += uncompressed as u64;
        let stored = i32::try_from(stored).unwrap_or(i32::MAX);
        self.offsets.append_offset_and_size(offset.cast_signed(), stored);
    }

    fn close(
        mut self,
        (form, rows): (PageForm, usize),
        stored: usize,
    ) -> Result<ColumnCloseResult, ParquetError> {
        let ascending = self.pages.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1);
        let descending = self.pages.is_sorted_by(|a, b| a.0 >= b.0 && a.1 >= b.1);
        self.index.set_boundary_order(match (ascending, descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        });
        let count = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let mut encodings = vec![Encoding::RLE, form.encoding];
        let mut pages = vec![count(PageType::DATA_PAGE, form.encoding, self.page_count)];
        if self.has_dictionary {
            encodings.push(Encoding::PLAIN);
            pages.insert(0, count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1));
        }
        let metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(form.codec)
            .set_encodings(encodings)
            .set_page_encoding_stats(pages)
            .set_total_compressed_size(i64::try_from(stored).unwrap_or(i64::MAX))
            .set_total_uncompressed_size(self.uncompressed.cast_signed())
            .set_num_values(i64::try_from(self.levels).unwrap_or(i64::MAX))
            .set_dictionary_page_offset(self.has_dictionary.then_some(0))
            .set_data_page_offset(self.data_offset.unwrap_or(0).cast_signed())
            .set_statistics(self.statistics())
            .build()?;
        Ok(ColumnCloseResult {
            bytes_written: stored as u64,
            rows_written: rows as u64,
            metadata,
            bloom_filter: None,
            column_index: Some(self.index.build()?),
            offset_index: Some(self.offsets.build()),
        })
    }

    fn statistics(&self) -> Statistics {
        let nulls = Some(self.null_count);
        let min = self.pages.iter().map(|page| page.0).min();
        let max = self.pages.iter().map(|page| page.1).max();
        // The fields that old readers know are for signed numbers.
        let is_signed = self.column.sort_order().is_signed();
        match self.column.physical_type() {
            Type::INT32 => {
                let (min, max) = (min.and_then(PageValue::int), max.and_then(PageValue::int));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
            Type::INT64 => {
                let (min, max) = (min.and_then(PageValue::long), max.and_then(PageValue::long));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
            _ => {
                let (min, max) = (min.and_then(PageValue::text), max.and_then(PageValue::text));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
        }
    }
}
