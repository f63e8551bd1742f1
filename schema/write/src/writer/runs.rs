//! Columns whose values repeat in long runs: encoded run by run, by dictionary and run lengths, without compression.
//!
//! Accesses are sorted by instruction, so most of their columns are constant for thousands of rows. The general encoder
//! compares, hashes and packs every value.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
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

use crate::encoding::PAGE_ROWS;

/// Fewest rows of a group whose runs are looked for.
const FEWEST_ROWS: usize = 4 << 10;
/// Fewest rows of a run, on average: then a page has a few hundred bytes.
const RUN_ROWS: usize = 64;
/// Values whose changes are counted before any of them is looked up: most columns without runs end here.
const PIECE: usize = 4 << 10;
/// Most bytes of a text: longer ones are cut in statistics.
const TEXT_BYTES: usize = 64;

/// An encoded column of a row group.
pub(super) struct RunsChunk {
    pub(super) bytes: Bytes,
    pub(super) close: ColumnCloseResult,
}

/// A value of a column. All values of a column are of one kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Value {
    Signed(i64),
    Unsigned(u64),
    Text(String),
}

/// Encodes a column, given by batches. `None` where its runs are short, or its values of another type.
pub(super) fn encode(
    column: &ColumnDescPtr,
    batches: &[&ArrayRef],
) -> Result<Option<RunsChunk>, ParquetError> {
    let rows: usize = batches.iter().copied().map(Array::len).sum();
    if rows < FEWEST_ROWS || column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Ok(None);
    }
    let mut runs = Runs { most: rows / RUN_ROWS, ..Runs::default() };
    if batches.iter().any(|array| runs.add(array).is_none()) {
        return Ok(None);
    }
    runs.write(column, rows).map(Some)
}

/// Equal values that follow each other: the value as its position among all, and its rows.
#[derive(Clone, Copy)]
struct Run {
    value: Option<u32>,
    rows: usize,
}

#[derive(Default)]
struct Runs {
    /// Most runs that are worth it.
    most: usize,
    list: Vec<Run>,
    values: Vec<Value>,
    positions: BTreeMap<Value, u32>,
}

impl Runs {
    /// Adds the values of a batch; `None` where that makes too many runs, or they are of another type.
    fn add(&mut self, array: &ArrayRef) -> Option<()> {
        match array.data_type() {
            DataType::UInt8 => self.add_all::<UInt8Type>(array.as_primitive(), unsigned),
            DataType::UInt16 => self.add_all::<UInt16Type>(array.as_primitive(), unsigned),
            DataType::UInt32 => self.add_all::<UInt32Type>(array.as_primitive(), unsigned),
            DataType::UInt64 => self.add_all::<UInt64Type>(array.as_primitive(), unsigned),
            DataType::Int32 => self.add_all::<Int32Type>(array.as_primitive(), signed),
            DataType::Int64 => self.add_all::<Int64Type>(array.as_primitive(), signed),
            DataType::Dictionary(keys, values)
                if (&**keys, &**values) == (&DataType::UInt8, &DataType::Utf8) =>
            {
                let array = array.as_dictionary::<UInt8Type>();
                let texts = array.values().as_string::<i32>();
                let text = |key: u8| {
                    let is_text = usize::from(key) < texts.len() && texts.is_valid(key.into());
                    let text = is_text.then(|| texts.value(key.into()))?;
                    (text.len() <= TEXT_BYTES).then(|| Value::Text(text.to_owned()))
                };
                self.add_all::<UInt8Type>(array.keys(), text)
            }
            _ => None,
        }
    }

