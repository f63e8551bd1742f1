//! Memory instructions, and those of them that NVIDIA's sanitizer API lets a tool observe.

use crate::decode;
use crate::instruction::{ExecutionUnit, MemorySpace, SassInstruction};
use crate::word::{InstructionWord, Sm};

/// The memory access of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObservableAccess {
    /// Device memory, where a patch point fires. Asynchronous copies to shared memory too.
    Global,
    /// Shared memory of the block, where a patch point fires.
    Shared,
    /// A lane's own memory, where a patch point fires.
    Local,
    /// Matrices in shared memory, which have patch points of their own.
    Matrix,
    /// A copy, reduction or prefetch by a tensor map.
    TensorMap,
    /// Textures and surfaces.
    Texture,
    /// Asynchronous stores and copies to the shared memory of other blocks.
    RemoteShared,
    /// Bulk copies, loads from several GPUs at once.
    Other,
}

/// Instructions of a function that access memory, counted by the patch point that observes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryInstructions {
    /// All of them.
    pub all: u32,
    /// Instructions with a patch point for device memory, including asynchronous copies to shared memory.
    pub global: u32,
    /// Instructions with the patch point for shared memory.
    pub shared: u32,
    /// Instructions with the patch point for local memory.
    pub local: u32,
    /// Loads and stores of matrices in shared memory, which have patch points of their own.
    pub matrix: u32,
    /// Accesses by tensor maps, which no patch point covers.
    pub tensor_map: u32,
    /// Textures and surfaces, which no patch point covers.
    pub texture: u32,
    /// Stores and copies from shared memory to that of other blocks, which no patch point covers.
    pub remote_shared: u32,
    /// Others that no patch point covers: bulk copies, loads from several GPUs at once.
    pub other_uncovered: u32,
}

impl MemoryInstructions {
    /// Instructions that no patch point covers.
    pub fn uncovered(self) -> u32 {
        self.tensor_map + self.texture + self.remote_shared + self.other_uncovered
    }

    /// The sum of two functions' counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            all: self.all + other.all,
            global: self.global + other.global,
            shared: self.shared + other.shared,
            local: self.local + other.local,
            matrix: self.matrix + other.matrix,
            tensor_map: self.tensor_map + other.tensor_map,
            texture: self.texture + other.texture,
            remote_shared: self.remote_shared + other.remote_shared,
            other_uncovered: self.other_uncovered + other.other_uncovered,
        }
    }
}

/// The instructions in a function's code that access memory. None where the architecture is not known.
pub fn count_memory(code: &[u8], sm: Sm) -> MemoryInstructions {
    let mut counts = MemoryInstructions::default();
    if !sm.is_known() {
        return counts;
    }
    let words = code.as_chunks().0.iter().map(|bytes| InstructionWord::from_bytes(*bytes));
    for access in words.filter_map(|word| access(&decode(word, sm))) {
        counts.all += 1;
        match access {
            ObservableAccess::Global => counts.global += 1,
            ObservableAccess::Shared => counts.shared += 1,
            ObservableAccess::Local => counts.local += 1,
            ObservableAccess::Matrix => counts.matrix += 1,
            ObservableAccess::TensorMap => counts.tensor_map += 1,
            ObservableAccess::Texture => counts.texture += 1,
            ObservableAccess::RemoteShared => counts.remote_shared += 1,
            ObservableAccess::Other => counts.other_uncovered += 1,
        }
    }
    counts
}

/// Constants, tensor memory, and the mbarriers of waits are not counted here.
fn access(instruction: &SassInstruction) -> Option<ObservableAccess> {
    let space = instruction.memory?.space;
    match (instruction.class, instruction.mnemonic?) {
        (ExecutionUnit::Sync, _) | (_, "UTMACCTL") => None,
        _ if matches!(space, MemorySpace::Constant | MemorySpace::TensorMemory) => None,
        (_, "LDGSTS") => Some(ObservableAccess::Global),
        (ExecutionUnit::Async, "UTMALDG" | "UTMASTG" | "UTMAREDG" | "UTMAPF") => {
            Some(ObservableAccess::TensorMap)
        }
        (ExecutionUnit::Texture, _) => Some(ObservableAccess::Texture),
        (ExecutionUnit::Async, _) if space == MemorySpace::Shared => Some(ObservableAccess::RemoteShared),
        (ExecutionUnit::Async, _) | (_, "LDGMC") => Some(ObservableAccess::Other),
        (_, "LDSM" | "STSM") => Some(ObservableAccess::Matrix),
        _ if space == MemorySpace::Shared => Some(ObservableAccess::Shared),
        _ if space == MemorySpace::Local => Some(ObservableAccess::Local),
        _ => Some(ObservableAccess::Global),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// STAS, which cuBLAS uses between the blocks of a cluster, and UBLKCP.S.S access no device memory.
    #[test]
    fn instructions_are_counted_by_what_observes_them() {
        let words: [u128; 5] = [
            0x0001_e400_0800_8804_0000_0008_0600_73b4, // UTMALDG
            0x000f_e800_0b9a_1004_0000_0000_0209_7fae, // LDGSTS
            0x004f_e800_0c00_08ff_0000_0000_0600_7dbd, // STAS
            0x0003_e400_0800_0604_0000_0006_0500_73ba, // UBLKCP.S.S
            0x0001_f000_0800_1404_0000_0608_0500_73ba, // UBLKCP.G.S
        ];
        let counts = count_memory(words.map(u128::to_le_bytes).as_flattened(), Sm(100));
        let expected = MemoryInstructions {
            all: 5,
            global: 1,
            tensor_map: 1,
            remote_shared: 2,
            other_uncovered: 1,
            ..MemoryInstructions::default()
        };
        assert_eq!(counts, expected);
        assert_eq!((counts.uncovered(), counts.and(counts).uncovered()), (4, 8));
        assert_eq!(count_memory(&[0; 64], Sm(1)), MemoryInstructions::default());
    }
}
