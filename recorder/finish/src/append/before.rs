//! The capture as it was: what replays refer to. It may come from a stranger, so what is read of it is bounded.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::table::Row;
use stallmap_schema::tables::code::{Function, Module};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::replay::Bundle;
use stallmap_schema::tables::run::Run;

use crate::error::FinishError;
use crate::rows::LAST_RUN;

/// Most rows of a table that is kept in memory: far more than any program has functions or bundles.
const MAX_ROWS: usize = 8 << 20;

/// What replays refer to.
pub(super) struct Before {
    /// The first run_id that is free.
    pub(super) next_run: RunId,
    /// The first run of the capture; its own where it has none.
    first_run: RunId,
    /// Launches that can be replayed.
    pub(super) bundles: BTreeMap<KernelId, Bundled>,
    pub(super) functions: Vec<Function>,
    pub(super) modules: BTreeMap<ModuleId, Module>,
}

/// A launch that can be replayed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundled {
    /// The run that recorded it.
    pub(super) run_id: RunId,
    pub(super) function_id: FunctionId,
    /// Whether the capture has its accesses.
    pub(super) has_accesses: bool,
}

impl Before {
    pub(super) fn read(reader: &CaptureReader) -> Result<Self, FinishError> {
        let mut runs = BTreeSet::new();
        for_each(reader, |run: Run| runs.extend([run.run_id]))?;
        let last = runs.last().copied().unwrap_or(RunId(0));
        let next_run = RunId(last.0.saturating_add(1));
        let mut modules = BTreeMap::new();
        for_each(reader, |module: Module| modules.extend([(module.module_id, module)]))?;
        let mut functions = Vec::new();
        for_each(reader, |function: Function| functions.push(function))?;
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
fn bundles(reader: &CaptureReader) -> Result<BTreeMap<KernelId, Bundled>, FinishError> {
    let mut runs = BTreeMap::new();
    for_each(reader, |bundle: Bundle| {
        if bundle.refusal.is_none() {
            runs.insert(bundle.kernel_id, bundle.run_id);
        }
    })?;
    let mut bundles = BTreeMap::new();
    for_each_unbounded(reader, |launch: Launch| {
        if let Some(run_id) = runs.get(&launch.kernel_id) {
            let function_id = launch.function_id;
            bundles.insert(launch.kernel_id, Bundled { run_id: *run_id, function_id, has_accesses: false });
        }
    })?;
    for_each_unbounded(reader, |row: LaunchRun| {
        if row.request_count.unwrap_or(0) > 0
            && let Some(launch) = bundles.get_mut(&row.kernel_id)
        {
            launch.has_accesses = true;
        }
    })?;
    Ok(bundles)
}

/// Reads a table row by row. A capture of an earlier release may not have it.
fn for_each_unbounded<R: Row>(reader: &CaptureReader, mut each: impl FnMut(R)) -> Result<(), FinishError> {
    if !reader.tables().iter().any(|table| table.name == R::TABLE.name) {
        return Ok(());
    }
    for batch in reader.read_table(R::TABLE.name)? {
        let rows = R::read_all(&batch?).map_err(|cause| damaged::<R>(cause.to_string(), reader))?;
        rows.into_iter().for_each(&mut each);
    }
    Ok(())
}

/// Reads a table of which rows are kept.
fn for_each<R: Row>(reader: &CaptureReader, mut each: impl FnMut(R)) -> Result<(), FinishError> {
    let mut count = 0;
    for_each_unbounded(reader, |row| {
        count += 1;
        if count <= MAX_ROWS {
            each(row);
        }
    })?;
    if count > MAX_ROWS {
        return Err(damaged::<R>(format!("it has more than {MAX_ROWS} rows"), reader).into());
    }
    Ok(())
}

fn damaged<R: Row>(cause: String, reader: &CaptureReader) -> CaptureError {
    let thing = format!("table `{}`", R::TABLE.name);
    CaptureError::Corrupt { thing, cause, path: reader.path().to_owned() }
}
