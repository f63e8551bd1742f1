//! Chrome trace events in the shape of PyTorch's profiler: categories and arguments that its readers know.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;

use crate::round::unsigned;
use crate::source::{ExportSource, FileFormat, gzip, json as document};
use crate::timeline::{
    CaptureTimeline, LaunchReason, TimelineCall, TimelineCopy, TimelineLaunch, TimelineRanks,
};

mod arguments;
mod correlation;
mod kernels;
mod lanes;
mod regions;
mod waits;

use arguments::{CollectiveArgs, inputs};
use correlation::CallCorrelations;
use kernels::{KernelSpan, KernelSpans};
use lanes::LaneProcess;
use waits::TimelineWait;

/// Kineto's trace.
pub(crate) const FORMAT: FileFormat = FileFormat {
    queries: &[
        queries::LAUNCHES,
        queries::CALLS,
        queries::COPIES,
        queries::WAITS,
        queries::PROGRAM,
        queries::DEVICES,
        queries::LOSSES,
        queries::CLOCKS,
        queries::MOMENTS,
        queries::REASONS,
        queries::INPUTS,
        queries::COLLECTIVES,
    ],
    write,
};

/// Nanoseconds of a second: the base of times is a whole second, and times after it fit a double.
const SECOND_NS: u64 = 1_000_000_000;

/// Arguments of launches or ops, by their numbers.
type ArgumentsById = BTreeMap<u64, Map<String, Value>>;

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let timeline = CaptureTimeline::read(source)?;
    let spans = KernelSpans::from_timeline(&timeline)?;
    let mut more = ArgumentsById::new();
    for row in source.read::<LaunchReason>(queries::REASONS)? {
        let own = more.entry(row.kernel_id).or_default();
        let stall = own.entry("stall").or_insert_with(|| json!({}));
        if let Some(stall) = stall.as_object_mut() {
            stall.insert(row.name, json!(row.samples));
        }
    }
    for row in source.read::<CollectiveArgs>(queries::COLLECTIVES)? {
        more.entry(row.kernel_id).or_default().extend(row.arguments());
    }
    let inputs = inputs(source.read(queries::INPUTS)?);
    let calls = CallCorrelations::from_timeline(&timeline);
    let base_ns = timeline.begin_ns() / SECOND_NS * SECOND_NS;
    let clock = RelativeClock { base_ns, ranks: &timeline.ranks };
    let mut events = lanes::names(&timeline);
    events.extend(timeline.calls.iter().map(|call| clock.call(call, inputs.get(&call.op_id))));
    timeline.launches.iter().filter(|launch| !launch.is_unseen(&timeline.clocks)).for_each(|launch| {
        let more = more.get(&launch.kernel_id);
        events.extend(clock.launch(launch, &calls, spans.get(launch.kernel_id), more));
    });
    let copies = timeline.copies.iter().enumerate();
    copies.for_each(|(place, copy)| events.extend(clock.copy(copy, calls.copy(copy, place))));
    let waits = source.read::<TimelineWait>(queries::WAITS)?;
    let waits = waits.iter().filter(|wait| timeline.clocks.is_clock(wait.run_id));
    events.extend(waits.map(|wait| clock.wait(wait)));
    events.extend(clock.regions(&timeline));
    let mut facts = timeline.facts();
    facts.extend(spans.facts());
    let mut trace = json!({
        "schemaVersion": 1,
        "deviceProperties": devices(&timeline),
        "displayTimeUnit": "ms",
        "baseTimeNanoseconds": clock.base_ns,
        "stallmap": facts,
        "traceEvents": events,
    });
    if let Some(trace) = trace.as_object_mut() {
        trace.extend(process_facts(&timeline));
    }
    gzip(&document(&trace)?)
}

/// Facts of the first process. With several ranks each event names its own.
fn process_facts(timeline: &CaptureTimeline) -> Map<String, Value> {
    let Some(process) = timeline.processes.first() else { return Map::new() };
    let version = process.cuda_version.map(|version| ("cuda_driver_version".to_owned(), json!(version)));
    let mut facts = Map::from_iter(version);
    if let Some(rank) = process.rank.filter(|_| !timeline.ranks.are_several()) {
        let info = json!({ "backend": "nccl", "rank": rank, "world_size": process.world_size });
        facts.insert("distributedInfo".to_owned(), info);
    }
    facts
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

/// Times relative to a base, and the ranks of processes.
struct RelativeClock<'a> {
    base_ns: u64,
    ranks: &'a TimelineRanks,
}

