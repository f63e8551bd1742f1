//! Launches of two runs in pairs: the n-th of a thread in one with the n-th of that thread in the other.

use std::collections::{BTreeMap, BTreeSet};

use super::found::{FirstDifference, LaunchAspect};
use super::row::OrderedLaunch;

/// A launch of each run.
pub(super) type LaunchPair<'a> = (&'a OrderedLaunch, &'a OrderedLaunch);

/// The pairs before the runs part, and where they part.
pub(super) struct LaunchWalk<'a> {
    pub(super) pairs: Vec<LaunchPair<'a>>,
    pub(super) parting: Option<FirstDifference>,
}

/// Launches by rank and thread: threads of one process launch in no order.
fn threads(launches: &[OrderedLaunch]) -> BTreeMap<(i64, i64), Vec<&OrderedLaunch>> {
    let mut threads: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for launch in launches {
        threads.entry((launch.rank, launch.thread_id)).or_default().push(launch);
    }
    threads
}

/// True for launches of one kernel, if it was compiled again too.
fn is_same_kernel(a: &OrderedLaunch, b: &OrderedLaunch) -> bool {
    a.function_id == b.function_id || a.name == b.name
}

impl<'a> LaunchWalk<'a> {
    /// Walks both runs until they part in each thread.
    pub(super) fn from_launches(a: &'a [OrderedLaunch], b: &'a [OrderedLaunch]) -> Self {
        let (ours, others) = (threads(a), threads(b));
        let keys: BTreeSet<_> = ours.keys().chain(others.keys()).collect();
        let (mut pairs, mut partings) = (Vec::new(), Vec::new());
        for key in keys {
            let of_key =
                |threads: &BTreeMap<_, Vec<&'a OrderedLaunch>>| threads.get(key).cloned().unwrap_or_default();
            let (ours, others) = (of_key(&ours), of_key(&others));
            let same = ours.iter().zip(&others).take_while(|(a, b)| is_same_kernel(a, b)).count();
            pairs.extend(ours.iter().copied().zip(others.iter().copied()).take(same));
            partings.extend(parting(ours.get(same).copied(), others.get(same).copied()));
        }
        pairs.sort_by_key(|(a, _)| a.kernel_id);
        let place = |found: &FirstDifference| found.launch.or(found.other_launch);
        Self { pairs, parting: partings.into_iter().min_by_key(place) }
    }
}

/// The launches with which two runs of a thread part.
fn parting(a: Option<&OrderedLaunch>, b: Option<&OrderedLaunch>) -> Option<FirstDifference> {
    let is_alike = a.map(|launch| &launch.kernel) == b.map(|launch| &launch.kernel);
    let name = |launch: &OrderedLaunch| if is_alike { launch.name.clone() } else { launch.kernel.clone() };
    let kernel = |launch: Option<&OrderedLaunch>| launch.map_or_else(|| "no launch".to_owned(), name);
    let detail = format!("{} in the first, {} in the other", kernel(a), kernel(b));
    let launch = a.or(b)?;
    let mut found = FirstDifference::for_pair(LaunchAspect::Sequence, launch, launch, detail);
    found.launch = a.map(|launch| launch.kernel_id);
    found.other_launch = b.map(|launch| launch.kernel_id);
    Some(found)
}