    fn add_all<T: ArrowPrimitiveType>(
        &mut self,
        array: &PrimitiveArray<T>,
        value: impl Fn(T::Native) -> Option<Value>,
    ) -> Option<()> {
        let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) else {
            return self.add_values(array.values(), value);
        };
        let mut next = 0;
        for (from, to) in nulls.valid_slices() {
            self.push(None, from - next)?;
            self.add_values(array.values().get(from..to)?, &value)?;
            next = to;
        }
        self.push(None, array.len() - next)
    }

    fn add_values<N: Copy + PartialEq>(
        &mut self,
        values: &[N],
        value: impl Fn(N) -> Option<Value>,
    ) -> Option<()> {
        let mut changes = self.list.len();
        for piece in values.chunks(PIECE) {
            changes += piece.windows(2).filter(|pair| pair[0] != pair[1]).count();
            if changes > self.most {
                return None;
            }
        }
        for run in values.chunk_by(|a, b| a == b) {
            let value = value(*run.first()?)?;
            let next = u32::try_from(self.values.len()).ok()?;
            let position = *self.positions.entry(value.clone()).or_insert(next);
            if position == next {
                self.values.push(value);
            }
            self.push(Some(position), run.len())?;
        }
        Some(())
    }

    fn push(&mut self, value: Option<u32>, rows: usize) -> Option<()> {
        match self.list.last_mut() {
            _ if rows == 0 => {}
            Some(last) if last.value == value => last.rows += rows,
            _ => self.list.push(Run { value, rows }),
        }
        (self.list.len() <= self.most).then_some(())
    }

    fn write(&self, column: &ColumnDescPtr, rows: usize) -> Result<RunsChunk, ParquetError> {
        let mut sink = TrackedWrite::new(Vec::new());
        let mut writer = SerializedPageWriter::new(&mut sink);
        let mut chunk = Chunk::new(column);
        let dictionary = self.dictionary(column.physical_type());
        let size = dictionary.len();
        let num_values = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let encoding = Encoding::PLAIN;
        let page = Page::DictionaryPage { buf: dictionary.into(), num_values, encoding, is_sorted: false };
        chunk.uncompressed += writer.write_page(CompressedPage::new(page, size))?.uncompressed_size as u64;
        for page in pages(&self.list) {
            let page = self.page(column, &page);
            let (size, num_values) = (page.bytes.len(), u32::try_from(page.rows).unwrap_or(u32::MAX));
            chunk.add(&page);
            let data = Page::DataPage {
                buf: page.bytes.into(),
                num_values,
                encoding: Encoding::RLE_DICTIONARY,
                def_level_encoding: Encoding::RLE,
                rep_level_encoding: Encoding::RLE,
                statistics: None,
            };
            let written = writer.write_page(CompressedPage::new(data, size))?;
            chunk.place(written.offset, written.compressed_size, written.uncompressed_size);
        }
        writer.close()?;
        let bytes = Bytes::from(sink.into_inner()?);
        let close = chunk.close(rows, bytes.len())?;
        Ok(RunsChunk { bytes, close })
    }

    /// The distinct values, plain.
    fn dictionary(&self, kind: Type) -> Vec<u8> {
        let plain = |value: &Value| match value {
            Value::Text(text) => {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                [&length.to_le_bytes(), text.as_bytes()].concat()
            }
            number => number.bytes(kind),
        };
        self.values.iter().flat_map(plain).collect()
    }

    fn page(&self, column: &ColumnDescPtr, runs: &[Run]) -> PageOfRuns<'_> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let bits = usize::BITS - self.values.len().saturating_sub(1).leading_zeros();
        let width = (bits as usize).div_ceil(8);
        values.push(u8::try_from(bits).unwrap_or(u8::MAX));
        let (mut rows, mut null_count) = (0, 0);
        let (mut min, mut max) = (None, None);
        for run in runs {
            put(&mut levels, run.rows, &[u8::from(run.value.is_some())]);
            rows += run.rows;
            let Some(position) = run.value else {
                null_count += run.rows;
                continue;
            };
            put(&mut values, run.rows, position.to_le_bytes().get(..width).unwrap_or_default());
            let value = self.values.get(position as usize);
            max = max.max(value);
            min = min.filter(|min| Some(*min) <= value).or(value);
        }
        let mut bytes = Vec::new();
        if column.max_def_level() > 0 {
            bytes.extend(u32::try_from(levels.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.append(&mut levels);
        }
        bytes.append(&mut values);
        PageOfRuns { bytes, rows, null_count, extremes: min.zip(max) }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "texts may be too long")]
fn unsigned(value: impl Into<u64>) -> Option<Value> {
    Some(Value::Unsigned(value.into()))
}

#[expect(clippy::unnecessary_wraps, reason = "texts may be too long")]
fn signed(value: impl Into<i64>) -> Option<Value> {
    Some(Value::Signed(value.into()))
}

