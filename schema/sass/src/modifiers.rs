//! Modifiers of instructions, as nvdisasm prints them behind the name: `.E.128.CONSTANT` of `LDG.E.128.CONSTANT`.
//!
//! The rules are those of memory accesses and of the arithmetic that compiled code consists of. `scripts/check-decoder`
//! and the committed sample compare them with nvdisasm's names. An instruction without rules has its name alone, and
//! the bits that it accesses.

use std::fmt::{self, Write as _};

use crate::instruction::SassInstruction;
use crate::word::InstructionWord;

mod arithmetic;
mod control;
mod memory;

/// The modifiers of one instruction, in order.
#[derive(Debug, Default)]
struct Modifiers(String);

impl Modifiers {
    /// Adds a modifier. Nothing if it is empty.
    fn add(&mut self, modifier: &str) -> &mut Self {
        if !modifier.is_empty() {
            self.0.push('.');
            self.0 += modifier;
        }
        self
    }

    /// Adds a modifier where a bit is set.
    fn add_if(&mut self, is_set: bool, modifier: &str) -> &mut Self {
        if is_set { self.add(modifier) } else { self }
    }

    /// Adds the modifier of a field's value. One that is not known says so.
    fn choose(&mut self, value: u64, names: &[&str]) -> &mut Self {
        let name = usize::try_from(value).ok().and_then(|value| names.get(value));
        self.add(name.copied().unwrap_or("INVALID"))
    }

    /// Adds a modifier with a number in it.
    fn number(&mut self, text: fmt::Arguments<'_>) -> &mut Self {
        self.0.push('.');
        // Writing to a string cannot fail.
        self.0.write_fmt(text).unwrap_or_default();
        self
    }
}

/// The modifiers of an instruction, each behind a point.
pub(crate) fn for_instruction(instruction: &SassInstruction) -> String {
    let Some(name) = instruction.mnemonic else { return String::new() };
    let mut modifiers = Modifiers::default();
    let (word, sm) = (instruction.word, instruction.sm);
    let is_known = arithmetic::add(&mut modifiers, name, word, sm)
        || memory::add(&mut modifiers, name, word, sm)
        || control::add(&mut modifiers, name, word, sm);
    if let Some(memory) = instruction.memory.filter(|memory| !is_known && memory.bytes > 0) {
        modifiers.number(format_args!("{}", memory.bytes * 8));
    }
    modifiers.0
}

/// The form of the source operands: which of them is a register, an immediate, a constant.
fn form(word: InstructionWord) -> u64 {
    word.bits(9, 3)
}

/// Comparisons of integers.
const COMPARISONS: [&str; 8] = ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "T"];
/// Comparisons of floats: the second half is true of numbers that cannot be compared.
const FLOAT_COMPARISONS: [&str; 16] =
    ["F", "LT", "EQ", "LE", "GT", "NE", "GE", "NUM", "NAN", "LTU", "EQU", "LEU", "GTU", "NEU", "GEU", "T"];
/// Combinations with another predicate.
const COMBINATIONS: [&str; 3] = ["AND", "OR", "XOR"];
/// Rounding of floats. To the nearest is not printed.
const ROUNDINGS: [&str; 4] = ["", "RM", "RP", "RZ"];
