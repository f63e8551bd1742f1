//! Columns whose values repeat in long runs: encoded run by run, by dictionary and run lengths, without compression.
//!
//! Accesses are sorted by instruction, so most of their columns are constant for thousands of rows. The general encoder
//! compares, hashes and packs every value.

use std::collections::BTreeMap;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use arrow::datatypes::{DataType, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use parquet::basic::{Compression, Encoding, Type};
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::hybrid::{put_run, width};
use super::pages::{EncodedChunk, EncodedPage, PageForm, PageValue, write};
use crate::encoding::PAGE_ROWS;

/// Fewest rows of a group whose runs are looked for.
const FEWEST_ROWS: usize = 4 << 10;
/// Fewest rows of a run, on average: then a page has a few hundred bytes.
const RUN_ROWS: usize = 64;
/// Values whose changes are counted before any of them is looked up: most columns without runs end here.
const PIECE: usize = 4 << 10;
/// Most bytes of a text: longer ones are cut in statistics.
const TEXT_BYTES: usize = 64;

/// Encodes a column, given by batches. `None` where its runs are short, or its values of another type.
pub(super) fn encode(
    column: &ColumnDescPtr,
    batches: &[&ArrayRef],
) -> Result<Option<EncodedChunk>, ParquetError> {
    let rows: usize = batches.iter().copied().map(Array::len).sum();
    if rows < FEWEST_ROWS || column.max_rep_level() > 0 || column.max_def_level() > 1 {
        return Ok(None);
    }
    let mut runs = ValueRuns { most: rows / RUN_ROWS, ..ValueRuns::default() };
    if batches.iter().any(|array| runs.add(array).is_none()) {
        return Ok(None);
    }
    runs.write(column, rows).map(Some)
}

/// Equal values that follow each other: the value as its position among all, and its rows.
#[derive(Clone, Copy)]
struct ValueRun {
    value: Option<u32>,
    rows: usize,
}

#[derive(Default)]
struct ValueRuns {
    /// Most runs that are worth it.
    most: usize,
    list: Vec<ValueRun>,
    values: Vec<PageValue>,
    positions: BTreeMap<PageValue, u32>,
}

impl ValueRuns {
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
                    (text.len() <= TEXT_BYTES).then(|| PageValue::Text(text.to_owned()))
                };
                self.add_all::<UInt8Type>(array.keys(), text)
            }
            _ => None,
        }
    }

    fn add_all<T: ArrowPrimitiveType>(
        &mut self,
        array: &PrimitiveArray<T>,
        value: impl Fn(T::Native) -> Option<PageValue>,
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
        value: impl Fn(N) -> Option<PageValue>,
    ) -> Option<()> {
        // Bytes are compared faster than changes are counted.
        let is_constant = |values: &[N]| values.get(1..) == values.get(..values.len() - 1);
        let mut changes = self.list.len();
        let mut constant = Vec::with_capacity(values.len().div_ceil(PIECE));
        for piece in values.chunks(PIECE) {
            constant.push(is_constant(piece));
            if constant.last() != Some(&true) {
                changes += piece.windows(2).filter(|pair| pair[0] != pair[1]).count();
            }
            if changes > self.most {
                return None;
            }
        }
        for (piece, constant) in values.chunks(PIECE).zip(constant) {
            if constant {
                self.add_run(piece, &value)?;
            } else {
                piece.chunk_by(|a, b| a == b).try_for_each(|run| self.add_run(run, &value).ok_or(())).ok()?;
            }
        }
        Some(())
    }

    /// Adds equal values.
    fn add_run<N: Copy>(&mut self, run: &[N], value: &impl Fn(N) -> Option<PageValue>) -> Option<()> {
        let value = value(*run.first()?)?;
        let next = u32::try_from(self.values.len()).ok()?;
        let position = *self.positions.entry(value.clone()).or_insert(next);
        if position == next {
            self.values.push(value);
        }
        self.push(Some(position), run.len())
    }

    fn push(&mut self, value: Option<u32>, rows: usize) -> Option<()> {
        match self.list.last_mut() {
            _ if rows == 0 => {}
            Some(last) if last.value == value => last.rows += rows,
            _ => self.list.push(ValueRun { value, rows }),
        }
        (self.list.len() <= self.most).then_some(())
    }

    fn write(&self, column: &ColumnDescPtr, rows: usize) -> Result<EncodedChunk, ParquetError> {
        let count = u32::try_from(self.values.len()).unwrap_or(u32::MAX);
        let dictionary = Some((self.dictionary(column.physical_type()), count));
        let pages = pages(&self.list).into_iter().map(|page| self.page(column, &page));
        let form = PageForm {
            encoding: Encoding::RLE_DICTIONARY,
            codec: Compression::UNCOMPRESSED,
            has_dictionary: true,
        };
        write(column, (form, rows), dictionary, pages)
    }

    /// The distinct values, plain.
    fn dictionary(&self, kind: Type) -> Vec<u8> {
        let plain = |value: &PageValue| match value {
            PageValue::Text(text) => {
                let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                [&length.to_le_bytes(), text.as_bytes()].concat()
            }
            number => number.bytes(kind),
        };
        self.values.iter().flat_map(plain).collect()
    }

    fn page(&self, column: &ColumnDescPtr, runs: &[ValueRun]) -> EncodedPage<'_> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        let bits = width(self.values.len().saturating_sub(1));
        let width = (bits as usize).div_ceil(8);
        values.push(u8::try_from(bits).unwrap_or(u8::MAX));
        let (mut rows, mut null_count) = (0, 0);
        let (mut min, mut max) = (None, None);
        for run in runs {
            put_run(&mut levels, run.rows, &[u8::from(run.value.is_some())]);
            rows += run.rows;
            let Some(position) = run.value else {
                null_count += run.rows;
                continue;
            };
            put_run(&mut values, run.rows, position.to_le_bytes().get(..width).unwrap_or_default());
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
        EncodedPage { bytes, rows, levels: rows, null_count, extremes: min.zip(max) }
    }
}

#[expect(clippy::unnecessary_wraps, reason = "texts may be too long")]
fn unsigned(value: impl Into<u64>) -> Option<PageValue> {
    Some(PageValue::Unsigned(value.into()))
}

#[expect(clippy::unnecessary_wraps, reason = "texts may be too long")]
fn signed(value: impl Into<i64>) -> Option<PageValue> {
    Some(PageValue::Signed(value.into()))
}

/// Runs, cut at the borders of pages.
fn pages(runs: &[ValueRun]) -> Vec<Vec<ValueRun>> {
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
            pages.last_mut().into_iter().for_each(|page| page.push(ValueRun { rows, ..*run }));
            (left, room) = (left - rows, room - rows);
        }
    }
    pages
}
