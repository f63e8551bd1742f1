//! Columns of integers as text for the page's script: differences as bytes of seven bits, compressed, in base64.
//!
//! ```text
//! columns ──> bytes of each column ──> length and bytes, column by column ──> raw deflate ──> base64
//! ```

use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use stallmap_console::exit::{CommandFailure, IO, Outcome};

/// Integers of one column.
#[derive(Clone, Debug, Default)]
pub(super) struct PackedColumn {
    bytes: Vec<u8>,
    last: i64,
}

impl PackedColumn {
    /// Adds a number that is not negative.
    pub(super) fn count(&mut self, mut value: u64) {
        loop {
            let [low, ..] = value.to_le_bytes();
            value >>= 7;
            if value == 0 {
                // A byte below 128 is the last one.
                self.bytes.push(low & 127);
                return;
            }
            self.bytes.push(low | 128);
        }
    }

    /// Adds the difference from a number: 0, -1, 1, -2 and so on are 0, 1, 2, 3.
    pub(super) fn difference(&mut self, value: i64, from: i64) {
        let difference = value.wrapping_sub(from);
        self.count(((difference << 1) ^ (difference >> 63)).cast_unsigned());
    }

    /// Adds the difference from the number before.
    pub(super) fn next(&mut self, value: i64) {
        self.difference(value, self.last);
        self.last = value;
    }
}

/// The text of some columns.
pub(super) fn packed(columns: &[PackedColumn]) -> Outcome<String> {
    let failed =
        |error: std::io::Error| CommandFailure::message(IO, format!("the timeline is not packed: {error}"));
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    for column in columns {
        let mut length = PackedColumn::default();
        length.count(column.bytes.len() as u64);
        encoder.write_all(&length.bytes).map_err(failed)?;
        encoder.write_all(&column.bytes).map_err(failed)?;
    }
    Ok(STANDARD.encode(encoder.finish().map_err(failed)?))
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    /// The script's side: the numbers of each column.
    fn unpacked(text: &str) -> Vec<Vec<u64>> {
        let mut bytes = Vec::new();
        flate2::read::DeflateDecoder::new(&*STANDARD.decode(text).unwrap()).read_to_end(&mut bytes).unwrap();
        let mut rest = &bytes[..];
        let number = |rest: &mut &[u8]| {
            let (mut value, mut shift) = (0_u64, 0);
            loop {
                let byte = rest[0];
                *rest = &rest[1..];
                value |= u64::from(byte & 127) << shift;
                shift += 7;
                if byte < 128 {
                    return value;
                }
            }
        };
        let mut columns = Vec::new();
        while !rest.is_empty() {
            let length = usize::try_from(number(&mut rest)).unwrap();
            let (mut column, after) = rest.split_at(length);
            rest = after;
            let mut values = Vec::new();
            while !column.is_empty() {
                values.push(number(&mut column));
            }
            columns.push(values);
        }
        columns
    }

    proptest! {
        #[test]
        fn numbers_come_back(counts in prop::collection::vec(any::<u64>(), 0..20), times in prop::collection::vec(any::<i64>(), 0..20)) {
            let mut columns = [PackedColumn::default(), PackedColumn::default()];
            for count in &counts {
                columns[0].count(*count);
            }
            for time in &times {
                columns[1].next(*time);
            }
            let mut found = unpacked(&packed(&columns).unwrap());
            let mut last = 0_i64;
            let read: Vec<i64> = found.pop().unwrap().into_iter().map(|value| {
                last = last.wrapping_add((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
                last
            }).collect();
            prop_assert_eq!(read, times);
            prop_assert_eq!(found.pop().unwrap(), counts);
        }
    }
}
