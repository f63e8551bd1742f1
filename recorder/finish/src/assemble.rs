//! Assembly of all runs of a recording into one capture, run after run: the rows of all runs together are many.

mod launched;
mod meter;
mod parameters;

use std::collections::{BTreeMap, BTreeSet};
use std::mem::take;
use std::path::Path;

use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::id::{FunctionId, ModuleId, RunId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::word::LossKind;
use stallmap_write::source::FileLines;
use stallmap_write::{CaptureForm, CaptureWriter};

use self::launched::AssembledLaunches;
use self::meter::StageMeter;
use crate::access_table::{self, AccessTableInputs};
use crate::block_times;
use crate::bundles;
use crate::code::{CodeMap, RecordedModules};
use crate::compiled::{self, CompiledCode};
use crate::copies::ReferenceCopies;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::matching::DescribedLaunches;
use crate::native::NativeStacks;
use crate::python::PythonStacks;
use crate::recording::OpenedRecording;
use crate::rows::{IdBases, RunRows};
use crate::runs::{self, RunState};
use crate::sampling::{self, MergedSamples, SampledCode};
use crate::summary::{BundleSummary, FinishProgress, FinishSummary, RunSummary};
use crate::{hlo, launches, source, summaries, tensors, timeline, windows};

/// Rows of a batch of rows that are built one by one.
const BATCH_ROWS: usize = 64 << 10;

/// A capture while it is assembled.
struct CaptureAssembly<'a> {
    folder: &'a OpenedRecording,
    writer: CaptureWriter,
    losses: LossTotals,
    modules: RecordedModules,
    /// Offsets of the next run's identifiers.
    bases: IdBases,
    /// The launches of reference runs, which those of later runs are matched with.
    references: BTreeMap<RunId, DescribedLaunches>,
    copies: ReferenceCopies,
    launched: AssembledLaunches,
    used: BTreeSet<FunctionId>,
    stacks: PythonStacks,
    native: NativeStacks,
    compiled: CompiledCode,
    samples: MergedSamples,
    bundles: BundleSummary,
    sorted: StageMeter<'a>,
    bundled: StageMeter<'a>,
}

pub(crate) fn assemble(
    folder: &OpenedRecording,
    output: &Path,
    progress: &dyn Fn(FinishProgress),
) -> Result<FinishSummary, FinishError> {
    let writer = CaptureWriter::create(output, CaptureForm::File)?;
    let total = folder.runs.len() as u64;
    let read = |done| progress(FinishProgress { stage: "reading segments", done, total });
    read(0);
    let mut losses = LossTotals::default();
    let mut runs = runs::open(folder, &mut losses);
    progress(FinishProgress { stage: "reading cubins", done: 0, total: 1 });
    let modules = modules(folder, &mut runs);
    let request_bytes = runs.iter().map(|run| run.rows.request_bytes()).sum();
    let content_bytes = runs.iter().map(|run| run.rows.pages.content_bytes()).sum();
    let mut assembly = CaptureAssembly {
        folder,
        writer,
        losses,
        modules,
        bases: IdBases::default(),
        references: BTreeMap::new(),
        copies: ReferenceCopies::default(),
        launched: AssembledLaunches::default(),
        used: BTreeSet::new(),
        stacks: PythonStacks::default(),
        native: NativeStacks::default(),
        compiled: CompiledCode::default(),
        samples: MergedSamples::default(),
        bundles: BundleSummary::default(),
        sorted: StageMeter::new("sorting accesses", request_bytes, progress),
        bundled: StageMeter::new("writing bundles", content_bytes, progress),
    };
    let mut summaries = Vec::new();
    for (done, run) in (0..).zip(&mut runs) {
        read(done);
        let code = assembly.read(run);
        assembly.write_accesses(run, &code)?;
        assembly.write_bundles(run)?;
        progress(FinishProgress { stage: "writing tables", done, total });
        assembly.write_tables(run, &code)?;
        summaries.push(RunSummary::new(run));
        assembly.write_launch_runs(run)?;
    }
    assembly.write_shared(&runs)?;
    assembly.finish(summaries, output)
}

