//! Launches: each one gets its two rows with its identifier in the capture.

use std::collections::BTreeMap;

use stallmap_schema::id::{KernelId, OpId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::word::{LossKind, Match};

use crate::loss::Losses;
use crate::matching::{self, Described};
use crate::runs::RunState;

/// Brings a run's two rows of each launch together. A launch with one lost row has the facts of the other.
pub(crate) fn pair(run: &mut RunState, losses: &mut Losses) {
    let run_id = run.run_id();
    let mut launches: BTreeMap<KernelId, Launch> = BTreeMap::new();
    for launch in std::mem::take(&mut run.rows.launches) {
        launches.insert(launch.kernel_id, launch);
    }
    let states = last_states(std::mem::take(&mut run.rows.launch_runs));
    let mut seen: BTreeMap<u64, LaunchRun> = states.into_iter().map(|row| (row.ordinal, row)).collect();
    let before = seen.len();
    seen.retain(|_, row| launches.contains_key(&row.kernel_id));
    let lost = (before - seen.len()) as u64;
    losses.add(run_id, LossKind::Launch, "only its time was recorded", lost);
    for launch in launches.values() {
        seen.entry(launch.ordinal).or_insert_with(|| {
            losses.add(run_id, LossKind::Launch, "its thread and time were not recorded", 1);
            timeless(run, launch)
        });
    }
    run.rows.launches = launches.into_values().collect();
    run.rows.launch_runs = seen.into_values().collect();
}

/// Rows of `launch_run` by ordinal, each with all that was recorded about it.
pub(crate) fn last_states(rows: Vec<LaunchRun>) -> Vec<LaunchRun> {
    let mut seen: BTreeMap<u64, LaunchRun> = BTreeMap::new();
    for row in rows {
        match seen.remove(&row.ordinal) {
            Some(older) => seen.insert(row.ordinal, later(&older, row)),
            None => seen.insert(row.ordinal, row),
        };
    }
    seen.into_values().collect()
}

fn later(older: &LaunchRun, newer: LaunchRun) -> LaunchRun {
    LaunchRun {
        end_ns: newer.end_ns.or(older.end_ns),
        correlation_id: newer.correlation_id.or(older.correlation_id),
        recorded: newer.recorded || older.recorded,
        request_count: newer.request_count.or(older.request_count),
        lane_access_count: newer.lane_access_count.or(older.lane_access_count),
        lost_request_count: newer.lost_request_count.or(older.lost_request_count),
        sample_count: newer.sample_count.or(older.sample_count),
        lost_sample_count: newer.lost_sample_count.or(older.lost_sample_count),
        ..newer
    }
}

fn timeless(run: &RunState, launch: &Launch) -> LaunchRun {
    LaunchRun {
        run_id: run.row.run_id,
        ordinal: launch.ordinal,
        kernel_id: launch.kernel_id,
        matched: Match::Reference,
        match_reason: None,
        thread_id: 0,
        stream_id: 0,
        correlation_id: None,
        begin_ns: run.row.started_ns,
        end_ns: None,
        recorded: run.rows.requests.contains_key(&launch.ordinal),
        request_count: None,
        lane_access_count: None,
        lost_request_count: None,
        sample_count: None,
        lost_sample_count: None,
        sampling_period_cycles: None,
        samples_are_split: None,
    }
}

/// Gives the launches of every run their identifiers in the capture. Launches that match one of their reference run
/// leave `launches`, and their parameters with them.
pub(crate) fn identify(runs: &mut [RunState]) {
    let described: BTreeMap<RunId, Vec<Described>> =
        runs.iter_mut().map(|run| (run.run_id(), describe(run))).collect();
    for run in runs {
        let own = described.get(&run.run_id()).map_or(&[][..], Vec::as_slice);
        if run.is_reference() {
            for row in &mut run.rows.launch_runs {
                row.matched = Match::Reference;
                row.match_reason = None;
            }
        } else if let Some(reference) = described.get(&run.row.reference_run_id) {
            let matches = if run.is_without_python() {
                matching::match_without_python(reference, own)
            } else {
                matching::match_launches(reference, own)
            };
            rename(run, &matches);
        }
    }
}

fn describe(run: &mut RunState) -> Vec<Described> {
    let threads = run.rows.launch_runs.iter().map(|row| (row.kernel_id, row.thread_id)).collect();
    let names: BTreeMap<OpId, &str> = run.rows.ops.iter().map(|op| (op.op_id, op.name.as_str())).collect();
    matching::describe(&mut run.rows.launches, &threads, &names)
}

fn rename(run: &mut RunState, matches: &BTreeMap<KernelId, Result<KernelId, &'static str>>) {
    let found = |kernel_id: &KernelId| matches.get(kernel_id).and_then(|found| found.ok());
    for row in &mut run.rows.launch_runs {
        match matches.get(&row.kernel_id) {
            Some(Ok(kernel_id)) => {
                row.kernel_id = *kernel_id;
                row.matched = Match::Matched;
                row.match_reason = None;
            }
            unmatched => {
                row.matched = Match::Unmatched;
                row.match_reason = unmatched.and_then(|found| found.err()).map(str::to_owned);
            }
        }
    }
    for activity in &mut run.rows.activities {
        activity.kernel_id = activity.kernel_id.map(|kernel_id| found(&kernel_id).unwrap_or(kernel_id));
    }
    run.rows.launches.retain(|launch| found(&launch.kernel_id).is_none());
    run.rows.parameters.retain(|parameter| found(&parameter.kernel_id).is_none());
    for loss in &mut run.rows.losses {
        loss.kernel_id = loss.kernel_id.map(|kernel_id| found(&kernel_id).unwrap_or(kernel_id));
    }
}

/// Parameters of launches that are in the capture, once each, by launch.
pub(crate) fn parameters(run: &mut RunState, losses: &mut Losses) -> Vec<LaunchParameter> {
    let run_id = run.run_id();
    let known: std::collections::BTreeSet<_> = run.rows.launches.iter().map(|row| row.kernel_id).collect();
    let mut rows: BTreeMap<KernelId, LaunchParameter> = BTreeMap::new();
    for row in std::mem::take(&mut run.rows.parameters) {
        if known.contains(&row.kernel_id) {
            rows.insert(row.kernel_id, row);
        } else {
            losses.add(run_id, LossKind::Parameter, "its launch was not recorded", 1);
        }
    }
    rows.into_values().collect()
}
