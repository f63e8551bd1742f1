//! Traces of PyTorch's profiler (Kineto): Chrome trace events in JSON, of all releases.

mod event;
mod memory;
mod stacks;

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use stallmap_console::exit::{Failure, IO, Outcome};
use stallmap_schema::word::{
    ActivityKind, CopyKind, Instrument, LossKind, OpKind, Phase, SynchronizationKind,
};

use self::event::{Event, Threads};
use self::stacks::Functions;
use crate::input::Input;
use crate::json::Json;
use crate::model::{Call, Device, Kernel, Op, Process, Trace, Work};
use crate::nest::{Span, enclosing, parents};

/// Most events of a trace.
const MOST_EVENTS: usize = 50_000_000;

/// A trace while it is read. Times are relative to its base, which may stand behind the events.
#[derive(Default)]
struct Reading {
    trace: Trace,
    base_ns: i64,
    threads: Threads,
    process: Option<u32>,
    rank: Option<u32>,
    world_size: Option<u32>,
    cuda_version: Option<i32>,
    calls: HashMap<i64, Call>,
    functions: Functions,
    memory: memory::Events,
    events: usize,
    unread: BTreeMap<String, u64>,
    without_time: u64,
}

/// Reads a trace.
pub(crate) fn read(input: &Input) -> Outcome<Trace> {
    let mut json = Json::new(input.open_json()?, &input.path);
    let mut reading = Reading::default();
    if json.is_array()? {
        json.array(|json| reading.event(json))?;
    } else {
        json.object(|json, key| reading.member(json, key))?;
    }
    if reading.events == 0 {
        return Err(Failure::message(IO, format!("`{}` has no trace events", input.path.display()))
            .hint("PyTorch's profiler writes them with `export_chrome_trace`".to_owned()));
    }
    Ok(reading.finish())
}

impl Reading {
    /// A member of the outermost object. Environment blocks are among those that are skipped.
    fn member(&mut self, json: &mut Json<impl Read>, key: &str) -> Outcome<()> {
        match key {
            "traceEvents" => json.array(|json| self.event(json)),
            "baseTimeNanoseconds" => json.integer().map(|base| self.base_ns = base.unwrap_or(0)),
            "deviceProperties" => json.array(|json| self.device(json)),
            "distributedInfo" => json.object(|json, key| {
                match key {
                    "rank" => self.rank = json.integer()?.and_then(|rank| u32::try_from(rank).ok()),
                    "world_size" => {
                        self.world_size = json.integer()?.and_then(|size| u32::try_from(size).ok());
                    }
                    _ => json.skip()?,
                }
                Ok(())
            }),
            "cuda_driver_version" => {
                self.cuda_version = json.integer()?.and_then(|version| i32::try_from(version).ok());
                Ok(())
            }
            "schemaVersion"
            | "cuda_runtime_version"
            | "hip_runtime_version"
            | "cupti_version"
            | "roctracer_version"
            | "record_shapes"
            | "with_stack"
            | "with_modules"
            | "with_flops"
            | "profile_memory" => {
                let fact = json.scalar()?;
                self.trace.facts.extend(fact.map(|fact| (format!("kineto.{key}"), fact)));
                Ok(())
            }
            _ => {
                self.trace.losses.add(LossKind::Source, "keys of the imported file that are not read", None);
                json.skip()
            }
        }
    }

    fn device(&mut self, json: &mut Json<impl Read>) -> Outcome<()> {
        let mut device = Device::default();
        let small = |value: Option<i64>| value.and_then(|value| i32::try_from(value).ok()).unwrap_or(0);
        json.object(|json, key| {
            match key {
                "id" => device.ordinal = small(json.integer()?),
                "name" => device.name = json.scalar()?.unwrap_or_default(),
                "computeMajor" => device.compute.0 = small(json.integer()?),
                "computeMinor" => device.compute.1 = small(json.integer()?),
                "numSms" => device.multiprocessors = small(json.integer()?),
                "totalGlobalMem" => {
                    device.memory_bytes =
                        json.integer()?.and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
                }
                _ => json.skip()?,
            }
            Ok(())
        })?;
        self.trace.devices.push(device);
        Ok(())
    }

    fn event(&mut self, json: &mut Json<impl Read>) -> Outcome<()> {
        let event = Event::read(json)?;
        self.events += 1;
        if self.events > MOST_EVENTS {
            let message = format!("the trace has more than {MOST_EVENTS} events");
            return Err(Failure::message(IO, message).hint("profile fewer steps".to_owned()));
        }
        match (event.phase.as_str(), event.category.as_str()) {
            ("X", "kernel") => self.kernel(event),
            ("X", "gpu_memcpy" | "gpu_memset" | "cuda_sync") => self.work(&event),
            ("X", "cuda_runtime" | "cuda_driver") => self.call(&event),
            ("X", "cpu_op" | "user_annotation") => self.op(event),
            ("X", "python_function") => {
                if let Some(call) = self.span(&event) {
                    self.functions.add(call, &event.name);
                }
            }
            ("i", "cpu_instant_event") if event.name == "[memory]" => {
                let thread = self.threads.number(event.thread.clone());
                self.memory.add(thread, &event);
            }
            // Names of lanes, and arrows: nothing that a table could hold.
            ("M" | "s" | "f" | "t", _) => {}
            _ => *self.unread.entry(event.category).or_default() += 1,
        }
        Ok(())
    }

