//! Traces of PyTorch's profiler (Kineto): Chrome trace events in JSON, of all releases.

mod arrows;
pub(crate) mod category;
mod collective;
mod event;
mod finish;
pub(crate) mod graph;
mod inputs;
mod left;
mod memory;
mod modules;
mod owner;
pub(crate) mod packets;
mod slices;
mod split;
pub(crate) mod tables;
#[cfg(test)]
mod tests;
mod written;

use std::collections::HashSet;
use std::hash::Hash;
use std::io::Read;
use std::path::Path;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::json::JsonStream;
use stallmap_schema::word::{ActivityKind, LossKind, OpKind, Phase, SynchronizationKind};

use self::arrows::ForwardArrows;
use self::category::{EventCategory, direction, host_wait, wait};
use self::event::{EventArguments, ThreadNumbers, TraceEvent};
use self::left::OmittedEvents;
use self::modules::ModuleCalls;
use self::owner::{CalledKernel, TraceOwners};
use self::split::SplitSpans;
use self::written::WrittenStacks;
use crate::join::{join_steps, phase, phase_of_range};
use crate::model::{
    InputValue, OpDetails, TraceActivity, TraceCall, TraceDevice, TraceKernel, TraceModel, TraceOp,
};
use crate::stacks::FrameFunctions;

