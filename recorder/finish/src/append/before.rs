//! The capture before the replays, which they refer to. It is untrusted, so the amount that is read is bounded.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::replay::Bundle;
use stallmap_schema::tables::run::Run;

use crate::error::FinishError;

/// Maximum rows of a table in memory: far more than any program has functions or bundles.
const MAX_ROWS: usize = 8 << 20;

/// Last `run_id` that a capture may have: no program has so many processes.
const LAST_RUN: RunId = RunId((1 << 24) - 1);

/// The data that replays refer to.
pub(super) struct ReplayedCapture {
    /// The first run_id that is free.
    pub(super) next_run: RunId,
    /// The first run of the capture. Its own where it has none.
    first_run: RunId,
    /// Launches that can be replayed.
    pub(super) bundles: BTreeMap<KernelId, BundledLaunch>,
    pub(super) functions: Vec<Function>,
    pub(super) modules: BTreeMap<ModuleId, Module>,
}

/// A launch that can be replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct BundledLaunch {
    /// The run that recorded it.
    pub(super) run_id: RunId,
    pub(super) function_id: FunctionId,
    /// True if the capture has its accesses.
    pub(super) has_accesses: bool,
}

impl ReplayedCapture {
    pub(super) fn read(reader: &CaptureReader) -> Result<Self, FinishError> {
        let mut runs = BTreeSet::new();
        reader.for_each_row(MAX_ROWS, |run: Run| runs.extend([run.run_id]))?;
        let last = runs.last().copied().unwrap_or(RunId(0));
        let next_run = RunId(last.0.saturating_add(1));
        let mut modules = BTreeMap::new();
        reader.for_each_row(MAX_ROWS, |module: Module| modules.extend([(module.module_id, module)]))?;
        let mut functions = Vec::new();
        reader.for_each_row(MAX_ROWS, |function: Function| functions.push(function))?;
        let first_run = runs.first().copied().unwrap_or(next_run);
        Ok(Self { next_run, first_run, bundles: bundles(reader)?, functions, modules })
    }

    /// The run_ids of so many new runs.
    pub(super) fn run_ids(&self, count: usize, reader: &CaptureReader) -> Result<Vec<RunId>, FinishError> {
        let ids: Vec<RunId> = (self.next_run.0..=LAST_RUN.0).take(count).map(RunId).collect();
        if ids.len() == count {
            return Ok(ids);
        }
        let cause = format!("its last run has the number {}", self.next_run.0 - 1);
        Err(damaged::<Run>(cause, reader).into())
    }

    /// The run whose launches a run replays: the one that recorded the first of them.
    pub(super) fn reference(&self, mut replayed: impl Iterator<Item = KernelId>) -> RunId {
        let first = replayed.find_map(|kernel_id| self.bundles.get(&kernel_id));
        first.or_else(|| self.bundles.values().next()).map_or(self.first_run, |bundle| bundle.run_id)
    }
}

/// Bundles of launches that the capture has.
fn bundles(reader: &CaptureReader) -> Result<BTreeMap<KernelId, BundledLaunch>, FinishError> {
    let mut runs = BTreeMap::new();
    reader.for_each_row(MAX_ROWS, |bundle: Bundle| {
        if bundle.refusal.is_none() {
            runs.insert(bundle.kernel_id, bundle.run_id);
        }
    })?;
    let mut bundles = BTreeMap::new();
    reader.for_each_row(usize::MAX, |launch: Launch| {
        if let Some(run_id) = runs.get(&launch.kernel_id) {
            let function_id = launch.function_id;
            bundles.insert(
                launch.kernel_id,
                BundledLaunch { run_id: *run_id, function_id, has_accesses: false },
            );
        }
    })?;
    reader.for_each_row(usize::MAX, |row: LaunchRun| {
        if row.request_count.unwrap_or(0) > 0
            && let Some(launch) = bundles.get_mut(&row.kernel_id)
        {
            launch.has_accesses = true;
        }
    })?;
    Ok(bundles)
}

fn damaged<R: TableRow>(cause: String, reader: &CaptureReader) -> CaptureError {
    let thing = format!("table `{}`", R::TABLE.name);
    CaptureError::Corrupt { thing, cause, path: reader.path().to_owned() }
}
