//! The experiments on the launches of a capture: the instructions that access one tensor, those of one line, each one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, Pc};
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::{AccessSummary, MemoryAccess};
use stallmap_schema::word::AblationTarget;
use stallmap_write::subset::counts::AccessCounter;

use crate::ablate::code::{FunctionCubin, InstructionAddress, OmissionEffect};
use crate::ablate::reach::OmissionRefusal;
use crate::ablate::redirect::RedirectedMemory;

/// Most experiments on one launch. Those with the fewest accesses are refused.
pub const MAX_EXPERIMENTS: usize = 200;
/// The least share of a tensor's own accesses among all accesses of its instructions, in percent.
const OWN_PERCENT: u64 = 90;

/// Bytes of memory that a multiprocessor's L1 holds with everything else: a load from so few of them costs the same
/// whichever it reads.
const NEAR_BYTES: u64 = 32 << 10;

const SHARED: &str = "its instructions access other tensors too: all of them are left out together";
const TOO_MANY: &str = "the launch has more experiments than are made";

/// The kinds of experiments that are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExperimentKinds {
    /// All accesses of one tensor.
    pub tensors: bool,
    /// All accesses of one line.
    pub lines: bool,
    /// Each instruction.
    pub instructions: bool,
}

/// One experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Experiment {
    /// The kind, as in the table `ablation`.
    pub target: String,
    /// First address of the tensor's block of memory.
    pub block_address: Option<u64>,
    /// The instructions that are left out: function_id, mangled name, offset.
    pub instructions: Vec<(u64, String, u32)>,
    /// True if a result reaches a branch or an address: the experiment holds if as many instructions are executed.
    pub is_counted: bool,
    /// The reason that it is not made.
    pub refusal: Option<String>,
    /// The memory that is redirected. Nothing is left out then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<RedirectedMemory>,
}

impl Experiment {
    /// The instructions that are left out.
    pub fn addresses(&self) -> BTreeSet<InstructionAddress> {
        let address = |(_, function, pc): &(u64, String, u32)| InstructionAddress {
            function: function.clone(),
            pc: *pc,
        };
        self.instructions.iter().map(address).collect()
    }
}

/// The accesses of launches, as experiments need them.
pub struct LaunchAccesses {
    functions: BTreeMap<FunctionId, Function>,
    modules: BTreeMap<ModuleId, Module>,
    launches: BTreeMap<KernelId, FunctionId>,
    accesses: BTreeMap<KernelId, Vec<AccessSummary>>,
}

/// The accesses of an instruction.
#[derive(Default)]
struct InstructionAccesses {
    lanes: u64,
    /// By first address of the block of memory; `None` for shared and local memory, and for memory not known.
    by_block: BTreeMap<Option<u64>, u64>,
    /// Bytes between the lowest and the highest address, the most in a block.
    span_bytes: u64,
}

impl LaunchAccesses {
    /// Reads the accesses of some launches.
    ///
    /// # Errors
    /// A table that cannot be read.
    pub fn read(capture: &CaptureReader, kernels: &BTreeSet<KernelId>) -> Result<Self, CaptureError> {
        let mut accesses: BTreeMap<KernelId, Vec<AccessSummary>> = BTreeMap::new();
        capture.for_each_row(usize::MAX, |row: AccessSummary| {
            if kernels.contains(&row.kernel_id) {
                accesses.entry(row.kernel_id).or_default().push(row);
            }
        })?;
        // Launches whose requests were recorded one by one are counted now. Captures have many such rows.
        if kernels.iter().any(|kernel_id| !accesses.contains_key(kernel_id)) {
            let mut counter = AccessCounter::new(capture)?;
            capture.for_each_row(usize::MAX, |row: MemoryAccess| {
                if kernels.contains(&row.kernel_id) && !accesses.contains_key(&row.kernel_id) {
                    counter.add(row);
                }
            })?;
            for row in counter.finish() {
                accesses.entry(row.kernel_id).or_default().push(row);
            }
        }
        let launches = capture.read_rows::<Launch>()?.into_iter();
        let functions = capture.read_rows::<Function>()?.into_iter();
        let modules = capture.read_rows::<Module>()?.into_iter();
        Ok(Self {
            functions: functions.map(|row| (row.function_id, row)).collect(),
            modules: modules.map(|row| (row.module_id, row)).collect(),
            launches: launches.map(|row| (row.kernel_id, row.function_id)).collect(),
            accesses,
        })
    }

