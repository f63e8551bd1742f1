//! Conversions between number formats.

use super::family::{Family, family};
use super::operand::{A, B, C, D, Operand, S, Width};
use crate::instruction::Class;

const fn convert(code: u16, name: &'static str, operands: &'static [Operand]) -> Family {
    family(code, name, Class::Special, operands)
}

/// Formats of 64 bits are number three.
const RESULT: Width = Width::PairIs(75, 2, 3);
const SOURCE: Width = Width::PairIs(84, 2, 3);

pub(super) static FAMILIES: &[Family] = &[
    family(0x038, "I2I", Class::Alu, &[D, S]),
    family(0x039, "I2IP", Class::Alu, &[D, A, B, C]),
    family(0x03e, "F2FP", Class::Alu, &[D, A, B, C]),
    family(0x045, "I2FP", Class::Alu, &[D, S]),
    convert(0x104, "F2F", &[D, S]),
    convert(0x105, "F2I", &[D, S]),
    convert(0x106, "I2F", &[D, S]),
    convert(0x107, "FRND", &[D, S]),
    convert(0x110, "F2F", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x111, "F2I", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x112, "I2F", &[D.width(RESULT), S.width(SOURCE)]),
    convert(0x113, "FRND", &[D.width(RESULT), S.width(SOURCE)]),
];
