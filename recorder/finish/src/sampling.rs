//! Rows of raw samples: by launch, function, pc and reason, with both counters.

mod merged;
pub(crate) mod owners;

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::word::LossKind;

use crate::code::RecordedModules;
use crate::launches;
use crate::loss::LossTotals;
use crate::rows::{InternedSample, RawSamples};
use crate::runs::RunState;

use self::merged::{MergedSample, sum};
pub(crate) use self::merged::{MergedSamples, SampledCode};

const STALLED: &str = "smsp__pcsamp_warps_issue_stalled_";
const NOT_ISSUED: &str = "_not_issued";
/// The hardware's own totals, which arrive as if they were reasons.
const TAKEN: &str = "smsp__pcsamp_sample_count";
const DROPPED: &str = "smsp__pcsamp_samples_data_dropped";

/// Rows that are added up at once, at least.
const SUM_ROWS: usize = 1 << 20;

/// The meaning of a raw sample's number.
#[derive(Clone, Copy, Debug)]
enum SampleCounter {
    Samples(u32),
    NotIssued(u32),
    Taken,
    Dropped,
}

/// The reason in CUPTI's name, and whether it is the counter of cycles without an issue; `None` for totals.
fn reason(name: &str) -> Option<(&str, bool)> {
    if name == TAKEN || name == DROPPED {
        return None;
    }
    let Some(short) = name.strip_prefix(STALLED) else { return Some((name, false)) };
    Some(short.strip_suffix(NOT_ISSUED).map_or((short, false), |short| (short, true)))
}

struct SampleMerger<'a> {
    raw: &'a RawSamples,
    /// The meaning of each name, by the name's number.
    counters: Vec<SampleCounter>,
    /// The run's own: a replay loads cubins that are not as the program loaded them.
    crcs: BTreeMap<u64, BTreeSet<ModuleId>>,
    code: SampledCode<'a>,
    /// Functions of a name in modules of a CRC, which does not cover the code: several modules may share it.
    functions: BTreeMap<(u64, u32), Vec<FunctionId>>,
}

/// A launch's totals: samples collected, and the hardware's own counts.
#[derive(Default)]
struct SampleTotals {
    collected: u64,
    taken: Option<u64>,
    dropped: Option<u64>,
    unknown_function: u64,
    /// Samples of a replay with other results than the launch.
    unusable: u64,
}

impl SampleMerger<'_> {
    fn merge(mut self, run: &mut RunState, losses: &mut LossTotals) -> Vec<MergedSample> {
        let run_id = run.run_id();
        let launches = SampledLaunches::new(&run.rows.launch_runs);
        let mut totals: BTreeMap<u64, SampleTotals> = BTreeMap::new();
        let mut rows: Vec<MergedSample> = Vec::new();
        let mut summed = 0;
        let mut unknown_launch = 0;
        for sample in &self.raw.samples {
            let counter = self.counters.get(sample.reason as usize).copied().unwrap_or(SampleCounter::Taken);
            let Some((ordinal, kernel_id)) = launches.for_sample(sample) else {
                if matches!(counter, SampleCounter::Samples(_)) {
                    unknown_launch += sample.samples;
                }
                continue;
            };
            let total = totals.entry(ordinal).or_default();
            let (number, samples, samples_not_issued) = match counter {
                SampleCounter::Taken => {
                    *total.taken.get_or_insert(0) += sample.samples;
                    continue;
                }
                SampleCounter::Dropped => {
                    *total.dropped.get_or_insert(0) += sample.samples;
                    continue;
                }
                SampleCounter::Samples(number) => (number, sample.samples, 0),
                SampleCounter::NotIssued(number) => (number, 0, sample.samples),
            };
            total.collected += samples;
            if run.unusable.contains_key(&ordinal) {
                total.unusable += samples;
                continue;
            }
            let launch = self.code.launched.get(&kernel_id).copied();
            let Some(function_id) = self.function(sample.cubin_crc, sample.function, launch) else {
                total.unknown_function += samples;
                continue;
            };
            let (function_id, pc) = self.code.map.refine(function_id, sample.pc);
            // Many replays of a launch find the same few instructions: rows stay as many as those.
            if rows.len() >= 2 * summed + SUM_ROWS {
                rows = sum(rows);
                summed = rows.len();
            }
            rows.push(MergedSample {
                key: (kernel_id, function_id, pc, number),
                run_id,
                samples,
                samples_not_issued,
            });
        }
        losses.add(run_id, LossKind::Sample, "launch of the sample is not known", unknown_launch);
        count(run, &totals, unknown_launch + self.raw.ownerless, losses);
        sum(rows)
    }

    /// The function of a sample, by its module's CRC and its name. Of several the one in the launched kernel's module,
    /// else the launched kernel if it has that name.
    fn function(&mut self, crc: u64, name: u32, launched: Option<FunctionId>) -> Option<FunctionId> {
        let (raw, modules) = (self.raw, self.code.modules);
        let found = self
            .functions
            .entry((crc, name))
            .or_insert_with(|| functions_of(self.crcs.get(&crc), raw.name(name), modules).collect());
        let by_name = if let [function_id] = found[..] {
            Some(function_id)
        } else {
            let module_id = launched.and_then(|function_id| modules.module_of(function_id));
            found.iter().copied().find(|function_id| modules.module_of(*function_id) == module_id)
        };
        by_name.or_else(|| launched.filter(|function_id| modules.name(*function_id) == raw.name(name)))
    }
}

