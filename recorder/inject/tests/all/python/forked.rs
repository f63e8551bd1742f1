//! Tests of forks: a child has a recording of its own, as complete as its parent's.

use std::collections::BTreeSet;

use stallmap_schema::capture::recording::RunFact;
use stallmap_schema::id::PystatesHash;
use stallmap_schema::tables::python::PythonState;
use stallmap_schema::tables::run::Run;
use stallmap_schema::tables::tensor::{Op, Tensor};

use super::*;

/// The segment of the process that ran an op of this name, and how many of them.
fn segment_with(segments: &[PathBuf], name: &str) -> (PathBuf, usize) {
    let count = |segment: &PathBuf| {
        rows::read_segment::<Op>(segment).into_iter().filter(|op| op.name.starts_with(name)).count()
    };
    let found: Vec<_> = segments.iter().map(|segment| (segment.clone(), count(segment))).collect();
    let [one] = &found.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>()[..] else {
        panic!("{name}")
    };
    one.clone()
}

#[test]
fn a_forked_childs_ops_are_recorded() {
    let Some(recording) = record(&program("forked.py"), PassInstrument::Accesses, LaunchSelection::default())
    else {
        return;
    };
    assert_eq!(recording.stdout(), "0\n");
    let segments = rows::segments(recording.directory.path());
    assert_eq!(segments.len(), 2);
    let (parent, of_parent) = segment_with(&segments, "aten::cosh");
    let (child, of_child) = segment_with(&segments, "aten::sinh");
    assert_eq!((of_parent, of_child), (2, 1));
    assert_ne!(parent, child);
    let (parent_run, child_run) =
        (&rows::read_segment::<Run>(&parent)[0], &rows::read_segment::<Run>(&child)[0]);
    assert_eq!(child_run.parent_process_id, Some(parent_run.process_id));
    for segment in [&parent, &child] {
        let states: BTreeSet<PystatesHash> =
            rows::read_segment::<PythonState>(segment).into_iter().map(|state| state.pystates_hash).collect();
        let ops = rows::read_segment::<Op>(segment);
        // Every stack is in the process's own recording.
        assert!(ops.iter().all(|op| op.pystates_hash.is_none_or(|state| states.contains(&state))));
        assert!(ops.iter().any(|op| op.pystates_hash.is_some()));
        assert!(!rows::read_segment::<Tensor>(segment).is_empty());
        // The child leaves by `os._exit`.
        assert!(rows::read_segment::<RunFact>(segment).iter().any(|fact| fact.name == "clean_end"));
    }
}
