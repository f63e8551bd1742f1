//! Clocks of several files, aligned on collectives: no rank ends one before each has begun, and all end together.

use std::collections::{BTreeMap, BTreeSet};

use crate::trace::join::shift_processes;
use crate::trace::model::TraceModel;
use crate::trace::rank_match::median;

/// The clocks of a recording after their alignment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockAlignment {
    /// Clocks that were aligned, the reference among them.
    pub aligned: usize,
    /// Clocks without a collective that an aligned one has, too.
    pub unaligned: usize,
    /// Clocks among the aligned ones whose recordings do not overlap with that of the reference by the clocks of the source,
    /// and whose collectives have no numbers. Their order can be that of other steps.
    pub apart: usize,
    /// Collectives that the alignment is taken from.
    pub collectives: usize,
    /// The largest error of an alignment: 95 % of the ends of a clock are within it.
    pub error_ns: i64,
}

/// Median errors within which a clock agrees: three of them hold 95 % of a normal distribution.
const EQUAL_SPREADS: u64 = 3;

/// Ends of one collective by clock.
type RankEnds = BTreeMap<usize, i64>;

/// The distance of a clock to the aligned ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ClockOffset {
    offset_ns: i64,
    error_ns: i64,
    collectives: usize,
}

/// Aligns the clocks of matched collectives, and adds the numbers to the facts of each process. None with one clock.
///
/// The clock of the lowest rank is the reference. A clock follows those that it has most collectives with: its offset is
/// the median distance of the ends: single late ends do not count. A clock that agrees within the spread of the ends stays.
/// Clocks that share no collective with the reference follow one of their own.
pub fn align_clocks(trace: &mut TraceModel) -> Option<ClockAlignment> {
    let clocks: BTreeSet<usize> = trace.processes.iter().map(|process| process.clock).collect();
    if clocks.len() < 2 {
        return None;
    }
    let collectives = ends(trace);
    let first =
        trace.processes.iter().min_by_key(|process| (process.rank.unwrap_or(u32::MAX), process.clock));
    let first = first.map_or(0, |process| process.clock);
    let mut offsets: BTreeMap<usize, ClockOffset> = BTreeMap::new();
    offsets.insert(first, ClockOffset { offset_ns: 0, error_ns: 0, collectives: 0 });
    follow(&clocks, &collectives, &mut offsets);
    let led: BTreeSet<usize> = offsets.keys().copied().collect();
    while let Some(clock) = next_reference(&clocks, &collectives, &offsets) {
        offsets.insert(clock, ClockOffset { offset_ns: 0, error_ns: 0, collectives: 0 });
        follow(&clocks, &collectives, &mut offsets);
    }
    let apart = apart(trace, &led, first);
    for (clock, offset) in &offsets {
        let processes = trace.processes.iter().map(|process| process.clock == *clock).collect::<Vec<_>>();
        shift_processes(trace, offset.offset_ns, |process| processes.get(process) == Some(&true));
    }
    name(trace, &offsets, &led, first);
    let followers = offsets.values().filter(|offset| offset.collectives > 0);
    Some(ClockAlignment {
        aligned: led.len(),
        unaligned: clocks.len() - led.len(),
        apart,
        collectives: followers.clone().map(|offset| offset.collectives).min().unwrap_or(0),
        error_ns: followers.map(|offset| offset.error_ns).max().unwrap_or(0),
    })
}

/// The number of aligned clocks whose kernels do not overlap with those of the first one, and have no numbers.
fn apart(trace: &TraceModel, led: &BTreeSet<usize>, first: usize) -> usize {
    let mut extents: BTreeMap<usize, (i64, i64)> = BTreeMap::new();
    let mut numbered: BTreeSet<usize> = BTreeSet::new();
    for kernel in &trace.kernels {
        let clock = trace.processes.get(kernel.process).map(|process| process.clock);
        let Some((clock, (begin_ns, end_ns))) = clock.zip(kernel.time_ns) else { continue };
        let extent = extents.entry(clock).or_insert((begin_ns, end_ns));
        *extent = (begin_ns.min(extent.0), end_ns.max(extent.1));
        if kernel.collective.as_deref().is_some_and(|call| call.match_id.and(call.sequence).is_some()) {
            numbered.insert(clock);
        }
    }
    let Some(reference) = extents.get(&first) else { return 0 };
    let is_apart = |clock: &usize| {
        let overlaps = |extent: &(i64, i64)| extent.0 <= reference.1 && reference.0 <= extent.1;
        !numbered.contains(clock) && extents.get(clock).is_some_and(|extent| !overlaps(extent))
    };
    led.iter().filter(|clock| is_apart(clock)).count()
}

