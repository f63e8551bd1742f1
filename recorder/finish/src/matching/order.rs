//! Matches in the order of both runs, and launches at one position of both that differ.
//!
//! The n-th launch of a kind is of another step in another run if data decides what a program launches. So the matches of a
//! thread follow each other in both runs. Between two of them, launches of which both runs have as many match in their order.
//! If as many are then left in one run as in the other, they are at the same positions: other kernels for the same work.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::KernelId;

use super::{CountedLaunch, LaunchMatches};

/// Launches between two matches that are compared with each other. Longer gaps are of different programs.
const MAX_GAP: usize = 64;
/// The reason of a launch whose match would be out of order.
const OUT_OF_ORDER: &str = "another order than in the reference run";

/// For a launch without a match, the launch of the reference run at its position.
pub(crate) type LaunchPositions = BTreeMap<KernelId, KernelId>;

/// Puts the matches of each pair of threads in order. Returns positions of launches without a match.
pub(super) fn settle(
    reference: &[CountedLaunch],
    run: &[CountedLaunch],
    threads: &BTreeMap<u32, u32>,
    matches: &mut LaunchMatches,
) -> LaunchPositions {
    let (references, own) = (by_thread(reference), by_thread(run));
    let mut aligned = Vec::new();
    for (thread, partner) in threads {
        if let Some((own, other)) = own.get(thread).zip(references.get(partner))
            && let Some(anchors) = keep_ordered(own, other, matches)
        {
            aligned.push((own, other, anchors));
        }
    }
    let taken: BTreeSet<KernelId> = matches.values().filter_map(|found| found.ok()).collect();
    let mut positions = LaunchPositions::new();
    for (own, other, anchors) in aligned {
        for (own, other) in gaps(own, other, &anchors) {
            let is_left =
                |launch: &&CountedLaunch| matches.get(&launch.kernel_id).is_some_and(Result::is_err);
            let own: Vec<&CountedLaunch> = own.iter().filter(is_left).collect();
            let other: Vec<&CountedLaunch> =
                other.iter().filter(|launch| !taken.contains(&launch.kernel_id)).collect();
            if own.len() <= MAX_GAP && other.len() <= MAX_GAP {
                fill(&own, &other, matches, &mut positions);
            }
        }
    }
    positions
}

/// The launches of each thread, in their order.
fn by_thread(launches: &[CountedLaunch]) -> BTreeMap<u32, Vec<CountedLaunch>> {
    let mut threads: BTreeMap<u32, Vec<CountedLaunch>> = BTreeMap::new();
    for launch in launches {
        threads.entry(launch.thread_id).or_default().push(*launch);
    }
    for launches in threads.values_mut() {
        launches.sort_unstable_by_key(|launch| launch.ordinal);
    }
    threads
}

/// Removes the matches of a thread that are out of order, and returns the rest, as indices. `None` where most are: threads
/// that share work take it in any order.
fn keep_ordered(
    own: &[CountedLaunch],
    other: &[CountedLaunch],
    matches: &mut LaunchMatches,
) -> Option<Vec<(usize, usize)>> {
    let indices: BTreeMap<KernelId, usize> =
        other.iter().enumerate().map(|(index, launch)| (launch.kernel_id, index)).collect();
    let partner = |launch: &CountedLaunch| {
        matches.get(&launch.kernel_id).and_then(|found| indices.get(&found.ok()?).copied())
    };
    let pairs: Vec<(usize, usize)> =
        own.iter().enumerate().filter_map(|(index, launch)| Some((index, partner(launch)?))).collect();
    let anchors = longest_increasing(&pairs);
    if 2 * anchors.len() <= pairs.len() {
        return None;
    }
    let ordered: BTreeSet<usize> = anchors.iter().map(|pair| pair.0).collect();
    for launch in pairs.iter().filter(|pair| !ordered.contains(&pair.0)).filter_map(|pair| own.get(pair.0)) {
        matches.insert(launch.kernel_id, Err(OUT_OF_ORDER));
    }
    Some(anchors)
}

