//! Python stacks of ops and of launch calls: the functions that enclose them on their thread.

use std::cmp::Reverse;
use std::collections::HashMap;

use stallmap_schema::word::{OpKind, Phase};

use crate::trace::join::{begin, span};
use crate::trace::model::{RowLink, TraceCall, TraceFrame, TraceKernel, TraceModel, TraceOp};
use crate::trace::nest::{ThreadSpan, enclosing, parents};

/// Most frames of a stack. Deeper ones lose their callers.
pub(crate) const MAX_FRAMES: usize = 512;
/// Shorter functions are no regions.
const MIN_IDLE_NS: i64 = 100_000;

/// Frames of stacks, each of them once.
#[derive(Debug, Default)]
pub(crate) struct FrameTable {
    frames: Vec<TraceFrame>,
    known: HashMap<TraceFrame, usize>,
}

impl FrameTable {
    /// The place of a frame, which is added if it is new.
    pub(crate) fn place(&mut self, frame: TraceFrame) -> usize {
        let next = self.frames.len();
        let place = *self.known.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }

    fn get(&self, place: usize) -> Option<&TraceFrame> {
        self.frames.get(place)
    }

    /// The frames by place.
    pub(crate) fn into_frames(self) -> Vec<TraceFrame> {
        self.frames
    }
}

/// Functions that ran, each with its frame.
#[derive(Debug, Default)]
pub struct FrameFunctions {
    calls: Vec<(TraceCall, RowLink)>,
    /// Frames by the names of their functions. Built-in ones have none.
    names: HashMap<Box<str>, RowLink>,
    /// Functions of one place may have several names.
    frames: FrameTable,
    /// Calls of functions without a line.
    pub built_in: u64,
}

impl FrameFunctions {
    /// Adds a call of a function.
    pub fn add(&mut self, call: TraceCall, name: &str) {
        self.add_parsed(call, name, frame);
    }

    /// Adds a call of a function that another tool names. Each name is read once.
    pub fn add_parsed(
        &mut self,
        call: TraceCall,
        name: &str,
        frame: impl FnOnce(&str) -> Option<TraceFrame>,
    ) {
        let place = if let Some(place) = self.names.get(name) {
            *place
        } else {
            let place = frame(name).map_or_else(RowLink::default, |frame| self.frames.place(frame).into());
            self.names.insert(name.into(), place);
            place
        };
        if place.get().is_none() {
            self.built_in += 1;
            return;
        }
        self.calls.push((call, place));
    }

    /// True without calls.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Regions of functions that run for long without an op or a call for the GPU inside, the outermost ones: a GPU may wait
    /// for them.
    pub fn idle_regions(&self, trace: &TraceModel) -> Vec<TraceOp> {
        let kernels = trace.kernels.iter().filter_map(|kernel| kernel.call);
        let works = trace.works.iter().filter_map(|work| work.call);
        let calls = trace.ops.iter().map(|op| op.call).chain(kernels).chain(works);
        let mut begins: Vec<(u64, i64)> = calls.map(|call| (call.thread, call.begin_ns)).collect();
        begins.sort_unstable();
        let is_idle = |call: &TraceCall| {
            let next = begins.partition_point(|begin| *begin < (call.thread, call.begin_ns));
            begins.get(next).is_none_or(|begin| *begin >= (call.thread, call.end_ns))
        };
        let is_long = |call: &TraceCall| call.end_ns.saturating_sub(call.begin_ns) >= MIN_IDLE_NS;
        let idle = self.calls.iter().filter(|(call, _)| is_long(call) && is_idle(call));
        let mut idle: Vec<&(TraceCall, RowLink)> = idle.collect();
        idle.sort_unstable_by_key(|(call, _)| (call.thread, call.begin_ns, Reverse(call.end_ns)));
        let mut last = (0, i64::MIN);
        idle.retain(|(call, _)| {
            let is_outer = (call.thread, call.begin_ns) >= last;
            if is_outer {
                last = (call.thread, call.end_ns);
            }
            is_outer
        });
        let processes: HashMap<u64, usize> =
            trace.ops.iter().map(|op| (op.call.thread, op.process)).collect();
        let region = |(call, frame): &(TraceCall, RowLink)| {
            let frame = self.frames.get(frame.get()?)?;
            let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
            let name = format!("{file}:{} {}", frame.line, frame.function);
            let process = *processes.get(&call.thread)?;
            Some(TraceOp { process, ..TraceOp::for_call(*call, OpKind::Region, name) })
        };
        idle.into_iter().filter_map(region).collect()
    }