impl CaptureAssembly<'_> {
    /// Reads a run's rows. Its launches are those of the capture afterwards.
    fn read(&mut self, run: &mut RunState) -> CodeMap {
        run.read(self.folder, &self.modules, &mut self.bases, &mut self.losses);
        launches::pair(run, &mut self.losses);
        tensors::complete(run, &mut self.losses);
        name_functions(run, &mut self.modules, &mut self.losses);
        sampling::correct_functions(run, &self.modules);
        sampling::owners::settle(run, &self.modules, &mut self.losses);
        timeline::settle(run, &mut self.losses);
        windows::assign(run, &self.modules, &mut self.losses);
        launches::identify(run, &self.modules, &mut self.references, &mut self.losses);
        self.copies.add(run);
        self.copies.assign(run);
        for loss in take(&mut run.rows.losses) {
            self.losses.add_row(loss);
        }
        CodeMap::new(&run.rows.code_ranges, &self.modules)
    }

    fn write_accesses(&mut self, run: &mut RunState, code: &CodeMap) -> Result<(), FinishError> {
        if !access_table::has_accesses(run) {
            return Ok(());
        }
        let Some(segment) = self.folder.segment(run.folder_index) else { return Ok(()) };
        let summaries = summaries::take(run, code, &mut self.losses);
        self.used.extend(summaries.iter().map(|row| row.function_id));
        append(&mut self.writer, summaries)?;
        append(&mut self.writer, summaries::take_shapes(run, code, &mut self.losses))?;
        let around = AccessTableInputs { segment, code, progress: &|bytes| self.sorted.add(bytes) };
        self.used.extend(access_table::write(run, &around, &mut self.writer, &mut self.losses)?);
        summaries::settle_models(run, &mut self.losses);
        Ok(())
    }

    fn write_bundles(&mut self, run: &mut RunState) -> Result<(), FinishError> {
        let Some(segment) = self.folder.segment(run.folder_index) else { return Ok(()) };
        let source = bundles::BundleSource { segment, progress: &|bytes| self.bundled.add(bytes) };
        bundles::write(run, source, &mut self.writer, &mut self.losses, &mut self.bundles)
    }

    /// Writes a run's rows but `launch_run`, which its samples complete.
    fn write_tables(&mut self, run: &mut RunState, map: &CodeMap) -> Result<(), FinishError> {
        self.launched.add(run);
        self.stacks.add(run);
        self.native.add(run, &mut self.losses);
        self.compiled.add(run);
        parameters::write(run, &mut self.writer, &mut self.losses)?;
        let writer = &mut self.writer;
        writer.append_rows([run.row.clone()])?;
        append(writer, take(&mut run.rows.options))?;
        append(writer, sorted(take(&mut run.rows.devices), |row| row.device_id))?;
        hlo::write(run, writer)?;
        append(writer, take(&mut run.rows.launches))?;
        let graph_launches = take(&mut run.rows.graph_launches);
        append(writer, sorted(graph_launches, |row| (row.graph_id, row.graph_launch)))?;
        append(writer, take(&mut run.rows.activities))?;
        block_times::write(run, writer, &mut self.losses)?;
        append(writer, take(&mut run.rows.ops))?;
        append(writer, take(&mut run.rows.storages))?;
        append(writer, take(&mut run.rows.tensors))?;
        append(writer, take(&mut run.rows.op_tensors))?;
        append(writer, take(&mut run.rows.op_ranges))?;
        append(writer, take(&mut run.rows.op_metrics))?;
        append(writer, take(&mut run.rows.allocations))?;
        append(writer, sorted(take(&mut run.rows.copies), |row| row.begin_ns))?;
        append(writer, sorted(take(&mut run.rows.fills), |row| row.begin_ns))?;
        let code = SampledCode { map, modules: &self.modules, launched: self.launched.functions() };
        self.samples.add(run, code, &mut self.losses);
        Ok(())
    }

    /// Writes `launch_run`, and drops the run's rows.
    fn write_launch_runs(&mut self, run: &mut RunState) -> Result<(), FinishError> {
        let rows: RunRows = take(&mut run.rows);
        append(&mut self.writer, rows.launch_runs)
    }

    /// Writes the rows that runs share.
    fn write_shared(&mut self, runs: &[RunState]) -> Result<(), FinishError> {
        let first = runs.first().map_or(RunId(1), RunState::run_id);
        for (module, cause) in self.modules.damaged() {
            let detail = self.losses.add(first, LossKind::Code, "cubin cannot be read", 1);
            detail.get_or_insert_with(|| format!("cubin {}: {cause}", module.content_hash));
        }
        let writer = &mut self.writer;
        let (frames, states) = take(&mut self.stacks).into_rows(&mut self.losses);
        let (origins, kernels) = take(&mut self.compiled).into_rows(&frames);
        let mut lines = FileLines::default();
        lines.add_frames(&frames);
        for file in compiled::generated_files(&frames, &origins) {
            lines.add_file(file);
        }
        let (native_frames, native_states) = take(&mut self.native).into_rows();
        for frame in &native_frames {
            lines.add_line(frame.file.as_deref().unwrap_or_default(), frame.line.unwrap_or(0));
        }
        writer.append_rows(frames)?;
        writer.append_rows(states)?;
        writer.append_rows(native_frames)?;
        writer.append_rows(native_states)?;
        writer.append_rows(origins)?;
        writer.append_rows(kernels)?;
        self.samples.sort();
        self.used.extend(self.samples.functions());
        append(writer, self.samples.rows())?;
        // Functions of launches that were left out have their name, and their code only where something else uses it.
        let (recorded, mut named) = self.launched.by_recording();
        self.used.extend(recorded);
        named.extend(&self.used);
        writer.append_rows(self.modules.function_rows(&named))?;
        let modules = self.modules.store(&self.used, writer, &mut lines)?;
        writer.append_rows(modules)?;
        writer.append_rows(lines.rows(|file| source::candidates(runs, file)))?;
        Ok(())
    }

    fn finish(self, runs: Vec<RunSummary>, output: &Path) -> Result<FinishSummary, FinishError> {
        let Self { mut writer, launched, losses, bundles, .. } = self;
        let mut losses = losses.into_rows();
        for loss in &mut losses {
            // A loss may name a launch whose own rows were lost with it.
            loss.kernel_id = loss.kernel_id.filter(|kernel_id| launched.holds(*kernel_id));
        }
        losses.sort_by(|a, b| order(a).cmp(&order(b)));
        writer.append_rows(losses.iter().cloned())?;
        let manifest: Manifest = writer.finish()?;
        Ok(FinishSummary { bundles, ..FinishSummary::new(runs, losses, manifest, output) })
    }
}

