//! NOP and similar instructions, on which no result depends.

use super::family::{OpFamily, family};
use super::operand::{OperandCondition, UP};
use crate::instruction::ExecutionUnit;

const fn misc(code: u16, name: &'static str) -> OpFamily {
    family(code, name, ExecutionUnit::Misc, &[])
}

pub(super) static FAMILIES: &[OpFamily] = &[
    misc(0x001, "PMTRIG"),
    misc(0x04c, "UVIRTCOUNT"),
    misc(0x118, "NOP"),
    family(0x1c8, "USETMAXREG", ExecutionUnit::Misc, &[UP.when(OperandCondition::Is(72, 8, 6))])
        .uniform_guard(),
    misc(0x1c9, "USETSHMSZ").uniform_guard(),
];
