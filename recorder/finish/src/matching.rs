//! Which launch of the reference run a launch of another run is.
//!
//! Two launches match if they are fully equal in Python state, op name, function, grid, block, and in being the n-th
//! such launch of their thread. Threads are matched by their number where both runs have it, else in their order.
//! What does not match is never guessed: it gets a reason.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{FunctionId, KernelId, OpId, PystatesHash};
use stallmap_schema::tables::launch::Launch;

/// Everything but the occurrence that two launches must share.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Likeness {
    function_id: FunctionId,
    shape: [u32; 6],
    state: Option<PystatesHash>,
    op_name: Option<String>,
}

/// A launch as matching sees it.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    kernel_id: KernelId,
    thread_id: u32,
    likeness: Likeness,
    occurrence: u32,
}

/// Describes the launches of a run, in the order of their ordinals, and numbers the occurrences in `launch.occurrence`.
pub(crate) fn describe(
    launches: &mut [Launch],
    threads: &BTreeMap<KernelId, u32>,
    op_names: &BTreeMap<OpId, &str>,
) -> Vec<Described> {
    let mut counts: BTreeMap<(u32, Likeness), u32> = BTreeMap::new();
    let mut described = Vec::with_capacity(launches.len());
    for launch in launches {
        let thread_id = threads.get(&launch.kernel_id).copied().unwrap_or(0);
        let likeness = Likeness {
            function_id: launch.function_id,
            shape: [
                launch.grid_x,
                launch.grid_y,
                launch.grid_z,
                launch.block_x,
                launch.block_y,
                launch.block_z,
            ],
            state: launch.pystates_hash,
            op_name: launch.op_id.and_then(|op| op_names.get(&op)).map(|name| (*name).to_owned()),
        };
        let count = counts.entry((thread_id, likeness.clone())).or_default();
        launch.occurrence = *count;
        *count += 1;
        let (kernel_id, occurrence) = (launch.kernel_id, launch.occurrence);
        described.push(Described { kernel_id, thread_id, likeness, occurrence });
    }
    described
}

/// For each launch of a run the launch of the reference run that it is, or why there is none.
pub(crate) fn match_launches(
    reference: &[Described],
    run: &[Described],
) -> BTreeMap<KernelId, Result<KernelId, &'static str>> {
    let index = Index::new(reference);
    let mut groups: BTreeMap<(&Likeness, u32), Vec<&Described>> = BTreeMap::new();
    for launch in run {
        groups.entry((&launch.likeness, launch.occurrence)).or_default().push(launch);
    }
    let mut matches = BTreeMap::new();
    for (key, mut launches) in groups {
        launches.sort_by_key(|launch| launch.thread_id);
        let mut candidates = index.equal.get(&key).cloned().unwrap_or_default();
        // The same thread first, then whoever is left, in the threads' order.
        launches.retain(|launch| {
            let same = candidates.iter().position(|other| other.thread_id == launch.thread_id);
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

/// The reference run's launches, by everything that a reason can name.
struct Index<'a> {
    functions: BTreeSet<FunctionId>,
    shapes: BTreeSet<(FunctionId, [u32; 6])>,
    likenesses: BTreeSet<&'a Likeness>,
    /// Launches by likeness and occurrence, in the order of their threads.
    equal: BTreeMap<(&'a Likeness, u32), Vec<&'a Described>>,
}

impl<'a> Index<'a> {
    fn new(reference: &'a [Described]) -> Self {
        let mut equal: BTreeMap<_, Vec<&Described>> = BTreeMap::new();
        for launch in reference {
            equal.entry((&launch.likeness, launch.occurrence)).or_default().push(launch);
        }
        for launches in equal.values_mut() {
            launches.sort_by_key(|launch| launch.thread_id);
        }
        let likenesses = || reference.iter().map(|launch| &launch.likeness);
        Self {
            functions: likenesses().map(|likeness| likeness.function_id).collect(),
            shapes: likenesses().map(|likeness| (likeness.function_id, likeness.shape)).collect(),
            likenesses: likenesses().collect(),
            equal,
        }
    }

    fn reason(&self, launch: &Described) -> &'static str {
        let Likeness { function_id, shape, .. } = launch.likeness;
        if !self.functions.contains(&function_id) {
            "function not launched in reference run"
        } else if !self.shapes.contains(&(function_id, shape)) {
            "other grid or block"
        } else if !self.likenesses.contains(&launch.likeness) {
            "other python state or op"
        } else {
            "more occurrences than the reference run"
        }
    }
}
