//! Operands: position in an instruction's bits, number of registers, and condition.

use crate::register::{File, Register};
use crate::word::{Sm, Word};

/// One operand of a family.
#[derive(Clone, Copy)]
pub(super) struct Operand {
    pub(super) place: Place,
    pub(super) width: Width,
    pub(super) role: Role,
    pub(super) when: When,
}

/// The register: a file, and the start bit of its number.
#[derive(Clone, Copy)]
pub(super) enum Place {
    General(u32),
    Uniform(u32),
    Predicate(u32),
    UniformPredicate(u32),
    /// A predicate stored with all bits flipped: 0 is "always".
    FlippedPredicate(u32),
    FlippedUniformPredicate(u32),
    Convergence(u32),
    /// The second source, whose position depends on the form.
    Second,
    /// The third source.
    Third,
    /// The last source of instructions with a single one after the first: no form moves it to the third position.
    Sole,
    /// The same of the uniform datapath.
    UniformSecond,
    UniformThird,
    UniformSole,
}

/// Use of the operand.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Write,
    Read,
    /// Reads it as an address.
    Address,
    /// Reads it as the base of an address, as a descriptor, or as the address of a tensor map.
    Base,
}

/// Number of consecutive registers.
#[derive(Clone, Copy)]
pub(super) enum Width {
    Fixed(u16),
    /// By the memory size in the three bits from here on.
    Size(u32),
    /// One if the bit is clear, two if it is set.
    PairIf(u32),
    /// Two if the bits (start, number) have this value.
    PairIs(u32, u32, u64),
    /// Two if the bit is clear, one if it is set.
    PairUnless(u32),
    Rule(fn(Word) -> u16),
}

/// Condition for the operand.
#[derive(Clone, Copy)]
pub(super) enum When {
    Always,
    Set(u32),
    Clear(u32),
    /// The bits (start, number) have this value.
    Is(u32, u32, u64),
    /// The form (bits 9 to 11) is among these: bit n for form n.
    Form(u8),
    Rule(fn(Word) -> bool),
}

