//! Columns of lists of 32-bit numbers: `BYTE_STREAM_SPLIT`.
//!
//! Offsets of accesses are these. Most lists are null, or have one number for each lane. The general encoder writes two
//! levels for each number before it encodes them.

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt32Array};
use arrow::datatypes::UInt32Type;
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::hybrid::{HybridEncoder, width};
use super::pages::{EncodedChunk, EncodedPage, PageForm, PageValue, write};
use crate::encoding::PAGE_ROWS;

/// Most numbers of a page: 1 MiB of them.
const PAGE_NUMBERS: usize = 256 << 10;
/// Levels of numbers in lists that may be null, as numbers of them may.
const DEFINED: i16 = 3;

/// Encodes a column, given by batches. `None` where it has another encoding, null or empty lists with numbers behind
/// them, null numbers, or values of another type.
pub(super) fn encode(
    column: &ColumnDescPtr,
    form: PageForm,
    batches: &[&ArrayRef],
) -> Result<Option<EncodedChunk>, ParquetError> {
    let is_list = column.max_rep_level() == 1 && column.max_def_level() == DEFINED;
    if form.encoding != Encoding::BYTE_STREAM_SPLIT || !is_list {
        return Ok(None);
    }
    let lists: Option<Vec<NumberLists<'_>>> =
        batches.iter().map(|array| NumberLists::from_array(array)).collect();
    let Some(lists) = lists else { return Ok(None) };
    let mut pages = Vec::new();
    let mut page = ListPage::default();
    for lists in &lists {
        for row in 0..lists.array.len() {
            if page.rows == PAGE_ROWS || page.numbers.len() >= PAGE_NUMBERS {
                pages.push(std::mem::take(&mut page));
            }
            page.add(lists.row(row));
        }
    }
    if page.rows > 0 {
        pages.push(page);
    }
    let rows = pages.iter().map(|page| page.rows).sum();
    let extremes: Vec<Option<(PageValue, PageValue)>> =
        pages.iter().map(|page| extremes(&page.numbers)).collect();
    let pages = pages.iter().zip(&extremes).map(|(page, extremes)| EncodedPage {
        bytes: page.bytes(),
        rows: page.rows,
        levels: page.levels,
        null_count: page.levels - page.numbers.len(),
        extremes: extremes.as_ref().map(|(least, most)| (least, most)),
    });
    write(column, (form, rows), None, pages).map(Some)
}

/// Lists without null numbers.
struct NumberLists<'a> {
    array: &'a ListArray,
    numbers: &'a UInt32Array,
}

impl<'a> NumberLists<'a> {
    fn from_array(array: &'a ArrayRef) -> Option<Self> {
        let array = array.as_list_opt::<i32>()?;
        let numbers = array.values().as_primitive_opt::<UInt32Type>()?;
        (numbers.null_count() == 0).then_some(Self { array, numbers })
    }

    /// The numbers of a row. `None` where it is null.
    #[inline]
    fn row(&self, row: usize) -> Option<&'a [u32]> {
        if self.array.is_null(row) {
            return None;
        }
        let end = |at: usize| self.array.value_offsets().get(at).and_then(|end| usize::try_from(*end).ok());
        let (from, to) = end(row).zip(end(row + 1))?;
        self.numbers.values().get(from..to)
    }
}

#[derive(Default)]
struct ListPage {
    rows: usize,
    levels: usize,
    /// Rows that follow each other with as many numbers each. `None` where they are null.
    runs: Vec<(Option<usize>, usize)>,
    numbers: Vec<u32>,
}

impl ListPage {
    #[inline]
    fn add(&mut self, row: Option<&[u32]>) {
        let count = row.map(<[u32]>::len);
        match self.runs.last_mut() {
            Some((last, rows)) if *last == count => *rows += 1,
            _ => self.runs.push((count, 1)),
        }
        self.rows += 1;
        // A list without numbers has levels, too.
        self.levels += count.unwrap_or(0).max(1);
        self.numbers.extend_from_slice(row.unwrap_or_default());
    }

    fn bytes(&self) -> Vec<u8> {
        let (mut repeated, mut defined) =
            (HybridEncoder::new(width(1)), HybridEncoder::new(width(DEFINED.unsigned_abs().into())));
        for &(count, rows) in &self.runs {
            match count {
                None | Some(0) => {
                    repeated.put(0, rows);
                    defined.put(u32::from(count.is_some()), rows);
                }
                Some(count) => {
                    for _ in 0..rows {
                        repeated.put(0, 1);
                        repeated.put(1, count - 1);
                    }
                    defined.put(DEFINED.unsigned_abs().into(), rows * count);
                }
            }
        }
        let mut bytes = Vec::with_capacity(self.numbers.len() * size_of::<u32>() + self.levels / 4 + 64);
        for levels in [repeated.finish(), defined.finish()] {
            bytes.extend(u32::try_from(levels.len()).unwrap_or(u32::MAX).to_le_bytes());
            bytes.extend(levels);
        }
        for at in 0..size_of::<u32>() {
            bytes.extend(self.numbers.iter().map(|number| number.to_le_bytes()[at]));
        }
        bytes
    }
}

fn extremes(numbers: &[u32]) -> Option<(PageValue, PageValue)> {
    let (least, most) = (numbers.iter().min()?, numbers.iter().max()?);
    Some((PageValue::Unsigned((*least).into()), PageValue::Unsigned((*most).into())))
}
