//! Integers, logic, comparisons, selections, moves.

use super::family::{OpFamily, family};
use super::mask;
use super::operand::{
    A, B, C, D, FamilyOperand, OperandCondition, P, P2, Q, Q2, Q3, RegisterCount, S, read,
    uniform_predicate_read, uniform_read,
};
use crate::instruction::ExecutionUnit;
use crate::word::InstructionWord;

/// Carry in: `.X`.
const EXTENDED: OperandCondition = OperandCondition::Set(74);
/// The 64-bit integers of the architectures that have them.
const WIDE: RegisterCount = RegisterCount::PairIf(80);

const WIDE_SUM: RegisterCount = RegisterCount::PairIf(73);

/// Comparisons of extended precision read the predicate of the lower half.
const CARRY: FamilyOperand = Q3.when(OperandCondition::Set(72));

/// The pair behind SEL.64's first: its position is the same in all forms.
const PAIR_AT_32: FamilyOperand = read(32).wide(2).when(OperandCondition::Form(1 << 3));
const UNIFORM_PAIR_AT_32: FamilyOperand = uniform_read(32).wide(2).when(OperandCondition::Form(1 << 7));
const PAIR_A: RegisterCount = RegisterCount::PairUnless(82);
const PAIR_B: RegisterCount = RegisterCount::PairUnless(88);
const PAIR_C: RegisterCount = RegisterCount::PairUnless(85);

/// The family is the uniform datapath's UVIMNMX in the forms of that.
fn is_packed(word: InstructionWord) -> bool {
    !(word.bit(91) && OperandCondition::Form(1 << 1 | 1 << 4).holds(word))
}

const fn alu(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Alu, operands)
}

pub(super) static FAMILIES: &[OpFamily] = &[
    alu(0x002, "MOV", &[D.wide(2)]).forms(1 << 2),
    alu(0x002, "MOV", &[D.width(WIDE), S.width(WIDE)]),
    alu(0x003, "P2R", &[D, A]).masked(mask::read_predicates),
    alu(0x004, "R2P", &[A]).masked(mask::write_predicates),
    alu(0x005, "CS2R", &[D.width(WIDE)]),
    alu(0x006, "VOTE", &[D, P, Q]),
    alu(0x007, "SEL", &[D, A, B, Q]).forms(FORMS_32),
    alu(0x007, "SEL", &[D.wide(2), A.wide(2), PAIR_AT_32, UNIFORM_PAIR_AT_32, Q]),
    alu(0x008, "FSEL", &[D, A, B, Q]),
    alu(0x009, "FMNMX", &[D, A, B, Q]),
    alu(0x00a, "FSET", &[D, A, S, Q]),
    alu(0x00b, "FSETP", &[P, P2, A, S, Q]),
    alu(0x00c, "ISETP", &[P, P2, A.width(WIDE), S.width(WIDE), Q, CARRY]),
    alu(0x00f, "VIMNMX3", &[D, A, B, C, Q]),
    alu(0x010, "IADD3", &[D, P, P2, A, B, C, Q.when(EXTENDED), Q2.when(EXTENDED)]),
    alu(0x011, "LEA", &[D, P, A, B, C.when(OperandCondition::Set(80)), Q.when(EXTENDED)]),
    alu(0x012, "LOP3", &[D, P, A, B, C, Q]),
    alu(0x013, "IABS", &[D, B]),
    alu(0x014, "VABSDIFF", &[D, A, B, C]),
    alu(0x015, "VABSDIFF4", &[D, A, B, C]),
    alu(0x016, "PRMT", &[D, A, B, C]),
    alu(0x017, "IMNMX", &[D, A, B, Q]).until(99),
    alu(0x017, "IMNMX", &[D, P, P2, A, B, Q]).select(OperandCondition::Clear(74)),
    alu(0x017, "IMNMX", &[D.wide(2), P, P2, A.wide(2), S.wide(2), Q, Q2]),
    alu(0x019, "SHF", &[D, A, B, C]),
    alu(0x01a, "SGXT", &[D, A, B]),
    alu(0x01b, "BMSK", &[D, A, B]),
    alu(0x01c, "PLOP3", &[P, P2, Q, Q2, uniform_predicate_read(68)]).select(OperandCondition::Set(67)),
    alu(0x01c, "PLOP3", &[P, P2, Q, Q2, Q3]),
    alu(0x036, "VIADD", &[D, A, B]).since(90),
    alu(0x046, "VIADDMNMX", &[D, A, B, C, Q]),
    alu(0x048, "VIMNMX", &[D, P, P2, A, B, Q]).since(100),
    alu(0x048, "VIMNMX", &[D, A, B, Q]),
    alu(0x076, "FMNMX3", &[D, A, B, C, Q]),
    // Two floats a pair. A flag says that an operand is one float for both.
    alu(0x049, "FFMA2", &[D.wide(2), A.width(PAIR_A), B.width(PAIR_B), C.width(PAIR_C)]),
    alu(0x04a, "FMUL2", &[D.wide(2), A.width(PAIR_A), B.width(PAIR_B)])
        .select(OperandCondition::Rule(is_packed)),
    alu(0x04b, "FADD2", &[D.wide(2), A.width(PAIR_A), S.width(PAIR_C)]),
    alu(0x035, "IADD", &[D.width(WIDE_SUM), P, A.width(WIDE_SUM), B.width(WIDE_SUM), Q.when(EXTENDED)])
        .since(100),
];

/// SEL with these forms of sources is of 32 bits.
const FORMS_32: u8 = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 6;