/// The functions of a name in some modules.
pub(crate) fn functions_of<'a>(
    module_ids: Option<&'a BTreeSet<ModuleId>>,
    name: &'a str,
    modules: &'a RecordedModules,
) -> impl Iterator<Item = FunctionId> + 'a {
    let of_name = move |module_id: &ModuleId| hash::function_id(*module_id, name);
    module_ids.into_iter().flatten().map(of_name).filter(|function_id| modules.knows(*function_id))
}

/// The launches of a run, as its samples name them.
struct SampledLaunches {
    by_correlation: BTreeMap<u64, (u64, KernelId)>,
    by_ordinal: BTreeMap<u64, KernelId>,
}

impl SampledLaunches {
    fn new(rows: &[LaunchRun]) -> Self {
        let by_correlation = |row: &LaunchRun| Some((row.correlation_id?, (row.ordinal, row.kernel_id)));
        Self {
            by_correlation: rows.iter().filter_map(by_correlation).collect(),
            by_ordinal: rows.iter().map(|row| (row.ordinal, row.kernel_id)).collect(),
        }
    }

    /// The launch of a sample: its ordinal, and its identifier in the capture.
    fn for_sample(&self, sample: &InternedSample) -> Option<(u64, KernelId)> {
        match sample.ordinal {
            Some(ordinal) => Some((ordinal, *self.by_ordinal.get(&ordinal)?)),
            None => self.by_correlation.get(&sample.correlation_id).copied(),
        }
    }
}

/// Gives launches the function in which their samples found the kernel: the recorder knows its name, and several modules
/// may share it. Launches whose samples disagree keep theirs.
pub(crate) fn correct_functions(run: &mut RunState, modules: &RecordedModules) {
    let rows = &mut run.rows;
    let launches = SampledLaunches::new(&rows.launch_runs);
    let of_launch: BTreeMap<KernelId, &str> =
        rows.launches.iter().map(|launch| (launch.kernel_id, modules.name(launch.function_id))).collect();
    let mut named: BTreeMap<(u64, u32), Vec<FunctionId>> = BTreeMap::new();
    // None where samples disagree.
    let mut found: BTreeMap<KernelId, Option<FunctionId>> = BTreeMap::new();
    for sample in &rows.samples.samples {
        let name = rows.samples.name(sample.function);
        let Some((_, kernel_id)) = launches.for_sample(sample) else { continue };
        if of_launch.get(&kernel_id).is_none_or(|kernel| *kernel != name) {
            continue;
        }
        let crc = sample.cubin_crc;
        let functions = named
            .entry((crc, sample.function))
            .or_insert_with(|| functions_of(run.crcs.get(&crc), name, modules).collect());
        for function_id in functions {
            let only = found.entry(kernel_id).or_insert(Some(*function_id));
            *only = only.filter(|only| only == function_id);
        }
    }
    let only = |kernel_id: &KernelId| found.get(kernel_id).copied().flatten();
    for launch in &mut rows.launches {
        launch.function_id = only(&launch.kernel_id).unwrap_or(launch.function_id);
    }
    rows.losses.retain(|loss| {
        !launches::is_guess(loss) || loss.kernel_id.and_then(|kernel_id| only(&kernel_id)).is_none()
    });
}

/// Fills the counts of launches from the samples themselves: those that CUPTI hands over at the end of one launch may
/// belong to another. The run's own total of samples is compared with those that arrived.
fn count(
    run: &mut RunState,
    totals: &BTreeMap<u64, SampleTotals>,
    of_no_launch: u64,
    losses: &mut LossTotals,
) {
    let run_id = run.run_id();
    let nothing = SampleTotals::default();
    let (mut reported, mut arrived) = (0, of_no_launch);
    for row in &mut run.rows.launch_runs {
        let total = totals.get(&row.ordinal).unwrap_or(&nothing);
        if !row.recorded && total.collected == 0 {
            continue;
        }
        let dropped = row.lost_sample_count.or(total.dropped);
        reported += row.sample_count.or(total.taken).unwrap_or(0);
        arrived += total.collected + dropped.unwrap_or(0);
        row.sample_count = Some(total.collected + dropped.unwrap_or(0));
        row.lost_sample_count = dropped;
        let not_kept = total.unknown_function + total.unusable;
        // Losses of nothing would be as many as launches.
        if not_kept == 0 {
            continue;
        }
        row.lost_sample_count = Some(dropped.unwrap_or(0) + not_kept);
        let kernel_id = Some(row.kernel_id);
        let reason = "function of the sample is not known";
        losses.add_at(run_id, LossKind::Sample, reason, total.unknown_function, kernel_id);
        if let Some(reason) = run.unusable.get(&row.ordinal) {
            losses.add_at(run_id, LossKind::Replay, reason, total.unusable, kernel_id);
        }
    }
    let missing = reported.saturating_sub(arrived);
    losses.add(run_id, LossKind::Sample, "not on disk when the process ended", missing);
}
