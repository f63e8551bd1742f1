//! Matching of a run's launches with those of the reference run.
//!
//! Two launches match if they are equal in Python state, op name, function, grid, block, device, dynamic shared memory
//! and node of a graph, in being a trial of a tuner or none, and in being the n-th such launch of their thread. Threads are
//! numbered as they come, so they are matched by their launches, and by their number only if those are the same. Matches of
//! a thread follow each other in both runs, as [`order`] has it. A launch without a match gets a reason, never a guess.

mod numbers;
mod order;
mod reasons;
mod threads;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, OpId, PystatesHash};
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::tensor::Op;
use stallmap_schema::word::OpKind;

use self::numbers::LikenessNumbers;
use self::order::LaunchPositions;
use self::reasons::MismatchReasons;

/// Everything but the occurrence that two launches must share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LaunchLikeness {
    function_id: FunctionId,
    shape: [u32; 6],
    /// The executable graph and its node. Null for a launch of its own.
    node: Option<(Option<u64>, Option<u32>)>,
    device_id: i32,
    /// Null where one of the two runs does not know it.
    dynamic_shared_bytes: Option<u32>,
    state: Option<PystatesHash>,
    op_name: Option<Arc<str>>,
    /// True for a trial of a tuner: a run that takes an earlier run's choice has none.
    is_trial: bool,
}

/// The module of functions that match by name.
const NO_MODULE: ModuleId = ModuleId(0);

/// The launches of a run as matching sees them. A million of them may have a few likenesses.
#[derive(Clone, Debug, Default)]
pub(crate) struct DescribedLaunches {
    likenesses: Vec<LaunchLikeness>,
    launches: Vec<DescribedLaunch>,
}

impl DescribedLaunches {
    /// The number of launches.
    pub(crate) fn launch_count(&self) -> u64 {
        self.launches.len() as u64
    }

    /// As they are, with one function for all of a name. `name` gives those that it concerns.
    pub(crate) fn merge_functions<'a>(&self, name: impl Fn(FunctionId) -> Option<&'a str>) -> Cow<'_, Self> {
        if self.likenesses.iter().all(|likeness| name(likeness.function_id).is_none()) {
            return Cow::Borrowed(self);
        }
        let merged = |likeness: &LaunchLikeness| {
            let of_name = name(likeness.function_id).map(|name| hash::function_id(NO_MODULE, name));
            LaunchLikeness { function_id: of_name.unwrap_or(likeness.function_id), ..likeness.clone() }
        };
        let likenesses = self.likenesses.iter().map(merged).collect();
        Cow::Owned(Self { likenesses, launches: self.launches.clone() })
    }

    /// The op and the Python stack of each of these launches.
    pub(crate) fn callers(&self, wanted: &BTreeSet<KernelId>) -> BTreeMap<KernelId, LaunchCaller> {
        let launches = self.launches.iter().filter(|launch| wanted.contains(&launch.kernel_id));
        launches
            .map(|launch| {
                let state = self.likenesses.get(launch.likeness as usize).and_then(|likeness| likeness.state);
                (launch.kernel_id, LaunchCaller { op_id: launch.op_id, pystates_hash: state })
            })
            .collect()
    }
}

/// The op and the Python stack of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchCaller {
    pub(crate) op_id: Option<OpId>,
    pub(crate) pystates_hash: Option<PystatesHash>,
}

#[derive(Clone, Copy, Debug)]
struct DescribedLaunch {
    kernel_id: KernelId,
    ordinal: u64,
    thread_id: u32,
    op_id: Option<OpId>,
    /// Index of its likeness.
    likeness: u32,
}

/// A launch with the number of a likeness of facts that both runs know, and its index among its thread's equal launches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct CountedLaunch {
    likeness: u32,
    occurrence: u32,
    thread_id: u32,
    ordinal: u64,
    kernel_id: KernelId,
}

impl CountedLaunch {
    fn group(&self) -> (u32, u32) {
        (self.likeness, self.occurrence)
    }
}

/// For each launch of a run the launch of the reference run that it is, or why there is none.
pub(crate) type LaunchMatches = BTreeMap<KernelId, Result<KernelId, &'static str>>;

/// A run's matches with its reference run.
#[derive(Debug, Default)]
pub(crate) struct MatchedRun {
    pub(crate) matches: LaunchMatches,
    pub(crate) positions: LaunchPositions,
}

/// An op as matching sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DescribedOp<'a> {
    /// `None` where the name need not be the same in each run.
    pub(crate) name: Option<&'a str>,
    /// True inside of a tuner's trials.
    pub(crate) is_trial: bool,
}

