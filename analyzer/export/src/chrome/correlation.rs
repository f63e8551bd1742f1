//! Correlations: numbers that a call and its work share.

use std::collections::BTreeSet;

use crate::timeline::{CaptureTimeline, SharedCalls, TimelineCopy, TimelineLaunch};

/// Correlations of calls.
pub(super) struct CallCorrelations {
    calls: SharedCalls,
    /// True if no two calls have one number in the source. Else numbers are those of kernels, and behind them of copies.
    are_of_source: bool,
    first_copy: u64,
}

impl CallCorrelations {
    pub(super) fn from_timeline(timeline: &CaptureTimeline) -> Self {
        let calls = SharedCalls::from_timeline(timeline);
        let first = timeline.launches.iter().filter(|launch| calls.first(launch).0 == launch.kernel_id);
        let copies = timeline.copies.iter().enumerate().filter(|(place, copy)| calls.is_first(copy, *place));
        let copies = copies.map(|(_, copy)| copy.correlation_id);
        let numbers: Vec<_> = first.map(|launch| launch.correlation_id).chain(copies).collect();
        let known: BTreeSet<u64> = numbers.iter().flatten().copied().filter(|number| *number > 0).collect();
        let last = timeline.launches.iter().map(|launch| launch.kernel_id).max();
        Self {
            calls,
            are_of_source: known.len() == numbers.len(),
            first_copy: last.map_or(1, |last| last + 2),
        }
    }

    /// The correlation of a launch, and if it is the first of its call, and if its call launches several.
    pub(super) fn launch(&self, launch: &TimelineLaunch) -> (u64, bool, bool) {
        let (first, is_graph) = self.calls.first(launch);
        let own = launch.correlation_id.filter(|_| self.are_of_source);
        // Readers take 0 for "no correlation".
        (own.unwrap_or(first + 1), first == launch.kernel_id, is_graph)
    }

    /// The correlation of a copy, by its place, and if it is the first of its call.
    pub(super) fn copy(&self, copy: &TimelineCopy, place: usize) -> (u64, bool) {
        let works = self.calls.of_copy(copy);
        let first = works.and_then(|works| works.copies.first()).copied().unwrap_or(place);
        let kernel = works.and_then(|works| works.kernels.first()).map(|kernel| kernel + 1);
        let own = copy.correlation_id.filter(|_| self.are_of_source).or(kernel);
        (own.unwrap_or(self.first_copy + first as u64), self.calls.is_first(copy, place))
    }
}
