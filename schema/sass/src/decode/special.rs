//! Special functions, bit counting, special registers, reductions over a warp, moves to the uniform datapath.

use super::family::{OpFamily, family};
use super::operand::{A, D, FamilyOperand, OperandCondition, P, Q, RegisterCount, S, UD, uniform_read};
use crate::instruction::ExecutionUnit;

const fn special(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Special, operands)
}

/// 64-bit values: `.U64`.
const WIDE: RegisterCount = RegisterCount::PairIf(73);

pub(super) static FAMILIES: &[OpFamily] = &[
    special(0x02f, "ELECT", &[P, UD, Q]),
    special(0x0ca, "R2UR", &[UD, P, A]),
    special(0x1c2, "R2UR", &[UD, P, A]),
    special(0x0cc, "CREDUX", &[UD, A]),
    special(0x102, "FCHK", &[P, A, S]),
    special(0x100, "FLO", &[D, P, S]),
    special(0x101, "BREV", &[D, S]),
    special(0x108, "MUFU", &[D, S]),
    special(0x109, "POPC", &[D, S]),
    special(0x119, "S2R", &[D]),
    special(0x14e, "LEPC", &[D.wide(2)]),
    special(0x1a1, "MATCH", &[D, P, A.width(WIDE)]),
    special(
        0x1aa,
        "QSPC",
        &[P, D, A.width(RegisterCount::PairIf(72)), uniform_read(32).wide(2).when(OperandCondition::Set(91))],
    ),
    special(0x1c3, "S2UR", &[UD]).uniform_guard(),
    special(0x1c4, "REDUX", &[UD, A]),
];
