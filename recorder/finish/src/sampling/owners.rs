//! The launches that samples are of.
//!
//! CUPTI names the call in which it read a sample from the hardware. With several threads, it may have held some since
//! the launch before. Code knows better: a launch takes samples only of functions that its kernel can execute.

use std::collections::BTreeMap;

use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::word::LossKind;

use super::{NOT_ISSUED, SampledLaunches, functions_of};
use crate::code::{KernelExecutions, RecordedModules};
use crate::loss::LossTotals;
use crate::runs::RunState;

/// The reason of samples without a launch.
const NO_OWNER: &str = "no launch before can execute the function";
/// Launches before that are looked at: the hardware holds samples for milliseconds.
const MAX_LAUNCHES: usize = 1024;

/// A function of samples: its module's CRC, and the number of its name.
type SampledFunctionKey = (u64, u32);

/// A launch that may have taken samples.
struct SampledLaunch {
    ordinal: u64,
    kernel: FunctionId,
    device_id: i32,
    begin_ns: i64,
    end_ns: i64,
    is_recorded: bool,
}

/// Gives samples of functions that their launch cannot execute to the last launch before its end that can. Samples without
/// such a launch are counted.
pub(crate) fn settle(run: &mut RunState, modules: &RecordedModules, losses: &mut LossTotals) {
    let mut owners = SampleOwners::new(run, modules);
    let run_id = run.run_id();
    let launches = SampledLaunches::new(&run.rows.launch_runs);
    let raw = &mut run.rows.samples;
    let mut functions: BTreeMap<SampledFunctionKey, Vec<FunctionId>> = BTreeMap::new();
    let mut ownerless = 0;
    for mut sample in std::mem::take(&mut raw.samples) {
        let launch = launches.for_sample(&sample).filter(|_| sample.window.is_none());
        let key = (sample.cubin_crc, sample.function);
        let owner = launch.map(|(ordinal, _)| {
            let functions = functions
                .entry(key)
                .or_insert_with(|| functions_of(run.crcs.get(&key.0), raw.name(key.1), modules).collect());
            (ordinal, owners.find(ordinal, key, functions))
        });
        match owner {
            Some((_, None)) if raw.name(sample.reason).ends_with(NOT_ISSUED) => continue,
            Some((_, None)) => {
                ownerless += sample.samples;
                continue;
            }
            Some((ordinal, Some(owner))) if owner != ordinal => sample.ordinal = Some(owner),
            Some(_) | None => {}
        }
        raw.samples.push(sample);
    }
    raw.ownerless = ownerless;
    losses.add(run_id, LossKind::Sample, NO_OWNER, ownerless);
}

/// The launches of a run in the order of time.
struct SampleOwners<'a> {
    launched: Vec<SampledLaunch>,
    /// Positions by ordinal.
    positions: BTreeMap<u64, usize>,
    executions: KernelExecutions<'a>,
    known: BTreeMap<(u64, SampledFunctionKey), Option<u64>>,
}

impl<'a> SampleOwners<'a> {
    fn new(run: &RunState, modules: &'a RecordedModules) -> Self {
        let kernels: BTreeMap<KernelId, (FunctionId, i32)> =
            run.rows.launches.iter().map(|row| (row.kernel_id, (row.function_id, row.device_id))).collect();
        let runs = run.rows.launch_runs.iter();
        let mut launched: Vec<SampledLaunch> = runs
            .filter_map(|row| {
                let (kernel, device_id) = *kernels.get(&row.kernel_id)?;
                let end_ns = row.end_ns.unwrap_or(row.begin_ns);
                let (ordinal, begin_ns, is_recorded) = (row.ordinal, row.begin_ns, row.recorded);
                Some(SampledLaunch { ordinal, kernel, device_id, begin_ns, end_ns, is_recorded })
            })
            .collect();
        launched.sort_by_key(|launch| (launch.begin_ns, launch.ordinal));
        let positions = launched.iter().enumerate().map(|(at, launch)| (launch.ordinal, at)).collect();
        Self { launched, positions, executions: KernelExecutions::new(modules), known: BTreeMap::new() }
    }

    /// The launch of samples that were read with one. `None` where no launch can execute their function.
    fn find(&mut self, ordinal: u64, key: SampledFunctionKey, functions: &[FunctionId]) -> Option<u64> {
        let Self { launched, positions, executions, known } = self;
        let Some(launch) = positions.get(&ordinal).and_then(|at| launched.get(*at)) else {
            return Some(ordinal);
        };
        *known.entry((ordinal, key)).or_insert_with(|| {
            let mut may = |kernel| functions.iter().any(|function| executions.may(kernel, *function));
            // Code that is not known may be executed by any kernel.
            if functions.is_empty() || may(launch.kernel) {
                return Some(ordinal);
            }
            let begun = launched.partition_point(|other| other.begin_ns <= launch.end_ns);
            let before = launched.get(..begun)?.iter().rev().take(MAX_LAUNCHES);
            let mut before = before.filter(|other| other.device_id == launch.device_id);
            let owner = before.find(|other| may(other.kernel))?;
            owner.is_recorded.then_some(owner.ordinal)
        })
    }
}
