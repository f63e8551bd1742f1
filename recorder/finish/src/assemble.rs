//! Assembly of all runs of a recording into one capture.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::table::Row;
use stallmap_schema::tables::launch::{LaunchParameter, TensorMap};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tensor_map;
use stallmap_schema::word::LossKind;
use stallmap_source::Lines;
use stallmap_write::{CaptureWriter, Form};

use crate::access_table::{self, Surroundings};
use crate::bundles;
use crate::code::{CodeMap, Modules};
use crate::error::FinishError;
use crate::loss::Losses;
use crate::recording::Folder;
use crate::runs::{self, RunState};
use crate::sampling::{self, Samples};
use crate::summary::{BundleSummary, Progress, Summary};
use crate::{launches, python, source, summaries, tensors, timeline, windows};

/// Rows of a batch of rows that are built one by one.
const BATCH_ROWS: usize = 64 << 10;

/// A capture while it is assembled.
struct Assembly<'a> {
    folder: &'a Folder,
    runs: Vec<RunState>,
    losses: Losses,
    modules: Modules,
    maps: BTreeMap<RunId, CodeMap>,
    used: BTreeSet<FunctionId>,
    bundles: BundleSummary,
}

pub(crate) fn assemble(
    folder: &Folder,
    output: &Path,
    progress: &dyn Fn(Progress),
) -> Result<Summary, FinishError> {
    let mut writer = CaptureWriter::create(output, Form::File)?;
    let mut assembly = Assembly::read(folder, progress);
    assembly.write_accesses(&mut writer, progress)?;
    assembly.write_bundles(&mut writer, progress)?;
    progress(Progress { stage: "writing tables", done: 0, total: 1 });
    let launched = sampling::launched_functions(&assembly.runs);
    let (maps, modules) = (&assembly.maps, &assembly.modules);
    let samples = sampling::merge(&mut assembly.runs, maps, modules, &launched, &mut assembly.losses);
    assembly.write_tables(&samples, &mut writer)?;
    assembly.finish(writer, output)
}

impl<'a> Assembly<'a> {
    fn read(folder: &'a Folder, progress: &dyn Fn(Progress)) -> Self {
        progress(Progress { stage: "reading segments", done: 0, total: folder.runs.len() as u64 });
        let mut losses = Losses::default();
        let mut runs = runs::read(folder, &mut losses);
        for run in &mut runs {
            launches::pair(run, &mut losses);
            tensors::complete(run, &mut losses);
        }
        progress(Progress { stage: "reading cubins", done: 0, total: 1 });
        let modules = modules(folder, &mut runs, &mut losses);
        let maps =
            runs.iter().map(|run| (run.run_id(), CodeMap::new(&run.rows.code_ranges, &modules))).collect();
        for run in &mut runs {
            sampling::correct_functions(run, &modules);
        }
        for run in &mut runs {
            timeline::settle(run, &mut losses);
            windows::assign(run, &modules, &mut losses);
        }
        launches::identify(&mut runs);
        for run in &mut runs {
            for loss in std::mem::take(&mut run.rows.losses) {
                losses.add_row(loss);
            }
        }
        let (used, bundles) = (BTreeSet::new(), BundleSummary::default());
        Self { folder, runs, losses, modules, maps, used, bundles }
    }

    fn write_accesses(
        &mut self,
        writer: &mut CaptureWriter,
        progress: &dyn Fn(Progress),
    ) -> Result<(), FinishError> {
        let frames = self.runs.iter().flat_map(|run| run.rows.requests.values().flatten());
        let total = frames.map(|frame| u64::from(frame.raw_bytes)).sum();
        let done = std::cell::Cell::new(0);
        let report = |bytes| {
            done.set(done.get() + bytes);
            progress(Progress { stage: "sorting accesses", done: done.get(), total });
        };
        for run in self.runs.iter_mut().filter(|run| access_table::has_accesses(run)) {
            let segment = self.folder.runs.get(run.folder_index).and_then(|run| run.segment.as_ref().ok());
            let Some((segment, code)) = segment.zip(self.maps.get(&run.row.run_id)) else { continue };
            let summaries = summaries::take(run, code, &mut self.losses);
            self.used.extend(summaries.iter().map(|row| row.function_id));
            append(writer, summaries)?;
            append(writer, summaries::take_shapes(run, code, &mut self.losses))?;
            let around = Surroundings { segment, code, progress: &report };
            self.used.extend(access_table::write(run, &around, writer, &mut self.losses)?);
            summaries::settle_models(run, &mut self.losses);
        }
        Ok(())
    }

    fn write_bundles(
        &mut self,
        writer: &mut CaptureWriter,
        progress: &dyn Fn(Progress),
    ) -> Result<(), FinishError> {
        let total = self.runs.iter().map(|run| run.rows.pages.content_bytes()).sum();
        let done = std::cell::Cell::new(0);
        let report = |bytes| {
            done.set(done.get() + bytes);
            progress(Progress { stage: "writing bundles", done: done.get(), total });
        };
        for run in &mut self.runs {
            let segment = self.folder.runs.get(run.folder_index).and_then(|run| run.segment.as_ref().ok());
            let Some(segment) = segment else { continue };
            let source = bundles::Source { segment, progress: &report };
            bundles::write(run, source, writer, &mut self.losses, &mut self.bundles)?;
        }
        Ok(())
    }

