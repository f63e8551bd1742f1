//! Python stacks that ops have as an argument, of PyTorch 1.8 to 1.10: later releases write the functions as events.

use std::collections::HashMap;

use crate::model::{RowLink, TraceFrame, TraceModel};
use crate::stacks::{MAX_FRAMES, frame};

/// The text between two frames, the inner one first.
const BETWEEN: char = ';';

/// Stacks as they are written. Equal ones are read once.
#[derive(Debug, Default)]
pub(super) struct WrittenStacks {
    known: HashMap<String, RowLink>,
    places: HashMap<TraceFrame, usize>,
    frames: Vec<TraceFrame>,
    stacks: Vec<Vec<usize>>,
    /// Ops that have one.
    count: u64,
}

impl WrittenStacks {
    /// The place of a stack. None for one without a frame of Python.
    pub(super) fn place(&mut self, text: String) -> RowLink {
        self.count += 1;
        if let Some(place) = self.known.get(&text) {
            return *place;
        }
        let frames: Vec<TraceFrame> = text.split(BETWEEN).filter_map(frame).take(MAX_FRAMES).collect();
        let stack: Vec<usize> = frames.into_iter().map(|frame| self.frame(frame)).collect();
        let place = (!stack.is_empty()).then_some(self.stacks.len());
        self.stacks.extend(place.map(|_| stack));
        let place = place.into();
        self.known.insert(text, place);
        place
    }

    fn frame(&mut self, frame: TraceFrame) -> usize {
        let next = self.frames.len();
        let place = *self.places.entry(frame.clone()).or_insert(next);
        if place == next {
            self.frames.push(frame);
        }
        place
    }

    /// Gives the stacks to a trace whose ops have their places, and which has no other ones. Returns the number of stacks
    /// that are left out.
    pub(super) fn join(self, trace: &mut TraceModel, has_functions: bool) -> u64 {
        if has_functions {
            return self.count;
        }
        (trace.frames, trace.stacks) = (self.frames, self.stacks);
        0
    }
}