/// The longest part of pairs, sorted by their first numbers, whose second numbers increase.
fn longest_increasing(pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // For each length, the index of the pair that ends such a part with the smallest number. For each pair, the one before.
    let mut ends: Vec<usize> = Vec::new();
    let mut before: Vec<Option<usize>> = Vec::with_capacity(pairs.len());
    for (index, &(_, number)) in pairs.iter().enumerate() {
        let length = ends.partition_point(|&end| pairs.get(end).is_some_and(|pair| pair.1 < number));
        before.push(length.checked_sub(1).and_then(|last| ends.get(last).copied()));
        match ends.get_mut(length) {
            Some(end) => *end = index,
            None => ends.push(index),
        }
    }
    let mut part = Vec::with_capacity(ends.len());
    let mut next = ends.last().copied();
    while let Some(index) = next {
        part.extend(pairs.get(index));
        next = before.get(index).copied().flatten();
    }
    part.reverse();
    part
}

/// The launches between matches of two threads, in both.
fn gaps<'a>(
    own: &'a [CountedLaunch],
    other: &'a [CountedLaunch],
    anchors: &'a [(usize, usize)],
) -> impl Iterator<Item = (&'a [CountedLaunch], &'a [CountedLaunch])> {
    let begins = std::iter::once((0, 0)).chain(anchors.iter().map(|&(one, two)| (one + 1, two + 1)));
    let ends = anchors.iter().copied().chain(std::iter::once((own.len(), other.len())));
    begins.zip(ends).filter_map(|(begin, end)| Some((own.get(begin.0..end.0)?, other.get(begin.1..end.1)?)))
}

/// Matches equal launches of a gap in their order, and notes the positions of those between them.
fn fill(
    own: &[&CountedLaunch],
    other: &[&CountedLaunch],
    matches: &mut LaunchMatches,
    positions: &mut LaunchPositions,
) {
    let mut begin = (0, 0);
    for end in common(own, other).into_iter().chain([(own.len(), other.len())]) {
        let (Some(one), Some(two)) = (own.get(begin.0..end.0), other.get(begin.1..end.1)) else { return };
        if one.len() == two.len() {
            positions.extend(one.iter().zip(two).map(|(one, two)| (one.kernel_id, two.kernel_id)));
        }
        if let (Some(one), Some(two)) = (own.get(end.0), other.get(end.1)) {
            matches.insert(one.kernel_id, Ok(two.kernel_id));
        }
        begin = (end.0 + 1, end.1 + 1);
    }
}

/// The longest common sequence of the likenesses that both have as often, as indices.
fn common(own: &[&CountedLaunch], other: &[&CountedLaunch]) -> Vec<(usize, usize)> {
    let mut balance: BTreeMap<u32, i64> = BTreeMap::new();
    for (launch, step) in own.iter().map(|launch| (launch, 1)).chain(other.iter().map(|launch| (launch, -1)))
    {
        *balance.entry(launch.likeness).or_default() += step;
    }
    let is_equal = |one: usize, two: usize| {
        let pair = own.get(one).zip(other.get(two));
        pair.is_some_and(|(one, two)| one.likeness == two.likeness && balance.get(&one.likeness) == Some(&0))
    };
    // The lengths of those that begin at two indices.
    let width = other.len() + 1;
    let mut lengths = vec![0_usize; (own.len() + 1) * width];
    let at = |lengths: &[usize], one: usize, two: usize| lengths.get(one * width + two).copied().unwrap_or(0);
    for one in (0..own.len()).rev() {
        for two in (0..other.len()).rev() {
            let length = if is_equal(one, two) {
                at(&lengths, one + 1, two + 1) + 1
            } else {
                at(&lengths, one + 1, two).max(at(&lengths, one, two + 1))
            };
            if let Some(cell) = lengths.get_mut(one * width + two) {
                *cell = length;
            }
        }
    }
    let (mut one, mut two, mut found) = (0, 0, Vec::new());
    while one < own.len() && two < other.len() {
        if is_equal(one, two) {
            found.push((one, two));
            (one, two) = (one + 1, two + 1);
        } else if at(&lengths, one + 1, two) >= at(&lengths, one, two + 1) {
            one += 1;
        } else {
            two += 1;
        }
    }
    found
}
