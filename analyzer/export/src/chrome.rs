//! Chrome trace events in the shape of PyTorch's profiler: categories and arguments that its readers know.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;

use crate::round::unsigned;
use crate::source::{ExportSource, FileFormat, gzip, json as document};
use crate::timeline::{CaptureTimeline, LaunchReason, TimelineCall, TimelineCopy, TimelineLaunch};

/// Kineto's trace.
pub(crate) const FORMAT: FileFormat = FileFormat {
    queries: &[
        queries::LAUNCHES,
        queries::CALLS,
        queries::COPIES,
        queries::PROGRAM,
        queries::DEVICES,
        queries::LOSSES,
        queries::REASONS,
    ],
    write,
};

/// Nanoseconds of a second: the base of times is a whole second, and times after it fit a double.
const SECOND_NS: u64 = 1_000_000_000;

/// Samples of launches by stall reason.
type LaunchReasonArgs = BTreeMap<u64, Map<String, Value>>;

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let timeline = CaptureTimeline::read(source)?;
    let mut reasons = LaunchReasonArgs::new();
    for row in source.read::<LaunchReason>(queries::REASONS)? {
        reasons.entry(row.kernel_id).or_default().insert(row.name, json!(row.samples));
    }
    let clock = RelativeClock { base_ns: timeline.begin_ns() / SECOND_NS * SECOND_NS };
    let mut events = names(&timeline);
    events.extend(timeline.calls.iter().map(|call| clock.call(call)));
    timeline
        .launches
        .iter()
        .for_each(|launch| events.extend(clock.launch(launch, reasons.get(&launch.kernel_id))));
    events.extend(timeline.copies.iter().map(|copy| clock.copy(copy)));
    let mut trace = json!({
        "schemaVersion": 1,
        "deviceProperties": devices(&timeline),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": clock.base_ns,
        "stallmap": timeline.facts(),
        "traceEvents": events,
    });
    let first = timeline.processes.first();
    if let (Some(trace), Some(process)) = (trace.as_object_mut(), first) {
        trace.extend(process.cuda_version.map(|version| ("cuda_driver_version".to_owned(), json!(version))));
        if let Some(rank) = process.rank {
            let info = json!({ "backend": "nccl", "rank": rank, "world_size": process.world_size });
            trace.insert("distributedInfo".to_owned(), info);
        }
    }
    gzip(&document(&trace)?)
}

fn devices(timeline: &CaptureTimeline) -> Vec<Value> {
    let device = |device: &crate::timeline::TimelineDevice| {
        json!({
            "id": device.id, "name": device.name, "totalGlobalMem": device.memory_bytes,
            "computeMajor": device.compute_major, "computeMinor": device.compute_minor,
            "numSms": device.multiprocessor_count,
        })
    };
    timeline.devices.iter().map(device).collect()
}

/// Names of processes and GPUs. Kineto gives a GPU the process id of its ordinal.
fn names(timeline: &CaptureTimeline) -> Vec<Value> {
    let name = |pid: i64, name: &str, labels: &str| {
        let event = |key: &str, arguments: Value| json!({"ph": "M", "name": key, "pid": pid, "tid": 0, "ts": 0, "args": arguments});
        [event("process_name", json!({ "name": name })), event("process_labels", json!({ "labels": labels }))]
    };
    let programs = timeline.processes.iter().flat_map(|process| name(process.id, &process.program, "CPU"));
    let gpus = timeline
        .devices
        .iter()
        .flat_map(|device| name(device.id, &device.name, &format!("GPU {}", device.id)));
    programs.chain(gpus).collect()
}

/// Times relative to a base.
struct RelativeClock {
    base_ns: u64,
}

impl RelativeClock {
    /// Microseconds since the base.
    fn since_base(&self, ns: u64) -> f64 {
        microseconds(ns.saturating_sub(self.base_ns))
    }

    /// An event: complete with a duration, instant without.
    fn event(&self, begin_ns: u64, duration_ns: Option<u64>) -> Value {
        let ts = self.since_base(begin_ns);
        match duration_ns {
            Some(duration) => json!({ "ph": "X", "ts": ts, "dur": microseconds(duration) }),
            None => json!({ "ph": "i", "s": "t", "ts": ts }),
        }
    }

