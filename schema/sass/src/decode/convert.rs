//! Conversions between number formats.

use super::family::{OpFamily, family};
use super::operand::{A, B, C, D, FamilyOperand, RegisterCount, S};
use crate::instruction::ExecutionUnit;

const fn convert(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Special, operands)
}

/// Formats of 64 bits are number three.
const RESULT: RegisterCount = RegisterCount::PairIs(75, 2, 3);
const SOURCE: RegisterCount = RegisterCount::PairIs(84, 2, 3);

pub(super) static FAMILIES: &[OpFamily] = &[
    family(0x038, "I2I", ExecutionUnit::Alu, &[D, S]),
    family(0x039, "I2IP", ExecutionUnit::Alu, &[D, A, B, C]),
    family(0x03e, "F2FP", ExecutionUnit::Alu, &[D, A, B, C]),
    family(0x045, "I2FP", ExecutionUnit::Alu, &[D, S]),
    convert(0x104, "F2F", &[D, S]),
    convert(0x105, "F2I", &[D, S]),
    convert(0x106, "I2F", &[D, S]),
    convert(0x107, "FRND", &[D, S]),
    convert(0x110, "F2F", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x111, "F2I", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x112, "I2F", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x113, "FRND", &[D.width(RESULT), S.width(SOURCE)]),
];
