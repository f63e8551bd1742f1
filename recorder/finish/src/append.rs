//! Merge of a capture with the replays of its launches into one capture.
//!
//! Tables without new rows are copied byte for byte, and so are the cubins. New rows are merged into the rest batch by
//! batch, so memory does not grow with the old capture.

mod before;
mod merge;
mod replays;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_schema::tables::replay::{Ablation, AblationInstruction, Counter, ObjectRedirect, Replay};
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::{CaptureForm, CaptureWriter};

use self::before::ReplayedCapture;
use self::merge::TableMerge;
use crate::access_table;
use crate::code::{CodeMap, RecordedModules};
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::recording::OpenedRecording;
use crate::runs::{self, RunState};
use crate::sampling::{MergedSamples, SampledCode};
use crate::summary::{FinishProgress, FinishSummary, RunSummary};
use stallmap_write::requests::LaunchSource;

/// Rows of a batch of rows that are built one by one.
const BATCH_ROWS: usize = 64 << 10;

const HAS_ACCESSES: &str = "the capture has the launch's accesses already";

/// A capture while replays are appended to it.
struct AppendedCapture<'a> {
    reader: Arc<CaptureReader>,
    folder: &'a OpenedRecording,
    before: ReplayedCapture,
    runs: Vec<RunState>,
    losses: LossTotals,
    modules: RecordedModules,
    maps: BTreeMap<RunId, CodeMap>,
    used: BTreeSet<FunctionId>,
    writer: CaptureWriter,
    /// Tables that are in the new capture.
    written: BTreeSet<&'static str>,
}

pub(crate) fn append(
    capture: &Path,
    folder: &OpenedRecording,
    output: &Path,
    progress: &dyn Fn(FinishProgress),
) -> Result<FinishSummary, FinishError> {
    let mut appending = AppendedCapture::read(capture, folder, output, progress)?;
    appending.write_accesses(progress)?;
    progress(FinishProgress { stage: "writing tables", done: 0, total: 1 });
    appending.write_tables()?;
    let losses = appending.write_losses()?;
    progress(FinishProgress { stage: "copying the capture", done: 0, total: 1 });
    appending.copy_rest()?;
    let manifest = appending.writer.finish()?;
    let runs = appending.runs.iter().map(RunSummary::new).collect();
    Ok(FinishSummary::new(runs, losses, manifest, output))
}

impl<'a> AppendedCapture<'a> {
    fn read(
        capture: &Path,
        folder: &'a OpenedRecording,
        output: &Path,
        progress: &dyn Fn(FinishProgress),
    ) -> Result<Self, FinishError> {
        progress(FinishProgress { stage: "reading the capture", done: 0, total: 1 });
        let reader = Arc::new(CaptureReader::open(capture)?);
        let writer = CaptureWriter::create(output, CaptureForm::File)?;
        let before = ReplayedCapture::read(&reader)?;
        progress(FinishProgress { stage: "reading segments", done: 0, total: folder.runs.len() as u64 });
        let ids = before.run_ids(folder.runs.len(), &reader)?;
        let mut losses = LossTotals::default();
        let mut runs = runs::read_replays(folder, ids, &mut losses);
        for run in &mut runs {
            replays::settle(run, &before, &mut losses);
        }
        progress(FinishProgress { stage: "reading cubins", done: 0, total: 1 });
        let modules = modules(&reader, &before, &mut runs, &mut losses);
        let maps =
            runs.iter().map(|run| (run.run_id(), CodeMap::new(&run.rows.code_ranges, &modules))).collect();
        let (used, written) = (BTreeSet::new(), BTreeSet::new());
        Ok(Self { reader, folder, before, runs, losses, modules, maps, used, writer, written })
    }

