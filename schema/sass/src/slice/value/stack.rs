//! Registers that a function keeps on its stack while it needs them for something else.

use std::collections::BTreeMap;

use crate::instruction::{MemoryEffect, MemorySpace, SassInstruction};
use crate::register::{Register, RegisterFile};

const WORD_BYTES: i32 = 4;
/// The stack pointer. A function sets it once.
const STACK: Register = Register { file: RegisterFile::General, index: 1 };
/// The place of a store's data.
const DATA: u32 = 32;

/// By place of a word on the stack: the stores to it, each with the register that it keeps there.
#[derive(Debug, Default)]
pub(super) struct StackWords(BTreeMap<i32, Vec<(usize, Register)>>);

impl StackWords {
    pub(super) fn new(instructions: &[SassInstruction]) -> Self {
        let mut words = Self::default();
        for (index, store) in instructions.iter().enumerate() {
            let Some((place, bytes)) = on_stack(store, MemoryEffect::Write) else { continue };
            for word in 0..bytes / 4 {
                let register = store.word.byte(DATA).wrapping_add(word);
                let saved = Register { file: RegisterFile::General, index: register };
                // Not the zero register, nor one that is none.
                if store.reads.contains(saved) {
                    words.0.entry(word_place(place, word)).or_default().push((index, saved));
                }
            }
        }
        words
    }

    /// The stores to the word that a load takes back into a register, with the registers that they keep.
    pub(super) fn saved(&self, load: &SassInstruction, register: Register) -> &[(usize, Register)] {
        let word = register.index.wrapping_sub(load.word.byte(16));
        let place = on_stack(load, MemoryEffect::Read).map(|(place, _)| word_place(place, word));
        place.and_then(|place| self.0.get(&place)).map_or(&[], Vec::as_slice)
    }
}

fn word_place(place: i32, word: u8) -> i32 {
    place.wrapping_add(WORD_BYTES * i32::from(word))
}

/// Place and bytes of an access of the stack.
fn on_stack(instruction: &SassInstruction, kind: MemoryEffect) -> Option<(i32, u8)> {
    let memory = instruction.memory.filter(|memory| {
        memory.space == MemorySpace::Local && memory.kind == kind && memory.address == Some(STACK)
    })?;
    Some((memory.offset, u8::try_from(memory.bytes).ok()?))
}
