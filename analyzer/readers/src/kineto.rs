//! Traces of PyTorch's profiler (Kineto): Chrome trace events in JSON, of all releases.

mod event;
pub(crate) mod graph;
mod memory;
pub(crate) mod packets;
mod slices;
mod stacks;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Read;

use stallmap_console::exit::{Failure, IO, Outcome};
use stallmap_formats::input::Input;
use stallmap_formats::json::Json;
use stallmap_schema::word::{
    ActivityKind, CopyKind, Instrument, LossKind, OpKind, Phase, SynchronizationKind,
};

use self::event::{Event, Threads};
use self::stacks::Functions;
use crate::join::{join_ops, shift, span};
use crate::model::{Call, Device, Kernel, Op, Pending, Process, Trace, Work};
use crate::nest::{Span, enclosing};

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
    /// Calls that launch one kernel, by correlation.
    launches: Vec<(i64, Pending)>,
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
        self.take(event);
        Ok(())
    }

    /// Adds an event.
    fn take(&mut self, event: Event) {
        match (event.phase.as_str(), event.category.as_str()) {
            ("X", "kernel") => self.kernel(event),
            ("X", "gpu_memcpy" | "gpu_memset" | "cuda_sync") => self.work(&event),
            ("X", "cuda_runtime" | "cuda_driver") => self.call(event),
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
        // A kernel that was not measured has a begin only.
        let time_ns = event.duration_ns.map(|_| (call.begin_ns, call.end_ns));
        let arguments = event.arguments;
        let ordinal = arguments.device.or(event.thread.0.parse().ok());
        self.trace.kernels.push(Kernel {
            process: 0,
            name: event.name.into(),
            device: ordinal.and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
            stream: stream(&arguments, &event.thread.1),
            time_ns,
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

    fn call(&mut self, event: Event) {
        self.process = self.process.or_else(|| event.thread.0.parse().ok());
        let Some((correlation, call)) = event.arguments.correlation.zip(self.span(&event)) else { return };
        self.calls.insert(correlation, call);
        if event.name.contains("Launch") && event.name.contains("Kernel") {
            let Event { arguments, .. } = event;
            let name = arguments.kernel.map(Into::into);
            let pending = Pending { call, name, grid: arguments.grid, block: arguments.block, op: None };
            self.launches.push((correlation, pending));
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
            reference: None,
        });
        self.join_calls();
        join_ops(&mut self.trace);
        self.join_pending();
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

    /// Keeps the launch calls without a kernel, each with the op around it.
    fn join_pending(&mut self) {
        let seen: HashSet<u64> = self.trace.kernels.iter().filter_map(|kernel| kernel.correlation).collect();
        let is_seen = |number: i64| u64::try_from(number).is_ok_and(|number| seen.contains(&number));
        self.launches.retain(|(number, _)| !is_seen(*number));
        self.launches.sort_by_key(|(_, pending)| pending.call.begin_ns);
        let spans: Vec<Span> = self.trace.ops.iter().map(|op| span(op.call)).collect();
        let point = |call: Call| Span { end_ns: call.begin_ns, ..span(call) };
        let points: Vec<Span> = self.launches.iter().map(|(_, pending)| point(pending.call)).collect();
        let launches = std::mem::take(&mut self.launches).into_iter().zip(enclosing(&spans, &points));
        self.trace.pending = launches.map(|((_, pending), op)| Pending { op, ..pending }).collect();
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
