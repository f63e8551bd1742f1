//! A recording as a capture: numbers, orders and references of the tables.

mod access;
mod activity;
mod code;
mod collective;
mod folders;
mod inputs;
mod into;
mod matching;
mod memory;
mod names;
mod packages;
mod runs;
mod samples;

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use stallmap_console::exit::Outcome;
use stallmap_console::explain::capture_failure;
use stallmap_readers::formats::input::ImportInput;
use stallmap_readers::trace::model::{LaunchRequests, TraceFrame, TraceKernel, TraceModel};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{FrameId, KernelId, OpId, PystatesHash, RunId};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::tables::replay;
use stallmap_schema::tables::tensor;
use stallmap_schema::word::{Instrument, Match};
use stallmap_write::{CaptureForm, CaptureWriter};

use self::folders::ScriptFolders;
pub(crate) use self::into::into;
use self::names::NumberedNames;

/// Most rows of a batch.
const MAX_BATCH_ROWS: usize = 1 << 13;

/// Writes the capture. One that fails leaves nothing.
pub(crate) fn write(trace: &TraceModel, inputs: &[ImportInput], output: &Path) -> Outcome<()> {
    let write = || -> Result<(), CaptureError> {
        let mut writer = CaptureWriter::create(output, CaptureForm::File)?;
        RecordingWriter::for_trace(trace).write(&mut writer, inputs)?;
        writer.note([format!("imported from {}", trace.tool)]);
        writer.finish().map(drop)
    };
    write().map_err(|error| capture_failure(&error))
}

/// A recording with the numbers of its rows.
struct RecordingWriter<'a> {
    trace: &'a TraceModel,
    /// Places of kernels in the order of launches: by process, then by the time of the call.
    order: Vec<usize>,
    /// The position of each launch in its process.
    ordinals: Vec<u64>,
    names: NumberedNames,
    folders: ScriptFolders,
    /// Identities of frames and of stacks, by place.
    frames: Vec<FrameId>,
    stacks: Vec<PystatesHash>,
}

impl<'a> RecordingWriter<'a> {
    fn for_trace(trace: &'a TraceModel) -> Self {
        let mut order: Vec<usize> = (0..trace.kernels.len()).collect();
        let begin = |kernel: &TraceKernel| kernel.time_ns.map(|(begin, _)| begin);
        order.sort_by_key(|&place| {
            trace.kernels.get(place).map(|kernel| (kernel.process, kernel.called_ns(), begin(kernel), place))
        });
        let mut next: BTreeMap<usize, u64> = BTreeMap::new();
        let ordinals = order.iter().filter_map(|&place| trace.kernels.get(place)).map(|kernel| {
            let next = next.entry(kernel.process).or_default();
            *next += 1;
            *next - 1
        });
        let ordinals = ordinals.collect();
        let folders = ScriptFolders::from_trace(trace);
        let frames = names::frame_ids(trace, &folders);
        let stacks = names::stack_hashes(trace, &frames);
        Self { trace, order, ordinals, names: NumberedNames::from_trace(trace), folders, frames, stacks }
    }

    fn write(&self, writer: &mut CaptureWriter, inputs: &[ImportInput]) -> Result<(), CaptureError> {
        self.runs(writer, inputs)?;
        code::write(self, writer)?;
        let launches = self.launched().map(|(place, ordinal, kernel)| self.launch(place, ordinal, kernel));
        append_batches(writer, launches)?;
        let runs = self.launched().map(|(place, ordinal, kernel)| self.launch_run(place, ordinal, kernel));
        append_batches(writer, runs)?;
        collective::write(self, writer)?;
        samples::write(self, writer)?;
        activity::write(self, writer)?;
        self.python(writer)?;
        append_batches(writer, (0..self.trace.ops.len()).filter_map(|place| self.op(place)))?;
        inputs::write(self, writer)?;
        memory::write(self, writer)?;
        access::write(self, writer)?;
        self.counters(writer)?;
        writer.append_rows(self.trace.losses.rows().map(|(kind, reason, lost_count, detail)| Loss {
            run_id: run_id(0),
            kind,
            reason: reason.to_owned(),
            lost_count,
            kernel_id: None,
            detail: detail.map(str::to_owned),
        }))
    }

