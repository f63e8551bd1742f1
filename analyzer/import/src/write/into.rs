//! A trace joined to a capture of the same program: measured times of its launches, as a run of its own.

use std::collections::HashMap;
use std::path::Path;

use arrow::array::RecordBatch;
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::explain::capture_failure;
use stallmap_readers::formats::input::ImportInput;
use stallmap_readers::trace::model::{ABSENT, TraceKernel, TraceModel};
use stallmap_readers::trace::name;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{FunctionId, KernelId, OpId, RunId};
use stallmap_schema::table::{TableDef, TableRow};
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::code::Function;
use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::run::{Run, RunOption};
use stallmap_schema::tables::tensor;
use stallmap_schema::word::{Instrument, LossKind};
use stallmap_write::rewrite::{CaptureRewrite, TableFate, rewrite};
use stallmap_write::{CaptureForm, CaptureWriter};

use super::matching::{MatchedKernels, NormalizedName, matched};
use super::{RecordingWriter, activity, runs};

/// Most launches, ops and functions of a capture that is joined.
const MAX_ROWS: usize = 50_000_000;

/// Rows that the capture gets.
struct JoiningRows {
    runs: Vec<Run>,
    options: Vec<RunOption>,
    activities: Vec<GpuActivity>,
    losses: Vec<Loss>,
    note: String,
}

/// A capture's launches in order, with their kinds.
struct CaptureLaunches {
    reference: RunId,
    next: RunId,
    kinds: Vec<(KernelId, NormalizedName)>,
}

/// Writes a capture with the times of a trace. Returns the match rates as text.
///
/// # Errors
///
/// A capture or a trace of several processes, and everything that reading and writing captures can meet.
pub(crate) fn into(
    trace: &TraceModel,
    inputs: &[ImportInput],
    capture: &Path,
    output: &Path,
) -> Outcome<String> {
    let wrong = |error: CaptureError| capture_failure(&error);
    let reader = CaptureReader::open(capture).map_err(wrong)?;
    let launches = launches(&reader).map_err(wrong)?;
    // A run of samples is another view of the same process.
    let processes = trace.processes.iter().filter(|process| process.reference.is_none()).count();
    let Some(launches) = launches.filter(|_| processes == 1) else {
        let message = "the trace and the capture have to be of one process each";
        return Err(CommandFailure::message(USAGE, message)
            .hint("import the trace by itself, and compare with `stallmap diff`".to_owned()));
    };
    let mut joining = JoiningRows::for_trace(trace, inputs, &launches);
    rewrite(&reader, output, CaptureForm::File, &mut joining).map_err(wrong)?;
    Ok(joining.note)
}

/// The launches of a capture. None if they are of several processes, or if there are none.
fn launches(reader: &CaptureReader) -> Result<Option<CaptureLaunches>, CaptureError> {
    let mut names: HashMap<FunctionId, String> = HashMap::new();
    reader.for_each_row(MAX_ROWS, |function: Function| {
        names.insert(function.function_id, name::kernel(&function.demangled_name));
    })?;
    let mut ops: HashMap<OpId, String> = HashMap::new();
    reader.for_each_row(MAX_ROWS, |op: tensor::Op| {
        ops.insert(op.op_id, name::op(&op.name).to_owned());
    })?;
    let mut next = 0;
    reader.for_each_row(MAX_ROWS, |run: Run| next = next.max(run.run_id.0))?;
    let mut runs = Vec::new();
    let mut kinds = Vec::new();
    reader.for_each_row(MAX_ROWS, |launch: Launch| {
        runs.push(launch.run_id);
        let kind = NormalizedName {
            name: names.get(&launch.function_id).cloned().unwrap_or_default(),
            grid: [launch.grid_x, launch.grid_y, launch.grid_z],
            block: [launch.block_x, launch.block_y, launch.block_z],
            op: launch.op_id.and_then(|op| ops.get(&op)).cloned(),
        };
        kinds.push((launch.kernel_id, kind));
    })?;
    runs.sort_unstable();
    runs.dedup();
    let reference = if let [reference] = runs.as_slice() { Some(*reference) } else { None };
    let next = next.checked_add(1).map(RunId);
    Ok(reference.zip(next).map(|(reference, next)| CaptureLaunches { reference, next, kinds }))
}

impl JoiningRows {
    fn for_trace(trace: &TraceModel, inputs: &[ImportInput], launches: &CaptureLaunches) -> Self {
        let writing = RecordingWriter::for_trace(trace);
        let placed = writing.order.iter().filter_map(|&place| Some((place, trace.kernels.get(place)?)));
        let placed: Vec<(usize, &TraceKernel)> = placed.collect();
        let shaped =
            placed.iter().enumerate().filter_map(|(order, (_, kernel))| Some((order, kind(trace, kernel)?)));
        let shaped: Vec<(usize, NormalizedName)> = shaped.collect();
        let found = matched(&shaped, &launches.kinds);
        let (kernels, all) = (placed.len(), launches.kinds.len());
        let count = found.launches.len();
        let note = format!("{count} of {kernels} kernels joined with {count} of {all} launches");
        let mut options = runs::options(trace, inputs, launches.next);
        options.push(RunOption {
            run_id: launches.next,
            name: "joined.launches".to_owned(),
            value: note.clone(),
        });
        options.sort_by(|a, b| a.name.cmp(&b.name));
        let run = |(place, process)| Run {
            run_id: launches.next,
            instrument: Instrument::Timeline,
            reference_run_id: launches.reference,
            ..writing.run(place, process)
        };
        Self {
            runs: trace.processes.iter().take(1).enumerate().map(run).collect(),
            options,
            activities: activities(&writing, &placed, &found, launches.next),
            losses: losses(trace, &found, (kernels, shaped.len(), all), launches.next),
            note,
        }
    }
}

