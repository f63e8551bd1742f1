//! Asynchronous copies: the mbarrier that each one signals, and the tensor map or the pointer that it reads.
//!
//! A warp that waits for an mbarrier waits for the copies that signal it. Where none does, it waits for the warps that
//! arrive at it: those that free a stage, or hand over work. A signal and a waiter meet where their mbarriers' addresses
//! begin with the same constant: rings of mbarriers are walked by adding to it. That is a rule, not a proof.

use std::collections::{BTreeMap, BTreeSet};

use crate::analysis::{PointerUse, Signal, TensorMapUse, offset};
use crate::definitions::Definitions;
use crate::descriptors;
use crate::graph::FlowGraph;
use crate::signals::{Signals, signals};
use crate::value::{Base, Question, Value};
use crate::work::{TooMuchWork, Work};
use stallmap_sass::cubin::Section;
use stallmap_sass::instruction::{Class, Instruction, Space};
use stallmap_sass::register::{File, Register};
use stallmap_sass::word::Sm;

/// Shared addresses have 24 bits. Above them may stand the rank of a block in its cluster.
const ADDRESS_MASK: i64 = 0xff_ffff;
/// Bytes of a pointer, on which it lies too.
const POINTER_BYTES: u32 = 8;
/// Bytes on which tensor maps lie.
const TENSOR_MAP_ALIGNMENT: i64 = 64;

/// The copies of a section.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// By instruction that tests an mbarrier: copies that signal it, or the instructions by which warps arrive.
    arriving: BTreeMap<usize, Vec<usize>>,
    /// By tensor-map copy: where its tensor map may lie.
    tensor_maps: BTreeMap<usize, BTreeSet<Value>>,
    /// By bulk copy: words of constant bank 0 in the sum that is its address in device memory. By tensor-map copy: the
    /// words that the kernel stores into its tensor map.
    pointers: BTreeMap<usize, BTreeSet<u32>>,
    /// By instruction that arrives at an awaited mbarrier: the work before it.
    signals: Signals,
}

impl Copies {
    pub(crate) fn new(
        instructions: &[Instruction],
        flow: &FlowGraph,
        definitions: &Definitions,
        sm: Sm,
        work: &Work,
    ) -> Result<Self, TooMuchWork> {
        let mut question = Question::new(instructions, flow, definitions, sm, work);
        let (mut copies, mut warps) = (Arrivals::new(), Arrivals::new());
        let (mut tensor_maps, mut pointers) = (BTreeMap::new(), BTreeMap::new());
        for (index, instruction) in instructions.iter().enumerate() {
            if let Some(mbarrier) = instruction.copy_mbarrier() {
                for place in places(question.starts(index, mbarrier)?, 0) {
                    copies.entry(place).or_default().push(index);
                }
            } else if instruction.arrives_at_mbarrier() {
                for place in memory_places(&mut question, index, instruction)? {
                    warps.entry(place).or_default().push(index);
                }
            }
            if let Some(tensor_map) = tensor_map(instruction) {
                tensor_maps.insert(index, question.values(index, tensor_map)?);
            }
            if let Some(address) = bulk_address(instruction) {
                pointers.insert(index, question.bank_words(index, address)?);
            }
        }
        pointers.extend(descriptors::made(instructions, flow, &tensor_maps, &mut question, work)?);
        let (mut arriving, mut groups) = (BTreeMap::new(), BTreeSet::new());
        for (index, instruction) in instructions.iter().enumerate().filter(|(_, one)| tests_mbarrier(one)) {
            let places = memory_places(&mut question, index, instruction)?;
            let mut met = met(&copies, &places, work)?;
            if met.is_empty() {
                met = self::met(&warps, &places, work)?;
                groups.insert(met.clone());
            }
            arriving.insert(index, met);
        }
        let signals = signals(flow, &groups, work)?;
        Ok(Self { arriving, tensor_maps, pointers, signals })
    }

    /// Copies that signal the mbarrier that an instruction tests, else the arrivals of warps. None for other
    /// instructions.
    pub(crate) fn arriving(&self, index: usize) -> &[usize] {
        self.arriving.get(&index).map_or(&[], Vec::as_slice)
    }

    /// The work before each signal of a warp that others wait for.
    pub(crate) fn signals(&self) -> Vec<Signal> {
        let signal = |(signal, before): (&usize, &Vec<usize>)| Signal {
            offset: offset(*signal),
            work: before.iter().map(|index| offset(*index)).collect(),
        };
        self.signals.iter().map(signal).collect()
    }

