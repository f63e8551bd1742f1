//! Control flow after an instruction.

use crate::instruction::WarpFlow;
use crate::word::{InstructionWord, Sm};

use super::ALWAYS;

/// The flow in a family's rows.
#[derive(Clone, Copy)]
pub(super) enum FlowRule {
    Next,
    Branch,
    IndirectBranch,
    Call,
    /// A call to where a register says.
    IndirectCall,
    Return,
    Exit,
}

pub(super) fn read(rule: FlowRule, word: InstructionWord, sm: Sm) -> WarpFlow {
    let conditional = is_conditional(word);
    match rule {
        FlowRule::Next => WarpFlow::Next,
        FlowRule::Branch => {
            let conditional = conditional || diverges(word);
            WarpFlow::Branch { displacement: displacement(word, sm), conditional }
        }
        FlowRule::IndirectBranch => WarpFlow::IndirectBranch { conditional },
        FlowRule::Call => WarpFlow::Call { displacement: Some(displacement(word, sm)), conditional },
        FlowRule::IndirectCall => WarpFlow::Call { displacement: None, conditional },
        FlowRule::Return => WarpFlow::Return { conditional },
        FlowRule::Exit => WarpFlow::Exit { conditional },
    }
}

/// True if the guard, or the second predicate, may be false.
fn is_conditional(word: InstructionWord) -> bool {
    word.byte(12) & 0xf != ALWAYS || word.byte(87) & 0xf != ALWAYS
}

/// A branch by a uniform predicate, or by whether lanes diverge: BRA.U UP0, BRA.DIV, BRA.CONV.
fn diverges(word: InstructionWord) -> bool {
    match word.opcode() {
        // BRA.U UP0: the predicate is at bit 24, its negation at bit 27.
        0x1547 => word.byte(24) & 0xf != ALWAYS,
        0x1947 => true,
        _ => word.bits(32, 2) >= 2,
    }
}

/// Units of four bytes from the next instruction. Since sm_90 the lowest eight bits are stored apart.
fn displacement(word: InstructionWord, sm: Sm) -> i64 {
    let high = word.signed(34, 48);
    if sm.0 < 90 { high * 4 } else { ((high << 8) | word.bits(16, 8).cast_signed()) * 4 }
}
