//! Memory accesses of an instruction: the parts that are not registers.

use crate::instruction::{Access, Memory, Space};
use crate::word::{Sm, Word};

use super::operand::{Operand, Role};

/// The accesses in a family's rows. Addresses are operands with the roles `Address` and `Base`.
#[derive(Clone, Copy)]
pub(super) struct MemoryRule {
    space: Space,
    kind: Access,
    bytes: Bytes,
    offset: Offset,
}

/// Bytes a lane.
#[derive(Clone, Copy)]
pub(super) enum Bytes {
    Unknown,
    Fixed(u32),
    /// By the memory size in the three bits from here on.
    Size(u32),
    Rule(fn(Word) -> u32),
}

/// The offset that is added to the address.
#[derive(Clone, Copy)]
pub(super) enum Offset {
    None,
    /// Signed bytes, so many bits from here on.
    Signed(u32, u32),
    /// Signed units of 32 bytes, so many bits from here on.
    Wide(u32, u32),
    /// At the usual place, whose highest bit has another meaning since sm_100.
    Combined,
    /// At the usual place with a uniform register. All the upper half of the low 64 bits without.
    Generic,
}

/// The usual place of an offset.
pub(super) const OFFSET: Offset = Offset::Signed(40, 24);

pub(super) const fn access(space: Space, kind: Access, bytes: Bytes, offset: Offset) -> MemoryRule {
    MemoryRule { space, kind, bytes, offset }
}

pub(super) fn read(rule: &MemoryRule, operands: &[Operand], word: Word, sm: Sm) -> Memory {
    let first_of = |role| {
        let mut candidates = operands.iter().filter(|operand| operand.role == role);
        candidates.find_map(|operand| operand.first(word, sm))
    };
    Memory {
        space: rule.space,
        kind: rule.kind,
        bytes: rule.bytes.of(word),
        address: first_of(Role::Address),
        uniform: first_of(Role::Base),
        offset: rule.offset.of(word, sm),
        is_past_l1: is_past_l1(rule, word, sm),
    }
}

/// A scope beyond the multiprocessor (STRONG.GPU, STRONG.SYS), or a copy with .BYPASS.
fn is_past_l1(rule: &MemoryRule, word: Word, sm: Sm) -> bool {
    let is_device = matches!(rule.space, Space::Global | Space::Generic);
    let scope = word.bits(77, 4);
    is_device
        && match rule.kind {
            Access::Read => scope >= if sm.0 < 80 { 10 } else { 7 },
            Access::Atomic | Access::Reduction => true,
            // Tensor-map and bulk copies encode no size, and know no L1.
            Access::CopyIn => !matches!(rule.bytes, Bytes::Size(_)) || !word.bit(81),
            _ => false,
        }
}

impl Bytes {
    fn of(self, word: Word) -> u32 {
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

impl Offset {
    fn of(self, word: Word, sm: Sm) -> i32 {
        let bytes = match self {
            Self::None => 0,
            Self::Signed(start, width) => word.signed(start, width),
            Self::Wide(start, width) => word.signed(start, width) * 32,
            Self::Combined => word.signed(40, if sm.0 < 100 { 24 } else { 23 }),
            Self::Generic if word.bit(91) => word.signed(40, 24),
            Self::Generic => word.signed(32, 32),
        };
        // Every place is of 32 bits or fewer.
        i32::try_from(bytes).unwrap_or_default()
    }
}
