//! One event of a trace, with the arguments that the import reads.

use std::collections::HashMap;
use std::io::Read;

use crate::error::ReadResult;
use crate::formats::decimal::{integer, microseconds};
use crate::formats::json::JsonStream;
use crate::proton::cycles::call_stack;

use super::collective::CollectiveArguments;
use super::inputs::{self, OpInputs};

/// An event. Times are relative to the base of the trace.
#[derive(Debug, Default)]
pub(super) struct TraceEvent {
    pub(super) phase: String,
    pub(super) category: String,
    pub(super) name: String,
    /// Process and thread as they are written: numbers, or texts.
    pub(super) thread: (String, String),
    /// The number of a span that belongs to no thread.
    pub(super) number: String,
    pub(super) begin_ns: Option<i64>,
    /// Its length. None without one, or with one that no event can have.
    pub(super) duration_ns: Option<i64>,
    /// True if the length is negative, or beyond the bounds of a time.
    pub(super) is_of_wrong_length: bool,
    pub(super) arguments: EventArguments,
    pub(super) has_arguments: bool,
}

/// Arguments of all categories.
#[derive(Clone, Debug, Default)]
pub(super) struct EventArguments {
    pub(super) correlation: Option<i64>,
    pub(super) device: Option<i64>,
    pub(super) stream: Option<i64>,
    pub(super) grid: Option<[u32; 3]>,
    pub(super) block: Option<[u32; 3]>,
    pub(super) registers: Option<i64>,
    /// Shared memory of a block, static and dynamic as one number.
    pub(super) shared_bytes: Option<i64>,
    pub(super) bytes: Option<i64>,
    pub(super) sequence: Option<i64>,
    pub(super) external: Option<i64>,
    pub(super) record: Option<i64>,
    pub(super) forward_thread: Option<i64>,
    pub(super) address: Option<i64>,
    /// Bytes that the allocator has given.
    pub(super) allocated: Option<i64>,
    pub(super) device_type: Option<i64>,
    pub(super) device_id: Option<i64>,
    pub(super) wait: Option<String>,
    pub(super) kernel: Option<String>,
    /// The name that metadata give to a process.
    pub(super) label: Option<String>,
    pub(super) left: LeftOut,
    pub(super) inputs: OpInputs,
    pub(super) collective: Option<Box<CollectiveArguments>>,
    /// Proton's scopes and frames around a launch, outermost first.
    pub(super) call_stack: Vec<String>,
    /// The Python stack of an op.
    pub(super) python_stack: Option<String>,
    /// True if the length is no measurement: stallmap's own exports say so.
    pub(super) is_estimated: bool,
    /// True with arguments of another profiler.
    pub(super) is_of_rocprof: bool,
}

/// Arguments that the import leaves out: true if an event has them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    pub(super) occupancy: bool,
    pub(super) operations: bool,
    pub(super) modules: bool,
}

impl LeftOut {
    /// Marks an argument that is counted.
    fn mark(&mut self, name: &str) {
        match name {
            "est. achieved occupancy %" => self.occupancy = true,
            "flops" => self.operations = true,
            "Module Hierarchy" => self.modules = true,
            _ => {}
        }
    }
}

/// Names of arguments with one value.
const SCALARS: [&str; 22] = [
    "correlation",
    "device",
    "stream",
    "registers per thread",
    "shared memory",
    "bytes",
    "Bytes",
    "Sequence number",
    "External id",
    "external id",
    "Record function id",
    "Fwd thread id",
    "Addr",
    "Total Allocated",
    "Device Type",
    "Device Id",
    "Call stack",
    "kernel",
    "cuda_sync_kind",
    "sycl queue",
    "duration",
    "name",
];

/// Words of stallmap's exports for lengths of kernels that are no measurement in the program.
const ESTIMATES: [&str; 2] = ["estimated from samples", "of a replay"];

