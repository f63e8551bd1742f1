//! Memory accesses of an instruction: the parts that are not registers.

use crate::instruction::{MemoryEffect, MemoryOperand, MemorySpace};
use crate::word::{InstructionWord, Sm};

use super::operand::{FamilyOperand, OperandRole};

/// The accesses in a family's rows. Addresses are operands with the roles `Address` and `Base`.
#[derive(Clone, Copy)]
pub(super) struct MemoryRule {
    space: MemorySpace,
    kind: MemoryEffect,
    bytes: LaneWidth,
    offset: AddressOffset,
}

/// Bytes a lane.
#[derive(Clone, Copy)]
pub(super) enum LaneWidth {
    Unknown,
    Fixed(u32),
    /// By the memory size in the three bits from here on.
    Size(u32),
    Rule(fn(InstructionWord) -> u32),
}

/// The offset that is added to the address.
#[derive(Clone, Copy)]
pub(super) enum AddressOffset {
    None,
    /// Signed bytes, so many bits from here on.
    Signed(u32, u32),
    /// Signed units of 32 bytes, so many bits from here on.
    Wide(u32, u32),
    /// At the usual position, whose highest bit has another meaning since sm_100.
    Combined,
    /// At the usual position with a uniform register. All the upper half of the low 64 bits without.
    Generic,
}

/// The usual position of an offset.
pub(super) const OFFSET: AddressOffset = AddressOffset::Signed(40, 24);

pub(super) const fn access(
    space: MemorySpace,
    kind: MemoryEffect,
    bytes: LaneWidth,
    offset: AddressOffset,
) -> MemoryRule {
    MemoryRule { space, kind, bytes, offset }
}

pub(super) fn read(
    rule: &MemoryRule,
    operands: &[FamilyOperand],
    word: InstructionWord,
    sm: Sm,
) -> MemoryOperand {
    let first_of = |role| {
        let mut candidates = operands.iter().filter(|operand| operand.role == role);
        candidates.find_map(|operand| operand.first(word, sm))
    };
    MemoryOperand {
        space: rule.space,
        kind: rule.kind,
        bytes: rule.bytes.bytes(word),
        address: first_of(OperandRole::Address),
        uniform: first_of(OperandRole::Base),
        offset: rule.offset.bytes(word, sm),
        is_past_l1: is_past_l1(rule, word, sm),
    }
}

/// A scope beyond the multiprocessor (STRONG.GPU, STRONG.SYS), or a copy with .BYPASS.
fn is_past_l1(rule: &MemoryRule, word: InstructionWord, sm: Sm) -> bool {
    let is_device = matches!(rule.space, MemorySpace::Global | MemorySpace::Generic);
    let scope = word.bits(77, 4);
    is_device
        && match rule.kind {
            MemoryEffect::Read => scope >= if sm.0 < 80 { 10 } else { 7 },
            MemoryEffect::Atomic | MemoryEffect::Reduction => true,
            // Tensor-map and bulk copies encode no size, and know no L1.
            MemoryEffect::CopyIn => !matches!(rule.bytes, LaneWidth::Size(_)) || !word.bit(81),
            _ => false,
        }
}

impl LaneWidth {
    fn bytes(self, word: InstructionWord) -> u32 {
        match self {
            Self::Unknown => 0,
            Self::Fixed(bytes) => bytes,
            Self::Size(start) => bytes_of_size(word.bits(start, 3)),
            Self::Rule(rule) => rule(word),
        }
    }
}

/// u8, s8, u16, s16, 32, 64, 128 bits.
const fn bytes_of_size(size: u64) -> u32 {
    match size {
        0 | 1 => 1,
        2 | 3 => 2,
        4 => 4,
        5 => 8,
        6 => 16,
        _ => 0,
    }
}

impl AddressOffset {
    fn bytes(self, word: InstructionWord, sm: Sm) -> i32 {
        let bytes = match self {
            Self::None => 0,
            Self::Signed(start, width) => word.signed(start, width),
            Self::Wide(start, width) => word.signed(start, width) * 32,
            Self::Combined => word.signed(40, if sm.0 < 100 { 24 } else { 23 }),
            Self::Generic if word.bit(91) => word.signed(40, 24),
            Self::Generic => word.signed(32, 32),
        };
        // Every field is of 32 bits or fewer.
        i32::try_from(bytes).unwrap_or_default()
    }
}
