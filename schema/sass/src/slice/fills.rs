//! Content of shared memory: the copies, loads and stores that fill the shared memory that an instruction reads.
//!
//! A copy or a store and a read compute addresses of their own: a part that is not known, such as a thread's, and a
//! number. An array of shared memory begins at a number, so a read belongs to the fills with the greatest number up
//! to its own. Data of a store is followed back to loads of device memory. Both are rules, not proofs.

use std::collections::{BTreeMap, BTreeSet};

use crate::instruction::{ExecutionUnit, MemoryEffect, MemorySpace, SassInstruction};
use crate::register::{Register, RegisterFile};
use crate::slice::analysis::{FillKind, SharedMemoryFill, offset};
use crate::slice::mbarrier::Mbarrier;
use crate::slice::value::{BasedConstant, ValueQuery};
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Maximum number of definitions that the data of one store is followed through.
const MAX_DEFINITIONS: usize = 256;
/// Maximum number of fills of one read. More are no answer.
const MAX_FILLS: usize = 16;

/// Fills by the numbers at which their shared memory begins.
type FillsByStart = BTreeMap<i64, BTreeSet<FillSource>>;

/// An instruction that brings content into shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FillSource {
    /// The copy, or the load whose result is stored, or else the store.
    index: usize,
    kind: FillKind,
    /// The store that puts it there. `None` for copies.
    store: Option<usize>,
}

/// The content of the shared memory that instructions read.
#[derive(Debug, Default)]
pub(crate) struct ReadContents {
    /// By (read, fill).
    pub(crate) fills: Vec<SharedMemoryFill>,
    /// Offsets of reads with fills and of the stores among these, in order.
    pub(crate) stores: Vec<(u32, u32)>,
}

/// The fills of each read of shared memory, by (read, fill).
pub(crate) fn shared_fills(
    instructions: &[SassInstruction],
    question: &mut ValueQuery<'_>,
    work: &AnalysisBudget,
) -> Result<ReadContents, TooMuchWork> {
    work.spend(instructions.len())?;
    let mut found = ReadContents::default();
    let reads = instructions.iter().enumerate().filter(|(_, one)| reads_shared(one));
    let reads: Vec<usize> = reads.map(|(index, _)| index).collect();
    if reads.is_empty() {
        return Ok(found);
    }
    let mut addresses = SharedAddresses { instructions, question, known: BTreeMap::new() };
    let by_start = fills_by_start(&mut addresses, work)?;
    for read in reads {
        let mut fills = BTreeSet::new();
        for start in addresses.starts(read)? {
            let near = by_start.range(..=start).next_back().map(|(_, fills)| fills);
            work.spend(near.map_or(1, BTreeSet::len))?;
            fills.extend(near.into_iter().flatten().copied());
        }
        if fills.is_empty() {
            work.spend(by_start.values().map(BTreeSet::len).sum())?;
            fills.extend(by_start.values().flatten().copied());
        }
        let rows = rows(read, &fills);
        if !rows.is_empty() {
            let stores: BTreeSet<usize> = fills.iter().filter_map(|fill| fill.store).collect();
            found.stores.extend(stores.into_iter().map(|store| (offset(read), offset(store))));
        }
        found.fills.extend(rows);
    }
    Ok(found)
}

/// True if an instruction reads what others left in shared memory: no mbarrier, no atomic.
fn reads_shared(instruction: &SassInstruction) -> bool {
    instruction.class != ExecutionUnit::Sync
        && instruction
            .memory
            .is_some_and(|memory| memory.space == MemorySpace::Shared && memory.kind == MemoryEffect::Read)
}

/// One row for each fill of a read, with equal weights. The same instruction may fill it in two ways.
fn rows(read: usize, fills: &BTreeSet<FillSource>) -> Vec<SharedMemoryFill> {
    let kinds: BTreeMap<usize, FillKind> = fills.iter().map(|fill| (fill.index, fill.kind)).collect();
    if kinds.len() > MAX_FILLS {
        return Vec::new();
    }
    let share = 1.0 / kinds.len() as f64;
    let row = |(index, kind)| SharedMemoryFill { offset: offset(read), fill: offset(index), kind, share };
    kinds.into_iter().map(row).collect()
}

fn fills_by_start(
    addresses: &mut SharedAddresses<'_, '_>,
    work: &AnalysisBudget,
) -> Result<FillsByStart, TooMuchWork> {
    let mut by_start = FillsByStart::new();
    for (index, instruction) in addresses.instructions.iter().enumerate() {
        let Some(memory) = instruction.memory else { continue };
        let (starts, fills) = match (memory.space, memory.kind) {
            (MemorySpace::Global, MemoryEffect::CopyIn) => {
                let copy = FillSource { index, kind: FillKind::Copy, store: None };
                (addresses.starts(index)?, BTreeSet::from([copy]))
            }
            (MemorySpace::Shared, MemoryEffect::Write) if instruction.class != ExecutionUnit::Sync => {
                let starts = addresses.starts(index)?;
                let SharedAddresses { instructions, question, .. } = addresses;
                (starts, StoredData { instructions, question, work }.fills(index)?)
            }
            _ => continue,
        };
        for start in starts {
            work.spend(fills.len())?;
            by_start.entry(start).or_default().extend(fills.iter().copied());
        }
    }
    Ok(by_start)
}

