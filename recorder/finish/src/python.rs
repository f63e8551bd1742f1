//! Python frames and stacks: the same in every run, so each is stored once.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_schema::id::{FrameId, PystatesHash};
use stallmap_schema::tables::python::{PythonFrame, PythonState};
use stallmap_schema::word::LossKind;

use crate::loss::LossTotals;
use crate::runs::RunState;

/// Frames and stacks of runs, each once.
#[derive(Debug, Default)]
pub(crate) struct PythonStacks {
    frames: BTreeMap<FrameId, PythonFrame>,
    states: BTreeMap<(PystatesHash, u32), PythonState>,
}

impl PythonStacks {
    /// Adds those of a run. A stack belongs to the first run that saw it.
    pub(crate) fn add(&mut self, run: &mut RunState) {
        for frame in std::mem::take(&mut run.rows.frames) {
            self.frames.entry(frame.frame_id).or_insert(frame);
        }
        for state in std::mem::take(&mut run.rows.states) {
            self.states.entry((state.pystates_hash, state.depth)).or_insert(state);
        }
    }

    /// Rows of `python_frame` and `python_state`. A stack without one of its frames would look like another stack, so
    /// none is left of it.
    pub(crate) fn into_rows(self, losses: &mut LossTotals) -> (Vec<PythonFrame>, Vec<PythonState>) {
        let Self { frames, mut states } = self;
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
}
