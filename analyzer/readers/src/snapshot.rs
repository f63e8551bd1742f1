//! PyTorch's memory snapshots: lifetimes of allocations, with the Python stacks under which they were made.

mod segments;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};

use crate::error::{ReadError, ReadResult};
use crate::formats::input::ImportInput;
use crate::formats::pickle::{PickleObjects, PickleValue};
use stallmap_schema::word::{Instrument, LossKind, OpKind};

use self::segments::LiveSegments;
use crate::model::{TraceCall, TraceFailure, TraceFrame, TraceModel, TraceOp, TraceProcess, TraceStorage};

/// The name of the op that stands for an allocation: a snapshot has stacks, and no ops.
const ALLOCATION: &str = "alloc";

/// The name of the op that stands for an allocation that failed.
const FAILURE: &str = "failed alloc";

/// PyTorch's allocator gives multiples of it.
const ROUNDED_BYTES: u64 = 512;

/// A snapshot while it is read.
struct SnapshotReader<'a> {
    pickle: &'a PickleObjects,
    trace: TraceModel,
    frames: HashMap<TraceFrame, usize>,
    stacks: HashMap<Vec<usize>, usize>,
    /// Stacks by the list of their frames: events share them. None for a list without a frame of Python.
    seen: HashMap<usize, Option<usize>>,
    /// The time of the last event of a GPU that has one.
    last_ns: Option<i64>,
}

/// Reads a snapshot.
pub(crate) fn read(input: &ImportInput) -> ReadResult<TraceModel> {
    let refused = |reason: String| {
        ReadError::message(format!("`{}` is not a memory snapshot: {reason}", input.path.display()))
            .hint("PyTorch writes them with `torch.cuda.memory._dump_snapshot`".to_owned())
    };
    let (pickle, root) = PickleObjects::read(std::io::BufReader::new(input.open()?)).map_err(refused)?;
    let traces = pickle.get(root, "device_traces");
    let segments = if is_segments(&pickle, root) { root } else { pickle.get(root, "segments") };
    if !matches!((traces, segments), (PickleValue::List(_), _) | (_, PickleValue::List(_))) {
        return Err(refused("it has neither `device_traces` nor `segments`".to_owned()));
    }
    let trace = TraceModel { tool: "memory snapshot", ..TraceModel::default() };
    let mut reading = SnapshotReader {
        pickle: &pickle,
        trace,
        frames: HashMap::new(),
        stacks: HashMap::new(),
        seen: HashMap::new(),
        last_ns: None,
    };
    for (device, events) in (0..).zip(pickle.items(traces)) {
        reading.events(device, *events);
    }
    reading.segments(segments);
    let annotations = pickle.items(pickle.get(root, "external_annotations")).len() as u64;
    let reason = "begins and ends of annotations of the program";
    reading.trace.losses.add_many(LossKind::Source, reason, annotations, None);
    Ok(reading.finish())
}

/// True for a list of segments: PyTorch 1.13 writes one without a document around it.
fn is_segments(pickle: &PickleObjects, root: PickleValue) -> bool {
    let is_segment = |value: &PickleValue| matches!(pickle.get(*value, "blocks"), PickleValue::List(_));
    pickle.items(root).first().is_some_and(is_segment)
}

