//! Redirect experiments: the memory of one object that a launch only reads is led to few granules that stay in L2.
//!
//! Addresses, bytes and code stay the same, so loads, LDGSTS and copies by tensor maps are redirected alike. The values
//! change. An object of few granules, and one whose values decide the work, is read into L2 before the launch instead:
//! its values stay.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::launch::{Launch, LaunchParameter, TensorMap};
use stallmap_schema::tables::memory::AccessSummary;
use stallmap_schema::word::{AccessKind, RedirectMethod, RedirectTarget};
use stallmap_write::subset::blocks::{AddressBlock, LiveBlocks};

use crate::ablate::code::{FunctionCubin, InstructionAddress, OmissionEffect, SourceCopy};
use crate::ablate::reach::OmissionRefusal;
use crate::ablate::sets::{Experiment, LaunchAccesses, MAX_EXPERIMENTS};

/// Granularity of mappings.
pub const REDIRECT_GRANULE_BYTES: u64 = 2 << 20;
/// The largest number of granules that an object is led to. Device memory brings these after a flush.
const MAX_POOL_GRANULES: usize = 2;
/// Fewer granules are read into L2 before the launch.
const MIN_LED_GRANULES: usize = 4;
/// Granules that are led to one.
const LED_TO_ONE: usize = 8;
/// The largest object that is read into L2 before a launch: a fraction of L2.
const MAX_PRELOAD_BYTES: u64 = 5 * REDIRECT_GRANULE_BYTES;
/// Blocks of memory begin at multiples.
const BLOCK_ALIGNMENT_BYTES: u64 = 256;

const WRITTEN: &str = "the launch writes it";
const NO_OBJECT: &str = "it reads no memory of a known object";
const TOO_MANY: &str = "the launch has more experiments than are made";

/// A page of device memory that a launch reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TouchedPage {
    /// Its address.
    pub address: u64,
    /// Its bytes.
    pub bytes: u64,
    /// True if the launch writes it.
    pub is_written: bool,
}

/// The memory of an experiment, by recorded addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RedirectedMemory {
    /// The method, as in the table `redirect`.
    pub method: String,
    /// Granules, each with the granule whose memory is mapped in its place.
    pub granules: Vec<(u64, u64)>,
    /// Ranges that are read into L2 before the launch: address, bytes.
    pub preloaded: Vec<(u64, u64)>,
    /// Bytes of the object's pages that the launch reads.
    pub object_bytes: u64,
    /// Bytes of these that are redirected or read before.
    pub redirected_bytes: u64,
}

/// One object that a launch reads.
#[derive(Default)]
struct ReadObject {
    pages: Vec<TouchedPage>,
    reads: BTreeSet<InstructionAddress>,
    is_read: bool,
    is_written: bool,
}

/// Unobserved copies of a launch's code, with the blocks that their parameters lead to.
#[derive(Default)]
struct UnobservedCopies {
    known: Vec<(SourceCopy, BTreeSet<AddressBlock>)>,
    unknown: BTreeSet<InstructionAddress>,
    has_unknown_store: bool,
}

/// The parameters of launches, as redirect experiments need them.
pub struct LaunchMemory<'a> {
    accesses: &'a LaunchAccesses,
    launches: BTreeMap<KernelId, Launch>,
    parameters: BTreeMap<KernelId, Vec<u8>>,
    tensor_maps: BTreeMap<(KernelId, u32), u64>,
    storages: Vec<stallmap_schema::tables::tensor::Storage>,
    allocations: Vec<stallmap_schema::tables::memory::DeviceAllocation>,
}

