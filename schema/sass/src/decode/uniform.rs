//! The uniform datapath, and loads of constants into its registers.

use super::family::{OpFamily, family};
use super::mask;
use super::operand::{
    FamilyOperand, OperandCondition, Q, RegisterCount, UA, UB, UC, UD, UP, UP2, UQ, UQ2, UQ3, US,
    uniform_read,
};
use crate::instruction::ExecutionUnit;

const fn uniform(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Uniform, operands).uniform_guard()
}

/// Carry in: `.X`.
const EXTENDED: OperandCondition = OperandCondition::Set(74);
/// The 64-bit integers of the architectures that have them.
const WIDE: RegisterCount = RegisterCount::PairIf(80);

/// USEL with these forms of sources is of 32 bits.
const FORMS_32: u8 = 1 << 1 | 1 << 4 | 1 << 5;

pub(super) static FAMILIES: &[OpFamily] = &[
    uniform(0x04a, "UVIMNMX", &[UD, UA, UB, UQ]),
    uniform(0x051, "UFSEL", &[UD, UA, UB, UQ]),
    uniform(0x053, "UFSETP", &[UP, UP2, UA, US, UQ]),
    uniform(0x054, "UFADD", &[UD, UA, US]),
    uniform(0x055, "UFFMA", &[UD, UA, UB, UC]),
    uniform(0x056, "UFMUL", &[UD, UA, UB]),
    uniform(0x05a, "UI2F", &[UD, US]),
    uniform(0x05e, "UI2FP", &[UD, US]),
    uniform(0x05c, "UF2I", &[UD, US]),
    uniform(0x082, "UMOV", &[UD.wide(2)]).forms(1 << 2),
    uniform(0x082, "UMOV", &[UD.width(WIDE), US.width(WIDE)]),
    uniform(0x083, "UP2UR", &[UD, UA]).masked(mask::read_uniform_predicates),
    family(0x086, "VOTEU", ExecutionUnit::Uniform, &[UD, UP, Q]),
    uniform(0x084, "UR2UP", &[UA]).masked(mask::write_uniform_predicates),
    uniform(0x085, "UIMNMX", &[UD.wide(2), UP, UP2, UA.wide(2), US.wide(2), UQ, UQ2]).since(100),
    uniform(0x087, "USEL", &[UD, UA, UB, UQ]).forms(FORMS_32),
    uniform(
        0x087,
        "USEL",
        &[UD.wide(2), UA.wide(2), uniform_read(32).wide(2).when(OperandCondition::Form(1 << 3 | 1 << 6)), UQ],
    ),
    uniform(
        0x08c,
        "UISETP",
        &[UP, UP2, UA.width(WIDE), US.width(WIDE), UQ, UQ3.when(OperandCondition::Set(72))],
    ),
    uniform(0x090, "UIADD3", &[UD, UP, UP2, UA, UB, UC, UQ.when(EXTENDED), UQ2.when(EXTENDED)]),
    uniform(0x091, "ULEA", &[UD, UP, UA, UB, UC.when(OperandCondition::Set(80)), UQ.when(EXTENDED)]),
    uniform(0x092, "ULOP3", &[UD, UP, UA, UB, UC, UQ]),
    uniform(0x096, "UPRMT", &[UD, UA, UB, UC]),
    uniform(0x097, "UIADD3", &[UD.wide(2), UP, UP2, UA.wide(2), UB.wide(2), UC.wide(2)]),
    uniform(0x099, "USHF", &[UD, UA, UB, UC]),
    uniform(0x09a, "USGXT", &[UD, UA, UB]),
    uniform(0x09b, "UBMSK", &[UD, UA, UB]),
    uniform(0x09c, "UPLOP3", &[UP, UP2, UQ, UQ2, UQ3]),
    uniform(0x0a4, "UIMAD", &[UD, UA, UB, UC, UQ.when(EXTENDED)]),
    uniform(0x0a5, "UIMAD", &[UD.wide(2), UP, UA, UB, UC.wide(2), UQ.when(EXTENDED)]),
    uniform(0x0a6, "UIMAD", &[UD, UP, UA, UB, UC.wide(2), UQ.when(EXTENDED)]),
    uniform(0x0bd, "UFLO", &[UD, UP, US]),
    uniform(0x0be, "UBREV", &[UD, US]),
    uniform(0x0bf, "UPOPC", &[UD, US]),
];
