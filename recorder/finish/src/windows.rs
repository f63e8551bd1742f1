//! Samples that were taken while the program ran on: CUPTI gives them a function, and the recorder a window of time.
//!
//! They belong to the launches of that function that ran in the window, by the measured times of the same run. Of
//! several launches each has a part of them: in proportion to its time in the window and the blocks that it keeps on the
//! GPU.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::recording::SampleWindow;
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::word::{ActivityKind, LossKind};

use crate::code::{KernelExecutions, RecordedModules};
use crate::loss::LossTotals;
use crate::rows::InternedSample;
use crate::runs::RunState;
use crate::sampling::functions_of;

/// Nanoseconds for which CUPTI keeps samples to itself: a window begins earlier by that.
const HELD_NS: i64 = 10_000_000;
/// Nanoseconds by which samples may come late, where nothing else explains them.
const LATE_NS: i64 = 250_000_000;

/// A kernel that ran.
#[derive(Clone, Copy, Debug)]
struct TimedKernel {
    /// Its launch. Null where that was not selected.
    ordinal: Option<u64>,
    /// Its function, where that is known.
    kernel: Option<FunctionId>,
    device_id: Option<i32>,
    begin_ns: i64,
    end_ns: i64,
    /// Blocks on the GPU at once, about.
    blocks: u64,
}

/// Gives samples that have a window their launches.
pub(crate) fn assign(run: &mut RunState, modules: &RecordedModules, losses: &mut LossTotals) {
    if run.rows.samples.samples.iter().all(|sample| sample.window.is_none()) {
        return;
    }
    let windows = std::mem::take(&mut run.rows.sample_windows);
    let windows: BTreeMap<u32, SampleWindow> =
        windows.into_iter().map(|window| (window.window_id, window)).collect();
    let kernels = kernels(run, modules);
    let everything: Vec<TimedKernel> = kernels.values().flatten().copied().collect();
    let mut executions = KernelExecutions::new(modules);
    let mut executed: BTreeMap<(u64, u32), Vec<TimedKernel>> = BTreeMap::new();
    let mut groups: BTreeMap<(u32, u64, u32), Vec<InternedSample>> = BTreeMap::new();
    let mut samples = Vec::new();
    for sample in std::mem::take(&mut run.rows.samples.samples) {
        match sample.window {
            Some(window) => {
                groups.entry((window, sample.cubin_crc, sample.function)).or_default().push(sample);
            }
            None => samples.push(sample),
        }
    }
    let (mut split, mut unselected) = (BTreeSet::new(), 0);
    for ((window, crc, function), group) in groups {
        let candidates = executed.entry((crc, function)).or_insert_with(|| {
            let name = run.rows.samples.name(function);
            let functions: Vec<FunctionId> = functions_of(run.crcs.get(&crc), name, modules).collect();
            let mut may = |ran: &&TimedKernel| {
                let Some(kernel) = ran.kernel.filter(|_| !functions.is_empty()) else { return true };
                functions.iter().any(|function| executions.may(kernel, *function))
            };
            // A function that kernels call has samples in each of them.
            kernels.get(name).unwrap_or(&everything).iter().filter(&mut may).copied().collect()
        });
        let shares = windows.get(&window).map(|window| shares(candidates, window)).unwrap_or_default();
        if shares.len() > 1 {
            split.extend(shares.iter().filter_map(|(ran, _)| ran.ordinal));
        }
        for part in divide(&group, &shares) {
            match part {
                (Some(TimedKernel { ordinal: None, .. }), sample) => unselected += sample.samples,
                (ran, sample) => {
                    samples.push(InternedSample { ordinal: ran.and_then(|ran| ran.ordinal), ..sample });
                }
            }
        }
    }
    run.rows.samples.samples = samples;
    for row in run.rows.launch_runs.iter_mut().filter(|row| split.contains(&row.ordinal)) {
        row.samples_are_split = Some(true);
    }
    losses.add(run.run_id(), LossKind::Sample, "launch was not selected", unselected);
}