impl<'a> LaunchMemory<'a> {
    /// Reads what some launches were given.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn read(
        capture: &CaptureReader,
        accesses: &'a LaunchAccesses,
        kernels: &BTreeSet<KernelId>,
    ) -> Result<Self, CaptureError> {
        let (mut parameters, mut tensor_maps) = (BTreeMap::new(), BTreeMap::new());
        capture.for_each_row(usize::MAX, |row: LaunchParameter| {
            if kernels.contains(&row.kernel_id) {
                parameters.insert(row.kernel_id, row.bytes.0);
            }
        })?;
        capture.for_each_row(usize::MAX, |row: TensorMap| {
            if kernels.contains(&row.kernel_id) {
                tensor_maps.insert((row.kernel_id, row.parameter_offset), row.address.0);
            }
        })?;
        let launches = capture.read_rows::<Launch>()?.into_iter();
        let launches = launches.filter(|row| kernels.contains(&row.kernel_id));
        Ok(Self {
            accesses,
            launches: launches.map(|row| (row.kernel_id, row)).collect(),
            parameters,
            tensor_maps,
            storages: capture.read_rows()?,
            allocations: capture.read_rows()?,
        })
    }

    /// The redirect experiments on a launch: one for each object that it reads, the largest first, and one for all of
    /// them. One refused experiment where there is none.
    ///
    /// # Errors
    /// A cubin that cannot be read.
    pub fn experiments(
        &self,
        capture: &CaptureReader,
        kernel_id: KernelId,
        pages: &[TouchedPage],
    ) -> Result<Vec<Experiment>, CaptureError> {
        let nothing = |cause: String| Ok(vec![refused(RedirectTarget::All, None, cause)]);
        let code = self.accesses.code_of(kernel_id).zip(self.launches.get(&kernel_id));
        let Some(((function, module), launch)) = code else {
            return nothing(OmissionRefusal::NotFound.to_string());
        };
        let cubin = capture.cubin(&module.content_hash)?;
        let mut code = match FunctionCubin::read(&cubin) {
            Ok(code) => code,
            Err(error) => return nothing(error.to_string()),
        };
        let blocks = LiveBlocks::new(launch, &self.storages, &self.allocations);
        let copies = match code.source_copies(&function.name) {
            Ok(copies) => self.unobserved(kernel_id, copies, &blocks),
            Err(refusal) => return nothing(refusal.to_string()),
        };
        let objects = self.objects(kernel_id, pages, &blocks, &copies);
        if objects.is_empty() {
            return nothing(NO_OBJECT.to_owned());
        }
        let near = self.accesses.near_reads(kernel_id);
        let mut found: Vec<Experiment> = objects
            .iter()
            .map(|(&block, object)| object_experiment(block, object, &mut code, &near))
            .collect();
        found.sort_by_key(|one| {
            let bytes = one.memory.as_ref().map_or(0, |memory| memory.object_bytes);
            (std::cmp::Reverse(bytes), one.block_address)
        });
        for (_, one) in found.iter_mut().enumerate().filter(|(position, _)| *position >= MAX_EXPERIMENTS) {
            one.refusal.get_or_insert_with(|| TOO_MANY.to_owned());
        }
        let all = together(&found, &mut code, &near);
        found.extend(all);
        Ok(found)
    }

    /// The copies that no instrument observed, by the memory that their parameters lead to.
    fn unobserved(
        &self,
        kernel_id: KernelId,
        copies: Vec<SourceCopy>,
        blocks: &LiveBlocks,
    ) -> UnobservedCopies {
        let mut found = UnobservedCopies::default();
        for copy in copies {
            let addresses = copy.parameters.iter().filter_map(|offset| self.address(kernel_id, *offset));
            let targets: BTreeSet<AddressBlock> =
                addresses.filter_map(|address| blocks.find(address)).collect();
            if !targets.is_empty() {
                found.known.push((copy, targets));
            } else if copy.is_store {
                found.has_unknown_store = true;
            } else {
                found.unknown.insert(copy.instruction);
            }
        }
        found
    }

    /// The address in a tensor map, or in a pointer, among a launch's parameters.
    fn address(&self, kernel_id: KernelId, offset: u32) -> Option<u64> {
        if let Some(&address) = self.tensor_maps.get(&(kernel_id, offset)) {
            return Some(address);
        }
        let bytes = self.parameters.get(&kernel_id)?.get(offset as usize..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// The objects that a launch touches.
    fn objects(
        &self,
        kernel_id: KernelId,
        pages: &[TouchedPage],
        blocks: &LiveBlocks,
        copies: &UnobservedCopies,
    ) -> BTreeMap<AddressBlock, ReadObject> {
        let mut objects: BTreeMap<AddressBlock, ReadObject> = BTreeMap::new();
        for page in pages {
            for block in blocks_of(page, blocks) {
                let object = objects.entry(block).or_default();
                let is_inside = block.0 <= page.address && page.address + page.bytes <= block.1;
                object.is_written |= page.is_written && is_inside;
                object.pages.push(*page);
            }
        }
        for row in self.accesses.of_launch(kernel_id) {
            let block = row.block_address.and_then(|address| blocks.find(address.0));
            let Some(object) = block.and_then(|block| objects.get_mut(&block)) else { continue };
            match row.kind {
                AccessKind::Read | AccessKind::Prefetch => object.is_read = true,
                AccessKind::Write | AccessKind::Atomic => object.is_written = true,
            }
            object.reads.extend(self.instruction(row));
        }
        for (copy, targets) in &copies.known {
            for block in targets {
                let Some(object) = objects.get_mut(block) else { continue };
                object.is_read |= !copy.is_store;
                object.is_written |= copy.is_store;
                object.reads.insert(copy.instruction.clone());
            }
        }
        for object in objects.values_mut().filter(|object| !object.is_written) {
            // What is read may be by any of these.
            let is_source = object.is_read || !copies.has_unknown_store;
            if is_source && !copies.unknown.is_empty() {
                object.is_read = true;
                object.reads.extend(copies.unknown.iter().cloned());
            }
        }
        objects.retain(|_, object| object.is_read);
        objects
    }

    fn instruction(&self, row: &AccessSummary) -> Option<InstructionAddress> {
        self.accesses.address(row.function_id, row.pc)
    }
}

/// The blocks of memory that a page holds parts of.
fn blocks_of(page: &TouchedPage, blocks: &LiveBlocks) -> Vec<AddressBlock> {
    let (mut found, mut at, end) = (Vec::new(), page.address, page.address.saturating_add(page.bytes));
    while at < end {
        at = match blocks.find(at) {
            Some(block) => {
                found.push(block);
                block.1.max(at + 1)
            }
            None => at.saturating_add(BLOCK_ALIGNMENT_BYTES),
        };
    }
    found
}

fn refused(target: RedirectTarget, block: Option<AddressBlock>, refusal: String) -> Experiment {
    Experiment {
        target: target.word().to_owned(),
        block_address: block.map(|block| block.0),
        instructions: Vec::new(),
        is_counted: false,
        refusal: Some(refusal),
        memory: Some(RedirectedMemory::default()),
    }
}

/// The experiment on one object, with the reason that it cannot be made, where there is one.
fn object_experiment(
    block: AddressBlock,
    object: &ReadObject,
    code: &mut FunctionCubin<'_>,
    near: &BTreeSet<InstructionAddress>,
) -> Experiment {
    let mut experiment = Experiment {
        refusal: None,
        instructions: object.reads.iter().map(|read| (0, read.function.clone(), read.pc)).collect(),
        ..refused(RedirectTarget::Object, Some(block), String::new())
    };
    let object_bytes = object.pages.iter().map(|page| part(page, block).1).sum();
    let granules = led(&whole_granules(object, block));
    let by_values = if granules.is_empty() { None } else { Some(judge(&object.reads, code, near)) };
    let preloads = object_bytes <= MAX_PRELOAD_BYTES;
    let memory = RedirectedMemory { object_bytes, ..RedirectedMemory::default() };
    experiment.memory = Some(memory);
    let Some(memory) = &mut experiment.memory else { return experiment };
    match by_values {
        _ if object.is_written => experiment.refusal = Some(WRITTEN.to_owned()),
        Some(Ok(is_counted)) => {
            RedirectMethod::Alias.word().clone_into(&mut memory.method);
            memory.redirected_bytes = granules.len() as u64 * REDIRECT_GRANULE_BYTES;
            memory.granules = granules;
            experiment.is_counted = is_counted;
        }
        Some(Err(refusal)) if !preloads => experiment.refusal = Some(refusal.to_string()),
        Some(Err(_)) | None => {
            RedirectMethod::Preload.word().clone_into(&mut memory.method);
            memory.redirected_bytes = object_bytes;
            memory.preloaded = ranges(object, block);
        }
    }
    experiment
}

/// The experiment on all objects that have one.
fn together(
    found: &[Experiment],
    code: &mut FunctionCubin<'_>,
    near: &BTreeSet<InstructionAddress>,
) -> Option<Experiment> {
    let is_read = |one: &&Experiment| one.refusal.as_deref() != Some(WRITTEN);
    let made = || found.iter().filter(|one| one.refusal.is_none());
    if found.iter().filter(is_read).count() < 2 || made().next().is_none() {
        return None;
    }
    let mut all = RedirectedMemory { method: RedirectMethod::Both.word().to_owned(), ..Default::default() };
    all.object_bytes =
        found.iter().filter(is_read).filter_map(|one| Some(one.memory.as_ref()?.object_bytes)).sum();
    for memory in made().filter_map(|one| one.memory.as_ref()) {
        all.granules.extend(&memory.granules);
        all.preloaded.extend(&memory.preloaded);
        all.redirected_bytes += memory.redirected_bytes;
    }
    let aliased = made().filter(|one| one.memory.as_ref().is_some_and(|memory| !memory.granules.is_empty()));
    let reads: BTreeSet<InstructionAddress> = aliased.flat_map(Experiment::addresses).collect();
    let judged = if reads.is_empty() { Ok(false) } else { judge(&reads, code, near) };
    Some(Experiment {
        refusal: judged.as_ref().err().map(ToString::to_string),
        is_counted: judged.unwrap_or(false),
        memory: Some(all),
        ..refused(RedirectTarget::All, None, String::new())
    })
}

/// True if the values behind some reads reach a branch or the index of a small table.
fn judge(
    reads: &BTreeSet<InstructionAddress>,
    code: &mut FunctionCubin<'_>,
    near: &BTreeSet<InstructionAddress>,
) -> Result<bool, OmissionRefusal> {
    let OmissionEffect { branch, loads } = code.effect_of_values(reads)?;
    if loads.is_subset(near) { Ok(branch || !loads.is_empty()) } else { Err(OmissionRefusal::Address) }
}

/// The part of a page in a block: address, bytes.
fn part(page: &TouchedPage, block: AddressBlock) -> (u64, u64) {
    let low = page.address.max(block.0);
    (low, page.address.saturating_add(page.bytes).min(block.1).saturating_sub(low))
}

/// The granules that lie in an object wholly, and that the launch reads.
fn whole_granules(object: &ReadObject, block: AddressBlock) -> Vec<u64> {
    let granules =
        object.pages.iter().map(|page| page.address / REDIRECT_GRANULE_BYTES * REDIRECT_GRANULE_BYTES);
    let is_whole =
        |granule: &u64| block.0 <= *granule && granule.saturating_add(REDIRECT_GRANULE_BYTES) <= block.1;
    granules.filter(is_whole).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Granules with the granule that each is led to. None where little is saved.
fn led(granules: &[u64]) -> Vec<(u64, u64)> {
    if granules.len() < MIN_LED_GRANULES {
        return Vec::new();
    }
    let pool = (granules.len() / LED_TO_ONE).clamp(1, MAX_POOL_GRANULES);
    granules.iter().enumerate().map(|(position, granule)| (*granule, granules[position % pool])).collect()
}

/// The ranges of an object's pages, neighbours joined.
fn ranges(object: &ReadObject, block: AddressBlock) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (address, bytes) in object.pages.iter().map(|page| part(page, block)) {
        match ranges.last_mut() {
            Some(last) if last.0 + last.1 == address => last.1 += bytes,
            _ => ranges.push((address, bytes)),
        }
    }
    ranges
}

#[cfg(test)]
#[path = "redirect_tests.rs"]
mod tests;