    /// Launches: number, position in the process, kernel.
    fn launched(&self) -> impl Iterator<Item = (KernelId, u64, &'a TraceKernel)> {
        let kernels = self.order.iter().filter_map(|&place| self.trace.kernels.get(place));
        (0..)
            .map(KernelId)
            .zip(self.ordinals.iter().copied())
            .zip(kernels)
            .map(|((id, ordinal), kernel)| (id, ordinal, kernel))
    }

    /// Launches by the places of their kernels.
    fn ids(&self) -> HashMap<usize, KernelId> {
        self.order.iter().copied().zip((0..).map(KernelId)).collect()
    }

    fn launch(&self, kernel_id: KernelId, ordinal: u64, kernel: &TraceKernel) -> Launch {
        let place = self.order.get(usize::try_from(kernel_id.0).unwrap_or(usize::MAX)).copied();
        let [grid_x, grid_y, grid_z] = kernel.grid.unwrap_or_default();
        let [block_x, block_y, block_z] = kernel.block.unwrap_or_default();
        let outer = kernel.op.and_then(|op| self.trace.ops.get(op)).and_then(|op| op.stack.get());
        let stack = kernel.stack.or(outer);
        Launch {
            kernel_id,
            run_id: run_id(kernel.process),
            function_id: self.names.function(kernel),
            ordinal,
            occurrence: place.and_then(|place| self.names.occurrences.get(place)).copied().unwrap_or(0),
            grid_x,
            grid_y,
            grid_z,
            block_x,
            block_y,
            block_z,
            cluster_x: kernel.cluster.map(|[x, _, _]| x),
            cluster_y: kernel.cluster.map(|[_, y, _]| y),
            cluster_z: kernel.cluster.map(|[_, _, z]| z),
            dynamic_shared_bytes: kernel.shared_bytes.map(|(_, dynamic)| dynamic),
            static_shared_bytes: kernel.shared_bytes.map(|(fixed, _)| fixed),
            local_bytes: None,
            register_count: kernel.registers,
            device_id: kernel.device,
            op_id: kernel.op.map(op_id),
            pystates_hash: stack.and_then(|stack| self.stacks.get(stack)).copied(),
            graph_id: None,
            graph_launch: None,
            graph_node: None,
            capture_ordinal: None,
            accesses_of: None,
            native_stack: None,
        }
    }

    fn launch_run(&self, kernel_id: KernelId, ordinal: u64, kernel: &TraceKernel) -> LaunchRun {
        let thread = kernel.call.map(|call| call.thread);
        // A source of accesses may lack those of a launch. No other source has any.
        let is_accesses = self
            .trace
            .processes
            .get(kernel.process)
            .is_some_and(|run| run.instrument == Instrument::Accesses);
        let requests =
            kernel.requests.as_deref().copied().or_else(|| is_accesses.then(LaunchRequests::default));
        LaunchRun {
            run_id: run_id(kernel.process),
            ordinal,
            kernel_id,
            matched: Match::Reference,
            match_reason: None,
            thread_id: thread.and_then(|thread| self.names.thread(kernel.process, thread)).unwrap_or(0),
            stream_id: self.names.stream(kernel.process, kernel.device, kernel.stream),
            correlation_id: kernel.correlation,
            begin_ns: kernel.called_ns(),
            end_ns: kernel.call.map(|call| call.end_ns),
            recorded: !is_accesses || kernel.requests.is_some(),
            request_count: requests.map(|requests| requests.rows),
            lane_access_count: requests.map(|requests| requests.lanes),
            lost_request_count: requests.map(|requests| requests.lost),
            sample_count: None,
            lost_sample_count: None,
            sampling_period_cycles: None,
            samples_are_split: None,
        }
    }

