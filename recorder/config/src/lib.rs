//! The options of a recording: written to one environment variable by `stallmap-record`, read by the injected library.
//!
//! Nothing here touches files, processes or the GPU.

pub mod durations;
pub mod folder;
pub mod held;
pub mod progress;
pub mod rank;
pub mod recording;

use std::path::PathBuf;

pub use recording::{PassLoss, RECORDING_FILE, RecordingFile, RecordingOption, RecordingPass};
use serde::{Deserialize, Serialize};

/// The variable that carries a [`Config`] as JSON into the program and its children.
pub const VARIABLE: &str = "STALLMAP_CONFIG";

/// The variable that names the library to which NVTX gives a program's ranges.
pub const NVTX_VARIABLE: &str = "NVTX_INJECTION64_PATH";

/// Configuration of the recording of one process.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The recording's folder. Each process makes a folder of its own in it.
    pub directory: PathBuf,
    /// The instrument of this pass.
    pub instrument: PassInstrument,
    /// Selection of launches to record.
    pub selection: LaunchSelection,
    /// Record this many blocks of each launch, spread evenly. All where null.
    pub blocks: Option<u64>,
    /// The extent of accesses.
    pub accesses: AccessExtent,
    /// The address spaces whose accesses are recorded.
    pub spaces: Vec<RecordedSpace>,
    /// Action when the buffer is full.
    pub when_full: FullBufferAction,
    /// Bytes of the buffer that the GPU writes and the host reads.
    pub buffer_bytes: u64,
    /// The method of sampling.
    pub sampling: SamplingMethod,
    /// The PC sampling period is two to this power, in cycles. Chosen by the recorder where null.
    pub sampling_period_exponent: Option<u32>,
    /// Bytes of CUPTI's hardware sample buffer.
    pub sampling_buffer_bytes: u64,
    /// True to record Python stacks, ops and tensors.
    pub python: bool,
    /// True to record native stacks of launches that no op explains.
    pub native_stacks: bool,
    /// Selection of launches to record as bundles, for replay. None if null.
    pub bundles: Option<BundleSelection>,
    /// True if no other run of the program has what this one leaves out to disturb times less: Python's stacks and ops.
    pub is_only_run: bool,
    /// True if `stallmap-record` waits for the file [`held::FILE_NAME`] and samples the program again when it comes.
    pub is_sampled_again: bool,
    /// True where warps note moments, too: only of the instrument for blocks.
    pub marks_warps: bool,
    /// True if the process replays launches of a capture. Only those that it announces are recorded, as runs of them.
    pub replays: bool,
}

/// Selection of bundles among the selected launches of an access pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BundleSelection {
    /// Number of launches of each distinct (function, grid, block, shared memory, shapes of the op). All if null.
    pub per_kind: Option<u64>,
    /// Only kernels whose name, mangled or not, this regular expression finds.
    pub kernels: Option<String>,
    /// Only these kernels. Any where null.
    pub only: Option<Vec<KernelShape>>,
    /// Bytes of contents, before compression, after which no more bundles are recorded.
    pub budget_bytes: u64,
    /// True to record the contents of written pages after the launch, too.
    pub records_after: bool,
}

/// A kernel and the shape of its launches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct KernelShape {
    /// Mangled name.
    pub name: String,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
}

impl Default for BundleSelection {
    fn default() -> Self {
        Self { per_kind: Some(1), kernels: None, only: None, budget_bytes: 4 << 30, records_after: false }
    }
}

/// The instrument of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PassInstrument {
    /// Memory accesses, by the sanitizer API.
    Accesses,
    /// Stall samples, by CUPTI.
    PcSamples,
    /// Hardware counters, by CUPTI's range profiler. Only in replays.
    Counters,
    /// None: launches as they are, only in replays.
    Native,
    /// CUPTI's activity records: measured times, the program's own concurrency.
    Timeline,
    /// Begin and end of each block, by copies of kernels that note them. The sanitizer API announces launches.
    Blocks,
}

/// Kernels that talk to other GPUs while they run, by a regular expression on their names: NCCL, NVSHMEM, PyTorch's
/// symmetric memory. An instrument slows one of several GPUs down while the rest wait for it. Measurements of such a
/// kernel would show the instrument.
pub const COLLECTIVES: &str =
    r"^nccl(Dev)?Kernel|ncclSymk|nvshmem|(one|two)_shot_all_reduce|multimem_(one_shot_)?all_|symm_mem";

