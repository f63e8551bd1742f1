//! NOP and similar: no result depends on them.

use super::family::{Family, family};
use super::operand::{UP, When};
use crate::instruction::Class;

const fn misc(code: u16, name: &'static str) -> Family {
    family(code, name, Class::Misc, &[])
}

pub(super) static FAMILIES: &[Family] = &[
    misc(0x001, "PMTRIG"),
    misc(0x04c, "UVIRTCOUNT"),
    misc(0x118, "NOP"),
    family(0x1c8, "USETMAXREG", Class::Misc, &[UP.when(When::Is(72, 8, 6))]).uniform_guard(),
];
