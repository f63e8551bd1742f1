//! From bits to what depends on them.

use crate::control::Control;
use crate::instruction::{Class, Flow, Instruction};
use crate::register::Registers;
use crate::word::{Sm, Word};

/// Decodes an instruction. One that is not known says so; its guard and scheduling are read all the same.
pub fn decode(word: Word, _sm: Sm) -> Instruction {
    Instruction {
        word,
        mnemonic: None,
        class: Class::Unknown,
        guard: None,
        writes: Registers::NONE,
        reads: Registers::NONE,
        memory: None,
        flow: Flow::Next,
        control: Control::of(word),
    }
}
