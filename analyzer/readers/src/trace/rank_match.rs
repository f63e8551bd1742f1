//! Collectives of several ranks, matched: within a group of ranks by the source's numbers, else by order and size. Where the
//! source names no group, ranks whose collectives end together are one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::word::CollectiveKind;

use crate::trace::model::{CollectiveCall, TraceKernel, TraceModel};
use crate::trace::rank_ends::by_ends;

/// Collectives by which the begins of two traces may differ, where their numbers do not say more.
const MIN_REACH: usize = 64;
/// Most collectives by which the begins of two traces may differ.
const MAX_REACH: usize = 1024;
/// Pairs of collectives that the spread of their ends is taken from.
const MAX_PAIRS: usize = 256;
/// Spreads of ends below are equal: kernels end together within microseconds.
const EQUAL_SPREAD_NS: u64 = 1_000;

/// Results of a match.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankMatch {
    /// Collectives of several ranks.
    pub matched: u64,
    /// Kernels that are collectives, and match none of another rank.
    pub unmatched: u64,
    /// Kernels that are collectives of a group that the source does not name, of which nothing says which ranks it has.
    pub unnamed: u64,
}

/// Facts in which the launches of one collective agree.
pub(super) type CollectiveSignature = (CollectiveKind, Option<String>, Option<(u64, u64)>);

/// A collective as one rank launched it.
#[derive(Clone, Debug)]
pub(super) struct CollectiveMember {
    pub(super) kernel: usize,
    pub(super) end_ns: i64,
    sequence: Option<i64>,
    pub(super) signature: CollectiveSignature,
}

/// Collectives that follow each other in all ranks, by process and in the order of time.
pub(super) type RankLane = BTreeMap<usize, Vec<CollectiveMember>>;

/// The collectives that one can match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum RankLaneName {
    /// Collectives of one group of ranks.
    Group(String),
    /// Collectives of a kernel, which several groups may launch.
    Kernel(String),
}

/// Numbers the collectives that several processes take part in. Each process takes part once.
pub fn match_ranks(trace: &mut TraceModel) -> RankMatch {
    let (lanes, mut found) = lanes(trace);
    let clock = |process: usize| trace.processes.get(process).map_or(0, |process| process.clock);
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (name, lane) in &lanes {
        let has_numbers = lane.values().flatten().all(|member| member.sequence.is_some());
        let most = group_size(trace, lane);
        let (mut own, mut left) = match name {
            RankLaneName::Kernel(_) => (by_ends(lane, clock), &mut found.unnamed),
            RankLaneName::Group(_) if has_numbers => (by_number(lane), &mut found.unmatched),
            RankLaneName::Group(_) => (by_order(lane), &mut found.unmatched),
        };
        if own.iter().any(|group| group.len() > most) {
            // Several groups have one name.
            (own, left) = (by_ends(lane, clock), &mut found.unnamed);
        }
        own.retain(|group| group.len() > 1 && group.len() <= most);
        let all: usize = lane.values().map(Vec::len).sum();
        // A launch is in one collective.
        *left += all.saturating_sub(own.iter().map(Vec::len).sum()) as u64;
        groups.extend(own);
    }
    let begin = |kernel: &usize| trace.kernels.get(*kernel).and_then(|kernel| kernel.time_ns);
    groups.sort_by_key(|group| group.iter().filter_map(begin).min());
    for (number, group) in (0..).zip(&groups) {
        for kernel in group {
            let call = trace.kernels.get_mut(*kernel).and_then(|kernel| kernel.collective.as_mut());
            if let Some(call) = call {
                call.match_id = Some(number);
            }
        }
    }
    RankMatch { matched: groups.len() as u64, ..found }
}

/// Collectives by group, and the numbers of those that cannot be matched.
fn lanes(trace: &TraceModel) -> (BTreeMap<RankLaneName, RankLane>, RankMatch) {
    let mut lanes: BTreeMap<RankLaneName, RankLane> = BTreeMap::new();
    let mut found = RankMatch::default();
    let ranks = ranks(trace);
    for (place, kernel) in trace.kernels.iter().enumerate() {
        let Some((call, (_, end_ns))) = kernel.collective.as_deref().zip(kernel.time_ns) else { continue };
        let Some(lane) = group(kernel, call, ranks).and_then(|lane| within(lane, call)) else {
            let is_named = call.group.is_some() || call.group_ranks.is_some();
            *(if is_named { &mut found.unmatched } else { &mut found.unnamed }) += 1;
            continue;
        };
        let member =
            CollectiveMember { kernel: place, end_ns, sequence: call.sequence, signature: signature(call) };
        lanes.entry(lane).or_default().entry(kernel.process).or_default().push(member);
    }
    for members in lanes.values_mut().flat_map(BTreeMap::values_mut) {
        members.sort_by_key(|member| trace.kernels.get(member.kernel).and_then(|kernel| kernel.time_ns));
    }
    (lanes, found)
}