/// The ops of a run, of which `foreign` have names that differ from run to run. Those that enclose others have the smaller
/// numbers.
pub(crate) fn describe_ops<'a>(ops: &'a [Op], foreign: &BTreeSet<OpId>) -> BTreeMap<OpId, DescribedOp<'a>> {
    let mut ordered: Vec<&Op> = ops.iter().collect();
    ordered.sort_by_key(|op| op.op_id);
    let mut described: BTreeMap<OpId, DescribedOp<'a>> = BTreeMap::new();
    for op in ordered {
        let parent = op.parent_op_id.and_then(|parent| described.get(&parent));
        let is_trial = op.kind == OpKind::Tuning || parent.is_some_and(|parent| parent.is_trial);
        let name = (!foreign.contains(&op.op_id)).then_some(op.name.as_str());
        described.insert(op.op_id, DescribedOp { name, is_trial });
    }
    described
}

/// Describes the launches of a run, in the order of their ordinals, and numbers the occurrences in `launch.occurrence`.
pub(crate) fn describe(
    launches: &mut [Launch],
    threads: &BTreeMap<KernelId, u32>,
    ops: &BTreeMap<OpId, DescribedOp<'_>>,
) -> DescribedLaunches {
    let mut names: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    let mut likenesses = LikenessNumbers::default();
    let mut described = Vec::with_capacity(launches.len());
    for launch in launches {
        let thread_id = threads.get(&launch.kernel_id).copied().unwrap_or(0);
        let op = launch.op_id.and_then(|op| ops.get(&op));
        let name = op.and_then(|op| op.name);
        let op_name = name.map(|name| Arc::clone(names.entry(name).or_insert_with(|| name.into())));
        let is_trial = op.is_some_and(|op| op.is_trial);
        let likeness = LaunchLikeness { is_trial, ..likeness(launch, op_name) };
        let key = (thread_id, likeness.state, name, likeness.function_id, likeness.shape);
        let count = counts.entry(key).or_default();
        launch.occurrence = *count;
        *count += 1;
        let &mut Launch { kernel_id, ordinal, op_id, .. } = launch;
        let likeness = likenesses.number(likeness);
        described.push(DescribedLaunch { kernel_id, ordinal, thread_id, op_id, likeness });
    }
    DescribedLaunches { likenesses: likenesses.into_likenesses(), launches: described }
}

fn likeness(launch: &Launch, op_name: Option<Arc<str>>) -> LaunchLikeness {
    let &Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = launch;
    let is_node = launch.graph_id.is_some() || launch.graph_node.is_some();
    LaunchLikeness {
        function_id: launch.function_id,
        shape: [grid_x, grid_y, grid_z, block_x, block_y, block_z],
        node: is_node.then_some((launch.graph_id, launch.graph_node)),
        device_id: launch.device_id,
        dynamic_shared_bytes: launch.dynamic_shared_bytes,
        state: launch.pystates_hash,
        op_name,
        is_trial: false,
    }
}

/// Matches the launches of a run with those of its reference run.
pub(crate) fn match_launches(reference: &DescribedLaunches, run: &DescribedLaunches) -> MatchedRun {
    CountedRuns::new(reference, run, LaunchLikeness::clone).matched(|_| true)
}

/// As [`match_launches`] for a run without Python: its launches have neither state nor op. Launches that are then alike
/// match only if both runs have as many of them in the thread, or between two that match.
pub(crate) fn match_without_python(reference: &DescribedLaunches, run: &DescribedLaunches) -> MatchedRun {
    let mut numbers = LikenessNumbers::default();
    let of_reference = numbers.for_run(reference, LaunchLikeness::up_to_shared);
    let of_run = numbers.for_run(run, LaunchLikeness::up_to_shared);
    let (expected, seen) = (tally(reference, &of_reference), tally(run, &of_run));
    let unequal = numbered(run, &of_run).filter(|(_, number)| expected.get(number) != seen.get(number));
    let unequal: BTreeSet<KernelId> = unequal.map(|(launch, _)| launch.kernel_id).collect();
    CountedRuns::new(reference, run, LaunchLikeness::up_to_shared)
        .matched(|launch| !unequal.contains(&launch))
}

/// The launches of two runs by a part of their likeness, and the threads of the reference run by those of the other.
struct CountedRuns {
    reference: Vec<CountedLaunch>,
    run: Vec<CountedLaunch>,
    threads: BTreeMap<u32, u32>,
    reasons: MismatchReasons,
}

impl CountedRuns {
    fn new(
        reference: &DescribedLaunches,
        run: &DescribedLaunches,
        part: fn(&LaunchLikeness) -> LaunchLikeness,
    ) -> Self {
        let vague = without_shared_bytes([reference, run]);
        let known = |likeness: &LaunchLikeness| {
            let is_vague = vague.contains(&(likeness.function_id, likeness.shape));
            let dynamic_shared_bytes = likeness.dynamic_shared_bytes.filter(|_| !is_vague);
            LaunchLikeness { dynamic_shared_bytes, ..part(likeness) }
        };
        let mut numbers = LikenessNumbers::default();
        let (of_reference, of_run) = (numbers.for_run(reference, known), numbers.for_run(run, known));
        let (reference, run) = (count(reference, &of_reference), count(run, &of_run));
        let threads = threads::pair(&reference, &run);
        let reasons = MismatchReasons::new(numbers.into_likenesses(), &of_reference);
        Self { reference, run, threads, reasons }
    }