/// The kind of a kernel. None without grid and block.
fn kind(trace: &TraceModel, kernel: &TraceKernel) -> Option<NormalizedName> {
    let op = kernel.op.and_then(|op| trace.ops.get(op)).map(|op| name::op(&op.name).to_owned());
    Some(NormalizedName { name: name::kernel(&kernel.name), grid: kernel.grid?, block: kernel.block?, op })
}

/// Work of the GPU. A kernel without a partner has its name only.
fn activities(
    writing: &RecordingWriter<'_>,
    placed: &[(usize, &TraceKernel)],
    found: &MatchedKernels,
    run_id: RunId,
) -> Vec<GpuActivity> {
    let mut rows: Vec<GpuActivity> = activity::rows(writing).collect();
    for row in &mut rows {
        row.run_id = run_id;
        let Some(order) = row.kernel_id.take().and_then(|id| usize::try_from(id.0).ok()) else { continue };
        row.kernel_id = found.launches.get(&order).copied();
        if row.kernel_id.is_none() {
            row.kernel_name = placed.get(order).map(|(_, kernel)| kernel.name.to_string());
        }
    }
    rows
}

/// Losses of the trace and of the match, in the order of their table.
fn losses(
    trace: &TraceModel,
    found: &MatchedKernels,
    (kernels, shaped, launches): (usize, usize, usize),
    run_id: RunId,
) -> Vec<Loss> {
    let matched = found.launches.len();
    let difference = |all: usize, part: usize| all.saturating_sub(part) as u64;
    let unmatched = [
        ("kernels of the trace without a grid and block", difference(kernels, shaped)),
        ("kernels of the trace whose kind the capture has another number of", found.differing),
        ("kernels of the trace whose kind the capture does not have", found.missing),
        ("launches without a kernel of the trace", difference(launches, matched)),
    ];
    let unmatched = unmatched.into_iter().filter(|(_, count)| *count > 0);
    let unmatched = unmatched.map(|(reason, count)| (LossKind::Activity, reason, count, None));
    let row = |(kind, reason, lost_count, detail): (LossKind, &str, u64, Option<&str>)| Loss {
        run_id,
        kind,
        reason: reason.to_owned(),
        lost_count,
        kernel_id: None,
        detail: detail.map(str::to_owned),
    };
    // Data that the trace lacks are the capture's own matter.
    let own = trace
        .losses
        .rows()
        .filter(|(kind, reason, ..)| *kind != LossKind::Source || !reason.starts_with(ABSENT));
    let mut rows: Vec<Loss> = unmatched.chain(own).map(row).collect();
    rows.sort_by(|a, b| (a.kind.word(), &a.reason).cmp(&(b.kind.word(), &b.reason)));
    rows
}

impl CaptureRewrite for JoiningRows {
    fn fate(&self, table: &str) -> TableFate {
        let changed = [Run::TABLE.name, RunOption::TABLE.name, GpuActivity::TABLE.name, Loss::TABLE.name];
        if changed.contains(&table) { TableFate::ChangedWhole } else { TableFate::Copied }
    }

    fn change(&mut self, table: &'static TableDef, batch: &RecordBatch) -> Result<RecordBatch, String> {
        if table.name == Run::TABLE.name {
            return extended(batch, std::mem::take(&mut self.runs));
        }
        if table.name == RunOption::TABLE.name {
            return extended(batch, std::mem::take(&mut self.options));
        }
        if table.name == GpuActivity::TABLE.name {
            return extended(batch, std::mem::take(&mut self.activities));
        }
        extended(batch, std::mem::take(&mut self.losses))
    }

    /// A capture of an earlier release may lack tables that have no rows.
    fn add(&mut self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        writer.append_rows(std::mem::take(&mut self.runs))?;
        writer.append_rows(std::mem::take(&mut self.options))?;
        writer.append_rows(std::mem::take(&mut self.activities))?;
        writer.append_rows(std::mem::take(&mut self.losses))
    }

    fn file(&mut self, _: &str, bytes: Vec<u8>) -> Result<Option<Vec<u8>>, String> {
        Ok(Some(bytes))
    }

    fn notes(&self) -> Vec<String> {
        vec![self.note.clone()]
    }
}

/// The rows of a batch, and more behind them.
fn extended<R: TableRow>(batch: &RecordBatch, more: Vec<R>) -> Result<RecordBatch, String> {
    let mut rows = R::read_all(batch).map_err(|cause| cause.to_string())?;
    rows.extend(more);
    R::batch(rows).map_err(|cause| cause.to_string())
}
