//! Registers of matrix multiplications: a warp's share of each matrix, by the shape.

use crate::register::{Register, RegisterFile, Registers};
use crate::word::InstructionWord;

/// A product of 16 (or 8) rows, 8 columns and a depth, of elements of some bits. A warp holds each matrix in the
/// registers of its 32 lanes.
struct MatrixShape {
    rows: u16,
    depth: u16,
    element_bits: u16,
    /// Half of the first matrix's elements are stored, and elsewhere which half.
    sparse: bool,
}

/// Bits that a register holds over a warp.
const REGISTER_BITS: u16 = 32 * 32;

impl MatrixShape {
    fn first(&self) -> u16 {
        let stored = self.depth / if self.sparse { 2 } else { 1 };
        (self.rows * stored * self.element_bits / REGISTER_BITS).max(1)
    }

    fn second(&self) -> u16 {
        (8 * self.depth * self.element_bits / REGISTER_BITS).max(1)
    }
}

/// HMMA: 16-bit or TF32 elements.
fn half_shape(word: InstructionWord) -> MatrixShape {
    let sparse = word.bit(SPARSE_HALF);
    let depth = match (word.bit(75), word.bit(78), sparse) {
        (true, true, true) => 32,
        (true, ..) => 16,
        (false, true, false) => 4,
        (false, ..) => 8,
    };
    let element_bits = if word.bits(82, 2) == 2 { 32 } else { 16 };
    MatrixShape { rows: 16, depth, element_bits, sparse }
}

/// The bit that says `.SP`.
pub(super) const SPARSE_HALF: u32 = 73;

pub(super) fn half_first(word: InstructionWord) -> u16 {
    half_shape(word).first()
}

pub(super) fn half_second(word: InstructionWord) -> u16 {
    half_shape(word).second()
}

/// 16x8 results of 32 or 16 bits.
pub(super) fn half_result(word: InstructionWord) -> u16 {
    if word.bit(76) { 4 } else { 2 }
}

/// IMMA: elements of 8 or 4 bits.
fn integer_shape(word: InstructionWord) -> MatrixShape {
    let depth = 16 << (u16::from(word.bit(75)) + 2 * u16::from(word.bit(85)));
    let element_bits = if word.bits(83, 2) == 0 { 8 } else { 4 };
    MatrixShape {
        rows: if word.bit(86) { 16 } else { 8 },
        depth,
        element_bits,
        sparse: word.bit(SPARSE_INTEGER),
    }
}

/// The bit that says `.SP`.
pub(super) const SPARSE_INTEGER: u32 = 72;

pub(super) fn integer_first(word: InstructionWord) -> u16 {
    let shape = integer_shape(word);
    if shape.rows == 8 { 1 } else { shape.first() }
}

pub(super) fn integer_second(word: InstructionWord) -> u16 {
    let shape = integer_shape(word);
    if shape.rows == 8 { 1 } else { shape.second() }
}

pub(super) fn integer_result(word: InstructionWord) -> u16 {
    if word.bit(86) { 4 } else { 2 }
}

/// BMMA: 8x8x128, 16x8x128 or 16x8x256 bits.
pub(super) fn bit_first(word: InstructionWord) -> u16 {
    if word.bit(76) { 4 } else { bit_result(word) / 2 }
}

pub(super) fn bit_second(word: InstructionWord) -> u16 {
    if word.bit(76) { 2 } else { 1 }
}

pub(super) fn bit_result(word: InstructionWord) -> u16 {
    if word.bits(75, 2) == 0 { 2 } else { 4 }
}

/// DMMA: 8x8x4, 16x8x4, 16x8x8 or 16x8x16.
pub(super) fn double_first(word: InstructionWord) -> u16 {
    [2, 4, 8, 16].get(usize::from(word.byte(76) & 3)).copied().unwrap_or(2)
}

pub(super) fn double_second(word: InstructionWord) -> u16 {
    [2, 2, 4, 8].get(usize::from(word.byte(76) & 3)).copied().unwrap_or(2)
}

pub(super) fn double_result(word: InstructionWord) -> u16 {
    if word.bits(76, 2) == 0 { 4 } else { 8 }
}

/// QMMA: elements of 8 bits or fewer, 16x8x16 or 16x8x32, sparse 16x8x64.
pub(super) fn quarter_first(word: InstructionWord) -> u16 {
    if is_deep(word) { 4 } else { 2 }
}

pub(super) fn quarter_second(word: InstructionWord) -> u16 {
    match (word.bit(SPARSE_QUARTER), is_deep(word)) {
        (true, _) => 4,
        (false, true) => 2,
        (false, false) => 1,
    }
}

pub(super) fn quarter_result(word: InstructionWord) -> u16 {
    if word.bit(77) { 4 } else { 2 }
}

/// The bit that says `.SP`.
pub(super) const SPARSE_QUARTER: u32 = 80;

fn is_deep(word: InstructionWord) -> bool {
    word.bit(75) || word.bit(SPARSE_QUARTER)
}

/// With scales there is one depth only.
pub(super) fn scaled_second(word: InstructionWord) -> u16 {
    if word.bit(SPARSE_QUARTER) { 4 } else { 2 }
}

/// Selectors of scales, in a uniform register whose number is stored in two parts.
pub(super) fn scale_selector(word: InstructionWord, _writes: &mut Registers, reads: &mut Registers) {
    let index = (word.byte(60) & 7) | (word.byte(73) & 0x1f) << 3;
    if index != u8::MAX {
        reads.insert(Register { file: RegisterFile::Uniform, index });
    }
}

/// HGMMA and QGMMA: 64xN over four warps, of 32 or 16 bits.
pub(super) fn group_result(word: InstructionWord) -> u16 {
    let columns = (u16::from(word.byte(53) & 0x1f) + 1) * 8;
    if word.bit(75) { columns / 2 } else { columns / 4 }
}

/// IGMMA: 64xN of 32 bits.
pub(super) fn integer_group_result(word: InstructionWord) -> u16 {
    columns_of_step(word.bits(53, 6) / 3) / 2
}

/// BGMMA: 64xN of 32 bits.
pub(super) fn bit_group_result(word: InstructionWord) -> u16 {
    columns_of_step(word.bits(53, 6)) / 2
}

/// 8, 16, 24, 32, then every sixteen.
fn columns_of_step(step: u64) -> u16 {
    let step = u16::try_from(step).unwrap_or_default();
    if step < 4 { (step + 1) * 8 } else { (step - 1) * 16 }
}