impl TraceEvent {
    /// Reads a member. False for one that no event has, which is not read.
    pub(super) fn member(&mut self, json: &mut JsonStream<impl Read>, key: &str) -> ReadResult<bool> {
        let text = |value: Option<String>| value.unwrap_or_default();
        match key {
            "ph" => self.phase = text(json.scalar()?),
            "cat" => self.category = text(json.scalar()?),
            "name" => self.name = text(json.scalar()?),
            "pid" => self.thread.0 = text(json.scalar()?),
            "tid" => self.thread.1 = text(json.scalar()?),
            "id" => self.number = text(json.scalar()?),
            "ts" => self.begin_ns = json.scalar()?.and_then(|text| microseconds(&text)),
            "dur" => {
                let text = json.scalar()?;
                self.duration_ns = text.as_deref().and_then(microseconds).filter(|length| *length >= 0);
                self.is_of_wrong_length = text.is_some() && self.duration_ns.is_none();
            }
            "args" => {
                self.arguments = EventArguments::read(json)?;
                self.has_arguments = true;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }
}

impl EventArguments {
    fn read(json: &mut JsonStream<impl Read>) -> ReadResult<Self> {
        let mut found = Self::default();
        json.object(|json, key| {
            match key {
                "grid" => found.grid = json.extent()?,
                "block" => found.block = json.extent()?,
                "Input Dims" | "Input dims" => found.inputs.sizes = inputs::extents(json)?,
                "Input Strides" => found.inputs.strides = inputs::extents(json)?,
                "Input type" => found.inputs.types = inputs::texts(json)?,
                "Concrete Inputs" => found.inputs.values = inputs::texts(json)?,
                "call_stack" => found.call_stack = call_stack(json)?,
                "BeginNs" => {
                    found.is_of_rocprof = true;
                    json.skip()?;
                }
                _ if SCALARS.contains(&key) || CollectiveArguments::NAMES.contains(&key) => {
                    if let Some(value) = json.scalar()? {
                        found.put(key, value);
                    }
                }
                _ => {
                    found.left.mark(key);
                    json.skip()?;
                }
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Sets an argument with one value. Unknown names are left out.
    pub(super) fn put(&mut self, name: &str, value: String) {
        match name {
            "correlation" => self.correlation = integer(&value),
            "device" => self.device = integer(&value),
            "stream" => self.stream = integer(&value),
            "registers per thread" => self.registers = integer(&value),
            "shared memory" => self.shared_bytes = integer(&value),
            "bytes" | "Bytes" => self.bytes = integer(&value),
            "Sequence number" => self.sequence = integer(&value),
            "External id" | "external id" => self.external = integer(&value),
            "Record function id" => self.record = integer(&value).filter(|record| *record > 0),
            "Fwd thread id" => self.forward_thread = integer(&value),
            "Addr" => self.address = integer(&value),
            "Total Allocated" => self.allocated = integer(&value),
            "Device Type" => self.device_type = integer(&value),
            "Device Id" => self.device_id = integer(&value),
            // A queue of oneAPI has a number, or an address.
            "sycl queue" => self.stream = self.stream.or(integer(&value)).or(address(&value)),
            "duration" => self.is_estimated = ESTIMATES.contains(&value.as_str()),
            "name" => self.label = Some(value),
            "Call stack" => self.python_stack = Some(value).filter(|stack| !stack.is_empty()),
            "kernel" => self.kernel = Some(value),
            "cuda_sync_kind" => self.wait = Some(value),
            _ if CollectiveArguments::NAMES.contains(&name) => {
                self.collective.get_or_insert_default().put(name, value);
            }
            _ => {}
        }
    }
}

/// A number of hexadecimal digits.
fn address(text: &str) -> Option<i64> {
    i64::from_str_radix(text.strip_prefix("0x")?, 16).ok()
}

/// Numbers of threads, by the texts of process and thread.
#[derive(Debug, Default)]
pub(super) struct ThreadNumbers(HashMap<(String, String), u64>);

impl ThreadNumbers {
    /// The number of a thread, in the order in which they were seen.
    pub(super) fn number(&mut self, thread: (String, String)) -> u64 {
        let next = self.0.len() as u64;
        *self.0.entry(thread).or_insert(next)
    }
}
