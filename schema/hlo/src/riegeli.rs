//! Records of a Riegeli file, as XLA writes messages that may be larger than a protocol buffer can be.
//!
//! A file has blocks of 64 KiB, each with a header of its own in the way. Without these headers it is a row of
//! chunks: a header, then sizes and values of records, each compressed with Snappy or not at all.

use snap::raw::{Decoder, decompress_len};

use crate::wire::read_number;

/// The first bytes of every file.
pub const SIGNATURE: [u8; 8] = [0x83, 0xaf, 0x70, 0xd1, 0x0d, 0x88, 0x4a, 0x3f];
/// Maximum bytes of all records of a file.
pub const MAX_DECODED_BYTES: usize = 256 << 20;

const BLOCK_BYTES: usize = 64 << 10;
const BLOCK_HEADER_BYTES: usize = 24;
const CHUNK_HEADER_BYTES: usize = 40;

/// The records of a file. `None` where it is damaged, or compressed in another way.
pub fn records(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    let file: Vec<u8> = file
        .chunks(BLOCK_BYTES)
        .flat_map(|block| block.get(BLOCK_HEADER_BYTES..).unwrap_or(&[]))
        .copied()
        .collect();
    let (mut rest, mut records, mut budget) = (file.as_slice(), Vec::new(), MAX_DECODED_BYTES);
    while !rest.is_empty() {
        let (header, behind) = rest.split_at_checked(CHUNK_HEADER_BYTES)?;
        let number = |range: std::ops::Range<usize>| {
            let bytes = header.get(range)?.iter().rev();
            usize::try_from(bytes.fold(0_u64, |number, byte| number << 8 | u64::from(*byte))).ok()
        };
        let (chunk, behind) = behind.split_at_checked(number(8..16)?)?;
        match header.get(24)? {
            b's' | b'm' | b'p' => {}
            b'r' => add_records(chunk, number(25..32)?, &mut budget, &mut records)?,
            _ => return None,
        }
        rest = behind;
    }
    Some(records)
}

fn add_records(chunk: &[u8], count: usize, budget: &mut usize, records: &mut Vec<Vec<u8>>) -> Option<()> {
    let (compression, rest) = chunk.split_first()?;
    let (length, rest) = read_number(rest)?;
    let (sizes, values) = rest.split_at_checked(usize::try_from(length).ok()?)?;
    let sizes = decompress(*compression, sizes, budget)?;
    let values = decompress(*compression, values, budget)?;
    let (mut sizes, mut values) = (sizes.as_slice(), values.as_slice());
    for _ in 0..count {
        let (size, more) = read_number(sizes)?;
        let (record, behind) = values.split_at_checked(usize::try_from(size).ok()?)?;
        records.push(record.to_vec());
        (sizes, values) = (more, behind);
    }
    Some(())
}

fn decompress(compression: u8, bytes: &[u8], budget: &mut usize) -> Option<Vec<u8>> {
    let decoded = match compression {
        0 => bytes.to_vec(),
        b's' => {
            // The number of bytes comes twice: before what is compressed, and in it.
            let (length, compressed) = read_number(bytes)?;
            let length = usize::try_from(length).ok().filter(|length| length <= budget)?;
            decompress_len(compressed).ok().filter(|stated| *stated == length)?;
            Decoder::new().decompress_vec(compressed).ok()?
        }
        _ => return None,
    };
    *budget = budget.checked_sub(decoded.len())?;
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(kind: u8, count: u8, data: &[u8]) -> Vec<u8> {
        let mut chunk = vec![0; CHUNK_HEADER_BYTES];
        chunk[8..16].copy_from_slice(&(data.len() as u64).to_le_bytes());
        (chunk[24], chunk[25]) = (kind, count);
        chunk.extend(data);
        chunk
    }

    fn blocks(content: &[u8]) -> Vec<u8> {
        let pieces = content.chunks(BLOCK_BYTES - BLOCK_HEADER_BYTES);
        pieces.flat_map(|piece| [&[0; BLOCK_HEADER_BYTES], piece].concat()).collect()
    }

    #[test]
    fn records_cross_blocks() {
        let long = vec![7; 100_000];
        let mut data = vec![0, 4, 2, 0xa0, 0x8d, 6, b'a', b'b'];
        data.extend(&long);
        let file = blocks(&[chunk(b's', 0, &[]), chunk(b'r', 2, &data)].concat());
        assert_eq!(records(&file), Some(vec![b"ab".to_vec(), long]));
        assert_eq!(records(&file[..file.len() - 1]), None);
    }

    #[test]
    fn snappy_is_known_and_others_are_not() {
        let file =
            |compression| blocks(&chunk(b'r', 1, &[compression, 4, 1, 1, 0, 3, 3, 3, 8, b'a', b'b', b'c']));
        assert_eq!(records(&file(b's')), Some(vec![b"abc".to_vec()]));
        assert_eq!(records(&file(b'z')), None);
        // A length that is not that of the chunk, a literal that ends early, a copy from before the first byte.
        for values in [&[4, 3, 8, b'a', b'b', b'c'][..], &[3, 3, 8, b'a', b'b'], &[3, 3, 0x09, 1]] {
            let data = [&[b's', 4, 1, 1, 0, 3][..], values].concat();
            assert_eq!(records(&blocks(&chunk(b'r', 1, &data))), None, "{values:?}");
        }
    }
}
