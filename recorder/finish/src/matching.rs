//! Matching of a run's launches with those of the reference run.
//!
//! Two launches match if they are equal in Python state, op name, function, grid, block, device, dynamic shared memory
//! and node of a graph, and in being the n-th such launch of their thread. Threads are numbered as they come, so they are
//! matched by their launches, and by their number only if those are the same. A launch without a match gets a reason,
//! never a guess.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stallmap_schema::id::{FunctionId, KernelId, OpId, PystatesHash};
use stallmap_schema::tables::launch::Launch;

/// Everything but the occurrence that two launches must share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Likeness {
    function_id: FunctionId,
    shape: [u32; 6],
    /// The executable graph and its node. Null for a launch of its own.
    node: Option<(Option<u64>, Option<u32>)>,
    device_id: i32,
    /// Null where one of the two runs does not know it.
    dynamic_shared_bytes: Option<u32>,
    state: Option<PystatesHash>,
    op_name: Option<Arc<str>>,
}

/// A launch as matching sees it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    kernel_id: KernelId,
    thread_id: u32,
    ordinal: u64,
    likeness: Likeness,
}

/// A launch with a likeness of facts that both runs know, and its index among its thread's equal launches.
#[derive(Clone, Debug)]
struct Counted {
    kernel_id: KernelId,
    thread_id: u32,
    ordinal: u64,
    likeness: Likeness,
    occurrence: u32,
}

/// Describes the launches of a run, in the order of their ordinals, and numbers the occurrences in `launch.occurrence`.
pub(crate) fn describe(
    launches: &mut [Launch],
    threads: &BTreeMap<KernelId, u32>,
    op_names: &BTreeMap<OpId, &str>,
) -> Vec<Described> {
    let mut names: BTreeMap<&str, Arc<str>> = BTreeMap::new();
    let mut counts: BTreeMap<_, u32> = BTreeMap::new();
    let mut described = Vec::with_capacity(launches.len());
    for launch in launches {
        let thread_id = threads.get(&launch.kernel_id).copied().unwrap_or(0);
        let name = launch.op_id.and_then(|op| op_names.get(&op).copied());
        let op_name = name.map(|name| Arc::clone(names.entry(name).or_insert_with(|| name.into())));
        let likeness = likeness(launch, op_name);
        let key = (thread_id, likeness.state, name, likeness.function_id, likeness.shape);
        let count = counts.entry(key).or_default();
        launch.occurrence = *count;
        *count += 1;
        let (kernel_id, ordinal) = (launch.kernel_id, launch.ordinal);
        described.push(Described { kernel_id, thread_id, ordinal, likeness });
    }
    described
}

fn likeness(launch: &Launch, op_name: Option<Arc<str>>) -> Likeness {
    let &Launch { grid_x, grid_y, grid_z, block_x, block_y, block_z, .. } = launch;
    let is_node = launch.graph_id.is_some() || launch.graph_node.is_some();
    Likeness {
        function_id: launch.function_id,
        shape: [grid_x, grid_y, grid_z, block_x, block_y, block_z],
        node: is_node.then_some((launch.graph_id, launch.graph_node)),
        device_id: launch.device_id,
        dynamic_shared_bytes: launch.dynamic_shared_bytes,
        state: launch.pystates_hash,
        op_name,
    }
}

/// For each launch of a run the launch of the reference run that it is, or why there is none.
pub(crate) fn match_launches(
    reference: &[Described],
    run: &[Described],
) -> BTreeMap<KernelId, Result<KernelId, &'static str>> {
    let vague = without_shared_bytes(reference.iter().chain(run));
    let (reference, run) = (count(reference, &vague), count(run, &vague));
    let threads = match_threads(&reference, &run);
    let index = Index::new(&reference);
    let mut groups: BTreeMap<(&Likeness, u32), Vec<&Counted>> = BTreeMap::new();
    for launch in &run {
        groups.entry((&launch.likeness, launch.occurrence)).or_default().push(launch);
    }
    let mut matches = BTreeMap::new();
    for (key, mut launches) in groups {
        launches.sort_by_key(|launch| (launch.thread_id, launch.ordinal));
        let mut candidates = index.equal.get(&key).cloned().unwrap_or_default();
        // The same thread first, then whoever is left, in the threads' order.
        launches.retain(|launch| {
            let thread = threads.get(&launch.thread_id);
            let same = candidates.iter().position(|other| Some(&other.thread_id) == thread);
            if let Some(position) = same {
                matches.insert(launch.kernel_id, Ok(candidates.remove(position).kernel_id));
            }
            same.is_none()
        });
        let mut left = candidates.into_iter();
        for launch in launches {
            let found = left.next().map(|other| other.kernel_id).ok_or_else(|| index.reason(launch));
            matches.insert(launch.kernel_id, found);
        }
    }
    matches
}

/// As [`match_launches`] for a run without Python: its launches have neither state nor op. Launches that are then alike
/// match only if both runs have as many of them in the thread.
pub(crate) fn match_without_python(
    reference: &[Described],
    run: &[Described],
) -> BTreeMap<KernelId, Result<KernelId, &'static str>> {
    let plain = |launches: &[Described]| -> Vec<Described> {
        let strip = |launch: &Described| Described {
            likeness: Likeness { state: None, op_name: None, ..launch.likeness.clone() },
            ..launch.clone()
        };
        launches.iter().map(strip).collect()
    };
    let (reference, run) = (plain(reference), plain(run));
    let mut matches = match_launches(&reference, &run);
    let (expected, seen) = (tally(&reference), tally(&run));
    for launch in &run {
        if expected.get(&launch.likeness) != seen.get(&launch.likeness)
            && let Some(found @ Ok(_)) = matches.get_mut(&launch.kernel_id)
        {
            *found = Err("another number of such launches in the reference run");
        }
    }
    matches
}