    /// The experiments on a launch, those with the most accesses first. None without accesses or code.
    ///
    /// # Errors
    /// A cubin that cannot be read.
    pub fn experiments(
        &self,
        capture: &CaptureReader,
        kernel_id: KernelId,
        targets: ExperimentKinds,
    ) -> Result<Vec<Experiment>, CaptureError> {
        let Some((_, module)) = self.code_of(kernel_id) else { return Ok(Vec::new()) };
        let cubin = capture.cubin(&module.content_hash)?;
        let Ok(mut code) = FunctionCubin::read(&cubin) else { return Ok(Vec::new()) };
        let mut seen: BTreeMap<(FunctionId, Pc), InstructionAccesses> = BTreeMap::new();
        for row in self.accesses.get(&kernel_id).into_iter().flatten() {
            let seen = seen.entry((row.function_id, row.pc)).or_default();
            seen.lanes += row.lane_count;
            seen.span_bytes = seen.span_bytes.max(row.span_bytes);
            *seen.by_block.entry(row.block_address.map(|address| address.0)).or_default() += row.lane_count;
        }
        let mut found = self.sets(&seen, &code, targets);
        found.sort_by_key(|(lanes, experiment)| (std::cmp::Reverse(*lanes), experiment.target.clone()));
        let near = self.near(&seen);
        let found = found.into_iter().map(|(_, experiment)| experiment).enumerate();
        Ok(found.map(|(position, experiment)| judged(position, experiment, &mut code, &near)).collect())
    }

    /// The instructions that read few bytes of memory.
    fn near(&self, seen: &BTreeMap<(FunctionId, Pc), InstructionAccesses>) -> BTreeSet<InstructionAddress> {
        let near = seen.iter().filter(|(_, seen)| seen.span_bytes <= NEAR_BYTES);
        near.filter_map(|(&(function_id, pc), _)| self.address(function_id, pc)).collect()
    }

    /// The sets of instructions with their accesses.
    fn sets(
        &self,
        seen: &BTreeMap<(FunctionId, Pc), InstructionAccesses>,
        code: &FunctionCubin<'_>,
        targets: ExperimentKinds,
    ) -> Vec<(u64, Experiment)> {
        let mut found = Vec::new();
        if targets.tensors {
            found.extend(self.tensors(seen));
        }
        if targets.lines {
            let mut by_line: BTreeMap<(String, u32), Vec<(FunctionId, Pc)>> = BTreeMap::new();
            for &(function_id, pc) in seen.keys() {
                let line = self.address(function_id, pc).and_then(|address| code.line(&address));
                by_line.entry(line.unwrap_or_default()).or_default().push((function_id, pc));
            }
            by_line.remove(&(String::new(), 0));
            for instructions in by_line.into_values() {
                let lanes = instructions.iter().map(|instruction| seen[instruction].lanes).sum();
                found.push((lanes, self.experiment(AblationTarget::Line, instructions)));
            }
        }
        if targets.instructions {
            found.extend(seen.iter().map(|(instruction, seen)| {
                (seen.lanes, self.experiment(AblationTarget::Instruction, [*instruction]))
            }));
        }
        found
    }

    /// All accesses of one block of memory. Blocks that share instructions have an experiment together, too: the lanes of
    /// one of them cannot be left out alone, since an instruction is left out for all of its lanes.
    fn tensors(&self, seen: &BTreeMap<(FunctionId, Pc), InstructionAccesses>) -> Vec<(u64, Experiment)> {
        let blocks: BTreeSet<u64> =
            seen.values().flat_map(|seen| seen.by_block.keys().copied().flatten()).collect();
        let (mut found, mut groups) = (Vec::new(), Vec::<BTreeSet<u64>>::new());
        for block in blocks {
            let touching = seen.iter().filter(|(_, seen)| seen.by_block.contains_key(&Some(block)));
            let touching: Vec<_> = touching.collect();
            let own: u64 = touching.iter().map(|(_, seen)| seen.by_block[&Some(block)]).sum();
            let all: u64 = touching.iter().map(|(_, seen)| seen.lanes).sum();
            let instructions = touching.iter().map(|(instruction, _)| **instruction);
            let mut experiment = self.experiment(AblationTarget::Tensor, instructions);
            experiment.block_address = Some(block);
            if own.saturating_mul(100) < all.saturating_mul(OWN_PERCENT) {
                experiment.refusal = Some(SHARED.to_owned());
                let sharing = touching.iter().flat_map(|(_, seen)| seen.by_block.keys().copied().flatten());
                join(&mut groups, sharing.collect());
            }
            found.push((own, experiment));
        }
        found.extend(groups.into_iter().map(|group| {
            let is_of = |seen: &InstructionAccesses| {
                seen.by_block.keys().flatten().any(|block| group.contains(block))
            };
            let touching = seen.iter().filter(|(_, seen)| is_of(seen));
            let (instructions, lanes): (Vec<_>, Vec<u64>) =
                touching.map(|(instruction, seen)| (*instruction, seen.lanes)).unzip();
            (lanes.into_iter().sum(), self.experiment(AblationTarget::Tensors, instructions))
        }));
        found
    }

