//! XPlane: traces of XLA's profiler (JAX, TensorFlow), as protocol buffers.
//!
//! A space has planes: GPUs with their streams, the host with its threads, and a plane with the modules that XLA compiled.
//! Events name their metadata by number. Times are picoseconds from the begin of their line, and lines count from the
//! begin of the profile. A kernel has the number of its launch call, and the instruction of the module that it computes,
//! also in a command buffer (CUDA graph), where the instruction is found by the kernel's name.

mod details;
mod device;
mod host;
mod memory;
mod plane;
mod program;
mod space;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::rc::Rc;

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::proto::{ProtoReader, ProtoValue};
use stallmap_schema::word::{Instrument, LossKind};

use self::plane::{PlaneEvents, StatValue, TracePlane};
use self::program::ModuleTable;
use crate::join::{join_ops, join_steps};
use crate::model::{TraceCall, TraceKernel, TraceModel, TraceProcess};
use crate::stacks::FrameFunctions;

/// Most bytes of a file: protocol buffers have no more.
const MAX_FILE_BYTES: u64 = 2 << 30;
/// Most events of a file.
const MAX_EVENTS: usize = 1 << 24;
/// The tool, as captures name it.
pub(crate) const TOOL: &str = "xprof";

/// Damage of a file: where its messages end before they should.
#[derive(Debug, Default)]
pub(crate) struct SpaceDamage {
    count: u64,
    first: Option<String>,
}

impl SpaceDamage {
    /// Counts one, with its position and reason.
    pub(crate) fn add(&mut self, reason: String) {
        self.count += 1;
        self.first.get_or_insert(reason);
    }
}

/// Launch calls by their number, with the names of those that have one.
type DriverCalls = HashMap<u64, (TraceCall, Option<Rc<str>>)>;

/// Events that are left out, by their reason.
#[derive(Clone, Copy, Debug, Default)]
struct RejectedEvents {
    /// Names are lost.
    unnamed: u64,
    /// The end is before the begin.
    backward: u64,
}

/// A trace while it is read.
#[derive(Default)]
struct SpaceReader {
    trace: TraceModel,
    /// Begin of the profile, nanoseconds since the Unix epoch.
    start_ns: i64,
    process: Option<u32>,
    /// Numbers of processes are those of a host.
    host: String,
    names: HashSet<Rc<str>>,
    calls: DriverCalls,
    /// The instruction of each kernel, by its place: module, program and instruction.
    instructions: Vec<(usize, program::KernelOrigin)>,
    functions: FrameFunctions,
    memory: memory::DeviceAllocations,
    damage: SpaceDamage,
    /// The first plane with events that is not read.
    unread: Option<String>,
    rejected: RejectedEvents,
    events: usize,
}

/// Reads a trace. What is damaged in it is a loss with its position.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let mut bytes = Vec::new();
    let result = input.open()?.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes);
    let wrong = |message: String, hint: &str| Err(ReadError::message(message).hint(hint.to_owned()));
    let path = input.path.display();
    if bytes.len() as u64 > MAX_FILE_BYTES {
        return wrong(format!("`{path}` has more than 2 GiB"), "profile fewer steps");
    }
    let mut reader = SpaceReader::default();
    if let Err(error) = result {
        reader.damage.add(format!("byte {}: {error}", bytes.len()));
    }
    let compiled = reader.space(&bytes);
    // The joins need the modules only.
    drop(bytes);
    let mut planes = Vec::new();
    for plane in &compiled {
        // Damage was counted when all planes were read.
        planes.push(TracePlane::read(ProtoReader::new(plane, 0), &mut SpaceDamage::default()));
    }
    reader.finish(&ModuleTable::from_planes(&planes));
    if reader.events > MAX_EVENTS {
        return wrong(format!("`{path}` has more than {MAX_EVENTS} events"), "profile fewer steps");
    }
    let trace = &reader.trace;
    if trace.kernels.is_empty() && trace.works.is_empty() && trace.ops.is_empty() {
        let unread = reader.unread.map(|plane| format!(": it has events of plane `{plane}`"));
        let reason = reader.damage.first.map(|reason| format!(": {reason}")).or(unread).unwrap_or_default();
        let message = format!(
            "`{path}` is a trace of XLA's profiler without work of a GPU and without events of the host{reason}"
        );
        return wrong(message, "`jax.profiler.trace` writes traces to plugins/profile/*/*.xplane.pb");
    }
    Ok(reader.trace)
}

impl SpaceReader {
    /// Reads a space. Returns its planes of compiled modules.
    fn space(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        let mut planes = Vec::new();
        let mut warnings = 0;
        for field in space::fields(bytes, &mut self.damage) {
            match field {
                (1, ProtoValue::Message(plane)) => {
                    planes.push((TracePlane::read(plane, &mut self.damage), plane.bytes));
                }
                (2 | 3, ProtoValue::Message(_)) => warnings += 1,
                (4, ProtoValue::Message(host)) => self.host = host.text(),
                _ => {}
            }
        }
        let losses = &mut self.trace.losses;
        losses.add_many(LossKind::Source, "errors and warnings of the profiler", warnings, None);
        for (plane, _) in &planes {
            self.head(plane);
        }
        for (plane, _) in &planes {
            if let Some(ordinal) = plane.gpu() {
                self.device(plane, ordinal);
            } else if plane.name == "/host:CPU" {
                self.host(plane);
            } else if plane.event_count() > 0 {
                let reason = format!("events of plane `{}`", plane.name);
                self.trace.losses.add_many(LossKind::Source, &reason, plane.event_count(), None);
                self.unread.get_or_insert_with(|| plane.name.to_owned());
            }
        }
        let compiled = planes.iter().filter(|(plane, _)| plane.name == program::PLANE);
        compiled.map(|(_, bytes)| bytes.to_vec()).collect()
    }

