//! Arithmetic of 16 bits, two values per register.

use super::family::{OpFamily, family};
use super::operand::{A, B, C, D, FamilyOperand, P, P2, Q, S};
use crate::instruction::ExecutionUnit;

const fn half(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Half, operands)
}

pub(super) static FAMILIES: &[OpFamily] = &[
    half(0x030, "HADD2", &[D, A, S]),
    half(0x031, "HFMA2", &[D, A, B, C]),
    half(0x032, "HMUL2", &[D, A, B]),
    half(0x033, "HSET2", &[D, A, S, Q]),
    half(0x034, "HSETP2", &[P, P2, A, S, Q]),
    half(0x035, "HFMA2", &[D, A, B, C]).until(90),
    half(0x047, "VHMNMX", &[D, A, B, C, Q]).since(100),
    half(0x040, "HMNMX2", &[D, A, B, Q]),
];