    fn python(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        let frames: BTreeMap<FrameId, &TraceFrame> =
            self.frames.iter().copied().zip(&self.trace.frames).collect();
        writer.append_rows(frames.into_iter().map(|(frame_id, frame)| PythonFrame {
            frame_id,
            file: self.folders.shown(&frame.file).to_owned(),
            original_file: packages::original(&frame.file),
            function: frame.function.clone(),
            first_line: frame.line,
            line: frame.line,
        }))?;
        let stacks: BTreeMap<PystatesHash, &Vec<usize>> =
            self.stacks.iter().copied().zip(&self.trace.stacks).collect();
        let state = |(pystates_hash, stack): (PystatesHash, &Vec<usize>)| {
            let frames: Vec<FrameId> =
                stack.iter().filter_map(|frame| self.frames.get(*frame)).copied().collect();
            (0..).zip(frames).map(move |(depth, frame_id)| PythonState {
                pystates_hash,
                depth,
                frame_id,
                run_id: run_id(0),
            })
        };
        writer.append_rows(stacks.into_iter().flat_map(state))
    }

    fn op(&self, place: usize) -> Option<tensor::Op> {
        let op = self.trace.ops.get(place)?;
        Some(tensor::Op {
            op_id: op_id(place),
            run_id: run_id(op.process),
            kind: op.kind,
            name: op.name.to_string(),
            parent_op_id: op.parent.get().map(op_id),
            thread_id: self.names.thread(op.process, op.call.thread).unwrap_or(0),
            begin_ns: op.call.begin_ns,
            end_ns: Some(op.call.end_ns),
            phase: op.phase,
            step: op.step,
            sequence_number: op.sequence(),
            autograd_node: None,
            forward_op_id: op.forward().map(op_id),
            module_path: op.module().map(ToString::to_string),
            pystates_hash: op.stack.get().and_then(|stack| self.stacks.get(stack)).copied(),
        })
    }

    /// Counters refer to bundles. A bundle without content says why there is none.
    fn counters(&self, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
        let ids = self.ids();
        let mut counters: Vec<(KernelId, &stallmap_readers::trace::model::TraceCounter)> = self
            .trace
            .counters
            .iter()
            .filter_map(|counter| Some((*ids.get(&counter.kernel)?, counter)))
            .collect();
        counters.sort_by(|a, b| (a.0, &a.1.metric).cmp(&(b.0, &b.1.metric)));
        counters.dedup_by(|a, b| (a.0, &a.1.metric) == (b.0, &b.1.metric));
        let mut bundled: Vec<KernelId> = counters.iter().map(|(id, _)| *id).collect();
        bundled.dedup();
        writer.append_rows(bundled.into_iter().map(|kernel_id| replay::Bundle {
            kernel_id,
            run_id: run_id(0),
            refusal: Some(format!("imported from {}", self.trace.tool)),
            method: None,
            page_count: 0,
            written_page_count: 0,
            new_page_count: 0,
            is_cooperative: false,
            attributes: Blob(Vec::new()),
            max_dynamic_shared_bytes: None,
            shared_carveout: None,
            record_ns: 0,
        }))?;
        writer.append_rows(counters.into_iter().map(|(kernel_id, counter)| replay::Counter {
            run_id: run_id(0),
            kernel_id,
            repeat: 0,
            metric: counter.metric.to_string(),
            value: counter.value,
            unit: counter.unit.clone(),
        }))
    }
}

/// Appends all rows of a table batch by batch: those of a large trace would not fit in memory at once.
fn append_batches<R: TableRow>(
    writer: &mut CaptureWriter,
    rows: impl Iterator<Item = R>,
) -> Result<(), CaptureError> {
    let mut rows = rows.peekable();
    loop {
        writer.append_rows(rows.by_ref().take(MAX_BATCH_ROWS))?;
        if rows.peek().is_none() {
            return writer.flush::<R>();
        }
    }
}

fn run_id(process: usize) -> RunId {
    RunId(u32::try_from(process).unwrap_or(u32::MAX - 1) + 1)
}

fn op_id(place: usize) -> OpId {
    OpId(place as u64 + 1)
}
