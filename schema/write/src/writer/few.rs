//! Columns of 16-bit numbers in short runs: a dictionary and positions in it.
//!
//! Warps of accesses are these. The general encoder hashes each value.

use arrow::array::ArrayRef;
use arrow::datatypes::UInt16Type;
use parquet::basic::Encoding;
use parquet::errors::ParquetError;
use parquet::schema::types::ColumnDescPtr;

use super::hybrid::{HybridEncoder, width};
use super::pages::{EncodedChunk, EncodedPage, PageForm, PageValue, flat_values, write};
use crate::encoding::PAGE_ROWS;

const UNKNOWN: u32 = u32::MAX;

/// Encodes a column, given by batches. `None` where it has another encoding, nulls, or values of another type.
pub(super) fn encode(
    column: &ColumnDescPtr,
    form: PageForm,
    batches: &[&ArrayRef],
) -> Result<Option<EncodedChunk>, ParquetError> {
    if !form.has_dictionary {
        return Ok(None);
    }
    let arrays = flat_values::<UInt16Type>(column, batches);
    let Some(values) = arrays.map(|arrays| arrays.concat()).filter(|values| !values.is_empty()) else {
        return Ok(None);
    };
    let mut known = vec![UNKNOWN; 1 << u16::BITS];
    let mut dictionary = Vec::new();
    for value in &values {
        let known = &mut known[usize::from(*value)];
        if *known == UNKNOWN {
            *known = u32::try_from(dictionary.len()).unwrap_or(UNKNOWN);
            dictionary.push(*value);
        }
    }
    let width = width(dictionary.len() - 1);
    let extremes: Vec<(PageValue, PageValue)> = values.chunks(PAGE_ROWS).map(extremes).collect();
    let pages = values.chunks(PAGE_ROWS).zip(&extremes).map(|(values, (least, most))| {
        let mut positions = HybridEncoder::new(width);
        for same in values.chunk_by(|a, b| a == b) {
            positions.put(same.first().map_or(0, |value| known[usize::from(*value)]), same.len());
        }
        let mut bytes = vec![u8::try_from(width).unwrap_or(u8::MAX)];
        bytes.append(&mut positions.finish());
        EncodedPage::flat(bytes, values.len(), Some((least, most)))
    });
    let count = u32::try_from(dictionary.len()).unwrap_or(UNKNOWN);
    let plain = dictionary.iter().flat_map(|value| u32::from(*value).to_le_bytes()).collect();
    let form = PageForm { encoding: Encoding::RLE_DICTIONARY, ..form };
    write(column, (form, values.len()), Some((plain, count)), pages).map(Some)
}

fn extremes(values: &[u16]) -> (PageValue, PageValue) {
    let least = values.iter().min().copied().unwrap_or(0);
    let most = values.iter().max().copied().unwrap_or(0);
    (PageValue::Unsigned(least.into()), PageValue::Unsigned(most.into()))
}