impl SnapshotReader<'_> {
    fn number(&self, value: PickleValue, key: &str) -> Option<i64> {
        self.pickle.get(value, key).integer()
    }

    /// The events of one GPU, in order: an address is reused after its free.
    fn events(&mut self, device: i32, events: PickleValue) {
        let pickle = self.pickle;
        let mut living: HashMap<u64, usize> = HashMap::new();
        let mut segments = LiveSegments::for_device(device);
        self.last_ns = None;
        for (number, event) in (0..).zip(pickle.items(events)) {
            let action = pickle.text(pickle.get(*event, "action")).unwrap_or_default();
            self.count_metadata(*event);
            // The end of the free counts: until then, a stream may use the memory.
            if action == "free_requested" {
                continue;
            }
            if action == "oom" {
                self.failure(device, *event, number);
                continue;
            }
            if !["alloc", "free_completed"].contains(&action) && !LiveSegments::is_event(action) {
                self.trace.losses.add(LossKind::Memory, "memory events of other kinds", None);
                continue;
            }
            let address = self.number(*event, "addr").and_then(|address| u64::try_from(address).ok());
            let bytes = self.number(*event, "size").and_then(|bytes| u64::try_from(bytes).ok());
            let (Some(address), Some(bytes)) = (address, bytes) else {
                self.trace.losses.add(LossKind::Memory, "memory events without address or size", None);
                continue;
            };
            let time_ns = self.time_ns(*event, number);
            if LiveSegments::is_event(action) {
                segments.add(&mut self.trace, action, (address, bytes), time_ns);
                continue;
            }
            // Events have the bytes of the request, blocks those of the allocator too.
            let storage = TraceStorage {
                process: 0,
                device,
                address,
                bytes: rounded(bytes),
                requested: Some(bytes),
                alloc_ns: None,
                free_ns: None,
                op: None,
            };
            if action == "alloc" {
                let op = self.allocation(*event, ALLOCATION, time_ns);
                if let Some(place) = living.insert(address, self.trace.storages.len()) {
                    self.free(place, time_ns);
                    let reason = "frees of memory whose address is allocated again: it ends there";
                    self.trace.losses.add(LossKind::Memory, reason, None);
                }
                self.trace.storages.push(TraceStorage { alloc_ns: Some(time_ns), op, ..storage });
                continue;
            }
            match living.remove(&address) {
                Some(place) => self.free(place, time_ns),
                // The list of events is a ring: the allocation was overwritten.
                None => self.trace.storages.push(TraceStorage { free_ns: Some(time_ns), ..storage }),
            }
        }
    }

    /// Counts texts that the program gave to an event, which no table holds.
    fn count_metadata(&mut self, event: PickleValue) {
        if let Some(text) =
            self.pickle.text(self.pickle.get(event, "user_metadata")).filter(|text| !text.is_empty())
        {
            let reason = "texts that the program gave to memory events";
            self.trace.losses.add(LossKind::Source, reason, Some(text));
        }
    }

    /// The time of an event. Releases before PyTorch 2.1 write none: there the number of the event has its place in order.
    /// Events without a time among others have that of the one in front of them.
    fn time_ns(&mut self, event: PickleValue, number: i64) -> i64 {
        if let Some(time_ns) = self.number(event, "time_us").and_then(|time| time.checked_mul(1000)) {
            self.last_ns = Some(time_ns);
            return time_ns;
        }
        let (time_ns, reason) = match self.last_ns {
            Some(last_ns) => (last_ns, "times of memory events, written as those of the events before them"),
            None => (number, "times of memory events, written as their number in nanoseconds"),
        };
        self.trace.losses.add(LossKind::Source, reason, None);
        time_ns
    }

    /// Ends a storage, but not before it began.
    fn free(&mut self, place: usize, time_ns: i64) {
        let Some(storage) = self.trace.storages.get_mut(place) else { return };
        let begin_ns = storage.alloc_ns.unwrap_or(time_ns);
        storage.free_ns = Some(time_ns.max(begin_ns));
        let is_early = u64::from(time_ns < begin_ns);
        let reason = "frees before their allocation, written at its time";
        self.trace.losses.add_many(LossKind::Memory, reason, is_early, None);
    }

    /// An allocation that failed. Its event has the free bytes of the device in the place of an address.
    fn failure(&mut self, device: i32, event: PickleValue, number: i64) {
        let time_ns = self.time_ns(event, number);
        let bytes = |value: Option<i64>| value.and_then(|bytes| u64::try_from(bytes).ok());
        let failure = TraceFailure {
            process: 0,
            device,
            time_ns,
            bytes: bytes(self.number(event, "size")),
            free_bytes: bytes(self.number(event, "device_free")),
            op: self.allocation(event, FAILURE, time_ns),
        };
        self.trace.failures.push(failure);
    }

    /// Segments, and blocks that are allocated: their sizes, and those whose allocation is not among the events.
    fn segments(&mut self, segments: PickleValue) {
        let pickle = self.pickle;
        let living: HashMap<(i32, u64), usize> = self
            .trace
            .storages
            .iter()
            .enumerate()
            .filter(|(_, storage)| storage.free_ns.is_none())
            .map(|(place, storage)| ((storage.device, storage.address), place))
            .collect();
        let began_ns = self.trace.ops.iter().map(|op| op.call.begin_ns).min().unwrap_or(0);
        for segment in pickle.items(segments) {
            let device =
                self.number(*segment, "device").and_then(|device| i32::try_from(device).ok()).unwrap_or(0);
            let mut next = self.number(*segment, "address").unwrap_or(0);
            let whole = u64::try_from(next)
                .ok()
                .zip(self.number(*segment, "total_size").and_then(|bytes| u64::try_from(bytes).ok()));
            if let Some(whole) = whole {
                segments::add_older(&mut self.trace, device, whole);
            }
            for block in pickle.items(pickle.get(*segment, "blocks")) {
                let bytes = self.number(*block, "size").unwrap_or(0);
                let address = self.number(*block, "address").unwrap_or(next);
                next = address.saturating_add(bytes);
                // A block that the program freed is active until no stream uses it.
                let state = pickle.text(pickle.get(*block, "state")).unwrap_or_default();
                let is_active = state.starts_with("active_");
                let place = u64::try_from(address).ok().zip(u64::try_from(bytes).ok());
                let Some((address, bytes)) = place.filter(|_| is_active) else { continue };
                let history = self.history(*block, address);
                let requested = self
                    .number(*block, "requested_size")
                    .or_else(|| self.number(history?, "real_size"))
                    .and_then(|bytes| u64::try_from(bytes).ok());
                let known =
                    living.get(&(device, address)).and_then(|place| self.trace.storages.get_mut(*place));
                if let Some(storage) = known {
                    storage.bytes = bytes;
                    storage.requested = requested.or(storage.requested);
                    continue;
                }
                let storage = TraceStorage {
                    process: 0,
                    device,
                    address,
                    bytes,
                    requested,
                    alloc_ns: None,
                    free_ns: None,
                    op: self.allocation(history.unwrap_or(*block), ALLOCATION, began_ns),
                };
                self.trace.storages.push(storage);
            }
        }
    }

    /// The allocation of a block, where the block does not describe it itself: PyTorch 2.0 keeps those that were made at
    /// addresses of the block, the last one first.
    fn history(&self, block: PickleValue, address: u64) -> Option<PickleValue> {
        let pickle = self.pickle;
        let own = pickle.items(pickle.get(block, "history"));
        let is_at = |entry: &&PickleValue| {
            self.number(**entry, "addr").and_then(|at| u64::try_from(at).ok()) == Some(address)
        };
        let is_described = matches!(pickle.get(block, "frames"), PickleValue::List(_));
        own.iter().find(is_at).or(own.first()).filter(|_| !is_described).copied()
    }

    /// An op for the stack of an allocation.
    fn allocation(&mut self, event: PickleValue, name: &'static str, time_ns: i64) -> Option<usize> {
        let stack = self.stack(self.pickle.get(event, "frames"))?;
        let call = TraceCall { thread: 0, begin_ns: time_ns, end_ns: time_ns };
        self.trace.ops.push(TraceOp { stack: stack.into(), ..TraceOp::for_call(call, OpKind::Torch, name) });
        Some(self.trace.ops.len() - 1)
    }

    /// The place of a stack. Frames of other languages are left out.
    fn stack(&mut self, frames: PickleValue) -> Option<usize> {
        let PickleValue::List(list) = frames else { return None };
        if let Some(stack) = self.seen.get(&list) {
            return *stack;
        }
        let pickle = self.pickle;
        let mut places = Vec::new();
        for frame in pickle.items(frames) {
            let file = pickle.text(pickle.get(*frame, "filename")).unwrap_or_default();
            let line = self.number(*frame, "line").and_then(|line| u32::try_from(line).ok());
            let Some(line) = line.filter(|_| is_python(file)) else {
                self.trace.losses.add(
                    LossKind::Source,
                    "frames of stacks that are not of Python",
                    Some(file),
                );
                continue;
            };
            let function = pickle.text(pickle.get(*frame, "name")).unwrap_or_default().to_owned();
            let frame = TraceFrame { file: file.to_owned(), function, line };
            let next = self.frames.len();
            let place = *self.frames.entry(frame.clone()).or_insert(next);
            if place == next {
                self.trace.frames.push(frame);
            }
            places.push(place);
        }
        if places.is_empty() {
            self.seen.insert(list, None);
            return None;
        }
        let next = self.stacks.len();
        let stack = *self.stacks.entry(places.clone()).or_insert(next);
        if stack == next {
            self.trace.stacks.push(places);
        }
        self.seen.insert(list, Some(stack));
        Some(stack)
    }

    fn finish(mut self) -> TraceModel {
        self.trace.facts = BTreeMap::from([
            (
                "snapshot.ops".to_owned(),
                format!("an op `{ALLOCATION}` stands for each allocation with a Python stack"),
            ),
            (
                "snapshot.sizes".to_owned(),
                format!("memory that was freed has its request rounded to {ROUNDED_BYTES} bytes"),
            ),
        ]);
        self.trace.processes.push(TraceProcess::with_number(0, Instrument::Native));
        for part in ["launches and kernels", "stall samples", "memory accesses", "tensors", "GPUs"] {
            self.trace.losses.lacks(part);
        }
        self.trace
    }
}

/// True for a file of Python, and for code of a notebook or of `eval`, which has a name such as `<string>` in its place.
fn is_python(file: &str) -> bool {
    let is_file = std::path::Path::new(file).extension().is_some_and(|end| end == "py");
    is_file || file.starts_with('<') && file.contains('>')
}

/// The least bytes that the allocator takes for some requested ones. It takes more where the rest of a block is too small to
/// divide.
fn rounded(bytes: u64) -> u64 {
    bytes.max(1).checked_next_multiple_of(ROUNDED_BYTES).unwrap_or(bytes)
}