/// Launches of each likeness.
fn tally(launches: &[Described]) -> BTreeMap<&Likeness, u64> {
    let mut counts = BTreeMap::new();
    for launch in launches {
        *counts.entry(&launch.likeness).or_default() += 1;
    }
    counts
}

/// Functions and shapes with a launch of unknown dynamic shared memory, which is then not part of the likeness.
fn without_shared_bytes<'a>(
    launches: impl Iterator<Item = &'a Described>,
) -> BTreeSet<(FunctionId, [u32; 6])> {
    let unknown = launches.filter(|launch| launch.likeness.dynamic_shared_bytes.is_none());
    unknown.map(|launch| (launch.likeness.function_id, launch.likeness.shape)).collect()
}

fn count(launches: &[Described], vague: &BTreeSet<(FunctionId, [u32; 6])>) -> Vec<Counted> {
    let mut counts: BTreeMap<(u32, Likeness), u32> = BTreeMap::new();
    let mut counted = Vec::with_capacity(launches.len());
    for &Described { kernel_id, thread_id, ordinal, ref likeness } in launches {
        let mut likeness = likeness.clone();
        if vague.contains(&(likeness.function_id, likeness.shape)) {
            likeness.dynamic_shared_bytes = None;
        }
        let count = counts.entry((thread_id, likeness.clone())).or_default();
        counted.push(Counted { kernel_id, thread_id, ordinal, likeness, occurrence: *count });
        *count += 1;
    }
    counted
}

/// The reference's thread for each thread of a run: one that launches the same things, with the same number if there
/// are several. A thread that launches other things in the two runs gets the one with the same number.
fn match_threads(reference: &[Counted], run: &[Counted]) -> BTreeMap<u32, u32> {
    let (references, roles) = (roles(reference), roles(run));
    let mut free: BTreeSet<u32> = references.keys().copied().collect();
    let mut threads = BTreeMap::new();
    for (&thread, role) in &roles {
        if references.get(&thread) == Some(role) {
            free.remove(&thread);
            threads.insert(thread, thread);
        }
    }
    let mut by_role: BTreeMap<&Role<'_>, Vec<u32>> = BTreeMap::new();
    for (&thread, role) in references.iter().rev().filter(|(thread, _)| free.contains(*thread)) {
        by_role.entry(role).or_default().push(thread);
    }
    for (&thread, role) in &roles {
        if !threads.contains_key(&thread)
            && let Some(other) = by_role.get_mut(role).and_then(Vec::pop)
        {
            free.remove(&other);
            threads.insert(thread, other);
        }
    }
    for &thread in roles.keys() {
        if !threads.contains_key(&thread) && free.remove(&thread) {
            threads.insert(thread, thread);
        }
    }
    threads
}

/// The set of things that a thread launches.
type Role<'a> = BTreeSet<&'a Likeness>;

fn roles(launches: &[Counted]) -> BTreeMap<u32, Role<'_>> {
    let mut roles: BTreeMap<u32, Role<'_>> = BTreeMap::new();
    for launch in launches {
        roles.entry(launch.thread_id).or_default().insert(&launch.likeness);
    }
    roles
}

/// The reference run's launches, by everything that a reason can name.
struct Index<'a> {
    functions: BTreeSet<FunctionId>,
    shapes: BTreeSet<(FunctionId, [u32; 6])>,
    nodes: BTreeSet<Likeness>,
    devices: BTreeSet<Likeness>,
    shared: BTreeSet<Likeness>,
    likenesses: BTreeSet<&'a Likeness>,
    /// Launches by likeness and occurrence, in the order of their threads.
    equal: BTreeMap<(&'a Likeness, u32), Vec<&'a Counted>>,
}

impl<'a> Index<'a> {
    fn new(reference: &'a [Counted]) -> Self {
        let mut equal: BTreeMap<_, Vec<&Counted>> = BTreeMap::new();
        for launch in reference {
            equal.entry((&launch.likeness, launch.occurrence)).or_default().push(launch);
        }
        for launches in equal.values_mut() {
            launches.sort_by_key(|launch| (launch.thread_id, launch.ordinal));
        }
        let likenesses: BTreeSet<&Likeness> = reference.iter().map(|launch| &launch.likeness).collect();
        let all = || likenesses.iter();
        Self {
            functions: all().map(|likeness| likeness.function_id).collect(),
            shapes: all().map(|likeness| (likeness.function_id, likeness.shape)).collect(),
            nodes: all().map(|likeness| likeness.up_to_node()).collect(),
            devices: all().map(|likeness| likeness.up_to_device()).collect(),
            shared: all().map(|likeness| likeness.up_to_shared()).collect(),
            likenesses,
            equal,
        }
    }

    fn reason(&self, launch: &Counted) -> &'static str {
        let likeness = &launch.likeness;
        if !self.functions.contains(&likeness.function_id) {
            "function not launched in reference run"
        } else if !self.shapes.contains(&(likeness.function_id, likeness.shape)) {
            "other grid or block"
        } else if !self.nodes.contains(&likeness.up_to_node()) {
            "other graph or node"
        } else if !self.devices.contains(&likeness.up_to_device()) {
            "other device"
        } else if !self.shared.contains(&likeness.up_to_shared()) {
            "other dynamic shared memory"
        } else if !self.likenesses.contains(likeness) {
            "other python state or op"
        } else {
            "more occurrences than the reference run"
        }
    }
}

impl Likeness {
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
