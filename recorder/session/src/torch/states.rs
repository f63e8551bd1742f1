//! Python stacks: each frame or state is recorded once, by its stable hash.
//!
//! A stack arrives as UTF-8 text: for each frame, innermost first, five fields, each ended by a zero byte: normalized
//! file, original file, qualified function, first line, current line.

use std::collections::HashSet;

use stallmap_schema::hash::{frame_id, pystates_hash};
use stallmap_schema::id::{FrameId, PystatesHash, RunId};
use stallmap_schema::tables::python::{PythonFrame, PythonState};

use super::recorded::RecordedRow;

/// Fields of a frame.
const FIELDS: usize = 5;

/// The frames and stacks recorded so far.
#[derive(Debug, Default)]
pub struct PythonStates {
    frames: HashSet<FrameId>,
    states: HashSet<PystatesHash>,
}

impl PythonStates {
    /// Records new frames of a stack. Returns its hash, `None` if the text is not a stack.
    pub fn record(&mut self, stack: &str, rows: &mut Vec<RecordedRow>) -> Option<PystatesHash> {
        let frames = parse(stack)?;
        let ids: Vec<FrameId> = frames.iter().map(|frame| frame.frame_id).collect();
        let state = pystates_hash(&ids);
        if !self.states.insert(state) {
            return Some(state);
        }
        rows.extend(
            frames.into_iter().filter(|frame| self.frames.insert(frame.frame_id)).map(RecordedRow::Frame),
        );
        rows.extend((0..).zip(ids).map(|(depth, frame_id)| {
            RecordedRow::State(PythonState { pystates_hash: state, depth, frame_id, run_id: RunId(0) })
        }));
        Some(state)
    }
}

fn parse(stack: &str) -> Option<Vec<PythonFrame>> {
    let Some(stack) = stack.strip_suffix('\0') else { return stack.is_empty().then(Vec::new) };
    let fields: Vec<&str> = stack.split('\0').collect();
    let (frames, rest) = fields.as_chunks::<FIELDS>();
    if !rest.is_empty() {
        return None;
    }
    frames.iter().map(frame).collect()
}

fn frame(&[file, original_file, function, first_line, line]: &[&str; FIELDS]) -> Option<PythonFrame> {
    let (first_line, line) = (first_line.parse().ok()?, line.parse().ok()?);
    Some(PythonFrame {
        frame_id: frame_id(file, function, first_line, line),
        file: file.to_owned(),
        original_file: original_file.to_owned(),
        function: function.to_owned(),
        first_line,
        line,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const INNER: &str = "model.py\0/home/a/model.py\0Model.forward\x0010\x0012\0";
    const OUTER: &str = "train.py\0/home/a/train.py\0<module>\x001\x0030\0";

    #[test]
    fn a_stack_is_recorded_once() {
        let (mut states, mut rows) = (PythonStates::default(), Vec::new());
        let stack = format!("{INNER}{OUTER}");
        let first = states.record(&stack, &mut rows);
        assert_eq!(rows.len(), 4, "{rows:?}");
        assert_eq!(states.record(&stack, &mut rows), first);
        assert_eq!(rows.len(), 4);
        let hash = pystates_hash(&[
            frame_id("model.py", "Model.forward", 10, 12),
            frame_id("train.py", "<module>", 1, 30),
        ]);
        assert_eq!(first, Some(hash));
    }

    #[test]
    fn stacks_share_frames() {
        let (mut states, mut rows) = (PythonStates::default(), Vec::new());
        states.record(&format!("{INNER}{OUTER}"), &mut rows);
        rows.clear();
        states.record(OUTER, &mut rows);
        assert!(matches!(rows[..], [RecordedRow::State(PythonState { depth: 0, .. })]), "{rows:?}");
    }

    #[test]
    fn the_original_file_is_no_part_of_the_identity() {
        let (mut states, mut rows) = (PythonStates::default(), Vec::new());
        let here = states.record(INNER, &mut rows);
        let there = states.record(&INNER.replace("/home/a", "/home/b"), &mut rows);
        assert_eq!(here, there);
    }

    #[test]
    fn what_is_not_a_stack_is_refused() {
        let mut states = PythonStates::default();
        for text in ["a", "a\0b\0", "f\0f\0g\0one\x002\0"] {
            assert_eq!(states.record(text, &mut Vec::new()), None, "{text:?}");
        }
        assert_eq!(states.record("", &mut Vec::new()), Some(pystates_hash(&[])));
    }
}