impl When {
    pub(super) fn holds(self, word: Word) -> bool {
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

impl Width {
    pub(super) fn of(self, word: Word) -> u16 {
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

/// Registers for a memory size: bytes and halves take a complete one.
const fn registers_of_size(size: u64) -> u16 {
    match size {
        5 => 2,
        6 => 4,
        _ => 1,
    }
}

impl Operand {
    /// Its first register. `None` if the operand is absent, or is a zero or a true register.
    pub(super) fn first(&self, word: Word, sm: Sm) -> Option<Register> {
        if !self.when.holds(word) {
            return None;
        }
        let register = self.place.register(word, sm)?;
        (register.index != zero_index(register.file, sm)).then_some(register)
    }

    pub(super) const fn wide(self, count: u16) -> Self {
        Self { width: Width::Fixed(count), ..self }
    }

    pub(super) const fn width(self, width: Width) -> Self {
        Self { width, ..self }
    }

    pub(super) const fn when(self, when: When) -> Self {
        Self { when, ..self }
    }

    pub(super) const fn role(self, role: Role) -> Self {
        Self { role, ..self }
    }
}

impl Place {
    fn register(self, word: Word, sm: Sm) -> Option<Register> {
        Some(match self {
            Self::General(start) => general(word, start),
            Self::Uniform(start) => uniform(word, start, sm),
            Self::Predicate(start) => predicate(File::Predicate, word.byte(start) & 7),
            Self::UniformPredicate(start) => predicate(File::UniformPredicate, word.byte(start) & 7),
            Self::FlippedPredicate(start) => predicate(File::Predicate, !word.byte(start) & 7),
            Self::FlippedUniformPredicate(start) => predicate(File::UniformPredicate, !word.byte(start) & 7),
            Self::Convergence(start) => Register { file: File::Convergence, index: word.byte(start) & 0xf },
            Self::Second => return second(word, sm),
            Self::Third => return third(word, sm),
            Self::Sole => return sole(word, sm),
            Self::UniformSole => return sole(word, sm).map(|_| uniform(word, 32, sm)),
            Self::UniformSecond => return second(word, sm).map(|_| uniform(word, second_place(word), sm)),
            Self::UniformThird => return third(word, sm).map(|_| uniform(word, third_place(word), sm)),
        })
    }
}

/// The form of the sources: which of them is an immediate, a constant or a uniform register.
const fn form(word: Word) -> u8 {
    word.byte(9) & 7
}

fn second(word: Word, sm: Sm) -> Option<Register> {
    match form(word) {
        1 | 2 | 3 | 7 => Some(general(word, second_place(word))),
        6 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn third(word: Word, sm: Sm) -> Option<Register> {
    match form(word) {
        1 | 4 | 5 | 6 => Some(general(word, third_place(word))),
        7 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn sole(word: Word, sm: Sm) -> Option<Register> {
    match form(word) {
        1 => Some(general(word, 32)),
        6 | 7 => Some(uniform(word, 32, sm)),
        _ => None,
    }
}

fn second_place(word: Word) -> u32 {
    if matches!(form(word), 2 | 3 | 7) { 64 } else { 32 }
}

fn third_place(word: Word) -> u32 {
    if form(word) == 7 { 32 } else { 64 }
}

const fn general(word: Word, start: u32) -> Register {
    Register { file: File::General, index: word.byte(start) }
}

const fn uniform(word: Word, start: u32, sm: Sm) -> Register {
    let mask = zero_index(File::Uniform, sm);
    Register { file: File::Uniform, index: word.byte(start) & mask }
}

const fn predicate(file: File, index: u8) -> Register {
    Register { file, index }
}

/// The index of a file's constant register: RZ, URZ, PT, UPT.
pub(super) const fn zero_index(file: File, sm: Sm) -> u8 {
    match file {
        // The field of uniform registers grew from six to eight bits.
        File::Uniform if sm.0 < 100 => 63,
        File::General | File::Uniform => 255,
        File::Predicate | File::UniformPredicate => 7,
        File::Convergence => 16,
    }
}

const fn operand(place: Place, role: Role) -> Operand {
    Operand { place, width: Width::Fixed(1), role, when: When::Always }
}

pub(super) const fn write(start: u32) -> Operand {
    operand(Place::General(start), Role::Write)
}

pub(super) const fn read(start: u32) -> Operand {
    operand(Place::General(start), Role::Read)
}

pub(super) const fn uniform_write(start: u32) -> Operand {
    operand(Place::Uniform(start), Role::Write)
}

pub(super) const fn uniform_read(start: u32) -> Operand {
    operand(Place::Uniform(start), Role::Read)
}

pub(super) const fn predicate_write(start: u32) -> Operand {
    operand(Place::Predicate(start), Role::Write)
}

pub(super) const fn predicate_read(start: u32) -> Operand {
    operand(Place::Predicate(start), Role::Read)
}

pub(super) const fn uniform_predicate_write(start: u32) -> Operand {
    operand(Place::UniformPredicate(start), Role::Write)
}

pub(super) const fn uniform_predicate_read(start: u32) -> Operand {
    operand(Place::UniformPredicate(start), Role::Read)
}

pub(super) const fn flipped_read(start: u32) -> Operand {
    operand(Place::FlippedPredicate(start), Role::Read)
}

pub(super) const fn flipped_uniform_read(start: u32) -> Operand {
    operand(Place::FlippedUniformPredicate(start), Role::Read)
}

pub(super) const fn convergence_write(start: u32) -> Operand {
    operand(Place::Convergence(start), Role::Write)
}

pub(super) const fn convergence_read(start: u32) -> Operand {
    operand(Place::Convergence(start), Role::Read)
}

/// The destination.
pub(super) const D: Operand = write(16);
/// The first source.
pub(super) const A: Operand = read(24);
/// The second source.
pub(super) const B: Operand = operand(Place::Second, Role::Read);
/// The third source.
pub(super) const C: Operand = operand(Place::Third, Role::Read);
/// The only source after the first.
pub(super) const S: Operand = operand(Place::Sole, Role::Read);
/// The first and the second predicate written.
pub(super) const P: Operand = predicate_write(81);
pub(super) const P2: Operand = predicate_write(84);
/// The first, second and third predicate read.
pub(super) const Q: Operand = predicate_read(87);
pub(super) const Q2: Operand = predicate_read(77);
pub(super) const Q3: Operand = predicate_read(68);
/// The same of the uniform datapath.
pub(super) const UD: Operand = uniform_write(16);
pub(super) const UA: Operand = uniform_read(24);
pub(super) const UB: Operand = operand(Place::UniformSecond, Role::Read);
pub(super) const UC: Operand = operand(Place::UniformThird, Role::Read);
pub(super) const US: Operand = operand(Place::UniformSole, Role::Read);
pub(super) const UP: Operand = uniform_predicate_write(81);
pub(super) const UP2: Operand = uniform_predicate_write(84);
pub(super) const UQ: Operand = uniform_predicate_read(87);
pub(super) const UQ2: Operand = uniform_predicate_read(77);
pub(super) const UQ3: Operand = uniform_predicate_read(68);
