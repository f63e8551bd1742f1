//! Control flow after the instruction.

use crate::instruction::Flow;
use crate::word::{Sm, Word};

use super::ALWAYS;

/// Control flow of a family.
#[derive(Clone, Copy)]
pub(super) enum FlowRule {
    Next,
    Branch,
    IndirectBranch,
    Call,
    /// A call to a register's value.
    IndirectCall,
    Return,
    Exit,
}

pub(super) fn read(rule: FlowRule, word: Word, sm: Sm) -> Flow {
    let conditional = is_conditional(word);
    match rule {
        FlowRule::Next => Flow::Next,
        FlowRule::Branch => {
            let conditional = conditional || diverges(word);
            Flow::Branch { displacement: displacement(word, sm), conditional }
        }
        FlowRule::IndirectBranch => Flow::IndirectBranch { conditional },
        FlowRule::Call => Flow::Call { displacement: Some(displacement(word, sm)), conditional },
        FlowRule::IndirectCall => Flow::Call { displacement: None, conditional },
        FlowRule::Return => Flow::Return { conditional },
        FlowRule::Exit => Flow::Exit { conditional },
    }
}

/// True if the guard, or the second predicate, may be false.
fn is_conditional(word: Word) -> bool {
    word.byte(12) & 0xf != ALWAYS || word.byte(87) & 0xf != ALWAYS
}

/// A branch by a uniform predicate, or by whether lanes diverge: BRA.U UP0, BRA.DIV, BRA.CONV.
fn diverges(word: Word) -> bool {
    match word.opcode() {
        // BRA.U UP0: the predicate is at bit 24, its negation at bit 27.
        0x1547 => word.byte(24) & 0xf != ALWAYS,
        0x1947 => true,
        _ => word.bits(32, 2) >= 2,
    }
}

/// Units of four bytes from the next instruction. Since sm_90 the lowest eight bits are stored separately.
fn displacement(word: Word, sm: Sm) -> i64 {
    let high = word.signed(34, 48);
    if sm.0 < 90 { high * 4 } else { ((high << 8) | word.bits(16, 8).cast_signed()) * 4 }
}