    /// The memory that a copy reads, as the code shows: copies of one source are alternatives, those of several
    /// are awaited together.
    pub(crate) fn source(&self, copy: usize) -> Source<'_> {
        match (self.tensor_maps.get(&copy), self.pointers.get(&copy)) {
            (Some(maps), _) => Source::TensorMap(maps),
            (None, Some(words)) => Source::Pointer(words),
            (None, None) => Source::Unknown,
        }
    }

    /// Copies whose tensor map is a parameter of the kernel, and which.
    pub(crate) fn tensor_maps(&self, section: &Section) -> Vec<TensorMapUse> {
        let parameter = |(index, values): (&usize, &BTreeSet<Value>)| {
            let mut values = values.iter();
            let (value, None) = (values.next()?, values.next()) else { return None };
            let parameter_offset = parameter_offset(*value, section)?;
            Some(TensorMapUse { offset: offset(*index), parameter_offset })
        };
        self.tensor_maps.iter().filter_map(parameter).collect()
    }

    /// Bulk copies with the words among the kernel's parameters that may be their pointers.
    pub(crate) fn pointers(&self, section: &Section) -> Vec<PointerUse> {
        let Some(parameters) = section.parameters_offset else { return Vec::new() };
        let pointer = |word: &u32| {
            let candidate = word.checked_sub(parameters)?;
            let has_pointer = section.parameters.iter().any(|parameter| {
                candidate >= parameter.offset
                    && candidate + POINTER_BYTES <= parameter.offset + parameter.bytes
                    && candidate.is_multiple_of(POINTER_BYTES)
            });
            has_pointer.then_some(candidate)
        };
        let uses = self.pointers.iter().flat_map(|(index, words)| {
            let used = |parameter_offset| PointerUse { offset: offset(*index), parameter_offset };
            words.iter().filter_map(pointer).map(used)
        });
        uses.collect()
    }
}

/// The memory that a copy reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source<'c> {
    /// Nothing is known of it, as of the arrival of a warp.
    Unknown,
    /// The places of its tensor map.
    TensorMap(&'c BTreeSet<Value>),
    /// The pointers of its address.
    Pointer(&'c BTreeSet<u32>),
}

/// Start of an mbarrier: a constant, alone or added to an unknown value.
type Place = (bool, i64);

fn places(values: BTreeSet<Value>, added: i64) -> BTreeSet<Place> {
    let place = |value: Value| (value.base == Base::Zero, (value.constant + added) & ADDRESS_MASK);
    values.into_iter().map(place).collect()
}

/// Instructions that signal an mbarrier, by its place.
type Arrivals = BTreeMap<Place, Vec<usize>>;

/// The instructions that signal an mbarrier at one of these places, in order.
fn met(arrivals: &Arrivals, places: &BTreeSet<Place>, work: &Work) -> Result<Vec<usize>, TooMuchWork> {
    let mut met = BTreeSet::new();
    for place in places {
        let found = arrivals.get(place).map_or(&[][..], Vec::as_slice);
        work.spend(found.len())?;
        met.extend(found);
    }
    Ok(met.into_iter().collect())
}

/// True if an instruction tests an mbarrier's phase: it is the SYNCS with a predicate as its result.
fn tests_mbarrier(instruction: &Instruction) -> bool {
    instruction.mnemonic == Some("SYNCS")
        && instruction.writes.iter().any(|register| register.file == File::Predicate)
}

pub(crate) fn memory_places(
    question: &mut Question<'_>,
    index: usize,
    instruction: &Instruction,
) -> Result<BTreeSet<Place>, TooMuchWork> {
    let Some(memory) = instruction.memory else { return Ok(BTreeSet::new()) };
    let mut sums = BTreeSet::from([(true, i64::from(memory.offset) & ADDRESS_MASK)]);
    for register in [memory.address, memory.uniform].into_iter().flatten() {
        let parts = places(question.starts(index, register)?, 0);
        let sum = |sum: &Place| {
            let sum = *sum;
            let add = move |part: &Place| (sum.0 && part.0, (sum.1 + part.1) & ADDRESS_MASK);
            parts.iter().map(add).collect::<Vec<_>>()
        };
        sums = sums.iter().flat_map(sum).collect();
    }
    Ok(sums)
}

/// The register that holds the address of a copy's tensor map.
pub(crate) fn tensor_map(instruction: &Instruction) -> Option<Register> {
    let is_tensor_map_copy = instruction.class == Class::Async
        && instruction.mnemonic.is_some_and(|name| name.starts_with("UTMA"));
    instruction.memory.filter(|_| is_tensor_map_copy)?.uniform
}

/// The register that holds a bulk copy's address in device memory.
fn bulk_address(instruction: &Instruction) -> Option<Register> {
    let is_bulk = instruction.mnemonic.is_some_and(|name| name.starts_with("UBLK"));
    instruction.memory.filter(|memory| is_bulk && memory.space == Space::Global)?.uniform
}

/// The parameter that a tensor map is.
///
/// Its address is added to the value that the driver left in constant bank 0, before the parameters: the address of
/// the bank, or of the parameters in it. Tensor maps lie on 64 bytes in the bank, which separates the two unless the
/// parameters do too. Otherwise the parameter that has room for a map decides.
fn parameter_offset(value: Value, section: &Section) -> Option<u32> {
    let parameters = i64::from(section.parameters_offset?);
    let Base::Bank { bank: 0, offset } = value.base else { return None };
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