/// The file in a recording's folder that starts and stops recording in all its processes: `on` or `off`.
pub const SWITCH: &str = "switch";

/// Selection of recorded launches. Every other launch is counted, with the reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchSelection {
    /// Only kernels whose mangled or demangled name this regular expression finds.
    pub kernels: Option<String>,
    /// No kernels whose mangled or demangled name this regular expression finds.
    pub exclude: Option<String>,
    /// Kernels that talk to other GPUs too: see [`COLLECTIVES`].
    pub collectives: bool,
    /// Leave out the first so many of those.
    pub skip: u64,
    /// Then take one of every so many; 0 and 1 take all.
    pub every: u64,
    /// Then stop after so many. All where null.
    pub count: Option<u64>,
    /// Only launches inside user regions of this name.
    pub region: Option<String>,
    /// Record nothing until the program calls `stallmap.start()`.
    pub paused: bool,
    /// The file [`SWITCH`] in the recording's folder starts and stops recording, too.
    pub has_switch: bool,
    /// Stop so many milliseconds after the first recorded launch. Never where null.
    pub duration_ms: Option<u64>,
    /// Stop when the process has written so many bytes, before they are finished. Never where null.
    pub size_bytes: Option<u64>,
}

/// The extent to which the accesses of selected launches are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessExtent {
    /// Every request of the first launches of each kind is counted, by instruction and block of memory. Some of their
    /// blocks write records. Later launches of the kind refer to these.
    #[default]
    Auto,
    /// Every request of every launch writes a record.
    All,
}

/// The method of sampling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SamplingMethod {
    /// Kernel by kernel: each sample has its launch.
    #[default]
    Serialized,
    /// While the program runs as it does alone. Samples have a window of time, and times are measured in the same run.
    Continuous,
}

/// An address space that can be recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RecordedSpace {
    /// Device memory, asynchronous copies to shared memory too.
    Global,
    /// Memory shared in a block.
    Shared,
    /// Memory private to a thread.
    Local,
}

/// Action when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FullBufferAction {
    /// The kernel waits for the host: nothing is lost.
    Wait,
    /// The request is dropped and counted.
    Drop,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            directory: PathBuf::new(),
            instrument: PassInstrument::Accesses,
            selection: LaunchSelection::default(),
            blocks: None,
            accesses: AccessExtent::default(),
            spaces: vec![RecordedSpace::Global],
            when_full: FullBufferAction::Wait,
            buffer_bytes: 256 << 20,
            sampling: SamplingMethod::default(),
            sampling_period_exponent: None,
            sampling_buffer_bytes: 64 << 20,
            python: true,
            native_stacks: false,
            bundles: None,
            is_only_run: false,
            is_sampled_again: false,
            marks_warps: false,
            replays: false,
        }
    }
}

impl Config {
    /// The value of [`VARIABLE`].
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// True if requests are counted: [`AccessExtent::Auto`], where nothing else in the options needs every record.
    pub fn counts(&self) -> bool {
        self.accesses == AccessExtent::Auto
            && self.instrument == PassInstrument::Accesses
            && self.blocks.is_none()
            && self.when_full == FullBufferAction::Wait
            && self.bundles.is_none()
            && !self.replays
    }

    /// True if the pass samples without a stop for each launch.
    pub fn samples_continuously(&self) -> bool {
        self.instrument == PassInstrument::PcSamples
            && self.sampling == SamplingMethod::Continuous
            && !self.replays
    }

    /// Reads the value of [`VARIABLE`]. Absent options have their default.
    pub fn from_json(json: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_config_survives_the_environment() {
        let selection =
            LaunchSelection { kernels: Some("a b\"c".into()), skip: 3, ..LaunchSelection::default() };
        let config = Config { directory: "/tmp/é".into(), blocks: Some(4), selection, ..Config::default() };
        assert_eq!(Config::from_json(&config.to_json().unwrap()).unwrap(), config);
    }

    #[test]
    fn absent_options_have_defaults() {
        assert_eq!(Config::from_json("{}").unwrap(), Config::default());
    }
}
