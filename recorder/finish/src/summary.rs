//! Progress and summary of finalizing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use stallmap_schema::capture::manifest::Manifest;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::replay::Bundle;
use stallmap_schema::tables::run::Run;
use stallmap_schema::word::{Match, ReplayResult};

use crate::runs::RunState;

/// Progress of finalizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FinishProgress {
    /// The current stage.
    pub stage: &'static str,
    /// Units done.
    pub done: u64,
    /// Units in total.
    pub total: u64,
}

/// Contents and losses of a finalized recording.
#[derive(Clone, Debug)]
pub struct FinishSummary {
    /// The capture.
    pub output: PathBuf,
    /// Its bytes.
    pub bytes: u64,
    /// Its manifest.
    pub manifest: Manifest,
    /// Its runs.
    pub runs: Vec<RunSummary>,
    /// The bundles that were recorded. None where replays were appended.
    pub bundles: BundleSummary,
    /// Everything that was not recorded, as in the capture's table.
    pub losses: Vec<Loss>,
}

/// Launches that were selected for replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundleSummary {
    /// All of them.
    pub selected_count: u64,
    /// Bundles that can be replayed.
    pub bundle_count: u64,
    /// Bytes of the contents of their pages, each counted once.
    pub content_bytes: u64,
    /// Number of launches that cannot be replayed, by reason.
    pub refusals: BTreeMap<String, u64>,
}

/// Accesses that were counted on the GPU, with those of them that have rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedAccesses {
    /// Warp requests.
    pub request_count: u64,
    /// Lane accesses in them.
    pub lane_access_count: u64,
}

/// One run of a finalized recording.
#[derive(Clone, Debug)]
pub struct RunSummary {
    /// Its row.
    pub run: Run,
    /// True if the process reported that it had written everything.
    pub clean_end: bool,
    /// Launches that it saw.
    pub launch_count: u64,
    /// Launches that match none of the reference run; 0 in a reference run.
    pub unmatched_launch_count: u64,
    /// Warp requests recorded.
    pub request_count: u64,
    /// Lane accesses in them.
    pub lane_access_count: u64,
    /// Accesses that were counted.
    pub counted: CountedAccesses,
    /// Samples taken, the dropped ones too.
    pub sample_count: u64,
    /// Work of the GPUs with its measured time.
    pub activity_count: u64,
    /// Blocks with their time.
    pub block_count: u64,
    /// Replays, by their result.
    pub replays: BTreeMap<ReplayResult, u64>,
    /// Values of hardware counters.
    pub counter_count: u64,
    /// Experiments on launches.
    pub experiment_count: u64,
}

impl FinishSummary {
    pub(crate) fn new(runs: Vec<RunSummary>, losses: Vec<Loss>, manifest: Manifest, output: &Path) -> Self {
        let bytes = output.metadata().map_or(0, |metadata| metadata.len());
        let bundles = BundleSummary::default();
        Self { output: output.to_owned(), bytes, manifest, runs, bundles, losses }
    }
}

impl BundleSummary {
    /// Counts a selected launch.
    pub(crate) fn count(&mut self, bundle: &Bundle) {
        self.selected_count += 1;
        match &bundle.refusal {
            None => self.bundle_count += 1,
            Some(reason) => *self.refusals.entry(reason.clone()).or_default() += 1,
        }
    }
}

impl RunSummary {
    pub(crate) fn new(run: &RunState) -> Self {
        let launches = &run.rows.launch_runs;
        let sum = |count: fn(&LaunchRun) -> Option<u64>| launches.iter().filter_map(count).sum();
        let unmatched = launches.iter().filter(|row| row.matched == Match::Unmatched).count();
        let mut replays = BTreeMap::new();
        for replay in &run.rows.replays {
            *replays.entry(replay.result).or_default() += 1;
        }
        Self {
            run: run.row.clone(),
            clean_end: run.clean_end,
            launch_count: launches.len() as u64,
            unmatched_launch_count: unmatched as u64,
            request_count: sum(|row| row.request_count),
            lane_access_count: sum(|row| row.lane_access_count),
            counted: run.counted,
            sample_count: sum(|row| row.sample_count),
            activity_count: run.activity_count,
            block_count: run.block_count,
            replays,
            counter_count: run.rows.counters.len() as u64,
            experiment_count: (run.rows.ablations.len() + run.rows.redirects.len()) as u64,
        }
    }
}
