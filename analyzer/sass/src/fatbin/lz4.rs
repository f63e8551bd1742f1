//! Blocks of LZ4, decompressed: literals, and matches in what was already written.

/// The shortest match.
const LEAST_MATCH: usize = 4;
/// The length value that announces more length bytes.
const LONG: usize = 15;

/// Decompresses a block to exactly `bytes` bytes.
pub(super) fn decompress(mut block: &[u8], bytes: usize) -> Result<Vec<u8>, &'static str> {
    let mut out = Vec::with_capacity(bytes);
    while let Some((token, rest)) = block.split_first() {
        block = rest;
        let literals = length(usize::from(token >> 4), &mut block)?;
        let (literals, rest) = block.split_at_checked(literals).ok_or("literals are cut off")?;
        block = rest;
        ensure_room(out.len(), literals.len(), bytes)?;
        out.extend_from_slice(literals);
        // The last sequence has literals only.
        if block.is_empty() {
            return Ok(out);
        }
        let (distance, rest) = block.split_first_chunk().ok_or("the distance of a match is cut off")?;
        block = rest;
        let length = length(usize::from(token & 0xf), &mut block)? + LEAST_MATCH;
        ensure_room(out.len(), length, bytes)?;
        copy_match(&mut out, usize::from(u16::from_le_bytes(*distance)), length)?;
    }
    Ok(out)
}

/// A length with four known bits.
fn length(bits: usize, block: &mut &[u8]) -> Result<usize, &'static str> {
    let mut length = bits;
    if bits < LONG {
        return Ok(length);
    }
    loop {
        let (more, rest) = block.split_first().ok_or("a length is cut off")?;
        *block = rest;
        length += usize::from(*more);
        if *more != u8::MAX {
            return Ok(length);
        }
    }
}

fn ensure_room(written: usize, more: usize, bytes: usize) -> Result<(), &'static str> {
    if more > bytes - written { Err("it becomes longer than it claims") } else { Ok(()) }
}

/// Repeats bytes at a distance before the end. The source may overlap with the output.
fn copy_match(out: &mut Vec<u8>, distance: usize, length: usize) -> Result<(), &'static str> {
    let start =
        out.len().checked_sub(distance).filter(|_| distance > 0).ok_or("a match lies before the begin")?;
    let end = out.len() + length;
    while out.len() < end {
        let chunk = (out.len() - start).min(end - out.len());
        out.extend_from_within(start..start + chunk);
    }
    Ok(())
}