    fn experiment(
        &self,
        target: AblationTarget,
        instructions: impl IntoIterator<Item = (FunctionId, Pc)>,
    ) -> Experiment {
        let instruction = |(function_id, pc): (FunctionId, Pc)| {
            let name = self.functions.get(&function_id).map(|function| function.name.clone());
            (function_id.0, name.unwrap_or_default(), pc.0)
        };
        Experiment {
            target: target.word().to_owned(),
            block_address: None,
            instructions: instructions.into_iter().map(instruction).collect(),
            is_counted: false,
            refusal: None,
            memory: None,
        }
    }

    /// The function of a launch, and its module if its cubin is in the capture.
    pub(crate) fn code_of(&self, kernel_id: KernelId) -> Option<(&Function, &Module)> {
        let function = self.launches.get(&kernel_id).and_then(|id| self.functions.get(id))?;
        let module = self.modules.get(&function.module_id).filter(|module| module.file.is_some())?;
        Some((function, module))
    }

    /// The accesses of a launch.
    pub(crate) fn of_launch(&self, kernel_id: KernelId) -> impl Iterator<Item = &AccessSummary> {
        self.accesses.get(&kernel_id).into_iter().flatten()
    }

    /// The instructions of a launch that read few bytes of memory.
    pub(crate) fn near_reads(&self, kernel_id: KernelId) -> BTreeSet<InstructionAddress> {
        let mut spans: BTreeMap<(FunctionId, Pc), u64> = BTreeMap::new();
        for row in self.of_launch(kernel_id) {
            let span = spans.entry((row.function_id, row.pc)).or_default();
            *span = row.span_bytes.max(*span);
        }
        let near = spans.into_iter().filter(|(_, span)| *span <= NEAR_BYTES);
        near.filter_map(|((function_id, pc), _)| self.address(function_id, pc)).collect()
    }

    pub(crate) fn address(&self, function_id: FunctionId, pc: Pc) -> Option<InstructionAddress> {
        let function = self.functions.get(&function_id)?.name.clone();
        Some(InstructionAddress { function, pc: pc.0 })
    }
}

/// Adds a group, joined with those that it has a member in common with.
fn join(groups: &mut Vec<BTreeSet<u64>>, mut group: BTreeSet<u64>) {
    groups.retain(|known| {
        let is_apart = known.is_disjoint(&group);
        if !is_apart {
            group.extend(known);
        }
        is_apart
    });
    groups.push(group);
}

/// An experiment with the reason that it cannot be made, where there is one.
fn judged(
    position: usize,
    experiment: Experiment,
    code: &mut FunctionCubin<'_>,
    near: &BTreeSet<InstructionAddress>,
) -> Experiment {
    if experiment.refusal.is_some() {
        return experiment;
    }
    if position >= MAX_EXPERIMENTS {
        return Experiment { refusal: Some(TOO_MANY.to_owned()), ..experiment };
    }
    match code.effect(&experiment.addresses()) {
        Ok(OmissionEffect { branch, loads }) if loads.is_subset(near) => {
            Experiment { is_counted: branch || !loads.is_empty(), ..experiment }
        }
        Ok(_) => Experiment { refusal: Some(OmissionRefusal::Address.to_string()), ..experiment },
        Err(refusal) => Experiment { refusal: Some(refusal.to_string()), ..experiment },
    }
}
