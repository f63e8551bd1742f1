//! Columns of numbers that differ little from row to row: `DELTA_BINARY_PACKED`.
//!
//! Block, sequence and address of accesses are these. The general encoder converts, compares and packs each value by
//! itself, and takes three times as long.

use arrow::array::ArrayRef;
use arrow::datatypes::UInt64Type;
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::pages::{EncodedChunk, EncodedPage, PageForm, PageValue, flat_values, write};
use crate::encoding::PAGE_ROWS;

/// Values of a block, and of each of its parts, which has a width of its own.
const BLOCK: usize = 256;
const PART: usize = 64;
const PARTS: usize = BLOCK / PART;

/// Encodes a column, given by batches. `None` where it has another encoding, nulls, or values of another type.
pub(super) fn encode(
    column: &ColumnDescPtr,
    form: PageForm,
    batches: &[&ArrayRef],
) -> Result<Option<EncodedChunk>, ParquetError> {
    if form.encoding != Encoding::DELTA_BINARY_PACKED {
        return Ok(None);
    }
    let arrays = flat_values::<UInt64Type>(column, batches);
    let Some(arrays) = arrays.filter(|arrays| arrays.iter().any(|values| !values.is_empty())) else {
        return Ok(None);
    };
    let rows = arrays.iter().map(|values| values.len()).sum();
    let joined;
    let values = if let [values] = arrays[..] {
        values
    } else {
        joined = arrays.concat();
        &joined
    };
    let extremes: Vec<(PageValue, PageValue)> = values.chunks(PAGE_ROWS).map(extremes).collect();
    let pages = values
        .chunks(PAGE_ROWS)
        .zip(&extremes)
        .map(|(values, (least, most))| EncodedPage::flat(page(values), values.len(), Some((least, most))));
    write(column, (form, rows), None, pages).map(Some)
}

fn extremes(values: &[u64]) -> (PageValue, PageValue) {
    let (least, most) =
        values.iter().fold((u64::MAX, 0), |(least, most), &value| (least.min(value), most.max(value)));
    (PageValue::Unsigned(least), PageValue::Unsigned(most))
}

fn page(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(values.len() * 2);
    let first = values.first().copied().unwrap_or(0);
    for number in [BLOCK as u64, PARTS as u64, values.len() as u64] {
        put(&mut bytes, number);
    }
    put_signed(&mut bytes, first.cast_signed());
    let mut deltas = [0_i64; BLOCK];
    let mut before = first;
    for block in values.get(1..).unwrap_or_default().chunks(BLOCK) {
        for (delta, value) in deltas.iter_mut().zip(block) {
            *delta = value.wrapping_sub(before).cast_signed();
            before = *value;
        }
        put_block(&mut bytes, &deltas[..block.len()]);
    }
    bytes
}

fn put_block(bytes: &mut Vec<u8>, deltas: &[i64]) {
    let least = deltas.iter().copied().min().unwrap_or(0);
    put_signed(bytes, least);
    let widths = bytes.len();
    bytes.extend([0; PARTS]);
    for (part, deltas) in deltas.chunks(PART).enumerate() {
        let mut above = [0; PART];
        let mut all = 0;
        for (above, delta) in above.iter_mut().zip(deltas) {
            *above = delta.wrapping_sub(least).cast_unsigned();
            all |= *above;
        }
        let width = u64::BITS - all.leading_zeros();
        bytes[widths + part] = u8::try_from(width).unwrap_or(u8::MAX);
        pack(bytes, &above, width);
    }
}

/// Appends 64 numbers of so many bits, the lowest bits first: as many words as a number has bits.
fn pack(bytes: &mut Vec<u8>, numbers: &[u64; PART], width: u32) {
    let (mut word, mut used) = (0, 0);
    for number in numbers {
        word |= number << used;
        used += width;
        if used >= u64::BITS {
            bytes.extend(word.to_le_bytes());
            used -= u64::BITS;
            // The bits that did not fit: none where the number ends with the word.
            word = number.checked_shr(width - used).unwrap_or(0);
        }
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).unwrap_or(0) | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).unwrap_or(0));
}

fn put_signed(bytes: &mut Vec<u8>, number: i64) {
    put(bytes, (number << 1 ^ number >> 63).cast_unsigned());
}
