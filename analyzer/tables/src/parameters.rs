//! Addresses among the parameters of launches: they locate the memory of one launch in another of its kind.

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::UInt64Type;
use datafusion::common::HashMap;
use datafusion::error::Result;

use crate::column::{column, wrong};

/// The columns of `launch_parameter` that are needed, in the order of the table.
pub const COLUMNS: [&str; 2] = ["kernel_id", "bytes"];

/// Bytes of a word: one address.
pub const WORD_BYTES: usize = size_of::<u64>();

/// The parameters of launches, as words at multiples of 8 bytes.
#[derive(Debug, Default)]
pub struct LaunchParameters(HashMap<u64, Vec<u64>>);

/// The words of parameters of launches that are wanted, in the order of the table. Zeros alone are parameters that `redact`
/// removed: they are not known.
pub fn words(batch: &RecordBatch, is_wanted: impl Fn(u64) -> bool) -> Result<Vec<(u64, Vec<u64>)>> {
    let kernels = column::<UInt64Type>(batch, "kernel_id")?;
    let bytes = batch.column_by_name("bytes").and_then(|array| array.as_binary_opt::<i32>());
    let bytes = bytes.ok_or_else(|| wrong("bytes"))?;
    let rows = (0..batch.num_rows()).filter(|&row| is_wanted(kernels.value(row)));
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
    let words = |row| bytes.value(row).chunks_exact(WORD_BYTES).map(word).collect();
    let known = rows.filter(|&row| bytes.value(row).iter().any(|byte| *byte != 0));
    Ok(known.map(|row| (kernels.value(row), words(row))).collect())
}

impl LaunchParameters {
    /// Parameters of the launches that are wanted.
    pub fn read(batch: &RecordBatch, is_wanted: impl Fn(u64) -> bool) -> Result<Self> {
        Ok(Self(words(batch, is_wanted)?.into_iter().collect()))
    }

    /// The word of a launch that points from nearest below to an address within a block of memory, first and last byte.
    /// The nearest above if none does. The first of equal ones.
    pub fn nearest(&self, kernel_id: u64, (first, last): (u64, u64), address: u64) -> Option<u32> {
        let words = (0..).zip(self.0.get(&kernel_id)?.iter().copied());
        let within = words.filter(|(_, word)| (first..=last).contains(word));
        let nearest = within.min_by_key(|(_, word)| (*word > address, word.abs_diff(address)));
        nearest.map(|(index, _)| index)
    }

    /// The distance from an address of one launch to that of another: of the word that points to it, or none if no word
    /// does. Null if it is not known.
    ///
    /// Parameters have gaps, which hold what the stack held before: the same address by accident. Among equal words it is
    /// the first whose distance leads to memory.
    pub fn distance(
        &self,
        from: u64,
        to: u64,
        word: Option<u32>,
        mut leads_to_memory: impl FnMut(u64) -> bool,
    ) -> Option<u64> {
        let (from, to) = (self.0.get(&from)?, self.0.get(&to)?);
        let Some(word) = word else { return Some(0) };
        let index = usize::try_from(word).ok()?;
        let value = *from.get(index)?;
        let of_index = to.get(index)?.wrapping_sub(value);
        let equal = from.iter().zip(to).filter(|(from, _)| **from == value);
        let mut distances = equal.map(|(_, to)| to.wrapping_sub(value));
        distances.find(|distance| leads_to_memory(*distance)).or(Some(of_index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_below_an_address_leads_to_it() {
        let words = |words: &[u64]| words.to_vec();
        let known = [(1, words(&[7, 100, 140, 190])), (2, words(&[7, 500, 640, 90]))];
        let parameters = LaunchParameters(known.into_iter().collect());
        let nearest = |address| parameters.nearest(1, (100, 199), address);
        assert_eq!([100, 139, 140, 189, 199].map(nearest), [1, 1, 2, 2, 3].map(Some));
        assert_eq!(parameters.nearest(1, (101, 199), 120), Some(2));
        assert_eq!(parameters.nearest(1, (200, 299), 250), None);
        let distance = |to, word| parameters.distance(1, to, word, |_| true);
        assert_eq!(distance(2, Some(2)), Some(500));
        assert_eq!(distance(2, Some(3)), Some(90_u64.wrapping_sub(190)));
        assert_eq!(distance(2, None), Some(0));
        assert_eq!(distance(2, Some(9)), None);
        assert_eq!(distance(3, None), None);
    }

    #[test]
    fn a_stale_copy_of_an_address_is_not_followed() {
        let known = [(1, vec![100, 7, 100]), (2, vec![3, 7, 400])];
        let parameters = LaunchParameters(known.into_iter().collect());
        let distance = |memory: u64| parameters.distance(1, 2, Some(0), |distance| distance == memory);
        assert_eq!(distance(300), Some(300));
        assert_eq!(distance(9), Some(3_u64.wrapping_sub(100)), "none leads to memory");
    }
}
