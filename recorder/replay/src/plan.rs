//! Plan of a worker process, with its reports: both as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::ablate::Experiment;
use serde::{Deserialize, Serialize};

/// The work of one worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorkerPlan {
    /// The capture.
    pub capture: PathBuf,
    /// Launches to replay, by kernel_id, in this order.
    pub kernels: Vec<u64>,
    /// Launches that ended an earlier worker: recorded as failed, with the reason.
    pub failed: BTreeMap<u64, String>,
    /// Replays of each launch. For samples, the most.
    pub repeats: u32,
    /// Samples: stop when the relative error of every share that matters is below this.
    pub precision: Option<f64>,
    /// Stop replaying a launch after so long, nanoseconds.
    pub budget_ns: u64,
    /// Metrics to measure.
    pub metrics: Vec<String>,
    /// True if caches are flushed before each replay.
    pub is_cold: bool,
    /// Permission to place memory elsewhere than recorded, with pointers translated.
    pub translation: AddressTranslation,
    /// Pages that differ between two replays without an instrument, by launch.
    pub unstable: BTreeMap<u64, BTreeSet<u64>>,
    /// Experiments by launch. Launches with some are not compared: without an instrument the experiments are timed, for
    /// counters the executed instructions of those that need it are counted.
    #[serde(default)]
    pub experiments: BTreeMap<u64, Vec<Experiment>>,
}

/// Permission to place memory elsewhere than recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AddressTranslation {
    /// Forbidden: another process may find the addresses free.
    #[default]
    Never,
    /// Allowed if addresses are taken.
    IfTaken,
    /// All of it.
    Always,
}

/// A line that a worker writes to standard output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum WorkerEvent {
    /// Replays of a launch begin.
    Begin {
        /// The launch.
        kernel_id: u64,
    },
    /// The first replay of an experiment on the launch begins.
    Experiment {
        /// Its position among those of the launch.
        position: usize,
    },
    /// They have ended.
    End(ReplayOutcome),
    /// Addresses are taken in this process: another one may have them free.
    Taken {
        /// The taken addresses.
        detail: String,
    },
    /// Everything that could be done is done.
    Done,
    /// The context is lost after a fault: another process must go on.
    Lost,
    /// Nothing can be replayed at all.
    Failed {
        /// The reason.
        detail: String,
    },
}

/// Result of the replays of one launch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReplayOutcome {
    /// The launch.
    pub kernel_id: u64,
    /// Replays that ran.
    pub repeats: u32,
    /// Replays whose memory came out as recorded, or different only where it is unstable.
    pub good: u32,
    /// Pages that are unstable.
    pub unstable: BTreeSet<u64>,
    /// Median time on the GPU, nanoseconds. Null under an instrument.
    pub duration_ns: Option<u64>,
    /// Samples taken.
    pub samples: u64,
    /// The largest relative error among the shares that matter.
    pub relative_error: Option<f64>,
    /// Warp instructions that the whole launch executed, where they were counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instruction_count: Option<f64>,
    /// The same without the instructions of an experiment: its position, and the count.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiment_counts: Vec<(usize, f64)>,
    /// The error.
    pub detail: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_arrives_as_it_was_written() {
        let outcome = ReplayOutcome {
            kernel_id: 7,
            unstable: [4096].into(),
            instruction_count: Some(10.0),
            experiment_counts: vec![(0, 10.0), (3, 9.0)],
            ..ReplayOutcome::default()
        };
        for event in [WorkerEvent::End(outcome), WorkerEvent::Experiment { position: 3 }, WorkerEvent::Lost] {
            let line = serde_json::to_string(&event).unwrap();
            assert_eq!(serde_json::from_str::<WorkerEvent>(&line).unwrap(), event, "{line}");
        }
    }
}
