//! Replays of one launch: the effect of each on memory, turned into rows.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::replay::Replay;
use stallmap_schema::word::{Match, ReplayResult};
use stallmap_session::session;

use crate::memory::PageComparison;
use crate::plan::ReplayOutcome;

/// Stands for the part of a variable at a position among the compared pages: variables have no recorded address.
const VARIABLE: u64 = 1 << 63;

/// One replay that ran to its end.
#[derive(Clone, Copy, Debug)]
pub struct ReplayAttempt {
    /// The launch's ordinal in this process.
    pub ordinal: u64,
    /// Its start.
    pub begin_ns: i64,
    /// The n-th of its launch.
    pub repeat: u32,
    /// Time on the GPU, where it was measured.
    pub duration_ns: Option<u64>,
}

/// The replays of one launch.
#[derive(Debug)]
pub struct ReplayAttempts {
    kernel_id: KernelId,
    is_translated: bool,
    done: Vec<(ReplayAttempt, ComparedAttempts)>,
    /// Hashes of the first replay's pages, and the positions at which a later one's differ.
    first_hashes: Vec<u64>,
    varying: BTreeSet<u64>,
}

#[derive(Debug)]
struct ComparedAttempts {
    checked_page_count: u64,
    different: BTreeSet<u64>,
    near: BTreeSet<u64>,
}

impl ReplayAttempts {
    /// None yet.
    pub fn new(kernel_id: KernelId, is_translated: bool) -> Self {
        let (first_hashes, varying) = (Vec::new(), BTreeSet::new());
        Self { kernel_id, is_translated, done: Vec::new(), first_hashes, varying }
    }

    /// Adds a replay with its effect on memory. `address` gives the recorded address of a compared page by position.
    pub fn add(
        &mut self,
        attempt: ReplayAttempt,
        comparison: &PageComparison,
        address: impl Fn(usize) -> Option<u64>,
    ) {
        let key = |position: usize| address(position).unwrap_or(VARIABLE | position as u64);
        if self.done.is_empty() {
            self.first_hashes.clone_from(&comparison.hashes);
        }
        let hashes = self.first_hashes.iter().zip(&comparison.hashes).enumerate();
        self.varying.extend(hashes.filter(|(_, (first, this))| first != this).map(|(at, _)| key(at)));
        let keys = |positions: &[usize]| positions.iter().map(|&position| key(position)).collect();
        let (different, near) = (keys(&comparison.different), keys(&comparison.near));
        let checked_page_count = comparison.checked_page_count;
        self.done.push((attempt, ComparedAttempts { checked_page_count, different, near }));
        if session::next_ordinal() == attempt.ordinal {
            // No instrument saw the launch.
            emit_launch_run(self.kernel_id, session::take_ordinal(), attempt.begin_ns, true);
        }
    }

    /// Writes the rows. Pages that differ although they should not are unstable where replays without an instrument
    /// differ among themselves, those of this worker where it has none, and where sums by atomics differ in their last
    /// bits.
    pub fn finish(
        &mut self,
        known: &BTreeMap<u64, BTreeSet<u64>>,
        is_native: bool,
        outcome: &mut ReplayOutcome,
    ) {
        if is_native {
            outcome.unstable.clone_from(&self.varying);
        } else {
            outcome.unstable = known.get(&self.kernel_id.0).cloned().unwrap_or_default();
        }
        let mut durations: Vec<u64> =
            self.done.iter().filter_map(|(attempt, _)| attempt.duration_ns).collect();
        durations.sort_unstable();
        outcome.duration_ns = durations.get(durations.len() / 2).copied();
        outcome.repeats = u32::try_from(self.done.len()).unwrap_or(u32::MAX);
        for (attempt, compared) in self.done.drain(..) {
            let different = compared.different.len() as u64;
            let may = |page: &&u64| outcome.unstable.contains(page) || compared.near.contains(page);
            let unstable = compared.different.iter().filter(may).count() as u64;
            let result = judge(different, unstable);
            outcome.good += u32::from(matches!(result, ReplayResult::Verified | ReplayResult::Unstable));
            if result == ReplayResult::Different && outcome.detail.is_none() {
                outcome.detail = Some(format!("{different} of {} pages differ", compared.checked_page_count));
            }
            session::emit(Replay {
                run_id: RunId(0),
                ordinal: attempt.ordinal,
                kernel_id: self.kernel_id,
                repeat: attempt.repeat,
                result,
                checked_page_count: compared.checked_page_count,
                different_page_count: different,
                unstable_page_count: unstable,
                is_translated: self.is_translated,
                duration_ns: attempt.duration_ns,
                detail: None,
            });
        }
    }

    /// Writes the row of a replay that could not be run to its end.
    pub fn failed(&self, detail: &str) {
        let ordinal = session::take_ordinal();
        emit_launch_run(self.kernel_id, ordinal, session::now_ns(), false);
        session::emit(Replay {
            ordinal,
            kernel_id: self.kernel_id,
            repeat: u32::try_from(self.done.len()).unwrap_or(u32::MAX),
            result: ReplayResult::Failed,
            is_translated: self.is_translated,
            detail: Some(detail.to_owned()),
            ..Replay::default()
        });
    }
}

fn judge(different: u64, unstable: u64) -> ReplayResult {
    match (different, unstable) {
        (0, _) => ReplayResult::Verified,
        (different, unstable) if different == unstable => ReplayResult::Unstable,
        _ => ReplayResult::Different,
    }
}

/// The launch's row, where no instrument wrote one.
fn emit_launch_run(kernel_id: KernelId, ordinal: u64, begin_ns: i64, recorded: bool) {
    session::emit(LaunchRun {
        ordinal,
        kernel_id,
        matched: Match::Replayed,
        thread_id: session::thread_id(),
        begin_ns,
        end_ns: Some(session::now_ns()),
        recorded,
        ..LaunchRun::default()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_is_unstable_only_where_every_difference_is() {
        assert_eq!(judge(0, 0), ReplayResult::Verified);
        assert_eq!(judge(3, 3), ReplayResult::Unstable);
        assert_eq!(judge(3, 2), ReplayResult::Different);
    }

    #[test]
    fn pages_that_vary_between_repeats_are_found() {
        let mut attempts = ReplayAttempts::new(KernelId(1), false);
        let attempt = ReplayAttempt { ordinal: u64::MAX, begin_ns: 0, repeat: 0, duration_ns: None };
        let comparison = |hashes: [u64; 3]| PageComparison {
            checked_page_count: 3,
            different: vec![1],
            hashes: hashes.to_vec(),
            near: Vec::new(),
        };
        attempts.add(attempt, &comparison([1, 2, 3]), |at| (at < 2).then_some(at as u64 * 4096));
        attempts.add(attempt, &comparison([1, 9, 8]), |at| (at < 2).then_some(at as u64 * 4096));
        assert_eq!(attempts.varying, BTreeSet::from([4096, VARIABLE | 2]));
        let mut outcome = ReplayOutcome::default();
        attempts.finish(&BTreeMap::new(), true, &mut outcome);
        assert_eq!((outcome.repeats, outcome.good), (2, 2));
    }
}
