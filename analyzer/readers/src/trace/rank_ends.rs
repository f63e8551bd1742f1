//! Ranks of collectives whose group the source does not name: those of one group end together, whatever their clocks say.
//!
//! Groups of equal programs launch the same kernels as often as each other. Only the ends differ: those of one
//! collective differ by microseconds, those of two groups by the noise of their steps.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::trace::rank_match::{CollectiveMember, RankLane, best_shift, median};

/// Most time from the end of a collective on one rank to that on another one, less the distance of their clocks.
const MAX_APART_NS: u64 = 5_000;
/// The ends of fewer collectives can agree without a reason.
const MIN_PAIRS: usize = 16;

/// The collectives of ranks that end together, by place among those of the longest rank. Ranks that do not end with it are
/// compared with each other.
pub(super) fn by_ends(lane: &RankLane, clock: impl Fn(usize) -> usize) -> Vec<Vec<usize>> {
    let mut left: BTreeMap<usize, &Vec<CollectiveMember>> =
        lane.iter().map(|(process, members)| (*process, members)).collect();
    let mut found = Vec::new();
    let longest = |left: &BTreeMap<usize, &Vec<CollectiveMember>>| {
        left.iter().max_by_key(|(process, own)| (own.len(), Reverse(**process))).map(|(process, _)| *process)
    };
    while let Some((first, reference)) = longest(&left).and_then(|first| left.remove_entry(&first)) {
        let mut groups: Vec<Vec<usize>> = reference.iter().map(|member| vec![member.kernel]).collect();
        left.retain(|process, own| {
            let partners = partners(reference, own, clock(first) == clock(*process));
            for (place, kernel) in &partners {
                if let Some(group) = groups.get_mut(*place) {
                    group.push(*kernel);
                }
            }
            partners.is_empty()
        });
        found.extend(groups);
    }
    found
}

/// Collectives that end with one of the reference, with its place. None unless three of four do.
fn partners(
    reference: &[CollectiveMember],
    own: &[CollectiveMember],
    is_one_clock: bool,
) -> Vec<(usize, usize)> {
    let Some(shift) = best_shift(reference, own) else { return Vec::new() };
    let pairs = own.iter().enumerate().filter_map(|(place, member)| {
        let place = place.checked_add_signed(shift)?;
        let other = reference.get(place).filter(|other| other.signature == member.signature)?;
        Some((place, member.kernel, other.end_ns.saturating_sub(member.end_ns)))
    });
    let pairs: Vec<(usize, usize, i64)> = pairs.collect();
    let mut distances: Vec<i64> = pairs.iter().map(|(.., distance)| *distance).collect();
    let middle = if is_one_clock { 0 } else { median(&mut distances) };
    let agreed = pairs.iter().filter(|(.., distance)| distance.abs_diff(middle) <= MAX_APART_NS);
    let agreed: Vec<(usize, usize)> = agreed.map(|(place, kernel, _)| (*place, *kernel)).collect();
    let is_group = pairs.len() >= MIN_PAIRS && agreed.len() * 4 >= pairs.len() * 3;
    if is_group { agreed } else { Vec::new() }
}
