//! Identities and numbers of names: functions, frames, threads, streams.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use stallmap_schema::hash;
use stallmap_schema::id::{FrameId, FunctionId, ModuleId, PystatesHash};

use crate::model::{Frame, Kernel, Trace};

/// Numbers by name.
pub(super) struct Names {
    /// The module of all kernels: its id, and its hash in hexadecimal digits.
    pub(super) module: (ModuleId, String),
    /// Functions by name.
    pub(super) functions: BTreeMap<Rc<str>, FunctionId>,
    /// For each kernel, the number of equal launches before it in its thread.
    pub(super) occurrences: Vec<u32>,
    threads: BTreeMap<(usize, u64), u32>,
    streams: BTreeMap<(usize, i32, u64), u32>,
}

impl Names {
    /// The names of a recording.
    pub(super) fn of(trace: &Trace) -> Self {
        // A function without code is identified by its source and its name. No cubin has the hash of this text.
        let text = format!("stallmap: kernels without code, imported from {}", trace.tool);
        let module = hash::module_id(text.as_bytes());
        let mut names = Self {
            module: (module, blake3::hash(text.as_bytes()).to_hex().to_string()),
            functions: BTreeMap::new(),
            occurrences: occurrences(trace),
            threads: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        for kernel in &trace.kernels {
            if !names.functions.contains_key(&*kernel.name) {
                names.functions.insert(kernel.name.clone(), hash::function_id(module, &kernel.name));
            }
        }
        names.number(trace);
        names
    }

    /// The function of a kernel.
    pub(super) fn function(&self, name: &str) -> FunctionId {
        self.functions.get(name).copied().unwrap_or(FunctionId(0))
    }

    /// The number of a thread in its process.
    pub(super) fn thread(&self, process: usize, thread: u64) -> Option<u32> {
        self.threads.get(&(process, thread)).copied()
    }

    /// The number of a stream in its process, over all devices.
    pub(super) fn stream(&self, process: usize, device: i32, stream: u64) -> u32 {
        self.streams.get(&(process, device, stream)).copied().unwrap_or(0)
    }

    /// Numbers threads and streams in the order in which they were seen.
    fn number(&mut self, trace: &Trace) {
        let calls = trace.ops.iter().map(|op| (op.process, op.call));
        let calls =
            calls.chain(trace.kernels.iter().filter_map(|kernel| Some((kernel.process, kernel.call?))));
        let mut seen: Vec<_> = calls.map(|(process, call)| (process, call.begin_ns, call.thread)).collect();
        seen.sort_unstable();
        let mut next: HashMap<usize, u32> = HashMap::new();
        for (process, _, thread) in seen {
            self.threads.entry((process, thread)).or_insert_with(|| take(&mut next, process));
        }
        let kernels = trace.kernels.iter().map(|kernel| {
            let begin = kernel.time_ns.map_or(kernel.called_ns(), |(begin, _)| begin);
            (kernel.process, begin, kernel.device, kernel.stream)
        });
        let works = trace
            .works
            .iter()
            .filter_map(|work| Some((work.process, work.begin_ns, work.device.unwrap_or(-1), work.stream?)));
        let mut seen: Vec<_> = kernels.chain(works).collect();
        seen.sort_unstable();
        let mut next: HashMap<usize, u32> = HashMap::new();
        for (process, _, device, stream) in seen {
            self.streams.entry((process, device, stream)).or_insert_with(|| take(&mut next, process));
        }
    }
}

/// The next number of a process.
fn take(next: &mut HashMap<usize, u32>, process: usize) -> u32 {
    let next = next.entry(process).or_default();
    *next += 1;
    *next - 1
}

/// Launches are equal in (op's name, function, grid, block) within a thread. They count in the order of their calls.
fn occurrences(trace: &Trace) -> Vec<u32> {
    let mut order: Vec<usize> = (0..trace.kernels.len()).collect();
    order.sort_by_key(|&place| trace.kernels.get(place).map(Kernel::called_ns));
    let mut counts = HashMap::new();
    let mut found = vec![0; trace.kernels.len()];
    for place in order {
        let Some(kernel) = trace.kernels.get(place) else { continue };
        let op = kernel.op.and_then(|op| trace.ops.get(op)).map(|op| op.name.as_str());
        let thread = kernel.call.map(|call| call.thread);
        let key = (kernel.process, thread, op, &*kernel.name, kernel.grid, kernel.block);
        let count = counts.entry(key).or_insert(0_u32);
        if let Some(slot) = found.get_mut(place) {
            *slot = *count;
        }
        *count += 1;
    }
    found
}

/// The identity of a frame. Its source has one line, which stands for both.
pub(super) fn frame_id(frame: &Frame) -> FrameId {
    hash::frame_id(&frame.file, &frame.function, frame.line, frame.line)
}

/// The identities of stacks, by place.
pub(super) fn stack_hashes(trace: &Trace) -> Vec<PystatesHash> {
    let frames: Vec<FrameId> = trace.frames.iter().map(frame_id).collect();
    let stack = |stack: &Vec<usize>| {
        let frames: Vec<FrameId> = stack.iter().filter_map(|frame| frames.get(*frame)).copied().collect();
        hash::pystates_hash(&frames)
    };
    trace.stacks.iter().map(stack).collect()
}