    fn call(&self, call: &TimelineCall) -> Value {
        let begin = unsigned(call.begin_ns);
        let event = self.event(begin, call.end_ns.map(|end| unsigned(end).saturating_sub(begin)));
        let category = if call.kind == "region" { "user_annotation" } else { "cpu_op" };
        let arguments = json!({
            "External id": call.op_id, "Sequence number": call.sequence_number, "phase": call.phase, "step": call.step,
            "module": call.module_path, "line": call.line,
        });
        described(event, category, &call.name, (call.process_id, call.thread_id.into()), arguments)
    }

    /// The launch call, its kernel, and the flow between them. A kernel without a call stands alone.
    fn launch(&self, launch: &TimelineLaunch, stall: Option<&Map<String, Value>>) -> Vec<Value> {
        let Some(begin) = launch.begin_ns() else { return Vec::new() };
        // Readers take 0 for "no correlation".
        let correlation = launch.kernel_id + 1;
        let cpu = (launch.process_id, launch.thread_id.unwrap_or(0).into());
        let gpu = (launch.device_id, launch.stream_id.unwrap_or(0).into());
        let arguments = json!({
            "External id": launch.op_id, "device": launch.device_id, "stream": launch.stream_id, "correlation": correlation,
            "registers per thread": launch.register_count,
            "shared memory": launch.static_shared_bytes.zip(launch.dynamic_shared_bytes).map(|(fixed, dynamic)| u64::from(fixed) + u64::from(dynamic)),
            "grid": launch.grid(), "block": launch.block(),
            "est. achieved occupancy %": launch.occupancy.map(|part| 100.0 * part),
            "graph id": launch.graph_id, "graph node id": launch.graph_node,
            "samples": launch.samples, "memory samples": launch.memory_samples, "stall": stall, "line": launch.line,
        });
        let kernel = described(self.event(begin, launch.duration()), "kernel", launch.name(), gpu, arguments);
        let Some(called) = launch.call_begin_ns.map(unsigned) else { return vec![kernel] };
        let duration = launch.call_end_ns.map(|end| unsigned(end).saturating_sub(called));
        let arguments = json!({ "External id": launch.op_id, "correlation": correlation });
        let call =
            described(self.event(called, duration), "cuda_runtime", "cudaLaunchKernel", cpu, arguments);
        let flow = |ph: &str, (pid, tid): (i64, i64), ns: u64| {
            let ts = self.since_base(ns);
            json!({ "ph": ph, "bp": "e", "id": correlation, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g" })
        };
        vec![call, kernel, flow("s", cpu, called), flow("f", gpu, begin)]
    }

    fn copy(&self, copy: &TimelineCopy) -> Value {
        let is_fill = copy.kind == "fill";
        let category = if is_fill { "gpu_memset" } else { "gpu_memcpy" };
        let name = copy
            .direction
            .as_ref()
            .map_or_else(|| "Memset".to_owned(), |kind| format!("Memcpy {}", direction(kind)));
        let arguments = json!({ "External id": copy.op_id, "device": copy.device_id, "bytes": copy.size_bytes, "stream": copy.stream_id });
        let begin = unsigned(copy.begin_ns);
        let event = self.event(begin, copy.end_ns.map(|end| unsigned(end).saturating_sub(begin)));
        // Without a time on the GPU, the event stays with its process.
        let lane =
            if copy.end_ns.is_some() { copy.device_id.unwrap_or(copy.process_id) } else { copy.process_id };
        described(event, category, &name, (lane, copy.stream_id.unwrap_or(0).into()), arguments)
    }
}

/// The direction of a copy, as the profiler abbreviates it.
fn direction(kind: &str) -> &str {
    match kind {
        "host_to_device" => "HtoD",
        "device_to_host" => "DtoH",
        "device_to_device" => "DtoD",
        other => other,
    }
}

fn microseconds(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// An event with its names. Arguments without a value are left out, as the profiler does.
fn described(
    mut event: Value,
    category: &str,
    name: &str,
    (pid, tid): (i64, i64),
    arguments: Value,
) -> Value {
    let mut known = arguments;
    if let Some(known) = known.as_object_mut() {
        known.retain(|_, value| !value.is_null());
    }
    if let Some(event) = event.as_object_mut() {
        let parts = [
            ("cat", json!(category)),
            ("name", json!(name)),
            ("pid", json!(pid)),
            ("tid", json!(tid)),
            ("args", known),
        ];
        event.extend(parts.map(|(key, value)| (key.to_owned(), value)));
    }
    event
}
