//! Runs with their options and GPUs.

use std::collections::BTreeMap;

use stallmap_readers::formats::input::ImportInput;
use stallmap_readers::trace::model::{self, TraceModel, TraceProcess};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::RunId;
use stallmap_schema::tables::run::{Device, Run, RunOption};
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, run_id, samples};

/// The name of the option with the tool that wrote the file.
const TOOL: &str = "imported.tool";

impl RecordingWriter<'_> {
    pub(super) fn runs(
        &self,
        writer: &mut CaptureWriter,
        inputs: &[ImportInput],
    ) -> Result<(), CaptureError> {
        let trace = self.trace;
        let processes = trace.processes.iter().enumerate();
        writer.append_rows(processes.map(|(place, process)| self.run(place, process)))?;
        let mut options = options(trace, inputs, run_id(0));
        options.extend((1..trace.processes.len()).map(|place| tool(trace, run_id(place))));
        for (place, process) in trace.processes.iter().enumerate() {
            options.extend(process.facts.iter().map(|(name, value)| RunOption {
                run_id: run_id(place),
                name: name.clone(),
                value: value.clone(),
            }));
        }
        options.sort_by(|a, b| (a.run_id, &a.name).cmp(&(b.run_id, &b.name)));
        writer.append_rows(options)?;
        let runs = 0..trace.processes.len();
        writer.append_rows(runs.flat_map(|run| devices(trace, run)))
    }

    /// The run of a process.
    pub(super) fn run(&self, place: usize, process: &TraceProcess) -> Run {
        let (started_ns, ended_ns) = self.extent(place);
        Run {
            run_id: run_id(place),
            instrument: process.instrument,
            reference_run_id: run_id(process.reference.unwrap_or(place)),
            program: if process.program.is_empty() {
                self.trace.tool.to_owned()
            } else {
                process.program.clone()
            },
            arguments: "[]".to_owned(),
            working_directory: String::new(),
            host: String::new(),
            system: String::new(),
            process_id: process.number,
            parent_process_id: None,
            rank: process.rank,
            local_rank: None,
            world_size: process.world_size,
            started_ns,
            ended_ns: Some(ended_ns),
            clock_offset_ns: 0,
            exit_code: None,
            exit_signal: None,
            driver_version: None,
            cuda_version: process.cuda_version,
            instrument_version: None,
            python_version: None,
            torch_version: None,
            sampling_period_cycles: samples::period_cycles(self.trace, place),
        }
    }

    /// The extent of a process's times.
    pub(super) fn extent(&self, process: usize) -> (i64, i64) {
        let trace = self.trace;
        let kernels = trace.kernels.iter().filter(|kernel| kernel.process == process);
        let calls = kernels.clone().filter_map(|kernel| kernel.call).map(|call| (call.begin_ns, call.end_ns));
        let times = kernels.filter_map(|kernel| kernel.time_ns);
        let works = trace.works.iter().filter(|work| work.process == process);
        let works = works.map(|work| (work.begin_ns, work.end_ns.unwrap_or(work.begin_ns)));
        let ops =
            trace.ops.iter().filter(|op| op.process == process).map(|op| (op.call.begin_ns, op.call.end_ns));
        let storages = trace.storages.iter().filter(|storage| storage.process == process);
        let storages = storages.flat_map(|storage| storage.alloc_ns.into_iter().chain(storage.free_ns));
        let segments = trace.segments.iter().filter(|segment| segment.process == process);
        let segments = segments.flat_map(|segment| segment.alloc_ns.into_iter().chain(segment.free_ns));
        let memory = storages.chain(segments).map(|time| (time, time));
        let all = calls.chain(times).chain(works).chain(ops).chain(memory);
        all.reduce(|(begin, end), (other, last)| (begin.min(other), end.max(last))).unwrap_or((0, 0))
    }
}

/// The options of a run: facts of the recording, and its files. Sorted by name.
pub(super) fn options(trace: &TraceModel, inputs: &[ImportInput], run_id: RunId) -> Vec<RunOption> {
    let mut options = trace.facts.clone();
    for (number, input) in (1..).zip(inputs) {
        // The first file has plain names.
        let name = |part: &str| match number {
            1 => format!("imported.{part}"),
            _ => format!("imported.{part}.{number}"),
        };
        let file = input.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        options.extend([
            (name("bytes"), input.bytes.to_string()),
            (name("file"), file),
            (name("hash"), input.hash.clone()),
        ]);
    }
    options.insert(TOOL.to_owned(), trace.tool.to_owned());
    options.into_iter().map(|(name, value)| RunOption { run_id, name, value }).collect()
}

/// The option of each run that names the tool of its file.
fn tool(trace: &TraceModel, run_id: RunId) -> RunOption {
    RunOption { run_id, name: TOOL.to_owned(), value: trace.tool.to_owned() }
}

/// The GPUs of a run, by ordinal: those of its process count before those of all.
fn devices(trace: &TraceModel, run: usize) -> Vec<Device> {
    let own = trace.devices.iter().filter(|device| device.process == Some(run));
    let all = trace.devices.iter().filter(|device| device.process.is_none());
    let mut devices: BTreeMap<i32, &model::TraceDevice> = BTreeMap::new();
    for device in own.chain(all) {
        devices.entry(device.ordinal).or_insert(device);
    }
    devices.values().map(|device| described(run, device)).collect()
}

fn described(run: usize, device: &model::TraceDevice) -> Device {
    Device {
        run_id: run_id(run),
        device_id: device.ordinal,
        name: device.name.clone(),
        uuid: device.uuid.clone(),
        compute_major: device.compute.0,
        compute_minor: device.compute.1,
        multiprocessor_count: device.multiprocessors,
        memory_bytes: device.memory_bytes,
        l2_bytes: device.l2_bytes,
        sm_clock_khz: device.clocks_khz.0,
        memory_clock_khz: device.clocks_khz.1,
        memory_bus_bits: None,
    }
}
