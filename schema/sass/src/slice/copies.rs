//! Asynchronous copies: the mbarrier that each one signals, and the tensor map or the pointer that it reads. The handles of
//! textures and surfaces.
//!
//! A warp that waits for an mbarrier waits for the copies that signal it. Where none does, it waits for the warps that
//! arrive at it: those that free a stage, or hand over work. A signal and a waiter meet where their mbarriers' addresses
//! do, by the best evidence that there is. That is a rule, not a proof.

use std::collections::{BTreeMap, BTreeSet};

use crate::cubin::CodeSection;
use crate::instruction::{ExecutionUnit, MemorySpace, SassInstruction, TextureHandle};
use crate::register::{Register, RegisterFile};
use crate::slice::analysis::{BarrierSignal, CopyPointer, CopyTensorMap, offset};
use crate::slice::axes::{GridAxes, copy_axes};
use crate::slice::descriptors::{self, StoredPointers};
use crate::slice::graph::FlowGraph;
use crate::slice::loops::InnermostLoops;
use crate::slice::mbarrier::{Mbarrier, MbarrierEvidence, common, evidence};
use crate::slice::signals::{ArrivalWork, signals};
use crate::slice::value::{BasedConstant, ConstantBase, ValueQuery};
use crate::slice::work::{AnalysisBudget, TooMuchWork};

/// Bytes of a pointer, on which it lies too.
const POINTER_BYTES: u32 = 8;
/// Bytes on which tensor maps lie.
const TENSOR_MAP_ALIGNMENT: i64 = 64;

/// The copies of a section.
#[derive(Debug, Default)]
pub(crate) struct SectionCopies {
    /// By instruction that tests an mbarrier: copies that signal it, or the instructions by which warps arrive.
    arriving: BTreeMap<usize, Vec<usize>>,
    /// By copy: all of its innermost loop. One warp asks for them, and they are carried out in order.
    loops: BTreeMap<usize, Vec<usize>>,
    /// By tensor-map copy: where its tensor map may lie.
    tensor_maps: BTreeMap<usize, BTreeSet<BasedConstant>>,
    /// By bulk copy: words of constant bank 0 in the sum that is its address in device memory. By tensor-map copy: the
    /// words that the kernel stores into its tensor map.
    pointers: BTreeMap<usize, BTreeSet<u32>>,
    /// By tensor-map copy: words of constant bank 0 in the addresses of arrays from which the kernel takes the pointer that
    /// it stores into its tensor map.
    arrays: BTreeMap<usize, BTreeSet<u32>>,
    /// By access to a texture or surface: words of constant bank 0 that may be its handle.
    textures: BTreeMap<usize, BTreeSet<u32>>,
    /// By copy: the dimensions of the grid that say what it brings, where they are known.
    axes: BTreeMap<usize, GridAxes>,
    /// By instruction that arrives at an awaited mbarrier: the work before it.
    signals: ArrivalWork,
}