    fn write_tables(&mut self, samples: &Samples, writer: &mut CaptureWriter) -> Result<(), FinishError> {
        let (frames, states) = python::merge(&mut self.runs, &mut self.losses);
        let mut lines = Lines::default();
        lines.add_frames(&frames);
        writer.append_rows(frames)?;
        writer.append_rows(states)?;
        self.used.extend(samples.functions());
        append(writer, samples.rows())?;
        let recorded = self.runs.iter().flat_map(|run| &run.rows.launch_runs).filter(|row| row.recorded);
        let recorded: BTreeSet<KernelId> = recorded.map(|row| row.kernel_id).collect();
        // Functions of launches that were left out keep their name, and their code only where something else uses it.
        let mut named = BTreeSet::new();
        for run in &mut self.runs {
            for launch in &run.rows.launches {
                let functions =
                    if recorded.contains(&launch.kernel_id) { &mut self.used } else { &mut named };
                functions.insert(launch.function_id);
            }
            let parameters = launches::parameters(run, &mut self.losses);
            let memory = DeviceMemory::of(run);
            append(writer, parameters.iter().flat_map(|parameter| tensor_maps(parameter, &memory)))?;
            append(writer, parameters)?;
            let rows = std::mem::take(&mut run.rows);
            writer.append_rows([run.row.clone()])?;
            append(writer, rows.options)?;
            append(writer, sorted(rows.devices, |row| row.device_id))?;
            append(writer, rows.launches)?;
            append(writer, sorted(rows.graph_launches, |row| (row.graph_id, row.graph_launch)))?;
            append(writer, rows.launch_runs.iter().cloned())?;
            append(writer, rows.activities)?;
            append(writer, rows.ops)?;
            append(writer, rows.storages)?;
            append(writer, rows.tensors)?;
            append(writer, rows.op_tensors)?;
            append(writer, rows.allocations)?;
            append(writer, sorted(rows.copies, |row| row.begin_ns))?;
            append(writer, sorted(rows.fills, |row| row.begin_ns))?;
            run.rows.launch_runs = rows.launch_runs;
        }
        named.extend(&self.used);
        writer.append_rows(self.modules.function_rows(&named))?;
        let modules = self.modules.store(&self.used, writer, &mut lines)?;
        writer.append_rows(modules)?;
        writer.append_rows(lines.rows(|file| source::places(&self.runs, file)))?;
        Ok(())
    }

    fn finish(self, mut writer: CaptureWriter, output: &Path) -> Result<Summary, FinishError> {
        let mut kernels = BTreeSet::new();
        for run in &self.runs {
            kernels.extend(run.rows.launch_runs.iter().map(|row| row.kernel_id));
        }
        let mut losses = self.losses.into_rows();
        for loss in &mut losses {
            // A loss may name a launch whose own rows were lost with it.
            loss.kernel_id = loss.kernel_id.filter(|kernel_id| kernels.contains(kernel_id));
        }
        losses.sort_by(|a, b| order(a).cmp(&order(b)));
        writer.append_rows(losses.iter().cloned())?;
        let manifest: Manifest = writer.finish()?;
        Ok(Summary { bundles: self.bundles, ..Summary::new(&self.runs, losses, manifest, output) })
    }
}

fn order(loss: &Loss) -> (RunId, &str, &str) {
    (loss.run_id, loss.kind.word(), &loss.reason)
}

fn modules(folder: &Folder, runs: &mut [RunState], losses: &mut Losses) -> Modules {
    let rows: Vec<_> = runs.iter_mut().flat_map(|run| std::mem::take(&mut run.rows.modules)).collect();
    let mut modules = Modules::read(&folder.cubins(), rows);
    for run in runs.iter() {
        for range in &run.rows.code_ranges {
            modules.add_function(range.function_id, range.module_id, &range.name, range.is_kernel);
        }
    }
    for run in runs.iter() {
        for launch in &run.rows.launches {
            if !modules.knows(launch.function_id) {
                losses.add(run.run_id(), LossKind::Code, "name of a launched function was not recorded", 1);
                let name = format!("unknown_function_{:016x}", launch.function_id.0);
                modules.add_function(launch.function_id, ModuleId(0), &name, true);
            }
        }
    }
    let first = runs.first().map_or(RunId(1), RunState::run_id);
    for (module, cause) in modules.damaged() {
        let detail = losses.add(first, LossKind::Code, "cubin cannot be read", 1);
        detail.get_or_insert_with(|| format!("cubin {}: {cause}", module.content_hash));
    }
    modules
}

/// Device memory that a run allocated at any time.
struct DeviceMemory(Vec<(Address, Address)>);

impl DeviceMemory {
    fn of(run: &RunState) -> Self {
        let ranges = run
            .rows
            .allocations
            .iter()
            .map(|row| (row.address, Address(row.address.0.saturating_add(row.size_bytes))));
        Self(ranges.collect())
    }

    fn holds(&self, address: Address) -> bool {
        self.0.iter().any(|&(first, end)| first <= address && address < end)
    }
}

fn tensor_maps(parameter: &LaunchParameter, memory: &DeviceMemory) -> Vec<TensorMap> {
    let row = |found: tensor_map::Found| TensorMap {
        kernel_id: parameter.kernel_id,
        parameter_offset: found.parameter_offset,
        address: Address(found.address),
        sizes: found.sizes,
        strides: found.strides,
        box_sizes: found.box_sizes,
        element_type: found.element_type,
        element_bytes: found.element_bytes,
    };
    tensor_map::find(&parameter.bytes.0, |address| memory.holds(Address(address)))
        .into_iter()
        .map(row)
        .collect()
}

/// Appends rows to their table in batches.
pub(crate) fn append<R: Row>(
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
