//! Analysis of a section of code, without the instructions: decoding them again is fast.

use stallmap_sass::instruction::{Class, Space};
use stallmap_sass::word::INSTRUCTION_BYTES;
use stallmap_slice::analysis::{Analysis, Block, PointerUse, Producer, SharedFill, Signal, TensorMapUse};

/// Analysis result. All positions are byte offsets in the section, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Findings {
    /// Instructions with an unknown operation.
    pub unknown: Vec<u32>,
    /// Instructions that access memory.
    pub memory: Vec<MemoryInstruction>,
    /// Blocks.
    pub blocks: Vec<Block>,
    /// Producers.
    pub producers: Vec<Producer>,
    /// Tensor-map copies with their parameters.
    pub tensor_maps: Vec<TensorMapUse>,
    /// Copies with pointers among the parameters.
    pub pointers: Vec<PointerUse>,
    /// Signals with the work before them.
    pub signals: Vec<Signal>,
    /// Fills of the shared memory that instructions read.
    pub fills: Vec<SharedFill>,
}

/// An instruction that accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInstruction {
    /// Its location.
    pub offset: u32,
    /// Which unit executes it.
    pub class: Class,
    /// Which memory.
    pub space: Space,
}

impl Findings {
    /// The cacheable part of an analysis.
    pub fn of(analysis: Analysis) -> Self {
        let instructions = || (0..).step_by(INSTRUCTION_BYTES as usize).zip(&analysis.instructions);
        let unknown = instructions().filter(|(_, instruction)| instruction.mnemonic.is_none());
        let unknown = unknown.map(|(offset, _)| offset).collect();
        let memory = instructions().filter_map(|(offset, instruction)| {
            let space = instruction.memory?.space;
            Some(MemoryInstruction { offset, class: instruction.class, space })
        });
        let memory = memory.collect();
        let Analysis { blocks, producers, tensor_maps, pointers, signals, fills, .. } = analysis;
        Self { unknown, memory, blocks, producers, tensor_maps, pointers, signals, fills }
    }

    /// Memory access of the instruction at an offset. `None` without one.
    pub fn memory_at(&self, offset: u32) -> Option<MemoryInstruction> {
        let place = self.memory.binary_search_by_key(&offset, |memory| memory.offset).ok()?;
        self.memory.get(place).copied()
    }
}
