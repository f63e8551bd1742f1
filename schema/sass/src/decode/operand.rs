//! Operands: position in an instruction's bits, number of registers, condition.

use crate::register::{Register, RegisterFile};
use crate::word::{InstructionWord, Sm};

/// One operand of a family.
#[derive(Clone, Copy)]
pub(super) struct FamilyOperand {
    pub(super) field: RegisterField,
    pub(super) width: RegisterCount,
    pub(super) role: OperandRole,
    pub(super) when: OperandCondition,
}

/// The position of a register: its file, and the bit at which its number begins.
#[derive(Clone, Copy)]
pub(super) enum RegisterField {
    General(u32),
    Uniform(u32),
    Predicate(u32),
    UniformPredicate(u32),
    /// A predicate stored with all bits flipped: 0 is "always".
    FlippedPredicate(u32),
    FlippedUniformPredicate(u32),
    Convergence(u32),
    /// The second source: its position depends on the form.
    Second,
    /// The third source.
    Third,
    /// The last source of those that have only one behind the first: no form moves it to the third position.
    Sole,
    /// The same of the uniform datapath.
    UniformSecond,
    UniformThird,
    UniformSole,
}

/// The use of the operand by the instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum OperandRole {
    Write,
    Read,
    /// Reads it as an address.
    Address,
    /// Reads it as the base of an address, as a descriptor, or as the address of a tensor map.
    Base,
}

/// Number of consecutive registers.
#[derive(Clone, Copy)]
pub(super) enum RegisterCount {
    Fixed(u16),
    /// By the memory size in the three bits from here on.
    Size(u32),
    /// One if the bit is clear, two if it is set.
    PairIf(u32),
    /// Two if bits from here on, so many, have this value.
    PairIs(u32, u32, u64),
    /// Two if the bit is clear, one if it is set.
    PairUnless(u32),
    Rule(fn(InstructionWord) -> u16),
}

/// The condition under which the operand exists.
#[derive(Clone, Copy)]
pub(super) enum OperandCondition {
    Always,
    Set(u32),
    Clear(u32),
    /// Bits from here on, so many, have this value.
    Is(u32, u32, u64),
    /// The form (bits 9 to 11) is among these: bit n for form n.
    Form(u8),
    Rule(fn(InstructionWord) -> bool),
}

impl OperandCondition {
    pub(super) fn holds(self, word: InstructionWord) -> bool {
        match self {
            Self::Always => true,
            Self::Set(bit) => word.bit(bit),
            Self::Clear(bit) => !word.bit(bit),
            Self::Is(start, width, value) => word.bits(start, width) == value,
            Self::Form(forms) => forms >> form(word) & 1 == 1,
            Self::Rule(rule) => rule(word),
        }
    }
}

impl RegisterCount {
    pub(super) fn registers(self, word: InstructionWord) -> u16 {
        match self {
            Self::Fixed(width) => width,
            Self::Size(start) => registers_of_size(word.bits(start, 3)),
            Self::PairIf(bit) => 1 + u16::from(word.bit(bit)),
            Self::PairIs(start, width, value) => 1 + u16::from(word.bits(start, width) == value),
            Self::PairUnless(bit) => 1 + u16::from(!word.bit(bit)),
            Self::Rule(rule) => rule(word),
        }
    }
}

/// Registers that a memory size takes: bytes and halves take a whole one.
const fn registers_of_size(size: u64) -> u16 {
    match size {
        5 => 2,
        6 => 4,
        _ => 1,
    }
}

impl FamilyOperand {
    /// Its first register; `None` where the operand is not there, or is a zero or a true register.
    pub(super) fn first(&self, word: InstructionWord, sm: Sm) -> Option<Register> {
        if !self.when.holds(word) {
            return None;
        }
        let register = self.field.register(word, sm)?;
        (register.index != zero_index(register.file, sm)).then_some(register)
    }

    pub(super) const fn wide(self, count: u16) -> Self {
        Self { width: RegisterCount::Fixed(count), ..self }
    }

    pub(super) const fn width(self, width: RegisterCount) -> Self {
        Self { width, ..self }
    }

    pub(super) const fn when(self, when: OperandCondition) -> Self {
        Self { when, ..self }
    }

    pub(super) const fn role(self, role: OperandRole) -> Self {
        Self { role, ..self }
    }
}

impl RegisterField {
    fn register(self, word: InstructionWord, sm: Sm) -> Option<Register> {
        Some(match self {
            Self::General(start) => general(word, start),
            Self::Uniform(start) => uniform(word, start, sm),
            Self::Predicate(start) => predicate(RegisterFile::Predicate, word.byte(start) & 7),
            Self::UniformPredicate(start) => predicate(RegisterFile::UniformPredicate, word.byte(start) & 7),
            Self::FlippedPredicate(start) => predicate(RegisterFile::Predicate, !word.byte(start) & 7),
            Self::FlippedUniformPredicate(start) => {
                predicate(RegisterFile::UniformPredicate, !word.byte(start) & 7)
            }
            Self::Convergence(start) => {
                Register { file: RegisterFile::Convergence, index: word.byte(start) & 0xf }
            }
            Self::Second => return second(word, sm),
            Self::Third => return third(word, sm),
            Self::Sole => return sole(word, sm),
            Self::UniformSole => return sole(word, sm).map(|_| uniform(word, 32, sm)),
            Self::UniformSecond => return second(word, sm).map(|_| uniform(word, second_position(word), sm)),
            Self::UniformThird => return third(word, sm).map(|_| uniform(word, third_position(word), sm)),
        })
    }
}

