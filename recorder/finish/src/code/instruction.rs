//! Which machine instructions access memory, and which of those the recorder sees.

use stallmap_sass::decode;
use stallmap_sass::instruction::{Class, Instruction, Space};
use stallmap_sass::word::{Sm, Word};

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The sanitizer has a patch point for it, which fires.
    Covered,
    /// Tensor-map and bulk copies, textures and surfaces, loads from several GPUs at once: the sanitizer does not see
    /// them.
    Uncovered,
}

/// (instructions that access memory, those of them that no patch point covers) in a function's code.
pub(super) fn count_memory(code: &[u8], sm: Sm) -> (u32, u32) {
    if !sm.is_known() {
        return (0, 0);
    }
    let words = code.as_chunks().0.iter().map(|bytes| Word::from_bytes(*bytes));
    let accesses = words.filter_map(|word| access(&decode(word, sm)));
    accesses.fold((0, 0), |(all, uncovered), access| {
        (all + 1, uncovered + u32::from(access == Access::Uncovered))
    })
}

/// Constants, tensor memory, and the mbarriers of waits are no memory that is counted here.
fn access(instruction: &Instruction) -> Option<Access> {
    let space = instruction.memory?.space;
    match (instruction.class, instruction.mnemonic?) {
        (Class::Sync, _) | (_, "UTMACCTL") => None,
        _ if matches!(space, Space::Constant | Space::TensorMemory) => None,
        (_, "LDGSTS") => Some(Access::Covered),
        (Class::Async | Class::Texture, _) | (_, "LDGMC") => Some(Access::Uncovered),
        _ => Some(Access::Covered),
    }
}
