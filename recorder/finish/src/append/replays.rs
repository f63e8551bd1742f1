//! Rows of runs that replayed launches: the launch of each row, the replays whose results count.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::KernelId;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::replay::{Counter, Replay};
use stallmap_schema::word::{LossKind, Match, ReplayResult};

use super::before::ReplayedCapture;
use crate::launches;
use crate::loss::LossTotals;
use crate::rows::once;
use crate::runs::RunState;

const NO_BUNDLE: &str = "the capture holds no bundle of the launch";
pub(super) const NOT_VERIFIED: &str = "replay did not verify";
const NOT_CHECKED: &str = "replay was not checked";

/// Joins a run's rows. Rows without a bundle in the capture are dropped and counted.
pub(super) fn settle(run: &mut RunState, before: &ReplayedCapture, losses: &mut LossTotals) {
    let run_id = run.run_id();
    let rows = &mut run.rows;
    let named = rows.replays.iter().map(|row| row.kernel_id);
    run.row.reference_run_id =
        before.reference(named.chain(rows.launch_runs.iter().map(|row| row.kernel_id)));
    let mut unknown = BTreeSet::new();
    let mut is_known = |kernel_id: KernelId, ordinal: u64| {
        let is_known = before.bundles.contains_key(&kernel_id);
        if !is_known {
            unknown.insert(ordinal);
        }
        is_known
    };
    rows.replays.retain(|row| is_known(row.kernel_id, row.ordinal));
    rows.launch_runs.retain(|row| is_known(row.kernel_id, row.ordinal));
    losses.add(run_id, LossKind::Replay, NO_BUNDLE, unknown.len() as u64);
    rows.replays = once(std::mem::take(&mut rows.replays), |row: &Replay| row.ordinal);
    rows.launch_runs = launches::last_states(std::mem::take(&mut rows.launch_runs));
    for row in &mut rows.launch_runs {
        row.matched = Match::Replayed;
        row.match_reason = None;
    }
    run.unusable = unusable(&rows.replays, &rows.launch_runs);
    let kernels: BTreeMap<u64, KernelId> =
        rows.launch_runs.iter().map(|row| (row.ordinal, row.kernel_id)).collect();
    for mut loss in std::mem::take(&mut rows.losses) {
        // Instruments name a launch by its ordinal in the run, here as everywhere.
        let named = loss.kernel_id.and_then(|ordinal| kernels.get(&ordinal.0).copied());
        loss.kernel_id = named.filter(|kernel_id| before.bundles.contains_key(kernel_id));
        losses.add_row(loss);
    }
    settle_counters(run, before, losses);
    settle_ablations(run, before, losses);
}

/// Launches of a run whose measurements do not count, by ordinal, with the reason.
fn unusable(replays: &[Replay], launches: &[LaunchRun]) -> BTreeMap<u64, &'static str> {
    let results: BTreeMap<u64, ReplayResult> = replays.iter().map(|row| (row.ordinal, row.result)).collect();
    let reason = |row: &LaunchRun| match results.get(&row.ordinal) {
        Some(ReplayResult::Verified | ReplayResult::Unstable) => None,
        Some(ReplayResult::Different | ReplayResult::Failed) => Some((row.ordinal, NOT_VERIFIED)),
        None => Some((row.ordinal, NOT_CHECKED)),
    };
    launches.iter().filter_map(reason).collect()
}

/// A counter takes several replays, so all of the launch's in the run must have verified.
fn settle_counters(run: &mut RunState, before: &ReplayedCapture, losses: &mut LossTotals) {
    let run_id = run.run_id();
    let mut verdicts: BTreeMap<KernelId, bool> = BTreeMap::new();
    for replay in &run.rows.replays {
        let verified = matches!(replay.result, ReplayResult::Verified | ReplayResult::Unstable);
        let all = verdicts.entry(replay.kernel_id).or_insert(true);
        *all &= verified;
    }
    let counters = std::mem::take(&mut run.rows.counters);
    let valid = counters.into_iter().filter(|counter: &Counter| {
        let reason = match verdicts.get(&counter.kernel_id) {
            _ if !before.bundles.contains_key(&counter.kernel_id) => NO_BUNDLE,
            Some(true) => return true,
            Some(false) => NOT_VERIFIED,
            None => NOT_CHECKED,
        };
        let known = Some(counter.kernel_id).filter(|kernel_id| before.bundles.contains_key(kernel_id));
        losses.add_at(run_id, LossKind::Replay, reason, 1, known);
        false
    });
    run.rows.counters =
        once(valid.collect(), |row: &Counter| (row.kernel_id, row.metric.clone(), row.repeat));
}

/// Experiments come whole, of one launch after the other.
fn settle_ablations(run: &mut RunState, before: &ReplayedCapture, losses: &mut LossTotals) {
    let is_known = |kernel_id: &KernelId| before.bundles.contains_key(kernel_id);
    let rows = &mut run.rows;
    let all = rows.ablations.len() + rows.redirects.len();
    rows.ablations.retain(|row| is_known(&row.kernel_id));
    rows.redirects.retain(|row| is_known(&row.kernel_id));
    rows.ablation_instructions.retain(|row| {
        is_known(&row.kernel_id)
            && before.functions.iter().any(|function| function.function_id == row.function_id)
    });
    losses.add(
        run.row.run_id,
        LossKind::Replay,
        NO_BUNDLE,
        (all - rows.ablations.len() - rows.redirects.len()) as u64,
    );
}
