//! Exchanges between the lanes of a warp.

use super::family::{Family, family};
use super::operand::{A, D, Operand, P, When, read};
use crate::instruction::Class;

/// Its lane and its mask are registers or immediates by the form.
const LANE: Operand = read(32).when(When::Form(1 << 1 | 1 << 2));
const MASK: Operand = read(64).when(When::Form(1 << 1 | 1 << 4));

pub(super) static FAMILIES: &[Family] = &[family(0x189, "SHFL", Class::Shuffle, &[D, P, A, LANE, MASK])];
