//! Analysis of one section of code: its instructions, blocks, and the producers of each wait.

use std::ops::Range;

use petgraph::graph::NodeIndex;

use crate::cubin::CodeSection;
use crate::decode;
use crate::instruction::SassInstruction;
use crate::slice::axes::GridAxes;
use crate::slice::copies::SectionCopies;
use crate::slice::definitions::RegisterWrites;
use crate::slice::fills::{ReadContents, shared_fills};
use crate::slice::graph::FlowGraph;
use crate::slice::pointers::parameter_pointers;
use crate::slice::producers::producers;
use crate::slice::value::ValueQuery;
use crate::slice::work::{AnalysisBudget, TooMuchWork};
use crate::word::{INSTRUCTION_BYTES, InstructionWord, Sm};

/// Result of the analysis of a section of code. Everything is by byte offset in the section.
#[derive(Clone, Debug, Default)]
pub struct SectionAnalysis {
    /// Its instructions: the one at offset 16 * index.
    pub instructions: Vec<SassInstruction>,
    /// Its blocks, by first offset.
    pub blocks: Vec<CodeBlock>,
    /// Producers of each wait, by (waiter, wait, producer).
    pub producers: Vec<WaitProducer>,
    /// Tensor-map copies whose tensor map was followed back to a kernel parameter, by offset.
    pub tensor_maps: Vec<CopyTensorMap>,
    /// Bulk copies whose address in device memory, and tensor-map copies whose tensor map's content, was followed back to
    /// kernel parameters, by offset.
    pub pointers: Vec<CopyPointer>,
    /// Tensor-map copies with arrays of pointers among the kernel's parameters: the kernel stores a pointer of the array
    /// into their tensor map.
    pub pointer_arrays: Vec<CopyPointer>,
    /// Stores of pointers among the kernel's parameters to memory that others of them point to.
    pub pointer_stores: Vec<PointerStore>,
    /// Accesses to device memory whose address is the sum of a kernel parameter that may be a pointer and of other things.
    pub accesses: Vec<AccessPointer>,
    /// Signals of warps that others wait for, by offset.
    pub signals: Vec<BarrierSignal>,
    /// Content of the shared memory that instructions read, by (read, fill).
    pub fills: Vec<SharedMemoryFill>,
    /// The stores that may have put it there: the offsets of a read with fills and of a store, in order.
    pub fill_stores: Vec<(u32, u32)>,
    /// Steps that the analysis took.
    pub steps: u64,
}

/// Instructions that are always executed one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeBlock {
    /// Offset of its first instruction.
    pub first: u32,
    /// Offset of its last instruction.
    pub last: u32,
    /// First offsets of the blocks that may follow, returns of calls among them.
    pub successors: Vec<u32>,
}

/// One instruction that another may wait for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WaitProducer {
    /// The instruction that is found waiting. A warp that has exited and drains its stores is found at the instruction
    /// behind the exit, even where another function begins there.
    pub waiter: u32,
    /// The class of its wait.
    pub wait: WaitClass,
    /// The instruction that it waits for.
    pub producer: u32,
    /// The dependency between the two.
    pub link: ProducerLink,
    /// The fewest cycles of issue between them, by the stall counts of the instructions on the way. `None` for copies
    /// in groups and for copies of other warps.
    pub distance_cycles: Option<u32>,
    /// The fewest cycles of issue since any instruction set the barrier through which it is awaited: a barrier is a
    /// counter, so the wait is for the newest of them too. `None` like `distance_cycles`.
    pub covered_cycles: Option<u32>,
    /// Producers of one slot are alternatives, of which a warp executed one. Slots are awaited together.
    pub slot: u32,
    /// The producer's part of the wait: sums to 1 over a waiter's producers of a wait, by inverse distance.
    pub weight: f64,
    /// Confidence in the producer.
    pub confidence: ProducerConfidence,
}

/// The class of stall reasons of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitClass {
    /// Stall reason long_scoreboard: results from device and local memory, textures.
    LongScoreboard,
    /// Stall reason short_scoreboard: results from shared memory, special functions and others of their unit.
    ShortScoreboard,
    /// Stall reasons drain and membar: stores on their way.
    Stores,
}

impl WaitClass {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LongScoreboard => "long_scoreboard",
            Self::ShortScoreboard => "short_scoreboard",
            Self::Stores => "stores",
        }
    }
}

/// The dependency of a waiting instruction on its producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProducerLink {
    /// It reads a register that the producer writes.
    Reads,
    /// It writes a register that the producer writes.
    Overwrites,
    /// It writes a register that the producer reads.
    Reuses,
    /// It waits for a barrier that the producer sets, and shares no register with it.
    Barrier,
    /// It waits for a group of asynchronous copies of which the producer is one.
    Group,
    /// It waits for an mbarrier that the producer signals.
    Mbarrier,
    /// It waits for an mbarrier that another copy signals, and copies of one loop are carried out in order.
    InOrder,
    /// It waits until stores are done.
    Store,
}

impl ProducerLink {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Overwrites => "overwrites",
            Self::Reuses => "reuses",
            Self::Barrier => "barrier",
            Self::Group => "group",
            Self::Mbarrier => "mbarrier",
            Self::InOrder => "in order",
            Self::Store => "store",
        }
    }
}