impl SectionCopies {
    pub(crate) fn new(
        instructions: &[SassInstruction],
        flow: &FlowGraph,
        question: &mut ValueQuery<'_>,
        work: &AnalysisBudget,
    ) -> Result<Self, TooMuchWork> {
        let (mut tensor_maps, mut pointers, mut arrays) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut textures = BTreeMap::new();
        for (index, instruction) in instructions.iter().enumerate() {
            if let Some(tensor_map) = tensor_map(instruction) {
                let places = question.values(index, tensor_map)?;
                // The maps of an array are of one object: its first stands for all.
                let is_known = places.iter().any(|place| matches!(place.base, ConstantBase::Bank { .. }));
                let array = if is_known {
                    BTreeSet::new()
                } else {
                    question.array_starts(index, tensor_map, TENSOR_MAP_ALIGNMENT)?
                };
                tensor_maps.insert(index, if array.is_empty() { places } else { array });
            }
            if let Some(address) = bulk_address(instruction) {
                pointers.insert(index, question.bank_words(index, address)?);
            }
            if let Some(handle) = instruction.texture_handle() {
                textures.insert(
                    index,
                    match handle {
                        TextureHandle::Bank(offset) => BTreeSet::from([offset]),
                        TextureHandle::Register(register) => question.bank_words(index, register)?,
                    },
                );
            }
        }
        for (copy, StoredPointers { words, arrays: behind }) in
            descriptors::made(instructions, flow, &tensor_maps, question, work)?
        {
            if !words.is_empty() {
                pointers.insert(copy, words);
            }
            arrays.insert(copy, behind);
        }
        let mut axes = BTreeMap::new();
        for copy in tensor_maps.keys().chain(pointers.keys()) {
            if let Some(known) = copy_axes(instructions, question, *copy, work)? {
                axes.insert(*copy, known);
            }
        }
        let warps = by_warps(instructions, question)?;
        let copies = by_copies(instructions, flow, &warps, question, work)?;
        let loops = by_loop(flow, &copies, work)?;
        let (copies, warps) = (grouped(copies), grouped(warps));
        let (mut arriving, mut groups) = (BTreeMap::new(), BTreeSet::new());
        for (index, instruction) in instructions.iter().enumerate().filter(|(_, one)| tests_mbarrier(one)) {
            let mbarriers = mbarriers(question, index, instruction)?;
            let met = match (met(&copies, &mbarriers, work)?, met(&warps, &mbarriers, work)?) {
                // Whoever else arrives there, the bytes of copies come last.
                (Some(by_copies), by_warps)
                    if by_warps.as_ref().is_none_or(|warps| by_copies.0 <= warps.0) =>
                {
                    by_copies.1
                }
                (_, by_warps) => {
                    let met = by_warps.map(|(_, met)| met).unwrap_or_default();
                    groups.insert(met.clone());
                    met
                }
            };
            arriving.insert(index, met);
        }
        let signals = signals(flow, &groups, work)?;
        Ok(Self { arriving, loops, tensor_maps, pointers, arrays, textures, axes, signals })
    }

    /// Copies that signal the mbarrier that an instruction tests, else the arrivals of warps. None for other
    /// instructions.
    pub(crate) fn arriving(&self, index: usize) -> &[usize] {
        self.arriving.get(&index).map_or(&[], Vec::as_slice)
    }

    /// Copies that are carried out in order with those that signal an awaited mbarrier, and signal others.
    pub(crate) fn in_order_with(
        &self,
        arriving: &[usize],
        work: &AnalysisBudget,
    ) -> Result<BTreeSet<usize>, TooMuchWork> {
        let mut found = BTreeSet::new();
        for around in arriving.iter().filter_map(|copy| self.loops.get(copy)) {
            work.spend(around.len())?;
            found.extend(around);
        }
        for copy in arriving {
            found.remove(copy);
        }
        Ok(found)
    }

    /// The work before each signal of a warp that others wait for.
    pub(crate) fn signals(&self) -> Vec<BarrierSignal> {
        let signal = |(signal, before): (&usize, &Vec<usize>)| BarrierSignal {
            offset: offset(*signal),
            work: before.iter().map(|index| offset(*index)).collect(),
        };
        self.signals.iter().map(signal).collect()
    }

    /// The memory that a copy reads, as the code shows: copies of one source are alternatives, those of several
    /// are awaited together.
    pub(crate) fn source(&self, copy: usize) -> CopyOrigin<'_> {
        match (self.tensor_maps.get(&copy), self.pointers.get(&copy)) {
            (Some(maps), _) => CopyOrigin::TensorMap(maps),
            (None, Some(words)) => CopyOrigin::Pointer(words),
            (None, None) => CopyOrigin::Unknown,
        }
    }

    /// Copies whose tensor map may be a parameter of the kernel, and which.
    pub(crate) fn tensor_maps(&self, section: &CodeSection) -> Vec<CopyTensorMap> {
        let uses = |(index, values): (&usize, &BTreeSet<BasedConstant>)| {
            let parameters = values.iter().filter_map(|value| parameter_offset(*value, section));
            let axes = self.axes.get(index).copied();
            let copy = offset(*index);
            let used = |parameter_offset| CopyTensorMap { offset: copy, parameter_offset, axes };
            parameters.map(used).collect::<BTreeSet<_>>()
        };
        self.tensor_maps.iter().flat_map(uses).collect()
    }

    /// Bulk copies with the words among the kernel's parameters that may be their pointers, and accesses to textures and
    /// surfaces with those that may be their handles.
    pub(crate) fn pointers(&self, section: &CodeSection) -> Vec<CopyPointer> {
        let mut all = self.pointers_of(&self.pointers, section);
        all.extend(self.pointers_of(&self.textures, section));
        all
    }

    /// Tensor-map copies with the arrays of pointers among the kernel's parameters that may hold their address.
    pub(crate) fn arrays(&self, section: &CodeSection) -> Vec<CopyPointer> {
        self.pointers_of(&self.arrays, section)
    }

    fn pointers_of(&self, all: &BTreeMap<usize, BTreeSet<u32>>, section: &CodeSection) -> Vec<CopyPointer> {
        let uses = all.iter().flat_map(|(index, words)| {
            let axes = self.axes.get(index).copied();
            let used = move |parameter_offset| CopyPointer { offset: offset(*index), parameter_offset, axes };
            pointer_parameters(words, section).map(used)
        });
        uses.collect()
    }
}