/// The ends of all collectives that keep their ranks until all have begun.
fn ends(trace: &TraceModel) -> Vec<RankEnds> {
    let mut found: BTreeMap<u64, RankEnds> = BTreeMap::new();
    for kernel in &trace.kernels {
        let call = kernel.collective.as_deref().filter(|call| call.kind.is_synchronizing());
        let number = call.and_then(|call| call.match_id);
        let clock = trace.processes.get(kernel.process).map(|process| process.clock);
        if let (Some(number), Some(clock), Some((_, end_ns))) = (number, clock, kernel.time_ns) {
            let end = found.entry(number).or_default().entry(clock).or_insert(end_ns);
            *end = end_ns.max(*end);
        }
    }
    found.into_values().filter(|ends| ends.len() > 1).collect()
}

/// The clock with most collectives that an aligned clock has, too, and the distances of their ends.
fn next_clock(
    clocks: &BTreeSet<usize>,
    collectives: &[RankEnds],
    offsets: &BTreeMap<usize, ClockOffset>,
) -> Option<(usize, Vec<i64>)> {
    let open = clocks.iter().filter(|clock| !offsets.contains_key(clock));
    let found = open.map(|clock| {
        let distances = collectives.iter().filter_map(|ends| {
            let own = ends.get(clock)?;
            let aligned = ends
                .iter()
                .filter_map(|(clock, end)| Some(end.saturating_add(offsets.get(clock)?.offset_ns)));
            let mut aligned: Vec<i64> = aligned.collect();
            (!aligned.is_empty()).then(|| median(&mut aligned).saturating_sub(*own))
        });
        (*clock, distances.collect::<Vec<i64>>())
    });
    let most = found.max_by_key(|(clock, distances)| (distances.len(), std::cmp::Reverse(*clock)));
    most.filter(|(_, distances)| !distances.is_empty())
}

/// Aligns all clocks that have a collective of an aligned one.
fn follow(clocks: &BTreeSet<usize>, collectives: &[RankEnds], offsets: &mut BTreeMap<usize, ClockOffset>) {
    while let Some((clock, distances)) = next_clock(clocks, collectives, offsets) {
        offsets.insert(clock, offset(distances));
    }
}

/// The lowest clock with collectives of several clocks that is not aligned.
fn next_reference(
    clocks: &BTreeSet<usize>,
    collectives: &[RankEnds],
    offsets: &BTreeMap<usize, ClockOffset>,
) -> Option<usize> {
    let mut open = clocks.iter().filter(|clock| !offsets.contains_key(clock));
    open.find(|clock| collectives.iter().any(|ends| ends.contains_key(clock))).copied()
}

/// The offset of a clock by the distances of its ends. It is 0 where the clock agrees within the spread of the ends.
fn offset(mut distances: Vec<i64>) -> ClockOffset {
    let middle = median(&mut distances);
    let spread = *errors(&distances, middle).get(distances.len().saturating_sub(1) / 2).unwrap_or(&0);
    let is_equal = middle.unsigned_abs() <= spread.saturating_mul(EQUAL_SPREADS);
    let offset_ns = if is_equal { 0 } else { middle };
    let place = (distances.len() * 95).div_ceil(100).saturating_sub(1);
    let error = errors(&distances, offset_ns).get(place).copied().unwrap_or(0);
    ClockOffset {
        offset_ns,
        error_ns: i64::try_from(error).unwrap_or(i64::MAX),
        collectives: distances.len(),
    }
}

/// The errors of distances with an offset, in order.
fn errors(distances: &[i64], offset_ns: i64) -> Vec<u64> {
    let mut errors: Vec<u64> = distances.iter().map(|distance| distance.abs_diff(offset_ns)).collect();
    errors.sort_unstable();
    errors
}

