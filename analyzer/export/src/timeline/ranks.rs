//! Ranks of a timeline. Each rank counts its own GPUs: the same ordinal is another GPU in another rank.

use std::collections::{BTreeMap, BTreeSet};

use super::TimelineProcess;

/// The ranks of runs. None of them with one rank.
#[derive(Default)]
pub(crate) struct TimelineRanks {
    runs: BTreeMap<u32, u32>,
    /// Runs that joined another one have its process.
    processes: BTreeMap<i64, u32>,
}

impl TimelineRanks {
    /// The ranks of the processes of a program.
    pub(crate) fn from_processes(processes: &[TimelineProcess]) -> Self {
        let ranks: BTreeSet<u32> = processes.iter().filter_map(|process| process.rank).collect();
        if ranks.len() < 2 {
            return Self::default();
        }
        Self {
            runs: processes.iter().filter_map(|process| Some((process.run_id, process.rank?))).collect(),
            processes: processes.iter().filter_map(|process| Some((process.id, process.rank?))).collect(),
        }
    }

    /// True with several ranks.
    pub(crate) fn are_several(&self) -> bool {
        !self.runs.is_empty()
    }

    /// The rank of a run, or of the run that has its process.
    pub(crate) fn of(&self, run_id: u32, process_id: Option<i64>) -> Option<u32> {
        self.runs.get(&run_id).or_else(|| self.processes.get(&process_id?)).copied()
    }
}
