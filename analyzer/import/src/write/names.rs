//! Identities and numbers of names: functions, frames, threads, streams.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::rc::Rc;

use stallmap_readers::trace::model::{TraceFrame, TraceKernel, TraceModel};
use stallmap_schema::hash;
use stallmap_schema::id::{FrameId, FunctionId, ModuleId, PystatesHash};

use super::folders::ScriptFolders;

/// A function of the source: its name, and the identity of its code, empty without one.
pub(super) type SourceFunction = (Rc<str>, Rc<str>);

/// Numbers by name.
pub(super) struct NumberedNames {
    /// Modules by the source's identity of code, empty without one: each id, and its hash in hexadecimal digits.
    pub(super) modules: BTreeMap<Rc<str>, (ModuleId, String)>,
    /// Functions by name and identity of code.
    pub(super) functions: BTreeMap<SourceFunction, FunctionId>,
    /// For each kernel, the number of equal launches before it in its thread.
    pub(super) occurrences: Vec<u32>,
    threads: BTreeMap<(usize, u64), u32>,
    streams: BTreeMap<(usize, i32, u64), u32>,
}

impl NumberedNames {
    /// The names of a recording.
    pub(super) fn from_trace(trace: &TraceModel) -> Self {
        let mut names = Self {
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            occurrences: occurrences(trace),
            threads: BTreeMap::new(),
            streams: BTreeMap::new(),
        };
        let sampled = trace.samples.iter().filter_map(|sample| {
            let kernel = trace.kernels.get(sample.kernel)?;
            Some((sample.function.clone(), code(kernel).1))
        });
        for code in trace.kernels.iter().map(code).chain(sampled) {
            if !names.functions.contains_key(&code) {
                let module = names.module(trace, &code.1);
                let function = hash::function_id(module, &code.0);
                names.functions.insert(code, function);
            }
        }
        names.number(trace);
        names
    }

    /// The function of a kernel.
    pub(super) fn function(&self, kernel: &TraceKernel) -> FunctionId {
        self.functions.get(&code(kernel)).copied().unwrap_or(FunctionId(0))
    }

    /// The function of a name in the code of a kernel.
    pub(super) fn inner(&self, kernel: &TraceKernel, name: &Rc<str>) -> FunctionId {
        self.functions.get(&(name.clone(), code(kernel).1)).copied().unwrap_or(FunctionId(0))
    }

    /// The module of an identity of code: a cubin, or a text whose hash no cubin has.
    fn module(&mut self, trace: &TraceModel, identity: &Rc<str>) -> ModuleId {
        if let Some(cubin) = trace.cubins.get(identity) {
            let of_cubin = || (hash::module_id(cubin), identity.to_string());
            return self.modules.entry(identity.clone()).or_insert_with(of_cubin).0;
        }
        let tool = trace.tool;
        let mut text = format!("stallmap: kernels without code, imported from {tool}");
        if !identity.is_empty() {
            text = format!("{text}, checksum {identity}");
        }
        let module = hash::module_id(text.as_bytes());
        let of_text = || (module, blake3::hash(text.as_bytes()).to_hex().to_string());
        self.modules.entry(identity.clone()).or_insert_with(of_text).0
    }

    /// The number of a thread in its process.
    pub(super) fn thread(&self, process: usize, thread: u64) -> Option<u32> {
        self.threads.get(&(process, thread)).copied()
    }

    /// The number of a stream on its device: that of the source where it fits.
    pub(super) fn stream(&self, process: usize, device: i32, stream: u64) -> u32 {
        self.streams.get(&(process, device, stream)).copied().unwrap_or(0)
    }