/// Confidence in a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProducerConfidence {
    /// The only instruction that the scoreboard allows.
    Exact,
    /// Chosen by registers among those that set the barrier.
    Refined,
    /// One of several that remain: the weight is a share.
    Shared,
    /// Found by a rule that the code does not prove.
    Approximate,
    /// No candidate fits the stall reason: all that set the barrier remain.
    Low,
}

impl ProducerConfidence {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Refined => "refined",
            Self::Shared => "shared",
            Self::Approximate => "approximate",
            Self::Low => "low",
        }
    }
}

/// A tensor-map copy and the kernel parameter that its tensor map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyTensorMap {
    /// The copy's offset.
    pub offset: u32,
    /// The tensor map's offset among the kernel's parameters, bytes.
    pub parameter_offset: u32,
    /// The dimensions of the grid that say which part a block copies. `None` where they are not known.
    pub axes: Option<GridAxes>,
}

/// A copy and a pointer among the kernel's parameters: a bulk copy's address may be computed from it, or the kernel
/// stores it into a tensor-map copy's tensor map.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CopyPointer {
    /// The copy's offset.
    pub offset: u32,
    /// The pointer's offset among the kernel's parameters, bytes. It may be another word of eight bytes that is added.
    pub parameter_offset: u32,
    /// As in [`CopyTensorMap`].
    pub axes: Option<GridAxes>,
}

/// A store to memory behind one pointer among the kernel's parameters of an address that is computed from another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PointerStore {
    /// The store's offset.
    pub offset: u32,
    /// Offset of the pointer to the memory that is written, among the kernel's parameters, bytes.
    pub parameter_offset: u32,
    /// Offset of the pointer that is stored.
    pub stored_offset: u32,
}

/// An access to device memory and a pointer among the kernel's parameters that is a term of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccessPointer {
    /// The instruction's offset.
    pub offset: u32,
    /// The pointer's offset among the kernel's parameters, bytes. It may be another word of eight bytes that is added.
    pub parameter_offset: u32,
}

/// An instruction by which a warp arrives at an mbarrier that others wait for, and the work before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BarrierSignal {
    /// Its offset.
    pub offset: u32,
    /// Offsets of the instructions since the signal before it, in order. Outside loops, since the start.
    pub work: Vec<u32>,
}

/// An instruction that reads shared memory, and one that may have filled it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SharedMemoryFill {
    /// The read's offset.
    pub offset: u32,
    /// Offset of the copy, of the load whose result was stored, or of the store.
    pub fill: u32,
    /// The way of the content into shared memory.
    pub kind: FillKind,
    /// Its part of the content: sums to 1 over the fills of a read.
    pub share: f64,
}

/// The way of some content into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FillKind {
    /// An asynchronous copy of device memory.
    Copy,
    /// A load of device memory and a store of its result, or of this in another type.
    Load,
    /// A store of something computed: from loads where these are the fills, else the fill is the store.
    Computed,
}

impl FillKind {
    /// Its name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Load => "load",
            Self::Computed => "computed",
        }
    }
}

/// Analyzes a section's code. Bytes behind the last complete instruction are left out. An error if the answers are more
/// than code of its length has: see [`AnalysisBudget`].
pub fn analyze(code: &[u8], section: &CodeSection, sm: Sm) -> Result<SectionAnalysis, TooMuchWork> {
    let words = code.as_chunks::<16>().0.iter();
    let instructions: Vec<_> = words.map(|bytes| decode(InstructionWord::from_bytes(*bytes), sm)).collect();
    let work = AnalysisBudget::for_instructions(instructions.len());
    let flow = FlowGraph::new(&instructions, section, &work)?;
    let definitions = RegisterWrites::new(&instructions);
    let mut question = ValueQuery::new(&instructions, &flow, &definitions, sm, &work);
    let copies = SectionCopies::new(&instructions, &flow, &mut question, &work)?;
    let ReadContents { fills, stores: fill_stores } = shared_fills(&instructions, &mut question, &work)?;
    let (accesses, pointer_stores) = parameter_pointers(&instructions, section, &flow, &definitions, sm);
    Ok(SectionAnalysis {
        producers: producers(&instructions, &flow, &definitions, &copies, &work)?,
        blocks: blocks(&flow),
        tensor_maps: copies.tensor_maps(section),
        pointers: copies.pointers(section),
        pointer_arrays: copies.arrays(section),
        pointer_stores,
        accesses,
        signals: copies.signals(),
        fills,
        fill_stores,
        steps: work.spent(),
        instructions,
    })
}

fn blocks(flow: &FlowGraph) -> Vec<CodeBlock> {
    let block = |(node, range): (NodeIndex, &Range<usize>)| {
        let following = flow.graph.neighbors(node).map(|next| offset(flow.graph[next].start));
        let mut successors: Vec<u32> = following.collect();
        successors.sort_unstable();
        CodeBlock { first: offset(range.start), last: offset(range.end.saturating_sub(1)), successors }
    };
    flow.blocks().map(block).collect()
}

/// The byte offset of an instruction. A section is smaller than 4 GiB: its offsets are 32 bits in every table.
pub(crate) fn offset(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(INSTRUCTION_BYTES)
}
