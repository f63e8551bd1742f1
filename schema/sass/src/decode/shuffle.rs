//! Exchanges between the lanes of a warp.

use super::family::{OpFamily, family};
use super::operand::{A, D, FamilyOperand, OperandCondition, P, read};
use crate::instruction::ExecutionUnit;

/// Its lane and its mask are registers or immediates by the form.
const LANE: FamilyOperand = read(32).when(OperandCondition::Form(1 << 1 | 1 << 2));
const MASK: FamilyOperand = read(64).when(OperandCondition::Form(1 << 1 | 1 << 4));

pub(super) static FAMILIES: &[OpFamily] =
    &[family(0x189, "SHFL", ExecutionUnit::Shuffle, &[D, P, A, LANE, MASK])];