    /// Matches launches by their number, but for those of which the runs have not as many, then by their order.
    fn matched(&self, are_as_many: impl Fn(KernelId) -> bool) -> MatchedRun {
        let mut matches = self.by_occurrence();
        for (kernel_id, found) in &mut matches {
            if found.is_ok() && !are_as_many(*kernel_id) {
                *found = Err("another number of such launches in the reference run");
            }
        }
        let positions = order::settle(&self.reference, &self.run, &self.threads, &mut matches);
        MatchedRun { matches, positions }
    }

    /// The n-th launch of a kind with the n-th.
    fn by_occurrence(&self) -> LaunchMatches {
        let mut matches = LaunchMatches::new();
        for launches in self.run.chunk_by(|a, b| a.group() == b.group()) {
            let mut candidates: Vec<CountedLaunch> =
                launches.first().map_or(&[][..], |launch| equal(&self.reference, launch)).to_vec();
            // The same thread first, then whoever is left, in the threads' order.
            let mut others = Vec::new();
            for launch in launches {
                let thread = self.threads.get(&launch.thread_id);
                match candidates.iter().position(|other| Some(&other.thread_id) == thread) {
                    Some(same) => {
                        matches.insert(launch.kernel_id, Ok(candidates.remove(same).kernel_id));
                    }
                    None => others.push(launch),
                }
            }
            let mut left = candidates.into_iter();
            for launch in others {
                let found = left.next().map(|other| other.kernel_id);
                matches
                    .insert(launch.kernel_id, found.ok_or_else(|| self.reasons.for_number(launch.likeness)));
            }
        }
        matches
    }
}

/// The launches of the reference run with a launch's likeness and occurrence, in the order of their threads.
fn equal<'a>(reference: &'a [CountedLaunch], launch: &CountedLaunch) -> &'a [CountedLaunch] {
    let first = reference.partition_point(|other| other.group() < launch.group());
    let rest = reference.get(first..).unwrap_or_default();
    rest.chunk_by(|a, b| a.group() == b.group())
        .next()
        .filter(|same| same.first().is_some_and(|other| other.group() == launch.group()))
        .unwrap_or_default()
}

/// The launches of a run, each with the number of its likeness.
fn numbered(run: &DescribedLaunches, numbers: &[u32]) -> impl Iterator<Item = (DescribedLaunch, u32)> {
    let number = |launch: &DescribedLaunch| Some((*launch, *numbers.get(launch.likeness as usize)?));
    run.launches.iter().filter_map(number)
}

/// Launches of each likeness.
fn tally(run: &DescribedLaunches, numbers: &[u32]) -> BTreeMap<u32, u64> {
    let mut counts = BTreeMap::new();
    for (_, number) in numbered(run, numbers) {
        *counts.entry(number).or_default() += 1;
    }
    counts
}

/// Functions and shapes with a launch of unknown dynamic shared memory, which is then not part of the likeness.
fn without_shared_bytes(runs: [&DescribedLaunches; 2]) -> BTreeSet<(FunctionId, [u32; 6])> {
    let likenesses = runs.into_iter().flat_map(|run| &run.likenesses);
    let unknown = likenesses.filter(|likeness| likeness.dynamic_shared_bytes.is_none());
    unknown.map(|likeness| (likeness.function_id, likeness.shape)).collect()
}

/// The launches of a run by likeness and occurrence, those of one kind in the order of their threads.
fn count(run: &DescribedLaunches, numbers: &[u32]) -> Vec<CountedLaunch> {
    let mut counts: BTreeMap<(u32, u32), u32> = BTreeMap::new();
    let mut counted = Vec::with_capacity(run.launches.len());
    for (DescribedLaunch { kernel_id, ordinal, thread_id, .. }, likeness) in numbered(run, numbers) {
        let count = counts.entry((thread_id, likeness)).or_default();
        counted.push(CountedLaunch { likeness, occurrence: *count, thread_id, ordinal, kernel_id });
        *count += 1;
    }
    counted.sort_unstable();
    counted
}

impl LaunchLikeness {
    fn up_to_shared(&self) -> Self {
        Self { state: None, op_name: None, ..self.clone() }
    }

    fn up_to_device(&self) -> Self {
        Self { dynamic_shared_bytes: None, ..self.up_to_shared() }
    }

    fn up_to_node(&self) -> Self {
        Self { device_id: 0, ..self.up_to_device() }
    }
}

#[cfg(test)]
mod tests;
