//! Which machine instructions access memory, and which of those NVIDIA's sanitizer API lets a tool observe.

use crate::decode;
use crate::instruction::{Class, Instruction, Space};
use crate::word::{Sm, Word};

/// How an instruction accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// The sanitizer has a patch point for it, which fires.
    Covered,
    /// A copy, reduction or prefetch by a tensor map.
    TensorMap,
    /// Textures and surfaces.
    Texture,
    /// Bulk copies, loads from several GPUs at once.
    Other,
}

/// Instructions of a function that access memory, counted by what observes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInstructions {
    /// All of them.
    pub all: u32,
    /// Those by tensor maps, which no patch point covers.
    pub tensor_map: u32,
    /// Textures and surfaces, which no patch point covers.
    pub texture: u32,
    /// Others that no patch point covers: bulk copies, loads from several GPUs at once.
    pub other_uncovered: u32,
}

impl MemoryInstructions {
    /// Those that no patch point covers.
    pub fn uncovered(self) -> u32 {
        self.tensor_map + self.texture + self.other_uncovered
    }

    /// Those of two functions.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            tensor_map: self.tensor_map + other.tensor_map,
            texture: self.texture + other.texture,
            other_uncovered: self.other_uncovered + other.other_uncovered,
        }
    }
}

/// The instructions in a function's code that access memory; none where the architecture is not known.
pub fn count_memory(code: &[u8], sm: Sm) -> MemoryInstructions {
    let mut counts = MemoryInstructions::default();
    if !sm.is_known() {
        return counts;
    }
    let words = code.as_chunks().0.iter().map(|bytes| Word::from_bytes(*bytes));
    for access in words.filter_map(|word| access(&decode(word, sm))) {
        counts.all += 1;
        match access {
            Access::Covered => {}
            Access::TensorMap => counts.tensor_map += 1,
            Access::Texture => counts.texture += 1,
            Access::Other => counts.other_uncovered += 1,
        }
    }
    counts
}

/// Constants, tensor memory, and the mbarriers of waits are no memory that is counted here.
fn access(instruction: &Instruction) -> Option<Access> {
    let space = instruction.memory?.space;
    match (instruction.class, instruction.mnemonic?) {
        (Class::Sync, _) | (_, "UTMACCTL") => None,
        _ if matches!(space, Space::Constant | Space::TensorMemory) => None,
        (_, "LDGSTS") => Some(Access::Covered),
        (Class::Async, "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UTMAPF") => Some(Access::TensorMap),
        (Class::Texture, _) => Some(Access::Texture),
        (Class::Async, _) | (_, "LDGMC") => Some(Access::Other),
        _ => Some(Access::Covered),
    }
}
