//! Analysis of a section of code, without the instructions: decoding them again is fast.

use stallmap_sass::instruction::{ExecutionUnit, MemorySpace};
use stallmap_sass::slice::analysis::{
    AccessPointer, BarrierSignal, CodeBlock, CopyPointer, CopyTensorMap, PointerStore, SectionAnalysis,
    SharedMemoryFill, WaitProducer,
};
use stallmap_sass::word::INSTRUCTION_BYTES;

/// Analysis result. All positions are byte offsets in the section, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SectionFindings {
    /// Instructions with an unknown operation.
    pub unknown: Vec<u32>,
    /// Instructions that access memory.
    pub memory: Vec<MemoryInstruction>,
    /// Blocks.
    pub blocks: Vec<CodeBlock>,
    /// Producers.
    pub producers: Vec<WaitProducer>,
    /// Tensor-map copies with their parameters.
    pub tensor_maps: Vec<CopyTensorMap>,
    /// Copies with pointers among the parameters.
    pub pointers: Vec<CopyPointer>,
    /// Copies with arrays of pointers among the parameters.
    pub pointer_arrays: Vec<CopyPointer>,
    /// Stores of pointers among the parameters.
    pub pointer_stores: Vec<PointerStore>,
    /// Accesses with pointers among the parameters.
    pub accesses: Vec<AccessPointer>,
    /// Signals with the work before them.
    pub signals: Vec<BarrierSignal>,
    /// Fills of the shared memory that instructions read.
    pub fills: Vec<SharedMemoryFill>,
}

/// An instruction that accesses memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInstruction {
    /// Its location.
    pub offset: u32,
    /// Which unit executes it.
    pub class: ExecutionUnit,
    /// Which memory.
    pub space: MemorySpace,
}

impl SectionFindings {
    /// The cacheable part of an analysis.
    pub fn from_analysis(analysis: SectionAnalysis) -> Self {
        let instructions = || (0..).step_by(INSTRUCTION_BYTES as usize).zip(&analysis.instructions);
        let unknown = instructions().filter(|(_, instruction)| instruction.mnemonic.is_none());
        let unknown = unknown.map(|(offset, _)| offset).collect();
        let memory = instructions().filter_map(|(offset, instruction)| {
            let space = instruction.memory?.space;
            Some(MemoryInstruction { offset, class: instruction.class, space })
        });
        let memory = memory.collect();
        let SectionAnalysis { blocks, producers, tensor_maps, pointers, accesses, signals, fills, .. } =
            analysis;
        let (pointer_arrays, pointer_stores) = (analysis.pointer_arrays, analysis.pointer_stores);
        Self {
            unknown,
            memory,
            blocks,
            producers,
            tensor_maps,
            pointers,
            pointer_arrays,
            pointer_stores,
            accesses,
            signals,
            fills,
        }
    }

    /// Memory access of the instruction at an offset. `None` without one.
    pub fn memory_at(&self, offset: u32) -> Option<MemoryInstruction> {
        let index = self.memory.binary_search_by_key(&offset, |memory| memory.offset).ok()?;
        self.memory.get(index).copied()
    }
}
