//! Lines of instructions: Python's table of locations, as it is from 3.11 on, and of lines, as 3.10 has it.

/// The line of an instruction, by its byte offset. `None` where it has none.
pub(super) fn line_at(table: &[u8], first_line: u32, offset: usize) -> Option<u32> {
    let mut bytes = LocationBytes(table);
    let (mut line, mut end) = (i64::from(first_line), 0);
    while let Some(head) = bytes.next() {
        end += (usize::from(head & 7) + 1) * 2;
        let kind = head >> 3 & 15;
        match kind {
            0..=9 => bytes.skip(1),
            10..=12 => {
                line += i64::from(kind - 10);
                bytes.skip(2);
            }
            13 => line += bytes.signed(),
            14 => {
                line += bytes.signed();
                bytes.numbers(3);
            }
            _ => {}
        }
        if offset < end {
            return u32::try_from(line).ok().filter(|_| kind != 15);
        }
    }
    None
}

/// The line of an instruction in Python 3.10: pairs of bytes, the length of a range and how far its line is from the last one.
pub(super) fn line_in_pairs(table: &[u8], first_line: u32, offset: usize) -> Option<u32> {
    /// The distance of a range without a line.
    const NO_LINE: i8 = i8::MIN;
    let (mut line, mut end) = (i64::from(first_line), 0);
    let (pairs, _) = table.as_chunks::<2>();
    for &[length, distance] in pairs {
        let distance = distance.cast_signed();
        let has_line = distance != NO_LINE;
        if has_line {
            line += i64::from(distance);
        }
        end += usize::from(length);
        if offset < end {
            return u32::try_from(line).ok().filter(|_| has_line);
        }
    }
    None
}

struct LocationBytes<'a>(&'a [u8]);

impl LocationBytes<'_> {
    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn skip(&mut self, count: usize) {
        self.0 = self.0.get(count..).unwrap_or_default();
    }

    fn numbers(&mut self, count: usize) {
        for _ in 0..count {
            self.unsigned();
        }
    }

    /// Six bits in each byte, the lowest first.
    fn unsigned(&mut self) -> u64 {
        let (mut value, mut shift) = (0, 0);
        while let Some(byte) = self.next() {
            value |= u64::from(byte & 63) << shift;
            shift += 6;
            if byte & 64 == 0 || shift > 54 {
                break;
            }
        }
        value
    }

    /// The sign is the lowest bit.
    fn signed(&mut self) -> i64 {
        let value = self.unsigned();
        let size = (value >> 1).cast_signed();
        if value & 1 == 0 { size } else { -size }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_move_the_line() {
        // Line 10 for six bytes in two ranges, line 12, nothing, line 12, line 11.
        let table = [4, 0, 2, 0, 2, 2, 4, 0x80, 2, 0, 2, 0xff];
        let lines = [0, 4, 6, 8, 10, 12, 14, 16].map(|offset| line_in_pairs(&table, 10, offset));
        assert_eq!(lines, [Some(10), Some(10), Some(12), None, None, Some(12), Some(11), None]);
        assert_eq!(line_in_pairs(&[0xff], 10, 0), None);
    }

    #[test]
    fn each_kind_of_entry_moves_the_line() {
        // Line 10; two units on it. One on line 12, in long form. One on the line before. One without a line.
        let table = [
            0x80 | 1,
            0,
            0x80 | 14 << 3,
            4,
            0,
            0,
            0,
            0x80 | 13 << 3,
            3,
            0x80 | 15 << 3,
            0x80 | 11 << 3,
            0,
            0,
        ];
        let lines = [0, 2, 4, 6, 8, 10, 12].map(|offset| line_at(&table, 10, offset));
        assert_eq!(lines, [Some(10), Some(10), Some(12), Some(11), None, Some(12), None]);
        assert_eq!(line_at(&table[..3], 10, 4), Some(10));
        assert_eq!(line_at(&[0xff; 40], 10, 1 << 20), None);
    }
}
