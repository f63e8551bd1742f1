//! Snappy's raw format: literals, and copies of what is already decoded.

use crate::wire::read_number;

/// The decoded bytes. `None` where they are not `length`, or where a copy begins before the first.
pub fn decode(compressed: &[u8], length: usize) -> Option<Vec<u8>> {
    let (stated, mut rest) = read_number(compressed)?;
    if usize::try_from(stated).ok()? != length {
        return None;
    }
    let mut decoded = Vec::new();
    while let Some((&tag, behind)) = rest.split_first() {
        let wide = usize::from(tag >> 2);
        let (count, offset, behind) = match tag & 3 {
            0 => {
                let (count, behind) = literal_length(wide, behind)?;
                let (literal, behind) = behind.split_at_checked(count)?;
                decoded.extend_from_slice(literal);
                (0, 0, behind)
            }
            1 => {
                let (&low, behind) = behind.split_first()?;
                ((wide & 7) + 4, usize::from(tag >> 5) << 8 | usize::from(low), behind)
            }
            2 => {
                let (offset, behind) = little_endian(behind, 2)?;
                (wide + 1, offset, behind)
            }
            _ => {
                let (offset, behind) = little_endian(behind, 4)?;
                (wide + 1, offset, behind)
            }
        };
        copy(&mut decoded, count, offset)?;
        if decoded.len() > length {
            return None;
        }
        rest = behind;
    }
    (decoded.len() == length).then_some(decoded)
}

fn literal_length(wide: usize, rest: &[u8]) -> Option<(usize, &[u8])> {
    match wide.checked_sub(59) {
        None | Some(0) => Some((wide + 1, rest)),
        Some(bytes) => {
            let (count, rest) = little_endian(rest, bytes)?;
            Some((count.checked_add(1)?, rest))
        }
    }
}

fn little_endian(bytes: &[u8], count: usize) -> Option<(usize, &[u8])> {
    let (number, rest) = bytes.split_at_checked(count)?;
    Some((number.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte)), rest))
}

/// Appends bytes from `offset` bytes before the end: more than there are where they repeat.
fn copy(decoded: &mut Vec<u8>, count: usize, offset: usize) -> Option<()> {
    if count == 0 {
        return Some(());
    }
    let start = decoded.len().checked_sub(offset).filter(|start| *start < decoded.len())?;
    for at in start..start + count {
        let byte = *decoded.get(at)?;
        decoded.push(byte);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_repeat_what_they_write() {
        // "ab", then 6 bytes from 2 before.
        assert_eq!(decode(&[8, 4, b'a', b'b', 0x09, 2], 8), Some(b"abababab".to_vec()));
        assert_eq!(decode(&[8, 4, b'a', b'b', 0x16, 2, 0], 8), Some(b"abababab".to_vec()));
    }

    #[test]
    fn damaged_bytes_are_none() {
        for damaged in
            [&[8, 4, b'a', b'b', 0x09, 3][..], &[8, 4, b'a'], &[9, 4, b'a', b'b'], &[8, 0x09, 0], &[]]
        {
            assert_eq!(decode(damaged, 8), None, "{damaged:?}");
        }
    }
}