    /// Accesses of launches that have none in the capture, of each launch those of its first replay that counts.
    fn write_accesses(&mut self, progress: &dyn Fn(FinishProgress)) -> Result<(), FinishError> {
        let chosen = self.choose_accesses();
        if chosen.is_empty() {
            return Ok(());
        }
        let mut merge = TableMerge::new(&self.reader, table::<MemoryAccess>())?;
        let total = chosen.len() as u64;
        for (done, (kernel_id, (run, launch))) in (0..).zip(chosen) {
            progress(FinishProgress { stage: "sorting accesses", done, total });
            let Some(run) = self.runs.get_mut(run) else { continue };
            let segment = self.folder.segment(run.folder_index);
            let Some((segment, code)) = segment.zip(self.maps.get(&run.row.run_id)) else { continue };
            let Some(row) = run.rows.launch_runs.get_mut(launch) else { continue };
            let frames = run.rows.requests.remove(&row.ordinal).unwrap_or_default();
            let find = |pc, ordinal| code.find(pc, ordinal);
            let source =
                LaunchSource { kernel_id, ordinal: row.ordinal, segment, frames: &frames, find: &find };
            let writer = &mut self.writer;
            let mut push = |batches: Vec<_>| batches.iter().try_for_each(|batch| merge.push(batch, writer));
            let converted = stallmap_write::requests::convert(&source, &mut push)?;
            access_table::count(row, &converted, &mut self.losses);
            self.used.extend(&converted.functions);
        }
        merge.finish(&mut self.writer)?;
        self.written.insert(MemoryAccess::TABLE.name);
        Ok(())
    }

    /// The launch of a run that the accesses of each launch come from. Other accesses are dropped and counted.
    fn choose_accesses(&mut self) -> BTreeMap<KernelId, (usize, usize)> {
        let mut chosen = BTreeMap::new();
        for (index, run) in self.runs.iter_mut().enumerate() {
            if run.row.instrument != Instrument::Accesses {
                continue;
            }
            for (launch, row) in run.rows.launch_runs.iter_mut().enumerate() {
                let has_some = self.before.bundles.get(&row.kernel_id).is_some_and(|row| row.has_accesses);
                let reason = match run.unusable.get(&row.ordinal) {
                    Some(reason) => Some((LossKind::Replay, *reason)),
                    None if has_some || chosen.contains_key(&row.kernel_id) => {
                        Some((LossKind::Access, HAS_ACCESSES))
                    }
                    None => None,
                };
                match reason {
                    None => drop(chosen.insert(row.kernel_id, (index, launch))),
                    Some((kind, reason)) => {
                        let count = row.request_count.unwrap_or(0);
                        self.losses.add_at(row.run_id, kind, reason, count, Some(row.kernel_id));
                        (row.request_count, row.lane_access_count) = (None, None);
                        row.lost_request_count = Some(row.lost_request_count.unwrap_or(0) + count);
                        row.recorded = false;
                    }
                }
            }
        }
        chosen
    }

    fn write_tables(&mut self) -> Result<(), FinishError> {
        let bundles = self.before.bundles.iter();
        let launched = bundles.map(|(kernel_id, bundled)| (*kernel_id, bundled.function_id)).collect();
        let mut samples = MergedSamples::default();
        for run in &mut self.runs {
            let Some(map) = self.maps.get(&run.run_id()) else { continue };
            let code = SampledCode { map, modules: &self.modules, launched: &launched };
            samples.add(run, code, &mut self.losses);
        }
        samples.sort();
        self.used.extend(samples.functions());
        self.merge(samples.rows())?;
        for function in &self.before.functions {
            self.used.remove(&function.function_id);
        }
        let functions = self.modules.function_rows(&self.used);
        self.merge(functions)?;
        let (mut options, mut devices) = (Vec::new(), Vec::new());
        for run in &mut self.runs {
            options.append(&mut run.rows.options);
            run.rows.devices.sort_by_key(|row| row.device_id);
            devices.append(&mut run.rows.devices);
        }
        self.merge::<RunOption>(options)?;
        self.merge::<Device>(devices)?;
        let rows: Vec<Run> = self.runs.iter().map(|run| run.row.clone()).collect();
        self.merge(rows)?;
        let rows: Vec<LaunchRun> = self.of_runs(|run| &run.rows.launch_runs);
        self.merge(rows)?;
        let rows: Vec<Replay> = self.of_runs(|run| &run.rows.replays);
        self.merge(rows)?;
        let mut rows: Vec<Counter> = self.of_runs(|run| &run.rows.counters);
        rows.sort_by(|a, b| counter_order(a).cmp(&counter_order(b)));
        self.merge(rows)?;
        let mut rows: Vec<Ablation> = self.of_runs(|run| &run.rows.ablations);
        rows.sort_by_key(|row| (row.kernel_id, row.experiment, row.is_cold, row.run_id));
        self.merge(rows)?;
        let mut rows: Vec<AblationInstruction> = self.of_runs(|run| &run.rows.ablation_instructions);
        rows.sort_by_key(|row| (row.kernel_id, row.experiment, row.function_id, row.pc, row.run_id));
        self.merge(rows)?;
        let mut rows: Vec<ObjectRedirect> = self.of_runs(|run| &run.rows.redirects);
        rows.sort_by_key(|row| (row.kernel_id, row.experiment, row.is_cold, row.run_id));
        self.merge(rows)
    }