impl RelativeClock<'_> {
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

    fn call(&self, call: &TimelineCall, inputs: Option<&Map<String, Value>>) -> Value {
        let begin = unsigned(call.begin_ns);
        let event = self.event(begin, call.end_ns.map(|end| unsigned(end).saturating_sub(begin)));
        let category = if call.kind == "region" { "user_annotation" } else { "cpu_op" };
        let mut arguments = json!({
            "External id": call.op_id, "Sequence number": call.sequence_number, "phase": call.phase, "step": call.step,
            "module": call.module_path, "line": call.line,
        });
        extend(&mut arguments, inputs);
        let process = self.lane(call.run_id, call.process_id);
        described(event, category, &call.name, (process, call.thread_id.into()), arguments)
    }

    /// The launch call, its kernel, and the flow between them. A kernel without a call stands alone, and kernels of one
    /// graph launch have one call.
    fn launch(
        &self,
        launch: &TimelineLaunch,
        calls: &CallCorrelations,
        span: Option<&KernelSpan>,
        more: Option<&Map<String, Value>>,
    ) -> Vec<Value> {
        let (correlation, is_first, is_graph) = calls.launch(launch);
        let process = self.lane(launch.run_id, launch.process_id);
        let gpu = (process.gpu(launch.device_id), launch.stream_id.unwrap_or(0).into());
        let mut arguments = json!({
            "External id": launch.op_id, "device": launch.device_id, "stream": launch.stream_id, "correlation": correlation,
            "registers per thread": launch.register_count,
            "shared memory": launch.static_shared_bytes.zip(launch.dynamic_shared_bytes).map(|(fixed, dynamic)| u64::from(fixed) + u64::from(dynamic)),
            "grid": launch.grid(), "block": launch.block(),
            "est. achieved occupancy %": launch.occupancy.map(|part| 100.0 * part),
            "graph id": launch.graph_id, "graph node id": launch.graph_node,
            "samples": launch.samples, "memory samples": launch.memory_samples, "line": launch.line,
            "duration": span.and_then(|span| span.source),
        });
        extend(&mut arguments, more);
        let name = launch.traced_kernel.as_deref().unwrap_or(launch.name());
        let kernel = span.map(|span| {
            let event = self.event(span.begin_ns, Some(span.duration_ns));
            described(event, "kernel", name, gpu, arguments)
        });
        let mut events = Vec::from_iter(kernel);
        let Some(called) = launch.call_begin_ns else { return events };
        let lane = (process, launch.thread_id.unwrap_or(0).into());
        let name = if is_graph { "cudaGraphLaunch" } else { "cudaLaunchKernel" };
        let name = launch.call_name.as_deref().unwrap_or(name);
        let call = ChromeCall { name, lane, begin_ns: called, end_ns: launch.call_end_ns };
        if is_first {
            events.extend(self.host_call(&call, launch.op_id, correlation));
        }
        events.extend(span.map(|span| self.flow("f", gpu, span.begin_ns, correlation)));
        events
    }

    /// A call of the runtime, and the begin of its flow.
    fn host_call(&self, call: &ChromeCall<'_>, op_id: Option<u64>, correlation: u64) -> [Value; 2] {
        let begin = unsigned(call.begin_ns);
        let event = self.event(begin, call.end_ns.map(|end| unsigned(end).saturating_sub(begin)));
        let arguments = json!({ "External id": op_id, "correlation": correlation });
        let event = described(event, "cuda_runtime", call.name, call.lane, arguments);
        [event, self.flow("s", call.lane, begin, correlation)]
    }

    fn flow(&self, ph: &str, (pid, tid): (LaneProcess, i64), ns: u64, correlation: u64) -> Value {
        let (pid, ts) = (pid.value(), self.since_base(ns));
        json!({ "ph": ph, "bp": "e", "id": correlation, "pid": pid, "tid": tid, "ts": ts, "cat": "ac2g", "name": "ac2g" })
    }

    /// A copy or fill, with its call if that is known.
    fn copy(&self, copy: &TimelineCopy, (correlation, is_first): (u64, bool)) -> Vec<Value> {
        let is_fill = copy.kind == "fill";
        let category = if is_fill { "gpu_memset" } else { "gpu_memcpy" };
        let process = self.lane(copy.run_id, copy.process_id);
        let name = if is_fill { "cudaMemsetAsync" } else { "cudaMemcpyAsync" };
        let call = copy.call_begin_ns.map(|begin_ns| ChromeCall {
            name: copy.call_name.as_deref().unwrap_or(name),
            lane: (process, copy.thread_id.unwrap_or(0).into()),
            begin_ns,
            end_ns: copy.call_end_ns,
        });
        let begin = unsigned(copy.begin_ns);
        let length = copy.end_ns.map(|end| unsigned(end).saturating_sub(begin));
        let rate = copy.size_bytes.zip(length.filter(|length| *length > 0));
        let arguments = json!({
            "External id": copy.op_id, "device": copy.device_id, "bytes": copy.size_bytes, "stream": copy.stream_id,
            "correlation": call.as_ref().map(|_| correlation),
            "memory bandwidth (GB/s)": rate.map(|(bytes, length)| bytes as f64 / length as f64),
        });
        let event = self.event(begin, length);
        // Without a time on the GPU, the event stays with its process.
        let device = copy.end_ns.and(copy.device_id);
        let lane = device.map_or(process, |device| process.gpu(device));
        let lane = (lane, copy.stream_id.unwrap_or(0).into());
        let mut events = vec![described(event, category, &copy.name(), lane, arguments)];
        if let Some(call) = call {
            if is_first {
                events.extend(self.host_call(&call, copy.op_id, correlation));
            }
            events.push(self.flow("f", lane, begin, correlation));
        }
        events
    }
}

/// A call of the runtime.
struct ChromeCall<'a> {
    name: &'a str,
    /// Process and thread.
    lane: (LaneProcess, i64),
    begin_ns: i64,
    end_ns: Option<i64>,
}

/// Adds arguments.
fn extend(arguments: &mut Value, more: Option<&Map<String, Value>>) {
    if let Some((arguments, more)) = arguments.as_object_mut().zip(more) {
        arguments.extend(more.iter().map(|(name, value)| (name.clone(), value.clone())));
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
    (pid, tid): (LaneProcess, i64),
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
            ("pid", pid.value()),
            ("tid", json!(tid)),
            ("args", known),
        ];
        event.extend(parts.map(|(key, value)| (key.to_owned(), value)));
    }
    event
}
