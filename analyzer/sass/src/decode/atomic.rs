//! Types of atomics.

use crate::word::Word;

/// Registers of an operand.
pub(super) fn registers(word: Word) -> u16 {
    if is_wide(word) { 2 } else { 1 }
}

/// Bytes of an operand.
pub(super) fn bytes(word: Word) -> u32 {
    u32::from(registers(word)) * 4
}

/// u32, s32, u64, f32, f16x2, s64, f64.
fn is_wide(word: Word) -> bool {
    matches!(word.bits(73, 3), 2 | 5 | 6)
}

/// Registers of the floats of one lane.
pub(super) fn float_registers(word: Word) -> u16 {
    // Formats of eight bits take the same numbers from one on, with bit 87.
    match (word.bits(73, 4), word.bit(87)) {
        (1 | 4, true) => 1,
        (2 | 5, true) | (1 | 4 | 13 | 15, false) => 2,
        (3 | 6, true) | (2 | 5 | 14, false) => 4,
        _ => 1,
    }
}

/// Bytes of the floats of one lane.
pub(super) fn float_bytes(word: Word) -> u32 {
    u32::from(float_registers(word)) * 4
}
