//! Matrix multiplications.

use super::family::{Family, family};
use super::matrix::{SPARSE, group_result, half_first, half_result, half_second};
use super::operand::{A, D, Operand, UA, UQ, When, Width, flipped_uniform_read, read, uniform_read};
use crate::instruction::Class;
use crate::word::Word;

const fn tensor(code: u16, name: &'static str, operands: &'static [Operand]) -> Family {
    family(code, name, Class::Tensor, operands)
}

const HALF: &[Operand] = &[
    D.width(Width::Rule(half_result)),
    A.width(Width::Rule(half_first)),
    read(32).width(Width::Rule(half_second)),
    read(64).width(Width::Rule(half_result)),
    read(40).when(When::Set(SPARSE)),
];

/// Whether to add to the accumulator.
const ACCUMULATE: Operand = flipped_uniform_read(87);

/// Both matrices by descriptors, in four uniform registers.
const GROUP_SHARED: &[Operand] = &[
    D.width(Width::Rule(group_result)),
    uniform_read(24).wide(4),
    read(64).width(Width::Rule(group_result)),
    ACCUMULATE,
];

/// The first matrix in registers.
const GROUP_REGISTERS: &[Operand] = &[
    D.width(Width::Rule(group_result)),
    A.wide(4),
    uniform_read(32).wide(4),
    read(64).width(Width::Rule(group_result)),
    ACCUMULATE,
];

/// tcgen05: matrices by descriptors or in tensor memory, all in uniform registers.
const FIFTH: &[Operand] = &[
    UA.width(Width::Rule(fifth_first)),
    uniform_read(32).wide(2),
    uniform_read(40).wide(2),
    uniform_read(48),
    uniform_read(64),
    UQ,
];

/// The first matrix: a descriptor, or an address in tensor memory.
fn fifth_first(word: Word) -> u16 {
    if When::Form(1 << 4).holds(word) { 1 } else { 2 }
}

pub(super) const FAMILIES: &[Family] = &[
    tensor(0x03c, "HMMA", HALF),
    tensor(0x1e7, "UTCCP", &[UA, uniform_read(32).wide(2)]).uniform_guard(),
    tensor(0x1ea, "UTCHMMA", FIFTH).uniform_guard(),
    tensor(0x1f0, "HGMMA", GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f0, "HGMMA", GROUP_SHARED),
    tensor(0x1f3, "QGMMA", GROUP_REGISTERS).forms(1 << 6),
    tensor(0x1f3, "QGMMA", GROUP_SHARED),
];
