//! Code that a program writes while it runs, to files whose names differ from run to run.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::PystatesHash;
use stallmap_schema::tables::python::PythonFrame;
use stallmap_schema::tables::tensor::Op;

use super::*;

/// Stacks of the ops that the written code calls, and the frames of that code.
fn written(recording: &PythonRecording) -> (BTreeMap<String, BTreeSet<PystatesHash>>, Vec<PythonFrame>) {
    let mut stacks: BTreeMap<String, BTreeSet<PystatesHash>> = BTreeMap::new();
    for op in recording.rows::<Op>() {
        if ["aten::cosh.default", "aten::sinh.default"].contains(&op.name.as_str()) {
            stacks.entry(op.name).or_default().extend(op.pystates_hash);
        }
    }
    let mut frames: Vec<PythonFrame> = recording.rows();
    frames.retain(|frame| frame.function == "forward");
    (stacks, frames)
}

#[test]
fn equal_code_has_one_name_in_all_runs() {
    let record = || record(&program("written.py"), PassInstrument::Accesses, LaunchSelection::default());
    let Some((one, other)) = record().zip(record()) else { return };
    let ((stacks, frames), (other_stacks, other_frames)) = (written(&one), written(&other));
    // Both files that call cosh have the same content, and so the same stack.
    assert_eq!(stacks.values().map(BTreeSet::len).collect::<Vec<_>>(), [1, 1], "{stacks:?}");
    assert_eq!(stacks, other_stacks);
    let names = |frames: &[PythonFrame]| -> BTreeSet<String> {
        frames.iter().map(|frame| frame.file.clone()).collect()
    };
    assert_eq!((names(&frames).len(), names(&frames)), (2, names(&other_frames)), "{frames:?}");
    for frame in frames.iter().chain(&other_frames) {
        assert_ne!(frame.file, frame.original_file);
    }
}
