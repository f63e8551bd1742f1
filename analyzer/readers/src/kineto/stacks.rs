//! Python stacks of ops: the functions that enclose them on their thread.

use std::collections::HashMap;

use crate::join::span;
use crate::model::{Call, Frame, Trace};
use crate::nest::{Span, enclosing, parents};

/// Most frames of a stack. Deeper ones lose their callers.
const MOST_FRAMES: usize = 512;

/// Functions that ran, each with its frame.
#[derive(Debug, Default)]
pub(super) struct Functions {
    calls: Vec<(Call, usize)>,
    frames: Vec<Frame>,
    known: HashMap<Frame, usize>,
}

impl Functions {
    /// Adds a call of a function.
    pub(super) fn add(&mut self, call: Call, name: &str) {
        let Some(frame) = frame(name) else { return };
        let next = self.frames.len();
        let place = *self.known.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        self.calls.push((call, place));
    }

    /// Gives each op its stack.
    pub(super) fn join(self, trace: &mut Trace) {
        let spans: Vec<Span> = self.calls.iter().map(|(call, _)| span(*call)).collect();
        let callers = parents(&spans);
        let ops: Vec<Span> = trace.ops.iter().map(|op| span(op.call)).collect();
        let mut stacks: HashMap<Vec<usize>, usize> = HashMap::new();
        let mut by_call: HashMap<usize, usize> = HashMap::new();
        for (op, inner) in trace.ops.iter_mut().zip(enclosing(&spans, &ops)) {
            let Some(inner) = inner else { continue };
            let stack = *by_call.entry(inner).or_insert_with(|| {
                let path = self.path(inner, &callers);
                let next = stacks.len();
                *stacks.entry(path).or_insert(next)
            });
            op.stack = Some(stack);
        }
        let mut numbered: Vec<(usize, Vec<usize>)> =
            stacks.into_iter().map(|(path, number)| (number, path)).collect();
        numbered.sort_unstable();
        trace.stacks = numbered.into_iter().map(|(_, path)| path).collect();
        trace.frames = self.frames;
    }

    /// The frames from a call outwards.
    fn path(&self, inner: usize, callers: &[Option<usize>]) -> Vec<usize> {
        let calls = std::iter::successors(Some(inner), |call| callers.get(*call).copied().flatten());
        calls.take(MOST_FRAMES).filter_map(|call| self.calls.get(call)).map(|(_, frame)| *frame).collect()
    }
}

/// A frame from `file(line): function`. Built-in functions and modules have no line, and are no frames.
fn frame(name: &str) -> Option<Frame> {
    let (place, function) = name.split_once("): ")?;
    let (file, line) = place.rsplit_once('(')?;
    Some(Frame { file: file.to_owned(), function: function.to_owned(), line: line.parse().ok()? })
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
