//! Decoder: from an instruction's bits to its dependencies.
//!
//! ```text
//! word ── opcode ── Family (a row of decode/<class>.rs: name, class, operands, memory, flow)
//!   │                  │
//!   └── fields ────────┴──► registers written and read, memory, flow
//! ```
//!
//! The tables hold the regular parts of an operand: position, width, condition. The few instructions with computed
//! widths or registers have the calculation next to their table. Guard and control word are at the same position in
//! every instruction, known or not.

mod alu;
mod asynchronous;
mod atomic;
mod barrier;
mod branch;
mod convert;
mod family;
mod flow;
mod global;
mod half;
mod mask;
mod matrix;
mod memory;
mod misc;
mod multiply;
mod operand;
mod shared;
mod shuffle;
mod special;
mod tensor;
mod texture;
mod uniform;

use crate::control::IssueControl;
use crate::instruction::{ExecutionUnit, Guard, SassInstruction, WarpFlow};
use crate::register::{Register, RegisterFile, Registers};
use crate::word::{InstructionWord, Sm};

use family::OpFamily;
use operand::{FamilyOperand, OperandRole};

/// Index of the predicates that are always true, PT and UPT.
const ALWAYS: u8 = 7;

/// Decodes an instruction. One that is not known says so. Its guard and scheduling are read all the same.
pub fn decode(word: InstructionWord, sm: Sm) -> SassInstruction {
    match family::find(word, sm) {
        Some(family) => known(word, sm, family),
        None => unknown(word, sm),
    }
}

fn unknown(word: InstructionWord, sm: Sm) -> SassInstruction {
    let guard = guard(word, RegisterFile::Predicate);
    SassInstruction {
        word,
        sm,
        mnemonic: None,
        class: ExecutionUnit::Unknown,
        guard,
        writes: Registers::NONE,
        reads: guard_register(guard).into_iter().collect(),
        memory: None,
        flow: WarpFlow::Next,
        control: IssueControl::from_word(word),
    }
}

fn known(word: InstructionWord, sm: Sm, family: &'static OpFamily) -> SassInstruction {
    let guard = guard(word, family.guard);
    let mut writes = Registers::NONE;
    let mut reads = Registers::NONE;
    for operand in family.operands {
        let set = if operand.role == OperandRole::Write { &mut writes } else { &mut reads };
        add(set, operand, word, sm);
    }
    if let Some(add_masked) = family.masked {
        add_masked(word, &mut writes, &mut reads);
    }
    if let Some(register) = guard_register(guard) {
        reads.insert(register);
    }
    SassInstruction {
        word,
        sm,
        mnemonic: Some(family.name),
        class: family.class,
        guard,
        writes,
        reads,
        memory: family.memory.map(|rule| memory::read(&rule, family.operands, word, sm)),
        flow: flow::read(family.flow, word, sm),
        control: IssueControl::from_word(word),
    }
}

fn add(set: &mut Registers, operand: &FamilyOperand, word: InstructionWord, sm: Sm) {
    let Some(first) = operand.first(word, sm) else { return };
    let room = u16::from(operand::zero_index(first.file, sm).saturating_sub(first.index));
    match operand.width.registers(word).min(room) {
        1 => set.insert(first),
        width => set.insert_run(first, width),
    }
}

/// The predicate before an instruction, of the file that its kind of instruction uses.
fn guard(word: InstructionWord, file: RegisterFile) -> Option<Guard> {
    let register = Register { file, index: word.byte(12) & 7 };
    let negated = word.bit(15);
    (register.index != ALWAYS || negated).then_some(Guard { register, negated })
}

fn guard_register(guard: Option<Guard>) -> Option<Register> {
    guard.map(|guard| guard.register).filter(|register| register.index != ALWAYS)
}