    /// Rows of all runs, one run after the other.
    fn of_runs<R: Clone>(&self, rows: impl Fn(&RunState) -> &Vec<R>) -> Vec<R> {
        self.runs.iter().flat_map(|run| rows(run).iter().cloned()).collect()
    }

    fn write_losses(&mut self) -> Result<Vec<Loss>, FinishError> {
        let losses = std::mem::take(&mut self.losses).into_rows();
        self.merge(losses.iter().cloned())?;
        Ok(losses)
    }

    /// Merges sorted rows into their table.
    fn merge<R: TableRow>(&mut self, rows: impl IntoIterator<Item = R>) -> Result<(), FinishError> {
        let mut rows = rows.into_iter().peekable();
        if rows.peek().is_none() {
            return Ok(());
        }
        let mut merge = TableMerge::new(&self.reader, table::<R>())?;
        while rows.peek().is_some() {
            merge.push(&R::batch(rows.by_ref().take(BATCH_ROWS))?, &mut self.writer)?;
        }
        merge.finish(&mut self.writer)?;
        self.written.insert(R::TABLE.name);
        Ok(())
    }

    /// Copies tables without new rows, even those that this release does not know.
    fn copy_rest(&mut self) -> Result<(), FinishError> {
        for table in self.reader.tables().iter().filter(|table| !self.written.contains(table.name.as_str())) {
            self.writer.take_table(&self.reader, table)?;
        }
        self.writer.label(self.reader.manifest().labels.clone());
        for file in &self.reader.manifest().files {
            self.writer.add_file(&file.path, &self.reader.verified_entry(&file.path)?)?;
        }
        Ok(())
    }
}

fn table<R: TableRow>() -> &'static TableDef {
    const { &R::TABLE }
}

fn counter_order(row: &Counter) -> (KernelId, &str, RunId, u32) {
    (row.kernel_id, &row.metric, row.run_id, row.repeat)
}

/// The modules of the capture that the replays loaded. Modules of the replayer's own are none of the program's.
fn modules(
    reader: &Arc<CaptureReader>,
    before: &ReplayedCapture,
    runs: &mut [RunState],
    losses: &mut LossTotals,
) -> RecordedModules {
    let mut wanted: BTreeSet<ModuleId> = BTreeSet::new();
    for run in runs.iter_mut() {
        run.rows.code_ranges.retain(|range| before.modules.contains_key(&range.module_id));
        wanted.extend(run.rows.code_ranges.iter().map(|range| range.module_id));
        wanted.extend(std::mem::take(&mut run.rows.modules).iter().map(|row| row.module_id));
    }
    let rows = wanted.iter().filter_map(|module_id| before.modules.get(module_id).cloned());
    let mut modules = RecordedModules::of_capture(reader, rows);
    for function in before.functions.iter().filter(|row| before.modules.contains_key(&row.module_id)) {
        modules.add_function(function.function_id, function.module_id, &function.name, function.is_kernel);
    }
    for range in runs.iter().flat_map(|run| &run.rows.code_ranges) {
        modules.add_function(range.function_id, range.module_id, &range.name, range.is_kernel);
    }
    let first = runs.first().map_or(before.next_run, RunState::run_id);
    for (module, cause) in modules.damaged().filter(|(module, _)| wanted.contains(&module.module_id)) {
        let detail = losses.add(first, LossKind::Code, "cubin cannot be read", 1);
        detail.get_or_insert_with(|| format!("cubin {}: {cause}", module.content_hash));
    }
    modules
}
