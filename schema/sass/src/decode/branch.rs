//! Branches, calls, returns, convergence.

use super::family::{OpFamily, family};
use super::flow::FlowRule;
use super::operand::{
    A, D, FamilyOperand, OperandCondition, Q, S, convergence_read, convergence_write, uniform_predicate_read,
    uniform_read,
};
use crate::instruction::ExecutionUnit;

const fn control(code: u16, name: &'static str, operands: &'static [FamilyOperand]) -> OpFamily {
    family(code, name, ExecutionUnit::Control, operands)
}

pub(super) static FAMILIES: &[OpFamily] = &[
    control(0x141, "BSYNC", &[convergence_read(16), Q]),
    control(0x142, "BREAK", &[convergence_read(16), convergence_write(16), Q]),
    control(0x143, "CALL", &[]).forms(1 << 4).flow(FlowRule::Call),
    control(0x143, "CALL", &[A.wide(2)]).flow(FlowRule::IndirectCall),
    control(0x144, "CALL", &[]).forms(1 << 4).flow(FlowRule::Call),
    control(0x144, "CALL", &[A.wide(2)]).flow(FlowRule::IndirectCall),
    control(0x145, "BSSY", &[convergence_write(16), Q]),
    control(0x146, "YIELD", &[Q]),
    // BRA.U by a uniform predicate, BRA.DIV by which lanes are there.
    control(0x147, "BRA", &[uniform_predicate_read(24), Q]).forms(1 << 2).flow(FlowRule::Branch),
    control(0x147, "BRA", &[uniform_read(24), Q]).select(OperandCondition::Set(91)).flow(FlowRule::Branch),
    control(0x147, "BRA", &[Q]).flow(FlowRule::Branch),
    control(0x149, "BRX", &[A.wide(2), Q]).flow(FlowRule::IndirectBranch),
    control(0x14d, "EXIT", &[Q]).flow(FlowRule::Exit),
    control(0x150, "RET", &[A.wide(2)]).flow(FlowRule::Return),
    control(0x152, "RPCMOV", &[S]),
    control(0x153, "RPCMOV", &[D]),
    control(0x155, "BMOV", &[D, convergence_read(24), convergence_write(24)]),
    control(0x156, "BMOV", &[convergence_write(24), S]),
    control(0x158, "BRXU", &[uniform_read(24).wide(2), Q]).flow(FlowRule::IndirectBranch),
    control(0x15c, "BPT", &[]),
    control(0x15d, "NANOSLEEP", &[S]),
];