    /// Numbers threads in the order in which they were seen, and streams.
    fn number(&mut self, trace: &TraceModel) {
        let calls = trace.ops.iter().map(|op| (op.process, op.call));
        let calls =
            calls.chain(trace.kernels.iter().filter_map(|kernel| Some((kernel.process, kernel.call?))));
        let calls = calls.map(|(process, call)| ((process, call.thread), call.begin_ns));
        let mut seen: Vec<_> = firsts(calls);
        seen.sort_unstable_by_key(|((process, thread), begin)| (*process, *begin, *thread));
        let mut next: HashMap<usize, u32> = HashMap::new();
        for ((process, thread), _) in seen {
            self.threads.entry((process, thread)).or_insert_with(|| take(&mut next, process));
        }
        let kernels = trace.kernels.iter().map(|kernel| {
            let begin = kernel.time_ns.map_or(kernel.called_ns(), |(begin, _)| begin);
            ((kernel.process, kernel.device, kernel.stream), begin)
        });
        let works = trace.works.iter().filter_map(|work| {
            Some(((work.process, work.device.unwrap_or(-1), work.stream?), work.begin_ns))
        });
        let mut seen: Vec<_> = firsts(kernels.chain(works));
        seen.sort_unstable_by_key(|((process, device, stream), begin)| (*process, *begin, *device, *stream));
        let large = seen.iter().filter(|((.., stream), _)| u32::try_from(*stream).is_err());
        let large: HashSet<usize> = large.map(|((process, ..), _)| *process).collect();
        let mut next: HashMap<usize, u32> = HashMap::new();
        for ((process, device, stream), _) in seen {
            // Streams of some sources are addresses: these are numbered.
            let own = u32::try_from(stream).ok().filter(|_| !large.contains(&process));
            let number = || own.unwrap_or_else(|| take(&mut next, process));
            self.streams.entry((process, device, stream)).or_insert_with(number);
        }
    }
}

/// The name of a kernel and the identity of its code.
pub(super) fn code(kernel: &TraceKernel) -> SourceFunction {
    (kernel.name.clone(), kernel.code.clone().unwrap_or_default())
}

/// Each key with the first of its times.
fn firsts<K: Eq + Hash>(times: impl Iterator<Item = (K, i64)>) -> Vec<(K, i64)> {
    let mut found: HashMap<K, i64> = HashMap::new();
    for (key, time) in times {
        found.entry(key).and_modify(|first| *first = time.min(*first)).or_insert(time);
    }
    found.into_iter().collect()
}

/// The next number of a process.
fn take(next: &mut HashMap<usize, u32>, process: usize) -> u32 {
    let next = next.entry(process).or_default();
    *next += 1;
    *next - 1
}

/// Launches are equal in (op's name, function, grid, block) within a thread. They count in the order of their calls.
fn occurrences(trace: &TraceModel) -> Vec<u32> {
    let mut order: Vec<usize> = (0..trace.kernels.len()).collect();
    order.sort_by_key(|&place| trace.kernels.get(place).map(TraceKernel::called_ns));
    let mut counts = HashMap::new();
    let mut found = vec![0; trace.kernels.len()];
    for place in order {
        let Some(kernel) = trace.kernels.get(place) else { continue };
        let op = kernel.op.and_then(|op| trace.ops.get(op)).map(|op| &*op.name);
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

/// The identities of frames, by place. The source of a frame has one line, which stands for both.
pub(super) fn frame_ids(trace: &TraceModel, folders: &ScriptFolders) -> Vec<FrameId> {
    let id = |frame: &TraceFrame| {
        hash::frame_id(folders.shown(&frame.file), &frame.function, frame.line, frame.line)
    };
    trace.frames.iter().map(id).collect()
}

/// The identities of stacks, by place.
pub(super) fn stack_hashes(trace: &TraceModel, frames: &[FrameId]) -> Vec<PystatesHash> {
    let stack = |stack: &Vec<usize>| {
        let frames: Vec<FrameId> = stack.iter().filter_map(|frame| frames.get(*frame)).copied().collect();
        hash::pystates_hash(&frames)
    };
    trace.stacks.iter().map(stack).collect()
}
