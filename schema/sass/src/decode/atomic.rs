//! Types of atomics, with the number of registers of a value.

use crate::word::InstructionWord;

/// Up to sm_89, whose floats are among them: u32, s32, u64, f32, f16x2, s64, f64.
pub(super) fn early(word: InstructionWord) -> u16 {
    if matches!(word.bits(73, 3), 2 | 5 | 6) { 2 } else { 1 }
}

/// Since sm_90: u32, s32, u64, s64, 128 bits.
pub(super) fn late(word: InstructionWord) -> u16 {
    match word.bits(73, 3) {
        2 | 3 => 2,
        4 => 4,
        _ => 1,
    }
}

/// Floats since sm_90, several a lane.
pub(super) fn floats(word: InstructionWord) -> u16 {
    match word.bits(73, 4) {
        1 | 4 | 10 | 13 | 15 => 2,
        2 | 5 | 11 | 14 => 4,
        _ => 1,
    }
}

/// Floats that a multicast load reduces: formats of eight bits are those with bit 87.
pub(super) fn multicast(word: InstructionWord) -> u16 {
    match (word.bit(87), word.bits(73, 4)) {
        (false, _) => floats(word),
        (true, 2 | 5) => 2,
        (true, 3 | 6) => 4,
        (true, _) => 1,
    }
}

pub(super) fn early_bytes(word: InstructionWord) -> u32 {
    u32::from(early(word)) * 4
}

pub(super) fn late_bytes(word: InstructionWord) -> u32 {
    u32::from(late(word)) * 4
}

pub(super) fn floats_bytes(word: InstructionWord) -> u32 {
    u32::from(floats(word)) * 4
}

pub(super) fn multicast_bytes(word: InstructionWord) -> u32 {
    u32::from(multicast(word)) * 4
}