/// The form of the sources: which of them is an immediate, a constant or a uniform register.
const fn form(word: InstructionWord) -> u8 {
    word.byte(9) & 7
}

fn second(word: InstructionWord, sm: Sm) -> Option<Register> {
    match form(word) {
        1 | 2 | 3 | 7 => Some(general(word, second_position(word))),
        6 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn third(word: InstructionWord, sm: Sm) -> Option<Register> {
    match form(word) {
        1 | 4 | 5 | 6 => Some(general(word, third_position(word))),
        7 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn sole(word: InstructionWord, sm: Sm) -> Option<Register> {
    match form(word) {
        1 => Some(general(word, 32)),
        6 | 7 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn second_position(word: InstructionWord) -> u32 {
    if matches!(form(word), 2 | 3 | 7) { 64 } else { 32 }
}

fn third_position(word: InstructionWord) -> u32 {
    if form(word) == 7 { 32 } else { 64 }
}

const fn general(word: InstructionWord, start: u32) -> Register {
    Register { file: RegisterFile::General, index: word.byte(start) }
}

const fn uniform(word: InstructionWord, start: u32, sm: Sm) -> Register {
    let mask = zero_index(RegisterFile::Uniform, sm);
    Register { file: RegisterFile::Uniform, index: word.byte(start) & mask }
}

const fn predicate(file: RegisterFile, index: u8) -> Register {
    Register { file, index }
}

/// The index of a file's constant register: RZ, URZ, PT, UPT.
pub(super) const fn zero_index(file: RegisterFile, sm: Sm) -> u8 {
    match file {
        // The field of uniform registers grew from six to eight bits.
        RegisterFile::Uniform if sm.0 < 100 => 63,
        RegisterFile::General | RegisterFile::Uniform => 255,
        RegisterFile::Predicate | RegisterFile::UniformPredicate => 7,
        RegisterFile::Convergence => 16,
    }
}

const fn operand(field: RegisterField, role: OperandRole) -> FamilyOperand {
    FamilyOperand { field, width: RegisterCount::Fixed(1), role, when: OperandCondition::Always }
}

pub(super) const fn write(start: u32) -> FamilyOperand {
    operand(RegisterField::General(start), OperandRole::Write)
}

pub(super) const fn read(start: u32) -> FamilyOperand {
    operand(RegisterField::General(start), OperandRole::Read)
}

pub(super) const fn uniform_write(start: u32) -> FamilyOperand {
    operand(RegisterField::Uniform(start), OperandRole::Write)
}

pub(super) const fn uniform_read(start: u32) -> FamilyOperand {
    operand(RegisterField::Uniform(start), OperandRole::Read)
}

pub(super) const fn predicate_write(start: u32) -> FamilyOperand {
    operand(RegisterField::Predicate(start), OperandRole::Write)
}

pub(super) const fn predicate_read(start: u32) -> FamilyOperand {
    operand(RegisterField::Predicate(start), OperandRole::Read)
}

pub(super) const fn uniform_predicate_write(start: u32) -> FamilyOperand {
    operand(RegisterField::UniformPredicate(start), OperandRole::Write)
}

pub(super) const fn uniform_predicate_read(start: u32) -> FamilyOperand {
    operand(RegisterField::UniformPredicate(start), OperandRole::Read)
}

pub(super) const fn flipped_read(start: u32) -> FamilyOperand {
    operand(RegisterField::FlippedPredicate(start), OperandRole::Read)
}

pub(super) const fn flipped_uniform_read(start: u32) -> FamilyOperand {
    operand(RegisterField::FlippedUniformPredicate(start), OperandRole::Read)
}

pub(super) const fn convergence_write(start: u32) -> FamilyOperand {
    operand(RegisterField::Convergence(start), OperandRole::Write)
}

pub(super) const fn convergence_read(start: u32) -> FamilyOperand {
    operand(RegisterField::Convergence(start), OperandRole::Read)
}

/// The destination.
pub(super) const D: FamilyOperand = write(16);
/// The first source.
pub(super) const A: FamilyOperand = read(24);
/// The second source.
pub(super) const B: FamilyOperand = operand(RegisterField::Second, OperandRole::Read);
/// The third source.
pub(super) const C: FamilyOperand = operand(RegisterField::Third, OperandRole::Read);
/// The only source behind the first.
pub(super) const S: FamilyOperand = operand(RegisterField::Sole, OperandRole::Read);
/// The first and the second predicate written.
pub(super) const P: FamilyOperand = predicate_write(81);
pub(super) const P2: FamilyOperand = predicate_write(84);
/// The first, second and third predicate read.
pub(super) const Q: FamilyOperand = predicate_read(87);
pub(super) const Q2: FamilyOperand = predicate_read(77);
pub(super) const Q3: FamilyOperand = predicate_read(68);
/// The same of the uniform datapath.
pub(super) const UD: FamilyOperand = uniform_write(16);
pub(super) const UA: FamilyOperand = uniform_read(24);
pub(super) const UB: FamilyOperand = operand(RegisterField::UniformSecond, OperandRole::Read);
pub(super) const UC: FamilyOperand = operand(RegisterField::UniformThird, OperandRole::Read);
pub(super) const US: FamilyOperand = operand(RegisterField::UniformSole, OperandRole::Read);
pub(super) const UP: FamilyOperand = uniform_predicate_write(81);
pub(super) const UP2: FamilyOperand = uniform_predicate_write(84);
pub(super) const UQ: FamilyOperand = uniform_predicate_read(87);
pub(super) const UQ2: FamilyOperand = uniform_predicate_read(77);
pub(super) const UQ3: FamilyOperand = uniform_predicate_read(68);