/// The pointers among the kernel's parameters that words of constant bank 0 may be, by their offsets.
pub(crate) fn pointer_parameters(words: &BTreeSet<u32>, section: &CodeSection) -> impl Iterator<Item = u32> {
    words.iter().filter_map(move |word| {
        let candidate = word.checked_sub(section.parameters_offset?)?;
        let has_pointer = section.parameters.iter().any(|parameter| {
            candidate >= parameter.offset
                && candidate + POINTER_BYTES <= parameter.offset + parameter.bytes
                && candidate.is_multiple_of(POINTER_BYTES)
        });
        has_pointer.then_some(candidate)
    })
}

/// The memory that a copy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CopyOrigin<'c> {
    /// Nothing is known of it, as of the arrival of a warp.
    Unknown,
    /// The addresses of its tensor map.
    TensorMap(&'c BTreeSet<BasedConstant>),
    /// The pointers of its address.
    Pointer(&'c BTreeSet<u32>),
}

/// Instructions that signal an mbarrier, with the addresses where it may lie.
type ArrivingInstructions = Vec<(usize, BTreeSet<Mbarrier>)>;

/// Instructions by which warps arrive at mbarriers.
fn by_warps(
    instructions: &[SassInstruction],
    question: &mut ValueQuery<'_>,
) -> Result<ArrivingInstructions, TooMuchWork> {
    let arrive = instructions.iter().enumerate().filter(|(_, one)| one.arrives_at_mbarrier());
    arrive.map(|(index, one)| Ok((index, mbarriers(question, index, one)?))).collect()
}

/// Copies that signal mbarriers.
fn by_copies(
    instructions: &[SassInstruction],
    flow: &FlowGraph,
    warps: &ArrivingInstructions,
    question: &mut ValueQuery<'_>,
    work: &AnalysisBudget,
) -> Result<ArrivingInstructions, TooMuchWork> {
    let expecting = || warps.iter().filter(|(index, _)| instructions[*index].expects_bytes());
    let all: BTreeSet<Mbarrier> = expecting().flat_map(|(_, mbarriers)| mbarriers).copied().collect();
    let mut by_block: BTreeMap<_, BTreeSet<Mbarrier>> = BTreeMap::new();
    for (index, mbarriers) in expecting() {
        work.spend(mbarriers.len())?;
        by_block.entry(flow.block_of.get(*index)).or_default().extend(mbarriers);
    }
    let mut copies = ArrivingInstructions::new();
    for (index, instruction) in instructions.iter().enumerate() {
        let Some(mbarrier) = instruction.copy_mbarrier() else { continue };
        let addresses: BTreeSet<Mbarrier> =
            question.starts(index, mbarrier)?.into_iter().map(Mbarrier::from).collect();
        let own = by_block.get(&flow.block_of.get(index));
        work.spend(addresses.len() * (all.len() + own.map_or(0, BTreeSet::len)))?;
        // Some of the addresses are those of other paths. A warp says how many bytes are to come where copies signal, most often
        // in their block.
        let expected = [own, Some(&all)].into_iter().flatten().map(|expected| common(&addresses, expected));
        let expected = expected.into_iter().find(|common| !common.is_empty());
        copies.push((index, expected.unwrap_or(addresses)));
    }
    Ok(copies)
}

/// By copy: all copies of its innermost loop.
fn by_loop(
    flow: &FlowGraph,
    copies: &ArrivingInstructions,
    work: &AnalysisBudget,
) -> Result<BTreeMap<usize, Vec<usize>>, TooMuchWork> {
    if copies.len() < 2 {
        return Ok(BTreeMap::new());
    }
    let innermost = InnermostLoops::new(flow, work)?;
    let mut by_loop: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (copy, _) in copies {
        if let Some(around) = innermost.around(flow, *copy) {
            by_loop.entry(around).or_default().push(*copy);
        }
    }
    let mut loops = BTreeMap::new();
    for together in by_loop.into_values() {
        work.spend(together.len() * together.len())?;
        loops.extend(together.iter().map(|copy| (*copy, together.clone())));
    }
    Ok(loops)
}

/// Instructions that signal mbarriers, by where these may lie.
type BarrierArrivals = BTreeMap<BTreeSet<Mbarrier>, Vec<usize>>;

fn grouped(arriving: ArrivingInstructions) -> BarrierArrivals {
    let mut arrivals = BarrierArrivals::new();
    for (index, mbarriers) in arriving {
        arrivals.entry(mbarriers).or_default().push(index);
    }
    arrivals
}

/// The instructions that signal one of some mbarriers, in order, with the best evidence for it.
fn met(
    arrivals: &BarrierArrivals,
    mbarriers: &BTreeSet<Mbarrier>,
    work: &AnalysisBudget,
) -> Result<Option<(MbarrierEvidence, Vec<usize>)>, TooMuchWork> {
    let mut met: BTreeMap<MbarrierEvidence, Vec<usize>> = BTreeMap::new();
    for (others, signals) in arrivals {
        work.spend(1 + others.len())?;
        if let Some(evidence) = evidence(mbarriers, others) {
            work.spend(signals.len())?;
            met.entry(evidence).or_default().extend(signals);
        }
    }
    Ok(met.pop_first().map(|(evidence, mut signals)| {
        signals.sort_unstable();
        (evidence, signals)
    }))
}

/// True if an instruction tests an mbarrier's phase: it is the SYNCS with a predicate as its result.
fn tests_mbarrier(instruction: &SassInstruction) -> bool {
    instruction.mnemonic == Some("SYNCS")
        && instruction.writes.iter().any(|register| register.file == RegisterFile::Predicate)
}

/// Possible addresses of an instruction's mbarrier, or of other shared memory.
pub(crate) fn mbarriers(
    question: &mut ValueQuery<'_>,
    index: usize,
    instruction: &SassInstruction,
) -> Result<BTreeSet<Mbarrier>, TooMuchWork> {
    let Some(memory) = instruction.memory else { return Ok(BTreeSet::new()) };
    let registers = [memory.address, memory.uniform].into_iter().flatten();
    let sums = question.sums(index, registers, i64::from(memory.offset))?;
    Ok(sums.into_iter().map(Mbarrier::from).collect())
}

/// The register that holds the address of a copy's tensor map.
pub(crate) fn tensor_map(instruction: &SassInstruction) -> Option<Register> {
    let is_tensor_map_copy = instruction.class == ExecutionUnit::Async
        && instruction.mnemonic.is_some_and(|name| name.starts_with("UTMA"));
    instruction.memory.filter(|_| is_tensor_map_copy)?.uniform
}

/// The register that holds a bulk copy's address in device memory.
fn bulk_address(instruction: &SassInstruction) -> Option<Register> {
    let is_bulk = instruction.mnemonic.is_some_and(|name| name.starts_with("UBLK"));
    instruction.memory.filter(|memory| is_bulk && memory.space == MemorySpace::Global)?.uniform
}

/// The parameter that a tensor map is.
///
/// Its address is added to the value that the driver left in constant bank 0, before the parameters: the address of
/// the bank, or of the parameters in it. Tensor maps lie on 64 bytes in the bank, which separates the two unless the
/// parameters do too. Otherwise the parameter that has room for a map decides.
fn parameter_offset(value: BasedConstant, section: &CodeSection) -> Option<u32> {
    let parameters = i64::from(section.parameters_offset?);
    let ConstantBase::Bank { bank: 0, offset } = value.base else { return None };
    if i64::from(offset) >= parameters {
        return None;
    }
    let fits = |candidate: &i64| {
        let lies_well = (candidate + parameters) % TENSOR_MAP_ALIGNMENT == 0;
        let is_inside = section.parameters.iter().any(|parameter| {
            let first = i64::from(parameter.offset);
            (first..first + i64::from(parameter.bytes)).contains(candidate)
        });
        *candidate >= 0 && lies_well && (is_inside || section.parameters.is_empty())
    };
    let candidate = [value.constant, value.constant - parameters].into_iter().find(fits)?;
    u32::try_from(candidate).ok()
}