impl Value {
    /// As an index of pages has it: numbers in the width of their column, texts without their length.
    fn bytes(&self, kind: Type) -> Vec<u8> {
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

/// A run of the hybrid of run lengths and bit-packing: an even count, and the value in whole bytes.
fn put(bytes: &mut Vec<u8>, rows: usize, value: &[u8]) {
    let mut header = rows << 1;
    while header >= 0x80 {
        bytes.push(u8::try_from(header & 0x7f).unwrap_or(0) | 0x80);
        header >>= 7;
    }
    bytes.push(u8::try_from(header).unwrap_or(0));
    bytes.extend_from_slice(value);
}

/// Runs, cut at the borders of pages.
fn pages(runs: &[Run]) -> Vec<Vec<Run>> {
    let mut pages = vec![Vec::new()];
    let mut room = PAGE_ROWS;
    for run in runs {
        let mut left = run.rows;
        while left > 0 {
            if room == 0 {
                pages.push(Vec::new());
                room = PAGE_ROWS;
            }
            let rows = left.min(room);
            pages.last_mut().into_iter().for_each(|page| page.push(Run { rows, ..*run }));
            (left, room) = (left - rows, room - rows);
        }
    }
    pages
}

struct PageOfRuns<'a> {
    bytes: Vec<u8>,
    rows: usize,
    null_count: usize,
    /// Least and greatest value; `None` where all are null.
    extremes: Option<(&'a Value, &'a Value)>,
}

/// Sizes, statistics and indexes of a column's pages.
struct Chunk<'a> {
    column: ColumnDescPtr,
    index: ColumnIndexBuilder,
    offsets: OffsetIndexBuilder,
    pages: Vec<(&'a Value, &'a Value)>,
    page_count: i32,
    data_offset: Option<u64>,
    null_count: u64,
    uncompressed: u64,
}

impl<'a> Chunk<'a> {
    fn new(column: &ColumnDescPtr) -> Self {
        Self {
            column: column.clone(),
            index: ColumnIndexBuilder::new(column.physical_type()),
            offsets: OffsetIndexBuilder::new(),
            pages: Vec::new(),
            page_count: 0,
            data_offset: None,
            null_count: 0,
            uncompressed: 0,
        }
    }

    fn add(&mut self, page: &PageOfRuns<'a>) {
        let kind = self.column.physical_type();
        let [min, max] =
            page.extremes.map_or_else(Default::default, |(min, max)| [min.bytes(kind), max.bytes(kind)]);
        let nulls = i64::try_from(page.null_count).unwrap_or(i64::MAX);
        self.index.append(page.extremes.is_none(), min, max, nulls);
        self.offsets.append_row_count(i64::try_from(page.rows).unwrap_or(i64::MAX));
        self.pages.extend(page.extremes);
        self.null_count += page.null_count as u64;
        self.page_count += 1;
    }

    fn place(&mut self, offset: u64, stored: usize, uncompressed: usize) {
        self.data_offset.get_or_insert(offset);
        self.uncompressed += uncompressed as u64;
        let stored = i32::try_from(stored).unwrap_or(i32::MAX);
        self.offsets.append_offset_and_size(offset.cast_signed(), stored);
    }

    fn close(mut self, rows: usize, stored: usize) -> Result<ColumnCloseResult, ParquetError> {
        let ascending = self.pages.is_sorted_by(|a, b| a.0 <= b.0 && a.1 <= b.1);
        let descending = self.pages.is_sorted_by(|a, b| a.0 >= b.0 && a.1 >= b.1);
        self.index.set_boundary_order(match (ascending, descending) {
            (true, _) => BoundaryOrder::ASCENDING,
            (false, true) => BoundaryOrder::DESCENDING,
            (false, false) => BoundaryOrder::UNORDERED,
        });
        let count = |page_type, encoding, count| PageEncodingStats { page_type, encoding, count };
        let metadata = ColumnChunkMetaData::builder(self.column.clone())
            .set_compression(Compression::UNCOMPRESSED)
            .set_encodings(vec![Encoding::PLAIN, Encoding::RLE, Encoding::RLE_DICTIONARY])
            .set_page_encoding_stats(vec![
                count(PageType::DICTIONARY_PAGE, Encoding::PLAIN, 1),
                count(PageType::DATA_PAGE, Encoding::RLE_DICTIONARY, self.page_count),
            ])
            .set_total_compressed_size(i64::try_from(stored).unwrap_or(i64::MAX))
            .set_total_uncompressed_size(self.uncompressed.cast_signed())
            .set_num_values(i64::try_from(rows).unwrap_or(i64::MAX))
            .set_dictionary_page_offset(Some(0))
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
                let (min, max) = (min.and_then(Value::int), max.and_then(Value::int));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
            Type::INT64 => {
                let (min, max) = (min.and_then(Value::long), max.and_then(Value::long));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
            _ => {
                let (min, max) = (min.and_then(Value::text), max.and_then(Value::text));
                let statistics = ValueStatistics::new(min, max, None, nulls, false);
                statistics.with_backwards_compatible_min_max(is_signed).into()
            }
        }
    }
}
