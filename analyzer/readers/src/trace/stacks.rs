//! Python stacks of ops and of launch calls: the functions that enclose them on their thread.

use std::collections::HashMap;

use crate::trace::join::span;
use crate::trace::model::{RowLink, TraceCall, TraceFrame, TraceKernel, TraceModel};
use crate::trace::nest::{ThreadSpan, enclosing, parents};

/// Most frames of a stack. Deeper ones lose their callers.
const MAX_FRAMES: usize = 512;

/// Functions that ran, each with its frame.
#[derive(Debug, Default)]
pub struct FrameFunctions {
    calls: Vec<(TraceCall, RowLink)>,
    /// Frames by the names of their functions. Built-in ones have none.
    names: HashMap<Box<str>, RowLink>,
    frames: Vec<TraceFrame>,
    known: HashMap<TraceFrame, usize>,
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
            let place = frame(name).map_or_else(RowLink::default, |frame| self.place(frame).into());
            self.names.insert(name.into(), place);
            place
        };
        if place.get().is_none() {
            self.built_in += 1;
            return;
        }
        self.calls.push((call, place));
    }

    /// The place of a frame. Functions of one place may have several names.
    fn place(&mut self, frame: TraceFrame) -> usize {
        let next = self.frames.len();
        let place = *self.known.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
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
        let point = |call: TraceCall| ThreadSpan { end_ns: call.begin_ns, ..span(call) };
        let called = trace.kernels.iter_mut().filter_map(|kernel| Some((kernel.call?, kernel)));
        let (points, kernels): (Vec<ThreadSpan>, Vec<&mut TraceKernel>) =
            called.map(|(call, kernel)| (point(call), kernel)).unzip();
        for (kernel, inner) in kernels.into_iter().zip(enclosing(&self.calls, &points)) {
            let inner = inner.get();
            kernel.stack = inner.map(|inner| stacks.place(inner, || self.path(inner, &callers)));
        }
        trace.stacks = stacks.in_order();
        trace.frames = self.frames;
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

/// A frame from `file(line): function`. Built-in functions and modules have no line, and are no frames.
fn frame(name: &str) -> Option<TraceFrame> {
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