/// The number of ranks of the program, by what is known. Files of some of them may be missing.
fn ranks(trace: &TraceModel) -> u32 {
    let kernels = trace.kernels.iter().filter(|kernel| kernel.collective.is_some());
    let own: BTreeSet<usize> = kernels.map(|kernel| kernel.process).collect();
    let known = trace
        .processes
        .iter()
        .flat_map(|process| [process.world_size, process.rank.map(|rank| rank.saturating_add(1))]);
    known.flatten().max().unwrap_or(0).max(u32::try_from(own.len()).unwrap_or(u32::MAX))
}

/// The group of a collective. None for one of some ranks that the source does not name: there can be several such.
fn group(kernel: &TraceKernel, call: &CollectiveCall, ranks: u32) -> Option<RankLaneName> {
    if call.group.is_none() && call.group_ranks.is_none() {
        let name = format!("kernel {} {:?}", kernel.name, call.group_size);
        return match call.group_size {
            Some(size) => (size >= ranks).then_some(RankLaneName::Group(name)),
            None => Some(RankLaneName::Kernel(name)),
        };
    }
    let [name, ranks] = [&call.group, &call.group_ranks].map(|text| text.as_deref().unwrap_or_default());
    Some(RankLaneName::Group(format!("group {name} {ranks} {:?}", call.group_size)))
}

/// The most ranks that take part in a collective of a lane.
fn group_size(trace: &TraceModel, lane: &RankLane) -> usize {
    let first = lane.values().flatten().next().and_then(|member| trace.kernels.get(member.kernel));
    let size = first.and_then(|kernel| kernel.collective.as_deref()?.group_size);
    size.and_then(|size| usize::try_from(size).ok()).unwrap_or(usize::MAX)
}

/// The lane in a group. None for data between two ranks of a larger group that are not known.
fn within(lane: RankLaneName, call: &CollectiveCall) -> Option<RankLaneName> {
    let RankLaneName::Group(group) = lane else { return Some(lane) };
    match (call.kind, call.peers) {
        (CollectiveKind::SendReceive, Some((one, other))) => {
            Some(RankLaneName::Group(format!("{group} {} {}", one.min(other), one.max(other))))
        }
        (CollectiveKind::SendReceive, None) if call.group_size != Some(2) => None,
        _ => Some(RankLaneName::Group(group)),
    }
}

/// Sizes agree where each rank gives and gets as much as every other one.
fn signature(call: &CollectiveCall) -> CollectiveSignature {
    let is_even = matches!(
        call.kind,
        CollectiveKind::AllReduce | CollectiveKind::AllGather | CollectiveKind::ReduceScatter
    );
    let sizes = call.in_elements.zip(call.out_elements).filter(|_| is_even);
    (call.kind, call.dtype.clone(), sizes)
}

/// Collectives of equal number. Several of one number count in order.
fn by_number(lane: &RankLane) -> Vec<Vec<usize>> {
    let mut groups: BTreeMap<(Option<i64>, &CollectiveSignature, usize), Vec<usize>> = BTreeMap::new();
    for members in lane.values() {
        let mut next: BTreeMap<(Option<i64>, &CollectiveSignature), usize> = BTreeMap::new();
        for member in members {
            let next = next.entry((member.sequence, &member.signature)).or_default();
            groups.entry((member.sequence, &member.signature, *next)).or_default().push(member.kernel);
            *next += 1;
        }
    }
    groups.into_values().collect()
}

/// Collectives in order: traces may begin at different ones.
fn by_order(lane: &RankLane) -> Vec<Vec<usize>> {
    let longest = lane.iter().max_by_key(|(process, members)| (members.len(), Reverse(**process)));
    let Some((first, reference)) = longest else { return Vec::new() };
    let mut groups: Vec<Vec<usize>> = reference.iter().map(|member| vec![member.kernel]).collect();
    for (_, own) in lane.iter().filter(|(process, _)| *process != first) {
        let Some(shift) = best_shift(reference, own) else { continue };
        for (place, member) in own.iter().enumerate() {
            let partner = place.checked_add_signed(shift);
            let is_same = |place: &usize| {
                reference.get(*place).is_some_and(|other| other.signature == member.signature)
            };
            if let Some(group) = partner.filter(is_same).and_then(|place| groups.get_mut(place)) {
                group.push(member.kernel);
            }
        }
    }
    groups
}