    /// Gives ops and launch calls their stacks. A call may be deeper than its op: an op can be a Python function.
    pub fn join(self, trace: &mut TraceModel) {
        let callers = parents(&self.calls);
        let mut stacks = FrameStacks::default();
        let found = enclosing(&self.calls, &trace.ops);
        for (op, inner) in trace.ops.iter_mut().zip(found) {
            let inner = inner.get();
            op.stack = inner.map(|inner| stacks.place(inner, || self.path(inner, &callers))).into();
        }
        let called = trace.kernels.iter_mut().filter_map(|kernel| Some((kernel.call?, kernel)));
        let (points, kernels): (Vec<ThreadSpan>, Vec<&mut TraceKernel>) =
            called.map(|(call, kernel)| (begin(call), kernel)).unzip();
        for (kernel, inner) in kernels.into_iter().zip(enclosing(&self.calls, &points)) {
            let inner = inner.get();
            kernel.stack = inner.map(|inner| stacks.place(inner, || self.path(inner, &callers)));
        }
        for (kernel, inner) in self.backward_launches(trace) {
            let stack = stacks.place(inner, || self.path(inner, &callers));
            if let Some(kernel) = trace.kernels.get_mut(kernel) {
                kernel.stack = Some(stack);
            }
        }
        trace.stacks = stacks.in_order();
        trace.frames = self.frames.into_frames();
    }

    /// Launches of autograd's own threads whose op has no forward op, such as the collectives of a bucket of gradients,
    /// each with the call that waits for the backward pass meanwhile.
    fn backward_launches(&self, trace: &TraceModel) -> Vec<(usize, usize)> {
        let processes: HashMap<u64, usize> =
            trace.ops.iter().map(|op| (op.call.thread, op.process)).collect();
        let of_process =
            |process: usize, call: TraceCall| ThreadSpan { thread: process as u64, ..span(call) };
        let waits = self.calls.iter().enumerate().filter_map(|(place, (call, frame))| {
            self.frames.get(frame.get()?).filter(|frame| is_backward(frame))?;
            let process = processes.get(&call.thread)?;
            Some((place, of_process(*process, *call)))
        });
        let (calls, spans): (Vec<usize>, Vec<ThreadSpan>) = waits.unzip();
        let op = |place: usize| trace.ops.get(place);
        let is_known =
            |place: usize| op(place).is_some_and(|op| op.stack.get().is_some() || op.forward().is_some());
        let is_without = |kernel: &TraceKernel| {
            let mut outwards = std::iter::successors(kernel.op, |place| op(*place)?.parent.get());
            let is_backward = kernel.op.and_then(op).is_some_and(|op| op.phase == Phase::Backward);
            is_backward && kernel.stack.is_none() && !outwards.any(is_known)
        };
        let launches = trace.kernels.iter().enumerate().filter(|(_, kernel)| is_without(kernel));
        let launches = launches.filter_map(|(place, kernel)| {
            let call = kernel.call?;
            Some((place, of_process(kernel.process, TraceCall { end_ns: call.begin_ns, ..call })))
        });
        let (kernels, points): (Vec<usize>, Vec<ThreadSpan>) = launches.unzip();
        let found = kernels.into_iter().zip(enclosing(&spans, &points));
        found.filter_map(|(kernel, wait)| Some((kernel, *calls.get(wait.get()?)?))).collect()
    }

    /// The frames from a call outwards.
    fn path(&self, inner: usize, callers: &[RowLink]) -> Vec<usize> {
        let calls = std::iter::successors(Some(inner), |call| callers.get(*call)?.get());
        calls
            .take(MAX_FRAMES)
            .filter_map(|call| self.calls.get(call))
            .filter_map(|(_, frame)| frame.get())
            .collect()
    }
}

/// Stacks by their frames, and by their innermost call.
#[derive(Default)]
struct FrameStacks {
    places: HashMap<Vec<usize>, usize>,
    by_call: HashMap<usize, usize>,
}

impl FrameStacks {
    /// The place of the stack of a call.
    fn place(&mut self, inner: usize, path: impl FnOnce() -> Vec<usize>) -> usize {
        *self.by_call.entry(inner).or_insert_with(|| {
            let next = self.places.len();
            *self.places.entry(path()).or_insert(next)
        })
    }

    fn in_order(self) -> Vec<Vec<usize>> {
        let mut numbered: Vec<(usize, Vec<usize>)> =
            self.places.into_iter().map(|(path, place)| (place, path)).collect();
        numbered.sort_unstable();
        numbered.into_iter().map(|(_, path)| path).collect()
    }
}

/// True for PyTorch's functions that run a backward pass and wait for it.
fn is_backward(frame: &TraceFrame) -> bool {
    let is_run = matches!(&*frame.function, "_engine_run_backward" | "backward" | "grad");
    is_run && frame.file.contains("torch/autograd/")
}

/// A frame from `file(line): function`. Built-in functions and modules have no line, and are no frames.
pub(crate) fn frame(name: &str) -> Option<TraceFrame> {
    let (place, function) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some(TraceFrame { file: file.to_owned(), function: function.to_owned(), line: line.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_frames() {
        let parsed = frame("torch/nn/modules/module.py(1736): _wrapped_call_impl").unwrap();
        assert_eq!((parsed.file.as_str(), parsed.line), ("torch/nn/modules/module.py", 1736));
        assert_eq!(parsed.function, "_wrapped_call_impl");
        assert_eq!(frame("nn.Module: Linear_0"), None);
        assert_eq!(frame("<built-in method get of dict object at 0x7d6a>"), None);
    }
}
