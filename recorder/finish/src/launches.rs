//! Launches: each one gets its two rows with its identifier in the capture.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::{AMBIGUOUS_FUNCTION, GAVE_WAY};
use stallmap_schema::id::{KernelId, OpId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::{LossKind, Match, RangeSource};

use crate::code::RecordedModules;
use crate::loss::LossTotals;
use crate::matching::{self, DescribedLaunches, LaunchMatches, MatchedRun};
use crate::rows::once;
use crate::runs::RunState;

/// The reason of a launch without its row of the run.
const TIMELESS: &str = "its thread and time were not recorded";

/// Brings a run's two rows of each launch together. A launch with one lost row has the facts of the other.
pub(crate) fn pair(run: &mut RunState, losses: &mut LossTotals) {
    let run_id = run.run_id();
    let launches = once(std::mem::take(&mut run.rows.launches), |row| row.kernel_id);
    let mut seen = last_states(std::mem::take(&mut run.rows.launch_runs));
    let before = seen.len();
    seen.retain(|row| launches.binary_search_by_key(&row.kernel_id, |launch| launch.kernel_id).is_ok());
    let lost = (before - seen.len()) as u64;
    losses.add(run_id, LossKind::Launch, "only its time was recorded", lost);
    let is_unseen = |launch: &&Launch| seen.binary_search_by_key(&launch.ordinal, |row| row.ordinal).is_err();
    let mut unseen: Vec<LaunchRun> =
        launches.iter().filter(is_unseen).map(|launch| timeless(run, launch)).collect();
    unseen.sort_by_key(|row| row.ordinal);
    unseen.dedup_by_key(|row| row.ordinal);
    // A full disk may take this row of a launch whose requests were written before: the launch is recorded. One that
    // refers to another launch is counted with that one.
    let referring = launches.iter().filter(|launch| launch.accesses_of.is_some());
    let referring: BTreeSet<u64> = referring.map(|launch| launch.ordinal).collect();
    let is_lost = |row: &&LaunchRun| !row.recorded && !referring.contains(&row.ordinal);
    let lost = unseen.iter().filter(is_lost).count() as u64;
    losses.add(run_id, LossKind::Launch, TIMELESS, lost);
    losses.add(run_id, LossKind::Segment, TIMELESS, unseen.len() as u64 - lost);
    seen.extend(unseen);
    seen.sort_by_key(|row| row.ordinal);
    run.rows.launches = launches;
    run.rows.launch_runs = seen;
}

/// Rows of `launch_run` by ordinal, each with all that was recorded about it.
pub(crate) fn last_states(mut rows: Vec<LaunchRun>) -> Vec<LaunchRun> {
    rows.sort_by_key(|row| row.ordinal);
    rows.dedup_by(|newer, row| {
        let is_same = newer.ordinal == row.ordinal;
        if is_same {
            *row = later(row, newer.clone());
        }
        is_same
    });
    rows
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
        begin_ns: run.row.started_ns,
        recorded: run.rows.requests.contains_key(&launch.ordinal),
        ..LaunchRun::default()
    }
}

/// Gives the launches of a run their identifiers in the capture. Launches that match one of the reference run leave
/// `launches`, and their parameters with them. `described` holds the reference runs before.
pub(crate) fn identify(
    run: &mut RunState,
    modules: &RecordedModules,
    described: &mut BTreeMap<RunId, DescribedLaunches>,
    losses: &mut LossTotals,
) {
    let own = describe(run);
    if run.is_reference() {
        for row in &mut run.rows.launch_runs {
            row.matched = Match::Reference;
            row.match_reason = None;
        }
        described.insert(run.run_id(), own);
    } else if let Some(reference) = described.get(&run.row.reference_run_id) {
        let guessed = guessed_names(run, modules);
        let name = |function_id| Some(modules.name(function_id)).filter(|name| guessed.contains(*name));
        let (named, own) = (reference.merge_functions(name), own.merge_functions(name));
        let matched = if run.is_without_python() {
            let matched = matching::match_without_python(&named, &own);
            borrow_callers(run, &named, &matched);
            matched
        } else {
            matching::match_launches(&named, &own)
        };
        rename(run, &matched.matches);
        let missing = reference.launch_count().saturating_sub(run.rows.launch_runs.len() as u64);
        count_behind(run, missing, losses);
    }
}

