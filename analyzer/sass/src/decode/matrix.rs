//! Registers of matrix multiplications: a warp's share of each matrix, by the shape.

use crate::word::Word;

/// 16x8xK with 16-bit or TF32 elements: a warp holds the matrices in 32 lanes of 4 bytes.
struct HalfShape {
    depth: u16,
    element_bytes: u16,
    sparse: bool,
}

fn half_shape(word: Word) -> HalfShape {
    let sparse = word.bit(SPARSE);
    let depth = match (word.bit(75), word.bit(78), sparse) {
        (true, true, true) => 32,
        (true, ..) => 16,
        (false, true, false) => 4,
        (false, ..) => 8,
    };
    let element_bytes = if word.bits(82, 2) == 2 { 4 } else { 2 };
    HalfShape { depth, element_bytes, sparse }
}

/// A sparse first matrix: half of its elements, and which half.
pub(super) const SPARSE: u32 = 73;

/// HMMA's first matrix, 16 rows.
pub(super) fn half_first(word: Word) -> u16 {
    let shape = half_shape(word);
    let registers = 16 * shape.depth * shape.element_bytes / 128;
    (if shape.sparse { registers / 2 } else { registers }).max(1)
}

/// HMMA's second matrix, 8 columns.
pub(super) fn half_second(word: Word) -> u16 {
    let shape = half_shape(word);
    (8 * shape.depth * shape.element_bytes / 128).max(1)
}

/// HMMA's result: 16x8 of 32 or 16 bits.
pub(super) fn half_result(word: Word) -> u16 {
    if word.bit(76) { 4 } else { 2 }
}

/// HGMMA's result: 64xN over four warps, of 32 or 16 bits.
pub(super) fn group_result(word: Word) -> u16 {
    let columns = (u16::from(word.byte(53) & 0x1f) + 1) * 8;
    if word.bit(75) { columns / 2 } else { columns / 4 }
}
