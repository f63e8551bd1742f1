//! Launches whose requests are counted, and not recorded yet.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Ordinals of kernels: the one behind the last of each launch, by its first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LaunchOrdinals(BTreeMap<u64, u64>);

impl LaunchOrdinals {
    /// Adds a launch of these kernels.
    pub(super) fn add(&mut self, ordinals: &Range<u64>) {
        self.0.insert(ordinals.start, ordinals.end);
    }

    /// The launches that have ended: all but those that run.
    pub(super) fn ended(&self, running: &[Range<u64>]) -> Self {
        let running: BTreeSet<u64> = running.iter().map(|ordinals| ordinals.start).collect();
        let ended = self.0.iter().filter(|(first, _)| !running.contains(first));
        Self(ended.map(|(first, end)| (*first, *end)).collect())
    }

    /// Removes launches.
    pub(super) fn remove(&mut self, others: &Self) {
        self.0.retain(|first, _| !others.0.contains_key(first));
    }

    /// True if a kernel belongs to one of the launches.
    pub(super) fn contains(&self, ordinal: u64) -> bool {
        self.0.range(..=ordinal).next_back().is_some_and(|(_, end)| ordinal < *end)
    }

    /// True without launches.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(launches: impl IntoIterator<Item = Range<u64>>) -> LaunchOrdinals {
        let mut counted = LaunchOrdinals::default();
        launches.into_iter().for_each(|ordinals| counted.add(&ordinals));
        counted
    }

    #[test]
    fn launches_that_have_ended_are_recorded_once_and_others_later() {
        // A launch, a launch of a graph of three kernels, and one that is running.
        let running = 9..10;
        let mut waiting = counted([4..5, 5..8, running.clone()]);
        let ended = waiting.ended(std::slice::from_ref(&running));
        let is_ended = [3, 4, 5, 7, 8, 9].map(|ordinal| ended.contains(ordinal));
        assert_eq!(is_ended, [false, true, true, true, false, false]);
        waiting.remove(&ended);
        assert!(waiting.ended(std::slice::from_ref(&running)).is_empty(), "nothing is new");
        assert!(!waiting.contains(7) && waiting.contains(9));
        // One that was called while the copy was made waits for the next copy.
        let next = 10..11;
        waiting.add(&next);
        assert_eq!(waiting.ended(&[next]), counted(Some(running)));
    }
}
