//! Python frames and stacks: the same in every run, so each is stored once.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::word::LossKind;

use crate::loss::Losses;
use crate::runs::RunState;

/// Rows of `python_frame` and `python_state` of all runs. A stack belongs to the first run that saw it.
pub(crate) fn merge(runs: &mut [RunState], losses: &mut Losses) -> (Vec<PythonFrame>, Vec<PythonState>) {
    let mut frames = BTreeMap::new();
    let mut states = BTreeMap::new();
    for run in runs.iter_mut() {
        for frame in std::mem::take(&mut run.rows.frames) {
            frames.entry(frame.frame_id).or_insert(frame);
        }
        for state in std::mem::take(&mut run.rows.states) {
            states.entry((state.pystates_hash, state.depth)).or_insert(state);
        }
    }
    // A stack without one of its frames would look like another stack, so all of it is left out.
    let broken: BTreeSet<_> = states
        .values()
        .filter(|state: &&PythonState| !frames.contains_key(&state.frame_id))
        .map(|state| state.pystates_hash)
        .collect();
    states.retain(|_, state| {
        let whole = !broken.contains(&state.pystates_hash);
        if !whole && state.depth == 0 {
            losses.add(state.run_id, LossKind::Op, "a frame of its python stack was not recorded", 1);
        }
        whole
    });
    (frames.into_values().collect(), states.into_values().collect())
}