    /// Facts that planes have about the profile: its begin, its process, versions.
    fn head(&mut self, plane: &TracePlane<'_>) {
        for (name, value) in plane.stats() {
            match (name, value) {
                ("profile_start_time", StatValue::Number(start)) => {
                    self.start_ns = i64::try_from(start).unwrap_or(0);
                }
                ("process_id", StatValue::Number(process)) => {
                    self.process = self.process.or(u32::try_from(process).ok());
                }
                (
                    "jax_version" | "jaxlib_version" | "cuda_driver_version" | "cuda_runtime_version",
                    value,
                ) => {
                    self.trace.facts.insert(format!("xprof.{name}"), value.text());
                }
                _ => {}
            }
        }
    }

    /// A name, which equal ones share.
    fn shared(&mut self, name: &str) -> Rc<str> {
        if let Some(known) = self.names.get(name) {
            return Rc::clone(known);
        }
        let name: Rc<str> = name.into();
        self.names.insert(Rc::clone(&name));
        name
    }

    /// Counts events. False beyond the bound.
    fn count(&mut self) -> bool {
        self.events += 1;
        self.events <= MAX_EVENTS
    }

    fn finish(&mut self, modules: &ModuleTable<'_>) {
        let trace = &mut self.trace;
        trace.tool = TOOL;
        let cuda_version = trace.facts.get("xprof.cuda_driver_version").and_then(|text| text.parse().ok());
        let process = TraceProcess::with_number(self.process.unwrap_or(0), Instrument::Timeline);
        let mut process = TraceProcess { cuda_version, ..process };
        if !self.host.is_empty() {
            process.program = format!("xprof {}", self.host);
            process.facts.insert("xprof.host".to_owned(), std::mem::take(&mut self.host));
        }
        trace.processes.push(process);
        let mut launching = HashSet::new();
        let mut call = |number: Option<u64>| {
            let call = self.calls.get(&number?)?;
            launching.insert(number);
            Some(call.clone())
        };
        for kernel in &mut trace.kernels {
            if let Some((call, name)) = call(kernel.correlation) {
                (kernel.call, kernel.call_name) = (Some(call), name);
            }
        }
        for work in trace.works.iter_mut().filter(|work| work.call.is_none()) {
            if let Some((call, name)) = call(work.correlation) {
                (work.call, work.call_name) = (Some(call), name);
            }
        }
        let idle = self.calls.len().saturating_sub(launching.len()) as u64;
        join_ops(trace);
        join_steps(trace);
        let built_in = self.functions.built_in;
        std::mem::take(&mut self.functions).join(trace);
        std::mem::take(&mut self.memory).join(trace);
        let unplaced = program::join(trace, &self.instructions, modules);
        let without = |is: &dyn Fn(&TraceKernel) -> bool| {
            trace.kernels.iter().filter(|kernel| is(kernel)).count() as u64
        };
        let counts = [
            ("kernels without a launch call in the trace", without(&|kernel| kernel.call.is_none())),
            (
                "kernels without grid and block, written as 0",
                without(&|kernel| kernel.grid.is_none() || kernel.block.is_none()),
            ),
            ("kernels of command buffers whose instruction is not known", unplaced.unknown),
            ("operations of kernels without a launch call", unplaced.uncalled),
            ("calls of the driver that launch nothing", idle),
            ("events without a name", self.rejected.unnamed),
            ("events that end before they begin", self.rejected.backward),
            ("built-in functions in Python stacks", built_in),
        ];
        let losses = &mut trace.losses;
        for (reason, count) in counts {
            losses.add_many(LossKind::Source, reason, count, None);
        }
        for part in ["stall samples", "memory accesses", "machine code", "tensors with addresses"] {
            losses.lacks(part);
        }
        losses.lacks("memory clock and L2 size of GPUs, written as 0");
        let first = self.damage.first.as_deref();
        losses.add_many(LossKind::Source, "parts of the file that are damaged", self.damage.count, first);
    }
}

/// Visits the events of a line, with their times.
fn visit(
    events: &PlaneEvents<'_, '_>,
    start_ns: i64,
    damage: &mut SpaceDamage,
    rejected: &mut RejectedEvents,
    mut visit: impl FnMut(plane::PlaneEvent<'_>, i64, Option<i64>) -> bool,
) {
    let base_ns = start_ns.saturating_add(events.begin_ns);
    for event in events.read(damage) {
        // Names stand behind the lines of a plane: one that ends too early has none.
        if event.name.is_empty() {
            rejected.unnamed += 1;
            continue;
        }
        if event.duration_ps.is_some_and(|length| length < 0) {
            rejected.backward += 1;
            continue;
        }
        let begin_ns = base_ns.saturating_add(nanoseconds(event.offset_ps));
        let end_ns = event.duration_ps.map(|length| begin_ns.saturating_add(nanoseconds(length)));
        if !visit(event, begin_ns, end_ns) {
            return;
        }
    }
}

/// Picoseconds as nanoseconds, half to even.
fn nanoseconds(ps: i64) -> i64 {
    let (whole, rest) = (ps.div_euclid(1000), ps.rem_euclid(1000));
    whole + i64::from(rest > 500 || rest == 500 && whole % 2 != 0)
}