fn order(loss: &Loss) -> (RunId, &str, &str) {
    (loss.run_id, loss.kind.word(), &loss.reason)
}

/// The modules of all runs.
fn modules(folder: &OpenedRecording, runs: &mut [RunState]) -> RecordedModules {
    let rows: Vec<_> = runs.iter_mut().flat_map(|run| take(&mut run.rows.modules)).collect();
    let mut modules = RecordedModules::read(&folder.cubins(), rows);
    for run in runs.iter() {
        for range in &run.rows.code_ranges {
            modules.add_function(range.function_id, range.module_id, &range.name, range.is_kernel);
        }
    }
    modules
}

/// Names launched functions that have no name.
fn name_functions(run: &RunState, modules: &mut RecordedModules, losses: &mut LossTotals) {
    for launch in &run.rows.launches {
        if !modules.knows(launch.function_id) {
            losses.add(run.run_id(), LossKind::Code, "name of a launched function was not recorded", 1);
            let name = format!("unknown_function_{:016x}", launch.function_id.0);
            modules.add_function(launch.function_id, ModuleId(0), &name, true);
        }
    }
}

/// Appends rows to their table in batches.
pub(crate) fn append<R: TableRow>(
    writer: &mut CaptureWriter,
    rows: impl IntoIterator<Item = R>,
) -> Result<(), FinishError> {
    let mut rows = rows.into_iter().peekable();
    while rows.peek().is_some() {
        writer.append_rows(rows.by_ref().take(BATCH_ROWS))?;
    }
    Ok(())
}

fn sorted<T, K: Ord>(mut rows: Vec<T>, key: impl Fn(&T) -> K) -> Vec<T> {
    rows.sort_by_key(|row| key(row));
    rows
}