/// The kernels that ran, by their function's name, in the order of time. Of those that were not selected no grid is
/// known.
fn kernels(run: &RunState, modules: &RecordedModules) -> BTreeMap<String, Vec<TimedKernel>> {
    let count = |count: i32| u64::try_from(count).unwrap_or(u64::MAX);
    let multiprocessors = run.rows.devices.iter().map(|row| (row.device_id, count(row.multiprocessor_count)));
    let multiprocessors: BTreeMap<i32, u64> = multiprocessors.collect();
    let runs = &run.rows.launch_runs;
    let ordinals: BTreeMap<KernelId, u64> = runs.iter().map(|row| (row.kernel_id, row.ordinal)).collect();
    let launches: BTreeMap<KernelId, &Launch> =
        run.rows.launches.iter().map(|row| (row.kernel_id, row)).collect();
    let mut kernels: BTreeMap<String, Vec<TimedKernel>> = BTreeMap::new();
    for activity in run.rows.activities.iter().filter(|row| row.kind == ActivityKind::Kernel) {
        let launch = activity.kernel_id.and_then(|kernel_id| launches.get(&kernel_id));
        let own = launch.map(|launch| modules.name(launch.function_id));
        let Some(name) = own.or(activity.kernel_name.as_deref()) else { continue };
        let most = activity.device_id.and_then(|device_id| multiprocessors.get(&device_id));
        let grid = launch.map_or([1; 3], |launch| [launch.grid_x, launch.grid_y, launch.grid_z]);
        let blocks: u64 = grid.iter().map(|&blocks| u64::from(blocks)).product();
        kernels.entry(name.to_owned()).or_default().push(TimedKernel {
            ordinal: activity.kernel_id.and_then(|kernel_id| ordinals.get(&kernel_id).copied()),
            kernel: launch.map(|launch| launch.function_id),
            device_id: activity.device_id,
            begin_ns: activity.begin_ns,
            end_ns: activity.end_ns.unwrap_or(activity.begin_ns),
            blocks: blocks.min(most.copied().unwrap_or(u64::MAX)).max(1),
        });
    }
    kernels
}

/// The kernels that a window's samples may be of, each with its weight. Samples may come late: where none ran in the
/// window, those shortly before it.
fn shares(candidates: &[TimedKernel], window: &SampleWindow) -> Vec<(TimedKernel, f64)> {
    let from = |begin_ns: i64| {
        let share = move |ran: &TimedKernel| {
            let is_there = ran.device_id.is_none_or(|device_id| device_id == window.device_id)
                && ran.begin_ns < window.end_ns
                && ran.end_ns >= begin_ns
                && ran.end_ns >= ran.begin_ns;
            // A kernel may begin and end within one tick of the clock.
            let ns = (ran.end_ns.min(window.end_ns) - ran.begin_ns.max(begin_ns)).max(1);
            #[expect(clippy::cast_precision_loss, reason = "weights")]
            is_there.then_some((*ran, ns as f64 * ran.blocks as f64))
        };
        candidates.iter().filter_map(share).collect::<Vec<_>>()
    };
    let inside = from(window.begin_ns.saturating_sub(HELD_NS));
    if inside.is_empty() { from(window.begin_ns.saturating_sub(LATE_NS)) } else { inside }
}

/// Divides samples among kernels, in whole samples. The remainder of one row goes to the kernels that got least of the
/// rows before.
fn divide(
    group: &[InternedSample],
    shares: &[(TimedKernel, f64)],
) -> Vec<(Option<TimedKernel>, InternedSample)> {
    if shares.is_empty() {
        return group.iter().map(|sample| (None, *sample)).collect();
    }
    let total: f64 = shares.iter().map(|(_, weight)| weight).sum();
    let mut due = vec![0.0_f64; shares.len()];
    let mut parts = Vec::new();
    for sample in group {
        for (due, (_, weight)) in due.iter_mut().zip(shares) {
            #[expect(clippy::cast_precision_loss, reason = "counts of samples")]
            let part = sample.samples as f64 * weight / total;
            *due += part;
        }
        let given = give(sample.samples, &mut due);
        let of = shares.iter().zip(given).filter(|(_, given)| *given > 0);
        parts.extend(of.map(|((ran, _), samples)| (Some(*ran), InternedSample { samples, ..*sample })));
    }
    parts
}

