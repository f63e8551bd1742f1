//! Python stacks that ops have as an argument, of PyTorch 1.8 to 1.10: later releases write the functions as events.

use std::collections::HashMap;

use crate::model::{RowLink, TraceModel};
use crate::stacks::{FrameTable, MAX_FRAMES, frame};

/// The text between two frames, the inner one first.
const BETWEEN: char = ';';

/// Stacks as they are written. Equal ones are read once.
#[derive(Debug, Default)]
pub(super) struct WrittenStacks {
    known: HashMap<String, RowLink>,
    frames: FrameTable,
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
        let frames = text.split(BETWEEN).filter_map(frame).take(MAX_FRAMES);
        let stack: Vec<usize> = frames.map(|frame| self.frames.place(frame)).collect();
        let place = (!stack.is_empty()).then_some(self.stacks.len());
        self.stacks.extend(place.map(|_| stack));
        let place = place.into();
        self.known.insert(text, place);
        place
    }

    /// Gives the stacks to a trace whose ops have their places, and which has no other ones. Returns the number of stacks
    /// that are left out.
    pub(super) fn join(self, trace: &mut TraceModel, has_functions: bool) -> u64 {
        if has_functions {
            return self.count;
        }
        (trace.frames, trace.stacks) = (self.frames.into_frames(), self.stacks);
        0
    }
}
