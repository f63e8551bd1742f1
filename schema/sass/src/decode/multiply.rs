//! Multiplications and additions of 32 bits, and arithmetic of 64-bit floats.

use super::family::{OpFamily, family};
use super::operand::{A, B, C, D, FamilyOperand, OperandCondition, P, P2, Q, S};
use crate::instruction::ExecutionUnit;

const fn fma(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Fma, operands)
}

const fn double(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Double, operands)
}

/// Carry in: `.X`.
const EXTENDED: OperandCondition = OperandCondition::Set(74);

pub(super) static FAMILIES: &[OpFamily] = &[
    fma(0x020, "FMUL", &[D, A, B]),
    fma(0x021, "FADD", &[D, A, S]),
    fma(0x022, "FSWZADD", &[D, A, S]),
    fma(0x023, "FFMA", &[D, A, B, C]),
    fma(0x024, "IMAD", &[D, A, B, C, Q.when(EXTENDED)]),
    fma(0x025, "IMAD", &[D.wide(2), P, A, B, C.wide(2), Q.when(EXTENDED)]),
    fma(0x026, "IDP", &[D, A, B, C]),
    fma(0x027, "IMAD", &[D, P, A, B, C.wide(2), Q.when(EXTENDED)]),
    double(0x028, "DMUL", &[D.wide(2), A.wide(2), B.wide(2)]),
    double(0x029, "DADD", &[D.wide(2), A.wide(2), C.wide(2)]),
    double(0x02a, "DSETP", &[P, P2, A.wide(2), S.wide(2), Q]),
    double(0x02b, "DFMA", &[D.wide(2), A.wide(2), B.wide(2), C.wide(2)]),
];