/// Registers of an address, each with the instructions that may have written it.
type AddressRegisters = Vec<(Register, Vec<usize>)>;

/// Addresses in shared memory. Unrolled code adds many numbers to the same registers: each of these is followed once.
struct SharedAddresses<'a, 'q> {
    instructions: &'a [SassInstruction],
    question: &'a mut ValueQuery<'q>,
    known: BTreeMap<AddressRegisters, BTreeSet<BasedConstant>>,
}

impl SharedAddresses<'_, '_> {
    /// The numbers at which the shared memory that an instruction reads or fills begins.
    fn starts(&mut self, index: usize) -> Result<BTreeSet<i64>, TooMuchWork> {
        let Some((registers, bytes)) = shared_address(&self.instructions[index]) else {
            return Ok(BTreeSet::new());
        };
        let mut written = AddressRegisters::new();
        for register in &registers {
            written.push((*register, self.question.definitions_before(index, *register)?));
        }
        let sums = if let Some(known) = self.known.get(&written) {
            known.clone()
        } else {
            let sums = self.question.sums(index, registers, 0)?;
            self.known.insert(written, sums.clone());
            sums
        };
        let start = |sum: BasedConstant| {
            let constant = sum.constant.wrapping_add(i64::from(bytes));
            Mbarrier::from(BasedConstant { constant, ..sum }).start
        };
        Ok(sums.into_iter().map(start).collect())
    }
}

/// The registers and the bytes that are added to the address of an instruction in shared memory.
fn shared_address(instruction: &SassInstruction) -> Option<(Vec<Register>, i32)> {
    if let Some((register, bytes)) = instruction.copy_destination() {
        return Some((register.into_iter().collect(), bytes));
    }
    let memory = instruction.memory.filter(|memory| memory.space == MemorySpace::Shared)?;
    Some(([memory.address, memory.uniform].into_iter().flatten().collect(), memory.offset))
}

/// The data that stores to shared memory put there.
struct StoredData<'d, 'q> {
    instructions: &'d [SassInstruction],
    question: &'d mut ValueQuery<'q>,
    work: &'d AnalysisBudget,
}

impl StoredData<'_, '_> {
    /// The loads of device memory behind a store's data, else the store itself.
    fn fills(self, store: usize) -> Result<BTreeSet<FillSource>, TooMuchWork> {
        let Self { instructions, question, work } = self;
        let by_store = |index, kind| FillSource { index, kind, store: Some(store) };
        let itself = BTreeSet::from([by_store(store, FillKind::Computed)]);
        let (mut fills, mut seen) = (BTreeSet::new(), BTreeSet::new());
        let mut open: Vec<(usize, Register)> =
            data(&instructions[store]).map(|register| (store, register)).collect();
        let mut kind = FillKind::Load;
        while let Some((index, register)) = open.pop() {
            for definition in question.definitions_before(index, register)? {
                work.spend(1)?;
                if !seen.insert((definition, register)) || seen.len() > MAX_DEFINITIONS {
                    continue;
                }
                let instruction = &instructions[definition];
                match instruction.memory {
                    Some(memory) if is_device_read(memory.space, memory.kind) => {
                        fills.insert(definition);
                    }
                    Some(_) => open.extend(question.saved(definition, register)),
                    None if instruction.class == ExecutionUnit::Tensor => {
                        // A matrix product mixes its operands: none of them is the content.
                        return Ok(itself);
                    }
                    None => {
                        if !moves(instruction) {
                            kind = FillKind::Computed;
                        }
                        let reads =
                            instruction.reads.iter().filter(|read| read.file == RegisterFile::General);
                        open.extend(reads.map(|read| (definition, read)));
                    }
                }
            }
        }
        if fills.is_empty() {
            return Ok(itself);
        }
        Ok(fills.into_iter().map(|index| by_store(index, kind)).collect())
    }
}

const fn is_device_read(space: MemorySpace, kind: MemoryEffect) -> bool {
    matches!(space, MemorySpace::Global | MemorySpace::Generic)
        && matches!(kind, MemoryEffect::Read | MemoryEffect::Atomic)
}

/// Registers whose content a store puts into memory.
fn data(store: &SassInstruction) -> impl Iterator<Item = Register> {
    let address = store.memory.and_then(|memory| memory.address);
    let is_data = move |read: &Register| read.file == RegisterFile::General && Some(*read) != address;
    store.reads.iter().filter(is_data)
}

/// True if an instruction passes data on: as it is, in part, or as another type.
fn moves(instruction: &SassInstruction) -> bool {
    const MOVES: [&str; 12] =
        ["MOV", "PRMT", "SEL", "FSEL", "F2F", "F2FP", "F2I", "I2F", "I2FP", "SHF", "SHFL", "R2UR"];
    instruction.mnemonic.is_some_and(|name| MOVES.contains(&name))
}