/// Kernels of whose name the run has launches that may be of another module: CUPTI names no module where nothing is sampled.
/// The reference run knows it, so the launches match by name.
fn guessed_names(run: &RunState, modules: &RecordedModules) -> BTreeSet<String> {
    let marks = run.rows.losses.iter().filter(|loss| is_guess(loss));
    let guessed: BTreeSet<KernelId> = marks.filter_map(|loss| loss.kernel_id).collect();
    let launches = run.rows.launches.iter().filter(|launch| guessed.contains(&launch.kernel_id));
    let names = launches.map(|launch| modules.name(launch.function_id));
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// True for the mark of a launch whose function the recorder guessed.
pub(crate) fn is_guess(loss: &Loss) -> bool {
    loss.kind == LossKind::Code && loss.reason == AMBIGUOUS_FUNCTION
}

/// Counts the launches that the reference run has and this one has not, where it gave way to the program's own profiler.
fn count_behind(run: &RunState, missing: u64, losses: &mut LossTotals) {
    let gave_way = |loss: &&Loss| loss.kind == LossKind::Source && loss.reason == GAVE_WAY;
    if let Some(loss) = run.rows.losses.iter().find(gave_way) {
        losses.add(run.run_id(), LossKind::Launch, GAVE_WAY, missing).clone_from(&loss.detail);
    }
}

fn describe(run: &mut RunState) -> DescribedLaunches {
    let threads = run.rows.launch_runs.iter().map(|row| (row.kernel_id, row.thread_id)).collect();
    // Names of ranges may hold numbers, times or addresses, which differ from run to run.
    let foreign = run.rows.op_ranges.iter().filter(|range| range.source != RangeSource::Stallmap);
    let foreign: BTreeSet<OpId> = foreign.map(|range| range.op_id).collect();
    let ops = matching::describe_ops(&run.rows.ops, &foreign);
    matching::describe(&mut run.rows.launches, &threads, &ops)
}

/// Gives launches that match none the op and the Python stack of the reference run's launch at their position: another kernel
/// for the same work.
fn borrow_callers(run: &mut RunState, reference: &DescribedLaunches, matched: &MatchedRun) {
    let callers = reference.callers(&matched.positions.values().copied().collect());
    for launch in run.rows.launches.iter_mut().filter(|launch| launch.op_id.is_none()) {
        let position = matched.positions.get(&launch.kernel_id);
        if let Some(caller) = position.and_then(|position| callers.get(position)) {
            launch.op_id = caller.op_id;
            launch.pystates_hash = launch.pystates_hash.or(caller.pystates_hash);
        }
    }
}

fn rename(run: &mut RunState, matches: &LaunchMatches) {
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
    run.rows.launches.shrink_to_fit();
    run.rows.parameters.retain(|parameter| found(&parameter.kernel_id).is_none());
    run.rows.parameters.shrink_to_fit();
    run.rows.losses.retain(|loss| !is_guess(loss) || loss.kernel_id.is_none_or(|id| found(&id).is_none()));
    for loss in &mut run.rows.losses {
        loss.kernel_id = loss.kernel_id.map(|kernel_id| found(&kernel_id).unwrap_or(kernel_id));
    }
}

/// Parameters of launches that are in the capture, once each, by launch.
pub(crate) fn parameters(run: &mut RunState, losses: &mut LossTotals) -> Vec<LaunchParameter> {
    let run_id = run.run_id();
    let launches = &run.rows.launches;
    let mut rows = std::mem::take(&mut run.rows.parameters);
    let before = rows.len();
    rows.retain(|row| launches.binary_search_by_key(&row.kernel_id, |launch| launch.kernel_id).is_ok());
    let lost = (before - rows.len()) as u64;
    losses.add(run_id, LossKind::Parameter, "its launch was not recorded", lost);
    once(rows, |row| row.kernel_id)
}