    /// The time of an event on its thread.
    fn span(&mut self, event: &Event) -> Option<Call> {
        let begin_ns = event.begin_ns;
        let Some(begin_ns) = begin_ns else {
            self.without_time += 1;
            return None;
        };
        let end_ns = begin_ns.saturating_add(event.duration_ns.unwrap_or(0).max(0));
        Some(Call { thread: self.threads.number(event.thread.clone()), begin_ns, end_ns })
    }

    fn kernel(&mut self, event: Event) {
        let Some(call) = self.span(&event) else { return };
        let arguments = event.arguments;
        let ordinal = arguments.device.or(event.thread.0.parse().ok());
        self.trace.kernels.push(Kernel {
            process: 0,
            name: event.name.into(),
            device: ordinal.and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
            stream: stream(&arguments, &event.thread.1),
            time_ns: Some((call.begin_ns, call.end_ns)),
            grid: arguments.grid,
            block: arguments.block,
            registers: arguments.registers.and_then(|count| u32::try_from(count).ok()),
            shared_bytes: None,
            correlation: arguments.correlation.and_then(|number| u64::try_from(number).ok()),
            call: None,
            op: None,
            ..Kernel::default()
        });
    }

    fn work(&mut self, event: &Event) {
        let Some(call) = self.span(event) else { return };
        let arguments = &event.arguments;
        let kind = match event.category.as_str() {
            "gpu_memcpy" => ActivityKind::Copy,
            "gpu_memset" => ActivityKind::Fill,
            _ => ActivityKind::Synchronization,
        };
        self.trace.works.push(Work {
            process: 0,
            kind,
            device: arguments
                .device
                .and_then(|device| i32::try_from(device).ok())
                .filter(|device| *device >= 0),
            stream: arguments.stream.and_then(|stream| u64::try_from(stream).ok()),
            begin_ns: call.begin_ns,
            end_ns: Some(call.end_ns),
            bytes: arguments.bytes.and_then(|bytes| u64::try_from(bytes).ok()),
            copy: (kind == ActivityKind::Copy).then(|| direction(&event.name)),
            wait: (kind == ActivityKind::Synchronization).then(|| wait(arguments.wait.as_deref())),
            correlation: arguments.correlation.and_then(|number| u64::try_from(number).ok()),
        });
    }

    fn call(&mut self, event: &Event) {
        self.process = self.process.or_else(|| event.thread.0.parse().ok());
        let correlation = event.arguments.correlation;
        if let (Some(correlation), Some(call)) = (correlation, self.span(event)) {
            self.calls.insert(correlation, call);
        }
    }

    fn op(&mut self, event: Event) {
        self.process = self.process.or_else(|| event.thread.0.parse().ok());
        let Some(call) = self.span(&event) else { return };
        let is_region = event.category == "user_annotation";
        self.trace.ops.push(Op {
            process: 0,
            call,
            kind: if is_region { OpKind::Region } else { OpKind::Torch },
            phase: phase(&event.name, &event.arguments),
            name: event.name,
            parent: None,
            sequence: event.arguments.sequence,
            forward: None,
            stack: None,
            record: event.arguments.record.or(event.arguments.external),
        });
    }

    /// The trace with everything that needs all events: calls, enclosing ops, stacks, lifetimes, and the base of times.
    fn finish(mut self) -> Trace {
        self.trace.tool = "kineto";
        self.trace.processes.push(Process {
            number: self.process.unwrap_or(0),
            program: String::new(),
            instrument: Instrument::Timeline,
            rank: self.rank,
            world_size: self.world_size,
            cuda_version: self.cuda_version,
        });
        self.join_calls();
        join_ops(&mut self.trace);
        std::mem::take(&mut self.functions).join(&mut self.trace);
        std::mem::take(&mut self.memory).join(&mut self.trace);
        shift(&mut self.trace, self.base_ns);
        self.count_losses();
        self.trace
    }

    /// Gives kernels their launch calls. Kernels from before the trace have none.
    fn join_calls(&mut self) {
        for kernel in &mut self.trace.kernels {
            let correlation = kernel.correlation.and_then(|number| i64::try_from(number).ok());
            kernel.call = correlation.and_then(|number| self.calls.get(&number)).copied();
        }
    }