/// Events of a trace. They take up to 4 GiB of memory.
const MAX_EVENTS: usize = 1 << 24;
/// Levels of documents within other ones.
const MAX_INNER: u32 = 4;
/// Members of a document that can stand in front of its events.
const HEADS: [&str; 5] =
    ["schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "traceEvents"];

/// A trace while it is read. Times are relative to its base, which may stand behind the events.
#[derive(Default)]
struct KinetoReader {
    trace: TraceModel,
    base_ns: i64,
    threads: ThreadNumbers,
    names: HashSet<Rc<str>>,
    /// Inputs of ops: calls with equal shapes share them.
    inputs: HashSet<Rc<[InputValue]>>,
    owners: TraceOwners,
    /// Groups of processes of kernels and of other work, by their places.
    kernel_groups: Vec<usize>,
    work_groups: Vec<usize>,
    /// Proton's call stacks of kernels, by their places. Equal ones are shared.
    call_stacks: Vec<(usize, Rc<[String]>)>,
    known_call_stacks: HashSet<Rc<[String]>>,
    rank: Option<u32>,
    world_size: Option<u32>,
    cuda_version: Option<i32>,
    /// The kernel of calls that name none.
    unnamed: Rc<CalledKernel>,
    has_launch: bool,
    /// Calls that wait for a GPU, by process and correlation.
    waits: Vec<(usize, Option<i64>, SynchronizationKind, TraceCall)>,
    functions: FrameFunctions,
    written: WrittenStacks,
    modules: ModuleCalls,
    memory: memory::AllocatorEvents,
    events: usize,
    /// Spans whose begin and end stand apart.
    split: SplitSpans,
    arrows: ForwardArrows,
    /// True if the document is an event: a file with one per line.
    is_event: bool,
    /// Documents within this one, as of ranks, and their level.
    inner: Vec<Self>,
    level: u32,
    left: OmittedEvents,
    /// Ops without an end, by their places.
    unended: Vec<usize>,
    /// The profiler that wrote the file, if it is another one.
    other_tool: Option<&'static str>,
}

/// Reads a trace. A file may have several documents, as of several cycles of the profiler.
pub(crate) fn read(json: &mut JsonStream<impl Read>) -> ReadResult<TraceModel> {
    let mut readings: Vec<KinetoReader> = Vec::new();
    json.documents(|json| {
        let mut reading = match readings.pop_if(|last| last.is_event) {
            Some(lines) => lines,
            None => readings.last_mut().map(KinetoReader::next).unwrap_or_default(),
        };
        let result = reading.document(json);
        readings.push(reading);
        result
    })?;
    let documents = readings.into_iter().flat_map(KinetoReader::documents);
    let (traces, empty): (Vec<_>, Vec<_>) =
        documents.map(|reading| reading.checked(json.path())).partition(Result::is_ok);
    let count = traces.len();
    let joined = traces.into_iter().flatten().reduce(|mut trace, other| {
        let rank = |trace: &TraceModel| trace.processes.first().and_then(|process| process.rank);
        // Ranks have clocks of their own, also in one file.
        let append = if rank(&trace) == rank(&other) { TraceModel::append } else { TraceModel::append_file };
        append(&mut trace, other);
        trace
    });
    let Some(mut trace) = joined else {
        return empty.into_iter().next().unwrap_or_else(|| KinetoReader::default().checked(json.path()));
    };
    if count > 1 {
        // Steps go on in the next document.
        join_steps(&mut trace);
        trace.facts.insert("kineto.documents".to_owned(), count.to_string());
    }
    Ok(trace)
}

/// Joins two traces: a graph and its capture, or the processes of one program.
pub(crate) fn join(first: TraceModel, second: TraceModel) -> ReadResult<TraceModel> {
    if graph::is_pair(&first, &second) {
        return Ok(graph::join(first, second));
    }
    if graph::is_pair(&second, &first) {
        return Ok(graph::join(second, first));
    }
    crate::join_processes(first, second)
}

impl KinetoReader {
    /// The reading of the next document: threads and bounds are those of the file.
    fn next(&mut self) -> Self {
        Self { threads: std::mem::take(&mut self.threads), events: self.events, ..Self::default() }
    }

    /// The document, and those within it.
    fn documents(mut self) -> Vec<Self> {
        let inner = std::mem::take(&mut self.inner);
        std::iter::once(self).chain(inner.into_iter().flat_map(Self::documents)).collect()
    }

    fn document(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        if json.is_array()? {
            return json.records(|json| self.record(json));
        }
        let mut event = TraceEvent::default();
        json.object(|json, key| if event.member(json, key)? { Ok(()) } else { self.member(json, key) })?;
        if event.phase.is_empty() {
            return Ok(());
        }
        self.is_event = true;
        self.add(event)
    }

    /// The reading of a document within this one.
    fn child(&mut self) -> Self {
        Self { level: self.level + 1, ..self.next() }
    }

    /// Keeps a document within this one. False for one without a trace.
    fn adopt(&mut self, mut inner: Self) -> bool {
        self.threads = std::mem::take(&mut inner.threads);
        inner.join_split();
        let is_trace = !inner.is_empty() || !inner.inner.is_empty();
        if is_trace {
            self.events = inner.events;
            self.inner.push(inner);
        }
        is_trace
    }

    /// Adds the spans whose begin and end stand apart.
    fn join_split(&mut self) {
        let without = std::mem::take(&mut self.split).join(|event| self.take(event));
        let reason = "spans without an end, or ends without a begin";
        self.trace.losses.add_many(LossKind::Source, reason, without, None);
    }

    /// True without anything of a trace.
    fn is_empty(&self) -> bool {
        self.trace.kernels.is_empty()
            && self.trace.works.is_empty()
            && self.trace.ops.is_empty()
            && !self.has_launch
            && self.memory.is_empty()
    }

    /// The trace. A file without anything of a trace is an error that says what it is.
    fn checked(mut self, path: &Path) -> ReadResult<TraceModel> {
        let path = path.display();
        let hint = "PyTorch's profiler writes traces with `export_chrome_trace`".to_owned();
        self.join_split();
        if !self.is_empty() {
            return Ok(self.finish());
        }
        if let Some(tool) = self.other_tool {
            return Err(ReadError::message(format!("`{path}` is {tool}")).hint(hint));
        }
        let message = match (self.events, self.left.categories().next()) {
            (0, _) => format!("`{path}` has no trace events"),
            (events, None) => format!("`{path}` has {events} events, and none with a time"),
            (events, Some(category)) => format!(
                "`{path}` has {events} events, and none of ops or work of a GPU, but such as of category `{category}`"
            ),
        };
        Err(ReadError::message(message).hint(hint))
    }

    /// A member of the outermost object. Environment blocks are among those that are skipped.
    fn member(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<()> {
        match key {
            "traceEvents" => json.records(|json| self.record(json)),
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
                let mut inner = self.child();
                let result = if self.level < MAX_INNER { inner.document(json) } else { json.skip() };
                if !self.adopt(inner) {
                    let reason = "keys of the imported file that are not read";
                    self.trace.losses.add(LossKind::Source, reason, Some(key));
                }
                result
            }
        }
    }

    fn device(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        let mut device = TraceDevice::default();
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

    /// An element of a list: an event, or a document.
    fn record(&mut self, json: &mut JsonStream<impl Read>) -> ReadResult<()> {
        if !json.is_object()? {
            self.left.others += 1;
            return json.skip();
        }
        let (mut event, mut inner) = (TraceEvent::default(), None);
        let result = json.object(|json, key| match &mut inner {
            None if event.member(json, key)? => Ok(()),
            None if !HEADS.contains(&key) || self.level >= MAX_INNER => json.skip(),
            None => inner.insert(self.child()).member(json, key),
            Some(inner) => inner.member(json, key),
        });
        if let Some(inner) = inner {
            self.adopt(inner);
            return result;
        }
        result?;
        self.add(event)
    }

    /// Counts an event, and adds it.
    fn add(&mut self, event: TraceEvent) -> ReadResult<()> {
        self.events += 1;
        if self.events > MAX_EVENTS {
            let message = format!("the trace has more than {MAX_EVENTS} events");
            return Err(ReadError::message(message).hint("profile fewer steps".to_owned()));
        }
        self.take(event);
        Ok(())
    }

    /// Adds an event.
    fn take(&mut self, event: TraceEvent) {
        match (event.phase.as_str(), EventCategory::from_text(&event.category)) {
            ("X", Some(category)) => {
                self.left.arguments(&event);
                match category {
                    EventCategory::Kernel => self.kernel(event),
                    EventCategory::Work(kind) => self.work(&event, kind),
                    EventCategory::Call => self.call(event),
                    EventCategory::Op => self.op(event, OpKind::Torch),
                    EventCategory::Region => self.op(event, OpKind::Region),
                    EventCategory::Function => self.function(event),
                }
            }
            ("i", _) if event.name == "[memory]" => {
                if memory::AllocatorEvents::is_of_gpu(&event) {
                    let process = self.owners.process(&event.thread.0);
                    let thread = self.threads.number(event.thread.clone());
                    self.memory.add(process, thread, &event);
                } else {
                    self.left.host_memory += 1;
                }
            }
            // Names of lanes, and other arrows: nothing that a table could hold.
            ("M", _) => self.other_tool = self.other_tool.or(other_tool(&event.arguments)),
            ("s" | "f" | "t", _) => self.arrows.add(event, &mut self.threads),
            ("B" | "E" | "b" | "e", _) => self.split.add(event),
            // Some programs end their list with an empty object.
            ("", _) if event.name.is_empty() => {}
            _ => {
                self.other_tool = self.other_tool.or(other_tool(&event.arguments));
                self.left.category(event.category);
            }
        }
    }

    /// The time of an event on its thread.
    fn span(&mut self, event: &TraceEvent) -> Option<TraceCall> {
        let begin_ns = event.begin_ns;
        let Some(begin_ns) = begin_ns else {
            self.left.without_time += 1;
            return None;
        };
        let end_ns = begin_ns.saturating_add(event.duration_ns.unwrap_or(0));
        Some(TraceCall { thread: self.threads.number(event.thread.clone()), begin_ns, end_ns })
    }

    /// A name, which equal ones share.
    fn shared(&mut self, name: String) -> Rc<str> {
        shared(&mut self.names, name)
    }

    fn kernel(&mut self, event: TraceEvent) {
        let Some(call) = self.span(&event) else { return };
        // A kernel that was not measured has a begin only.
        let mut arguments = event.arguments;
        let is_measured = event.duration_ns.is_some() && !arguments.is_estimated;
        let time_ns = is_measured.then_some((call.begin_ns, call.end_ns));
        let ordinal = arguments.device.or(event.thread.0.parse().ok());
        self.kernel_groups.push(self.owners.group(&event.thread.0));
        let name = self.shared(event.name);
        if !arguments.call_stack.is_empty() {
            let call_stack = std::mem::take(&mut arguments.call_stack);
            let call_stack = shared(&mut self.known_call_stacks, call_stack);
            self.call_stacks.push((self.trace.kernels.len(), call_stack));
        }
        self.trace.kernels.push(TraceKernel {
            process: 0,
            name,
            device: ordinal.and_then(|device| i32::try_from(device).ok()).unwrap_or(-1),
            stream: stream(&arguments, &event.thread.1),
            time_ns,
            begin_ns: Some(call.begin_ns),
            grid: arguments.grid,
            block: arguments.block,
            registers: arguments.registers.and_then(|count| u32::try_from(count).ok()),
            // The parts are not known. Only their sum decides how many blocks fit.
            shared_bytes: arguments.shared_bytes.and_then(|bytes| Some((0, u32::try_from(bytes).ok()?))),
            correlation: arguments.correlation.and_then(|number| u64::try_from(number).ok()),
            collective: arguments.collective.map(|arguments| arguments.call().into()),
            ..TraceKernel::default()
        });
    }

    fn work(&mut self, event: &TraceEvent, kind: ActivityKind) {
        let Some(call) = self.span(event) else { return };
        let arguments = &event.arguments;
        self.work_groups.push(self.owners.group(&event.thread.0));
        self.trace.works.push(TraceActivity {
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
            peer: None,
            wait: (kind == ActivityKind::Synchronization).then(|| wait(arguments.wait.as_deref())),
            correlation: arguments.correlation.and_then(|number| u64::try_from(number).ok()),
            call: None,
            call_name: None,
            memory: memory_of(&event.name).map(|memory| shared(&mut self.names, memory.to_owned())),
            op: None,
        });
    }

    fn function(&mut self, event: TraceEvent) {
        let Some(call) = self.span(&event) else { return };
        let name = self.shared(event.name);
        if !self.modules.add(call, &name) {
            self.functions.add(call, &name);
        }
    }

    fn call(&mut self, event: TraceEvent) {
        let process = self.owners.process(&event.thread.0);
        let Some(call) = self.span(&event) else { return };
        let correlation = event.arguments.correlation;
        let wait = host_wait(&event.name);
        if let Some(kind) = wait {
            self.waits.push((process, correlation, kind, call));
        }
        let Some(correlation) = correlation else {
            self.left.uncorrelated += u64::from(wait.is_none());
            return;
        };
        let is_launch = event.name.contains("Launch") && event.name.contains("Kernel");
        self.has_launch |= is_launch;
        let kernel = is_launch.then(|| self.called(event.arguments));
        let name = self.shared(event.name);
        self.owners.call(process, correlation, (name, call), kernel);
    }

    /// The kernel that a launch call names.
    fn called(&self, arguments: EventArguments) -> Rc<CalledKernel> {
        let EventArguments { kernel, grid, block, .. } = arguments;
        if kernel.is_none() && grid.is_none() && block.is_none() {
            return self.unnamed.clone();
        }
        CalledKernel { name: kernel.map(Into::into), grid, block }.into()
    }

    fn op(&mut self, event: TraceEvent, kind: OpKind) {
        let process = self.owners.process(&event.thread.0);
        let Some(call) = self.span(&event) else { return };
        let is_backward = event.arguments.forward_thread.is_some_and(|thread| thread != 0);
        let phase = match kind {
            _ if is_backward => Phase::Backward,
            OpKind::Region => phase_of_range(&event.name),
            _ => phase(&event.name),
        };
        let has_end = event.duration_ns.is_some() || event.is_of_wrong_length;
        self.unended.extend((!has_end).then_some(self.trace.ops.len()));
        let name = self.shared(event.name);
        let EventArguments {
            sequence,
            forward_thread,
            record,
            external,
            inputs,
            collective,
            python_stack,
            ..
        } = event.arguments;
        let (inputs, cut) = inputs.values();
        self.left.long_inputs += cut;
        let details = OpDetails {
            sequence,
            forward_thread: forward_thread.and_then(|thread| u32::try_from(thread).ok()?.try_into().ok()),
            record: record.or(external),
            inputs: (!inputs.is_empty()).then(|| shared(&mut self.inputs, inputs)),
            collective: collective.map(|arguments| arguments.call().into()),
            ..OpDetails::default()
        };
        let stack = python_stack.map(|stack| self.written.place(stack)).unwrap_or_default();
        let op = TraceOp { process, stack, phase, ..TraceOp::for_call(call, kind, name) };
        self.trace.ops.push(op.with_details(details));
    }
}

/// A value, which equal ones share.
fn shared<T: ?Sized + Eq + Hash>(known: &mut HashSet<Rc<T>>, value: impl AsRef<T> + Into<Rc<T>>) -> Rc<T> {
    if let Some(known) = known.get(value.as_ref()) {
        return known.clone();
    }
    let value: Rc<T> = value.into();
    known.insert(value.clone());
    value
}

/// The memory of both sides of a copy, from a name such as `Memcpy HtoD (Pageable -> Device)`.
fn memory_of(name: &str) -> Option<&str> {
    let (_, sides) = name.split_once('(')?;
    sides.strip_suffix(')').filter(|sides| sides.contains("->"))
}

/// The stream: by argument, else the lane, as `7` or `stream 7`.
fn stream(arguments: &EventArguments, lane: &str) -> u64 {
    let lane = || lane.trim_start_matches(|letter: char| !letter.is_ascii_digit()).parse().ok();
    arguments.stream.or_else(lane).and_then(|stream| u64::try_from(stream).ok()).unwrap_or(0)
}

/// Another profiler of whose traces an event has the marks.
fn other_tool(arguments: &EventArguments) -> Option<&'static str> {
    let is_xla = |label: &str| label.starts_with("/device:") || label.starts_with("/host:CPU");
    if arguments.label.as_deref().is_some_and(is_xla) {
        Some("a trace of XLA (JAX or TensorFlow) as JSON: import the `.xplane.pb` that lies next to it")
    } else if arguments.is_of_rocprof {
        Some(
            "a trace of rocprof 1 or 2, which is not imported: record it with `rocprofv3 --output-format json`",
        )
    } else {
        None
    }
}