/// The number of collectives that the reference has before the first one of another rank.
///
/// Shifts with most pairs of equal signature count. Of these, ends agree in the right one: their distance is that of the
/// clocks. Where several agree, that with the most pairs counts, and then that with the clocks closest to each other.
pub(super) fn best_shift(reference: &[CollectiveMember], own: &[CollectiveMember]) -> Option<isize> {
    let reach = reference.len().abs_diff(own.len()).saturating_add(MIN_REACH).min(MAX_REACH);
    let reach = isize::try_from(reach).unwrap_or(isize::MAX);
    let counted: Vec<(isize, usize)> =
        (-reach..=reach).map(|shift| (shift, pairs(reference, own, shift).count())).collect();
    let most = counted.iter().map(|(_, count)| *count).max().filter(|most| *most > 0)?;
    let is_candidate = |count: usize| count == most || (count >= 4 && count * 2 >= most);
    let judged = counted.into_iter().filter(|(_, count)| is_candidate(*count));
    let judged = judged.map(|(shift, count)| (shift, count, distance(reference, own, shift, count)));
    let judged: Vec<(isize, usize, (u64, u64))> = judged.collect();
    let least = judged.iter().map(|(.., (spread, _))| *spread).min()?;
    let agreeing = least.saturating_mul(4).max(EQUAL_SPREAD_NS);
    let agreed = judged.into_iter().filter(|(.., (spread, _))| *spread <= agreeing);
    agreed
        .max_by_key(|(shift, count, (_, far))| (*count, Reverse(*far), Reverse(shift.unsigned_abs())))
        .map(|(shift, ..)| shift)
}

/// Distances of the ends of pairs with equal signature.
fn pairs<'a>(
    reference: &'a [CollectiveMember],
    own: &'a [CollectiveMember],
    shift: isize,
) -> impl Iterator<Item = i64> + 'a {
    let partner = move |place: usize| reference.get(place.checked_add_signed(shift)?);
    own.iter().enumerate().filter_map(move |(place, member)| {
        let other = partner(place).filter(|other| other.signature == member.signature)?;
        Some(other.end_ns.saturating_sub(member.end_ns))
    })
}

/// The spread of distances, and their median away from 0.
fn distance(
    reference: &[CollectiveMember],
    own: &[CollectiveMember],
    shift: isize,
    count: usize,
) -> (u64, u64) {
    let step = count.div_ceil(MAX_PAIRS).max(1);
    let mut distances: Vec<i64> = pairs(reference, own, shift).step_by(step).collect();
    let middle = median(&mut distances);
    let mut spreads: Vec<i64> = distances
        .iter()
        .map(|distance| i64::try_from(distance.abs_diff(middle)).unwrap_or(i64::MAX))
        .collect();
    (median(&mut spreads).unsigned_abs(), middle.unsigned_abs())
}

