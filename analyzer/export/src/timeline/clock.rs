//! Clocks: a program that was recorded in several runs has the times of one of them.
//!
//! ```text
//! calls of launches that two runs have ──> moments of both ──> any time between two moments lies between them
//! ```

use std::collections::BTreeMap;

use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::rows;

use crate::source::ExportSource;

rows! {
    /// The run whose clock a run has.
    struct ClockRun {
        run_id: u32,
        time_run_id: u32 as "clock_run_id",
        has_timeline: bool,
    }

    /// A launch call in two runs.
    struct CallMoment {
        run_id: u32,
        thread_id: u32,
        begin_ns: i64,
        clock_begin_ns: i64,
        clock_end_ns: Option<i64>,
    }
}

/// A run and one of its threads. None is all of them.
type RunThread = (u32, Option<u32>);

/// The clocks of runs.
pub(crate) struct RunClocks {
    runs: BTreeMap<u32, ClockRun>,
    moments: BTreeMap<RunThread, ClockMoments>,
}

impl RunClocks {
    pub(crate) fn read(source: &ExportSource) -> Outcome<Self> {
        let runs = source.read::<ClockRun>(queries::CLOCKS)?;
        let runs: BTreeMap<u32, ClockRun> = runs.into_iter().map(|run| (run.run_id, run)).collect();
        let mut found: BTreeMap<RunThread, Vec<(i64, i64)>> = BTreeMap::new();
        let is_joined = runs.values().any(|run| run.time_run_id != run.run_id);
        let calls = if is_joined { source.read::<CallMoment>(queries::MOMENTS)? } else { Vec::new() };
        for call in calls {
            let begin = (call.begin_ns, call.clock_begin_ns);
            // After a call in one run is after its end in the other. Under an instrument a call ends with its kernel.
            let end = (call.begin_ns.saturating_add(1), call.clock_end_ns.unwrap_or(call.clock_begin_ns));
            for thread in [Some(call.thread_id), None] {
                found.entry((call.run_id, thread)).or_default().extend([begin, end]);
            }
        }
        let moments = found.into_iter().map(|(run, moments)| (run, ClockMoments::from_pairs(moments)));
        Ok(Self { runs, moments: moments.collect() })
    }

    /// A time of a thread of a run on the clock of its program.
    pub(crate) fn moment(&self, run_id: u32, thread_id: Option<u32>, ns: i64) -> i64 {
        let own = self.moments.get(&(run_id, thread_id));
        own.or_else(|| self.moments.get(&(run_id, None))).map_or(ns, |moments| moments.at(ns))
    }

    /// True if the run has the clock of its program.
    pub(crate) fn is_clock(&self, run_id: u32) -> bool {
        self.runs.get(&run_id).is_none_or(|run| run.time_run_id == run_id)
    }

    /// True if the clock of a run's program is that of a timeline.
    pub(crate) fn has_timeline(&self, run_id: u32) -> bool {
        self.runs.get(&run_id).is_some_and(|run| run.has_timeline)
    }

    /// True if times of several runs are on one clock.
    pub(crate) fn are_joined(&self) -> bool {
        !self.moments.is_empty()
    }
}

/// Times of a run and the same moments on another clock, both in order.
struct ClockMoments(Vec<(i64, i64)>);

impl ClockMoments {
    fn from_pairs(mut pairs: Vec<(i64, i64)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup_by_key(|(own, _)| *own);
        let mut last = i64::MIN;
        for (_, other) in &mut pairs {
            last = last.max(*other);
            *other = last;
        }
        Self(pairs)
    }

    /// A time on the other clock: between the moments around it, else as far from the nearest one.
    fn at(&self, ns: i64) -> i64 {
        let place = self.0.partition_point(|(own, _)| *own <= ns);
        let before = place.checked_sub(1).and_then(|place| self.0.get(place));
        match (before, self.0.get(place)) {
            (Some(&(own, other)), None) | (None, Some(&(own, other))) => {
                other.saturating_add(ns.saturating_sub(own))
            }
            (Some(&(first, other)), Some(&(last, end))) => between(ns, (first, last), (other, end)),
            (None, None) => ns,
        }
    }
}

/// The time that is the same part of a span on the other clock as `ns` is of a span of its own.
fn between(ns: i64, own: (i64, i64), other: (i64, i64)) -> i64 {
    let [ns, first, last, begin, end] = [ns, own.0, own.1, other.0, other.1].map(i128::from);
    let moment = begin + (ns - first) * (end - begin) / (last - first).max(1);
    i64::try_from(moment).unwrap_or(other.0)
}

#[cfg(test)]
mod tests {
    use super::ClockMoments;

    #[test]
    fn times_keep_their_order_and_their_calls() {
        let moments = ClockMoments::from_pairs(vec![(300, 52), (100, 40), (200, 50), (201, 56)]);
        let times = [0, 90, 100, 150, 200, 201, 250, 300, 310].map(|ns| moments.at(ns));
        assert_eq!(times, [-60, 30, 40, 45, 50, 56, 56, 56, 66]);
        assert_eq!(ClockMoments::from_pairs(Vec::new()).at(7), 7);
    }
}