/// Adds the numbers to the facts of processes.
fn name(trace: &mut TraceModel, offsets: &BTreeMap<usize, ClockOffset>, led: &BTreeSet<usize>, first: usize) {
    for process in &mut trace.processes {
        let mut fact = |name: &str, value: String| process.facts.insert(format!("clock.{name}"), value);
        match offsets.get(&process.clock) {
            None => drop(fact("aligned", "no collective of an aligned rank".to_owned())),
            Some(_) if process.clock == first => drop(fact("aligned", "reference".to_owned())),
            Some(offset) if offset.collectives == 0 => {
                drop(fact("aligned", "reference of ranks without a collective of the first".to_owned()));
            }
            Some(offset) => {
                let is_led = led.contains(&process.clock);
                let of =
                    if is_led { "ends of collectives" } else { "ends of collectives, of another reference" };
                fact("aligned", of.to_owned());
                fact("offset_ns", offset.offset_ns.to_string());
                fact("error_ns", offset.error_ns.to_string());
                fact("collectives", offset.collectives.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use stallmap_schema::word::{CollectiveKind, Instrument};

    use super::*;
    use crate::trace::model::{CollectiveCall, TraceKernel, TraceProcess};

    #[test]
    fn the_median_counts_and_not_late_ends() {
        let found = offset((0..100).map(|n| if n % 10 == 0 { 900_000 } else { 5_000 + n % 7 }).collect());
        assert_eq!(found, ClockOffset { offset_ns: 5_003, error_ns: 894_997, collectives: 100 });
        let found = offset((0..100).map(|n| if n == 50 { 900_000 } else { 5_000 + n % 7 }).collect());
        assert_eq!(found, ClockOffset { offset_ns: 5_003, error_ns: 3, collectives: 100 });
    }

    #[test]
    fn a_clock_that_agrees_within_the_spread_stays() {
        let found = offset(vec![-40, 10, 20, 30, 60]);
        assert_eq!(found, ClockOffset { offset_ns: 0, error_ns: 60, collectives: 5 });
    }

    #[test]
    fn a_clock_follows_another_one_than_the_reference() {
        let collectives = [RankEnds::from([(0, 100), (1, 150)]), RankEnds::from([(1, 300), (2, 1_300)])];
        let clocks = BTreeSet::from([0, 1, 2]);
        let mut offsets = BTreeMap::from([(0, ClockOffset { offset_ns: 0, error_ns: 0, collectives: 0 })]);
        while let Some((clock, distances)) = next_clock(&clocks, &collectives, &offsets) {
            offsets.insert(clock, offset(distances));
        }
        assert_eq!(offsets.values().map(|offset| offset.offset_ns).collect::<Vec<_>>(), [0, -50, -1_050]);
    }

    #[test]
    fn ranks_without_a_collective_of_the_reference_have_one_of_their_own() {
        let mut trace = TraceModel::default();
        for (clock, (number, end_ns)) in [(0, 90), (0, 190), (1, 5_000), (1, 9_000)].into_iter().enumerate() {
            let process = TraceProcess::with_number(0, Instrument::Timeline);
            trace.processes.push(TraceProcess { clock, ..process });
            trace.kernels.push(TraceKernel {
                process: clock,
                time_ns: Some((end_ns - 50, end_ns)),
                collective: Some(Box::new(CollectiveCall {
                    match_id: Some(number),
                    ..CollectiveCall::from_kind(CollectiveKind::AllReduce)
                })),
                ..TraceKernel::default()
            });
        }
        let found = align_clocks(&mut trace).unwrap();
        assert_eq!((found.aligned, found.unaligned, found.collectives), (2, 2, 1));
        let ends: Vec<i64> = trace.kernels.iter().map(|kernel| kernel.time_ns.unwrap().1).collect();
        assert_eq!(ends, [90, 90, 5_000, 5_000]);
    }

    #[test]
    fn recordings_of_different_times_are_apart_without_numbers() {
        let mut trace = TraceModel::default();
        for (clock, begin_ns) in [0, 50, 1_000].into_iter().enumerate() {
            let process = TraceProcess::with_number(0, Instrument::Timeline);
            trace.processes.push(TraceProcess { clock, ..process });
            trace.kernels.push(TraceKernel {
                process: clock,
                time_ns: Some((begin_ns, begin_ns + 90)),
                collective: Some(Box::new(CollectiveCall {
                    match_id: Some(0),
                    ..CollectiveCall::from_kind(CollectiveKind::AllReduce)
                })),
                ..TraceKernel::default()
            });
        }
        let found = align_clocks(&mut trace).unwrap();
        assert_eq!((found.aligned, found.apart), (3, 1));
        for (kernel, begin_ns) in trace.kernels.iter_mut().zip([0, 50, 1_000]) {
            kernel.time_ns = Some((begin_ns, begin_ns + 90));
            kernel.collective.as_mut().unwrap().sequence = Some(7);
        }
        assert_eq!(align_clocks(&mut trace).unwrap().apart, 0);
    }
}