/// The median of numbers, 0 of none. Of an even count, the lower one.
pub(crate) fn median(numbers: &mut [i64]) -> i64 {
    numbers.sort_unstable();
    numbers.get(numbers.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::model::TraceProcess;
    use stallmap_schema::word::Instrument;

    /// A trace of ranks, each with collectives of a size that end at a time.
    fn trace(ranks: &[&[(u64, i64)]], with_numbers: bool) -> TraceModel {
        let mut trace = TraceModel::default();
        for (process, collectives) in ranks.iter().enumerate() {
            trace
                .processes
                .push(TraceProcess::with_number(u32::try_from(process).unwrap(), Instrument::Timeline));
            for (number, (size, end)) in (0..).zip(*collectives) {
                let call = CollectiveCall {
                    in_elements: Some(*size),
                    out_elements: Some(*size),
                    group: Some("0".to_owned()),
                    sequence: with_numbers.then_some(number + i64::from(process == 1)),
                    ..CollectiveCall::from_kind(CollectiveKind::AllReduce)
                };
                trace.kernels.push(TraceKernel {
                    process,
                    time_ns: Some((end - 10, *end)),
                    collective: Some(Box::new(call)),
                    ..TraceKernel::default()
                });
            }
        }
        trace
    }

    /// The numbers of collectives, in the order of kernels.
    fn matched(trace: &mut TraceModel) -> (RankMatch, Vec<Option<u64>>) {
        let found = match_ranks(trace);
        (found, trace.kernels.iter().map(|kernel| kernel.collective.as_ref()?.match_id).collect())
    }

    #[test]
    fn numbers_decide_where_the_source_has_them() {
        // The second rank begins with collective 1.
        let mut trace = trace(&[&[(8, 100), (8, 200), (8, 300)], &[(8, 207), (8, 307)]], true);
        let (found, numbers) = matched(&mut trace);
        assert_eq!(numbers, [None, Some(0), Some(1), Some(0), Some(1)]);
        assert_eq!(found, RankMatch { matched: 2, unmatched: 1, unnamed: 0 });
    }

    #[test]
    fn sizes_and_ends_decide_where_it_has_none() {
        let sizes: Vec<(u64, i64)> = (0..12)
            .map(|n: u64| (n % 3, 1_000_000 * n.cast_signed() + 9_000 * (n * n % 7).cast_signed()))
            .collect();
        let later: Vec<(u64, i64)> = sizes[3..].iter().map(|(size, end)| (*size, end + 77_000_000)).collect();
        let mut trace = trace(&[&sizes, &later], false);
        let (found, numbers) = matched(&mut trace);
        assert_eq!(numbers[12..], (0..9).map(Some).collect::<Vec<_>>());
        assert_eq!(found, RankMatch { matched: 9, unmatched: 3, unnamed: 0 });
    }

    #[test]
    fn data_between_two_of_many_is_not_matched_without_their_ranks() {
        let mut trace = trace(&[&[(8, 100)], &[(8, 100)]], true);
        for kernel in &mut trace.kernels {
            let call = kernel.collective.as_mut().unwrap();
            (call.kind, call.group_size, call.sequence) = (CollectiveKind::SendReceive, Some(4), Some(1));
        }
        assert_eq!(match_ranks(&mut trace), RankMatch { matched: 0, unmatched: 2, unnamed: 0 });
        for kernel in &mut trace.kernels {
            kernel.collective.as_mut().unwrap().peers = Some((0, 1));
        }
        assert_eq!(match_ranks(&mut trace), RankMatch { matched: 1, unmatched: 0, unnamed: 0 });
    }

    /// The same without the names of groups, with a size of theirs.
    fn unnamed(mut trace: TraceModel, size: Option<u32>) -> TraceModel {
        for call in trace.kernels.iter_mut().filter_map(|kernel| kernel.collective.as_deref_mut()) {
            (call.group, call.group_size) = (None, size);
        }
        trace.processes.iter_mut().zip(0..).for_each(|(process, clock)| process.clock = clock);
        trace
    }

    #[test]
    fn a_group_without_a_name_is_that_of_all_ranks_or_unknown() {
        let ranks: [&[(u64, i64)]; 4] = [&[(8, 100)], &[(8, 100)], &[(8, 900)], &[(8, 900)]];
        let matched = |size| match_ranks(&mut unnamed(trace(&ranks, false), Some(size)));
        assert_eq!(matched(2), RankMatch { matched: 0, unmatched: 0, unnamed: 4 });
        assert_eq!(matched(4), RankMatch { matched: 1, unmatched: 0, unnamed: 0 });
    }

    #[test]
    fn ranks_of_a_group_without_name_and_size_end_together() {
        // Two pairs of equal programs, one 700 us behind the other, with noise of 30 us in each step.
        let step = |number: i64, noise: i64| (8, 2_000_000 * number + noise);
        let one: Vec<(u64, i64)> = (0..20).map(|n| step(n, 7_000 * (n * n % 5))).collect();
        let other: Vec<(u64, i64)> = (0..20).map(|n| step(n, 700_000 + 10_000 * (n * n % 7))).collect();
        let mut pairs = unnamed(trace(&[&one, &other, &one, &other], false), None);
        let (found, numbers) = self::matched(&mut pairs);
        assert_eq!(found, RankMatch { matched: 40, unmatched: 0, unnamed: 0 });
        assert_eq!((&numbers[..20], &numbers[20..40]), (&numbers[40..60], &numbers[60..]));
        // Groups of two that have one name.
        for call in pairs.kernels.iter_mut().filter_map(|kernel| kernel.collective.as_deref_mut()) {
            (call.group, call.group_size) = (Some("tp".to_owned()), Some(2));
        }
        assert_eq!(self::matched(&mut pairs), (found, numbers));
        // The ends of few prove nothing, and those of one clock are equal.
        let few = match_ranks(&mut unnamed(trace(&[&one[..8], &one[..8]], false), None));
        assert_eq!(few, RankMatch { matched: 0, unmatched: 0, unnamed: 16 });
        let later: Vec<(u64, i64)> = one.iter().map(|(size, end)| (*size, end + 900_000)).collect();
        let mut ranks = unnamed(trace(&[&one, &later], false), None);
        ranks.processes.iter_mut().for_each(|process| process.clock = 0);
        assert_eq!(match_ranks(&mut ranks), RankMatch { matched: 0, unmatched: 0, unnamed: 40 });
    }
}