    fn count_losses(&mut self) {
        let losses = &mut self.trace.losses;
        let kernels = &self.trace.kernels;
        let without =
            |is: &dyn Fn(&Kernel) -> bool| kernels.iter().filter(|kernel| is(kernel)).count() as u64;
        losses.add_many(
            LossKind::Source,
            "kernels without a launch call in the trace: launched before it began",
            without(&|kernel| kernel.call.is_none()),
            None,
        );
        let shapeless = without(&|kernel| kernel.grid.is_none() || kernel.block.is_none());
        losses.add_many(LossKind::Source, "kernels without grid and block, written as 0", shapeless, None);
        losses.add_many(LossKind::Source, "events without a time", self.without_time, None);
        for (category, count) in &self.unread {
            let category = if category.is_empty() { "(none)" } else { category };
            losses.add_many(LossKind::Source, "events of other categories", *count, Some(category));
        }
        let parts =
            ["stall samples", "memory accesses", "machine code", "tensors with addresses", "optimizer steps"];
        for part in parts {
            losses.lacks(part);
        }
        losses.lacks("clocks and L2 size of GPUs, written as 0");
    }
}

/// The stream: by argument, else the lane.
fn stream(arguments: &event::Arguments, lane: &str) -> u64 {
    let lane = || lane.parse().ok();
    arguments.stream.or_else(lane).and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0)
}

fn direction(name: &str) -> CopyKind {
    let kinds = [
        ("HtoD", CopyKind::HostToDevice),
        ("DtoH", CopyKind::DeviceToHost),
        ("DtoD", CopyKind::DeviceToDevice),
    ];
    kinds.into_iter().find(|(word, _)| name.contains(word)).map_or(CopyKind::Other, |(_, kind)| kind)
}

fn wait(kind: Option<&str>) -> SynchronizationKind {
    match kind {
        Some("Event Sync") => SynchronizationKind::Event,
        Some("Stream Wait Event") => SynchronizationKind::StreamWaitEvent,
        Some("Stream Sync") => SynchronizationKind::Stream,
        Some("Context Sync") => SynchronizationKind::Context,
        _ => SynchronizationKind::Other,
    }
}

fn phase(name: &str, arguments: &event::Arguments) -> Phase {
    let is_backward = arguments.forward_thread.is_some_and(|thread| thread != 0);
    if name.starts_with("autograd::engine::evaluate_function") || is_backward {
        Phase::Backward
    } else if name.starts_with("Optimizer.step") {
        Phase::Optimizer
    } else {
        Phase::Forward
    }
}

/// The span of a call.
pub(crate) fn span(call: Call) -> Span {
    Span { thread: call.thread, begin_ns: call.begin_ns, end_ns: call.end_ns }
}

/// Gives ops their parents, phases and forward ops, and kernels the op around their launch call.
///
/// An `External id` of a kernel is not used: in old traces it is the correlation id, and in new ones it names the same op.
pub(crate) fn join_ops(trace: &mut Trace) {
    trace.ops.sort_by_key(|op| (op.call.begin_ns, std::cmp::Reverse(op.call.end_ns), op.call.thread));
    let spans: Vec<Span> = trace.ops.iter().map(|op| span(op.call)).collect();
    for (place, parent) in parents(&spans).into_iter().enumerate() {
        let outer = parent.and_then(|parent| trace.ops.get(parent)).map(|op| op.phase);
        if let Some(op) = trace.ops.get_mut(place) {
            op.parent = parent;
            // Whatever runs inside of backward or of the optimizer belongs to it.
            op.phase = outer.filter(|phase| *phase != Phase::Forward).unwrap_or(op.phase);
        }
    }
    let mut forward: HashMap<i64, usize> = HashMap::new();
    for (place, op) in trace.ops.iter().enumerate() {
        if let (Some(sequence), Phase::Forward) = (op.sequence, op.phase) {
            forward.entry(sequence).or_insert(place);
        }
    }
    for op in trace.ops.iter_mut().filter(|op| op.phase == Phase::Backward) {
        op.forward = op.sequence.and_then(|sequence| forward.get(&sequence)).copied();
    }
    let called: Vec<usize> = (0..trace.kernels.len()).filter(|place| has_call(trace, *place)).collect();
    let point = |call: Call| Span { end_ns: call.begin_ns, ..span(call) };
    let points: Vec<Span> =
        called.iter().filter_map(|place| trace.kernels.get(*place)?.call.map(point)).collect();
    for (place, op) in called.into_iter().zip(enclosing(&spans, &points)) {
        if let Some(kernel) = trace.kernels.get_mut(place) {
            kernel.op = op;
        }
    }
}

fn has_call(trace: &Trace, place: usize) -> bool {
    trace.kernels.get(place).is_some_and(|kernel| kernel.call.is_some())
}

/// Adds the base to all times.
pub(crate) fn shift(trace: &mut Trace, base_ns: i64) {
    let add = |time: &mut i64| *time = time.saturating_add(base_ns);
    let call = |call: &mut Call| {
        add(&mut call.begin_ns);
        add(&mut call.end_ns);
    };
    for kernel in &mut trace.kernels {
        kernel.call.iter_mut().for_each(call);
        kernel.time_ns.iter_mut().for_each(|(begin, end)| {
            add(begin);
            add(end);
        });
    }
    for work in &mut trace.works {
        add(&mut work.begin_ns);
        work.end_ns.iter_mut().for_each(add);
    }
    trace.ops.iter_mut().for_each(|op| call(&mut op.call));
    for storage in &mut trace.storages {
        storage.alloc_ns.iter_mut().chain(&mut storage.free_ns).for_each(add);
    }
}