/// Divides a count into parts near what is due, and takes them off it.
fn give(count: u64, due: &mut [f64]) -> Vec<u64> {
    let mut left = count;
    let mut given = vec![0; due.len()];
    for (given, due) in given.iter_mut().zip(due.iter_mut()) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is not negative")]
        let whole = (due.max(0.0).floor() as u64).min(left);
        #[expect(clippy::cast_precision_loss, reason = "a count of samples")]
        let taken = whole as f64;
        (*given, *due, left) = (whole, *due - taken, left - whole);
    }
    // Fewer than there are parts, but for rounding.
    let mut order: Vec<usize> = (0..due.len()).collect();
    order.sort_by(|&a, &b| due[b].total_cmp(&due[a]));
    for at in order.into_iter().cycle().take(usize::try_from(left).unwrap_or(0)) {
        given[at] += 1;
        due[at] -= 1.0;
    }
    given
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stallmap_schema::id::Pc;

    use super::*;

    fn ran(ordinal: u64, begin_ns: i64, end_ns: i64) -> TimedKernel {
        TimedKernel { ordinal: Some(ordinal), kernel: None, device_id: Some(0), begin_ns, end_ns, blocks: 1 }
    }

    fn sample(samples: u64) -> InternedSample {
        let (function, pc, reason) = (0, Pc(0), 0);
        InternedSample {
            correlation_id: 0,
            cubin_crc: 1,
            function,
            pc,
            reason,
            samples,
            ordinal: None,
            window: Some(0),
        }
    }

    fn window(begin_ns: i64, end_ns: i64) -> SampleWindow {
        SampleWindow { window_id: 0, device_id: 0, begin_ns, end_ns }
    }

    #[test]
    fn samples_belong_to_what_ran_in_their_window() {
        let ms = 1_000_000;
        let candidates = [
            ran(1, 0, 100 * ms),
            ran(2, 100 * ms, 400 * ms),
            TimedKernel { device_id: Some(1), ..ran(3, 0, 400 * ms) },
        ];
        let of = |begin_ms: i64, end_ms: i64| -> Vec<(u64, f64)> {
            let found = shares(&candidates, &window(begin_ms * ms, end_ms * ms)).into_iter();
            found.filter_map(|(ran, weight)| Some((ran.ordinal?, weight / 1e6))).collect()
        };
        assert_eq!(of(10, 200), [(1, 100.0), (2, 100.0)]);
        assert_eq!(of(160, 200), [(2, 50.0)]);
        assert_eq!(of(500, 600), [(2, 150.0)], "they came late");
        assert_eq!(of(9_000, 9_100), []);
    }

    proptest! {
        #[test]
        fn no_sample_is_lost_or_made(
            counts in prop::collection::vec(0..50_u64, 1..20),
            weights in prop::collection::vec(0.001..100.0_f64, 1..12),
        ) {
            let group: Vec<InternedSample> = counts.iter().map(|&count| sample(count)).collect();
            let shares: Vec<(TimedKernel, f64)> =
                (0..).zip(&weights).map(|(at, &weight)| (ran(at, 0, 1), weight)).collect();
            let parts = divide(&group, &shares);
            let all: u64 = counts.iter().sum();
            prop_assert_eq!(parts.iter().map(|(_, part)| part.samples).sum::<u64>(), all);
            let total: f64 = weights.iter().sum();
            for (at, weight) in (0..).zip(&weights) {
                let own = parts.iter().filter(|(ran, _)| ran.is_some_and(|ran| ran.ordinal == Some(at)));
                let own: u64 = own.map(|(_, part)| part.samples).sum();
                let bound = weights.len() as f64 + 1.0;
                prop_assert!((own as f64 - all as f64 * weight / total).abs() < bound, "rounding does not add up");
            }
        }
    }
}
