//! Conversions between number formats.

use super::family::{Family, family};
use super::operand::{A, D, Operand, S, Width};
use crate::instruction::Class;

const fn convert(code: u16, name: &'static str, operands: &'static [Operand]) -> Family {
    family(code, name, Class::Special, operands)
}

pub(super) const FAMILIES: &[Family] = &[
    family(0x03e, "F2FP", Class::Alu, &[D, A, S]),
    family(0x045, "I2FP", Class::Alu, &[D, S]),
    convert(0x104, "F2F", &[D, S]),
    convert(0x105, "F2I", &[D, S]),
    convert(0x106, "I2F", &[D, S]),
    convert(0x107, "FRND", &[D, S]),
    convert(0x110, "F2F", &[D.width(Width::PairIf(75)), S.width(Width::PairIf(84))]),
    convert(0x111, "F2I", &[D.width(Width::PairIf(75)), S.width(Width::PairIf(84))]),
    convert(0x112, "I2F", &[D.width(Width::PairIf(75)), S.width(Width::PairIf(84))]),
    convert(0x113, "FRND", &[D.wide(2), S.wide(2)]),
];
