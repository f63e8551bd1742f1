//! The command line. The comments are the help.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::bundles;
use stallmap_schema::capture::labels;

use crate::replay::{ReplayOptions, WorkerOptions};

const EXAMPLES: &str = "\
Examples:
  stallmap-record -o step.stallmap -- python train.py --steps 2
  stallmap-record -o gemm.stallmap --kernels 'gemm|nvjet' --count 20 -- ./program
  stallmap-record -o stalls.stallmap --only samples,timeline -- ./program
  stallmap-record -o ddp.stallmap -- torchrun --nproc-per-node 8 train.py
  stallmap-record recover step.stallmap.partial
  stallmap-record doctor

The program runs three times, each time in a fresh process. The first run records
its memory accesses, the second samples its stalls: the driver does not let one
process do both. The third measures times, with the kernels side by side as they
run alone. Output, exit code and signals of the program pass through. Standard
output of later runs is dropped (see --repeat-output). Standard input from a file
is read again, a pipe is empty in later runs.

Every process that the program starts is recorded into the same capture. If
`mpirun` or `srun` starts one stallmap-record for each rank or host, each writes
NAME.rankN.stallmap. `stallmap-record merge` makes one of them (see --keep).

Exit codes:
  the program's own, or 128 + the signal that ended it
  124  the program succeeded, but the capture could not be written (run `recover`
       to use what was recorded)
  125  the program was not run: wrong options, output exists or cannot be written
  126  the program could not be run
  127  the program was not found
If nothing was recorded (no CUDA in the program, the recorder's library is
missing), a warning is printed, no capture is written, and the exit code is the
program's.";

/// Record a program's GPU memory accesses and stalls into one capture.
#[derive(Debug, Parser)]
#[command(name = "stallmap-record", version, after_help = EXAMPLES, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(override_usage = "stallmap-record [OPTIONS] -o NAME.stallmap -- PROGRAM [ARGUMENTS]...\n       \
                            stallmap-record recover|merge|replay|doctor [OPTIONS]")]
pub(crate) struct RecorderArgs {
    /// The subcommand, instead of a recording.
    #[command(subcommand)]
    pub command: Option<RecorderCommand>,
    /// The recording.
    #[command(flatten)]
    pub record: RecordOptions,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub(crate) enum RecorderCommand {
    /// Make a capture of an interrupted recording, or add the results of interrupted replays
    Recover(RecoverOptions),
    /// Make one capture of the recordings of several hosts or ranks
    Merge(MergeOptions),
    /// Run recorded launches again under other instruments, and add the results to their capture
    Replay(ReplayOptions),
    /// Replay the launches of a plan in a process of its own
    #[command(hide = true)]
    ReplayWorker(WorkerOptions),
    /// Show what this machine can and cannot record, and how to fix it
    Doctor(DoctorOptions),
    /// Look at one library from a process that may crash
    #[command(hide = true)]
    Probe(ProbeOptions),
}

/// The options of a recording.
#[derive(Debug, Args)]
pub(crate) struct RecordOptions {
    /// The capture to write
    #[arg(short, long, value_name = "NAME.stallmap", required = true)]
    pub output: Option<PathBuf>,
    /// Record these sides only, with one run of the program for each
    #[arg(long, value_enum, value_name = "SIDE,...", value_delimiter = ',')]
    pub only: Vec<ProbeSide>,
    /// Selection and volume
    #[command(flatten)]
    pub volume: VolumeOptions,
    /// Method
    #[command(flatten)]
    pub method: MethodOptions,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM", help_heading = "Arguments")]
    pub program: Vec<OsString>,
}

/// The volume of a recording.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(next_help_heading = "Volume")]
pub(crate) struct VolumeOptions {
    /// Record only kernels whose name, mangled or not, matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = regular_expression)]
    pub kernels: Option<String>,
    /// Leave out kernels whose name, mangled or not, matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = regular_expression)]
    pub exclude: Option<String>,
    /// Record kernels that wait for other GPUs too (NCCL, NVSHMEM, symmetric memory) [default: only count them]
    #[arg(long)]
    pub collectives: bool,
    /// Skip the first N launches of these kernels
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub skip: u64,
    /// Then record one of every N launches
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    pub every: u64,
    /// Then stop after N launches
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Extent of accesses. `auto` counts every request of the first launches of each kind on the GPU, records some of
    /// them one by one, and lets later launches of the kind refer to these. `all` records every request of every launch
    #[arg(long, value_enum, value_name = "EXTENT", default_value_t = ExtentArg::Auto)]
    pub accesses: ExtentArg,
    /// Stop recording so long after the first recorded launch, such as 500ms, 30s or 10m. The program runs on
    #[arg(long, value_name = "TIME", value_parser = duration_ms)]
    pub duration: Option<u64>,
    /// Stop recording when a run of a process has written SIZE bytes, such as 2G. The program runs on
    #[arg(long, value_name = "SIZE", value_parser = budget)]
    pub max_size: Option<u64>,
    /// Record the accesses of N blocks of each launch, spread evenly over its grid
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub blocks: Option<u64>,
    /// Run the program once more, and record begin, end and multiprocessor of every block of the first launches of each
    /// kind
    #[arg(long)]
    pub blocks_timeline: bool,
    /// Like `--blocks-timeline`, and record when warps of some blocks wait at barriers and mbarriers, copy and multiply, at
    /// 50 cycles a moment
    #[arg(long, conflicts_with = "blocks_timeline")]
    pub warps_timeline: bool,
    /// Record only inside `stallmap.region(NAME)`
    #[arg(long, value_name = "NAME")]
    pub region: Option<String>,
    /// Record nothing until the program calls `stallmap.start()`
    #[arg(long)]
    pub paused: bool,
    /// Start recording at SIGUSR1 to stallmap-record, and stop at SIGUSR2. The program does not get these signals
    #[arg(long)]
    pub signals: bool,
    /// Address spaces whose accesses are recorded
    #[arg(long, value_enum, value_name = "SPACE,...", value_delimiter = ',', default_value = "global")]
    pub spaces: Vec<SpaceArg>,
    /// Record launches with their memory too, for `replay`: one (`distinct`) or N (`distinct:N`) of each kernel, grid
    /// and shapes, or `all`. `share:PERCENT` limits them to the kernels that together have PERCENT of the samples, and
    /// takes the samples first
    #[arg(long, value_name = "SELECTION", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "distinct", value_parser = str::parse::<bundles::BundleOptions>)]
    pub replay: Option<bundles::BundleOptions>,
    /// With --replay, only kernels whose name, mangled or not, matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = regular_expression, requires = "replay")]
    pub replay_kernels: Option<String>,
    /// Stop recording memory after SIZE bytes, each page once and before compression
    #[arg(long, value_name = "SIZE", default_value = "4G", value_parser = budget)]
    pub replay_budget: u64,
    /// With --replay, record memory after each launch too, for the values that it writes: table `access_value`
    #[arg(long, requires = "replay")]
    pub replay_values: bool,
}

/// The method of sampling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SamplingArg {
    /// Launch by launch
    Serialized,
    /// By windows of time
    Continuous,
}

/// The extent of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExtentArg {
    /// Counts, and some requests
    Auto,
    /// Every request
    All,
}

/// The method of a recording.
#[derive(Debug, Args)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of the command line")]
#[command(next_help_heading = "Method")]
pub(crate) struct MethodOptions {
    /// Action when the buffer is full
    #[arg(long, value_enum, value_name = "DO", default_value_t = WhenFullArg::Wait)]
    pub when_full: WhenFullArg,
    /// Bytes of the buffer between GPU and host, such as 64M or 1G
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = size)]
    pub buffer: u64,
    /// Method of sampling. `serialized` runs selected kernels one after the other: each sample has its launch.
    /// `continuous` lets the program run as it does alone: samples have the launches of their function that ran at the
    /// time, and times are measured in the same run
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = SamplingArg::Serialized)]
    pub sampling: SamplingArg,
    /// Run the program once: sample continuously, measure times, and record Python stacks and ops in the same run. Memory
    /// accesses and tensors are not recorded, so stalls have lines but no tensors
    #[arg(long, conflicts_with_all = ["only", "sampling", "replay", "blocks_timeline", "warps_timeline"])]
    pub one_run: bool,
    /// Sample every 2^EXP cycles [default: by the run's length, 16 where continuous]
    #[arg(long, value_name = "EXP", value_parser = clap::value_parser!(u32).range(5..=31))]
    pub period: Option<u32>,
    /// Record no Python stacks, ops and tensors
    #[arg(long)]
    pub no_python: bool,
    /// Record native stacks of launches that no op of PyTorch explains
    #[arg(long)]
    pub native_stacks: bool,
    /// Let the program print in its later runs too
    #[arg(long)]
    pub repeat_output: bool,
    /// Path of the recorder's library [default: next to this executable]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
    /// Replace an existing capture, and remove an interrupted recording of this name
    #[arg(short, long)]
    pub force: bool,
    /// Keep the recording's folder, NAME.stallmap.partial
    #[arg(long)]
    pub keep: bool,
    /// Label the capture, such as model=gpt2. A CI job's commit and branch are labels by default
    #[arg(long, value_name = "KEY=VALUE", value_parser = labels::parse)]
    pub label: Vec<(String, String)>,
    /// Store no rows of views in the capture [default: `stallmap prepare --in-place`, if installed next to this program]
    #[arg(long)]
    pub no_prepare: bool,
    /// Verbosity
    #[command(flatten)]
    pub voice: MessageVerbosity,
}

impl MethodOptions {
    /// The method of sampling. One run measures times too, which serialized kernels would falsify.
    pub(crate) fn sampling(&self) -> SamplingArg {
        if self.one_run { SamplingArg::Continuous } else { self.sampling }
    }
}

/// Verbosity of messages on stderr.
#[derive(Clone, Copy, Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageVerbosity {
    /// Print only warnings and errors
    #[arg(short, long)]
    pub quiet: bool,
    /// Print each step
    #[arg(short, long, conflicts_with = "quiet")]
    pub verbose: bool,
}

/// The options of `recover`.
#[derive(Debug, Args)]
pub(crate) struct RecoverOptions {
    /// The folder that the recording left, NAME.stallmap.partial, or that replays left, NAME.stallmap.replays
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// The capture to write [default: the folder's name without its ending]
    #[arg(short, long, value_name = "NAME.stallmap")]
    pub output: Option<PathBuf>,
    /// Replace an existing capture
    #[arg(short, long)]
    pub force: bool,
    /// Store no rows of views in the capture [default: `stallmap prepare --in-place`, if installed next to this program]
    #[arg(long)]
    pub no_prepare: bool,
    /// Verbosity
    #[command(flatten)]
    pub voice: MessageVerbosity,
}

/// The options of `merge`.
#[derive(Debug, Args)]
pub(crate) struct MergeOptions {
    /// The folders that `stallmap-record --keep` left, one of each host or rank: NAME.stallmap.partial
    #[arg(value_name = "DIR", required = true, num_args = 1..)]
    pub folders: Vec<PathBuf>,
    /// The capture to write
    #[arg(short, long, value_name = "NAME.stallmap")]
    pub output: PathBuf,
    /// Replace an existing capture
    #[arg(short, long)]
    pub force: bool,
    /// Store no rows of views in the capture [default: `stallmap prepare --in-place`, if installed next to this program]
    #[arg(long)]
    pub no_prepare: bool,
    /// Verbosity
    #[command(flatten)]
    pub voice: MessageVerbosity,
}

/// The options of `doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorOptions {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// The Python whose packages are searched
    #[arg(long, value_name = "PATH", default_value = "python3")]
    pub python: PathBuf,
    /// Path of the recorder's library [default: next to this executable]
    #[arg(long, value_name = "PATH")]
    pub library: Option<PathBuf>,
}

/// The options of `probe`.
#[derive(Debug, Args)]
pub(crate) struct ProbeOptions {
    /// The kind of library
    #[arg(value_enum)]
    pub part: ProbedPart,
    /// The library, or the folder
    pub path: PathBuf,
}

/// The kinds of library that `probe` knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbedPart {
    /// Any library: loads it.
    Library,
    /// The driver: its version and devices.
    Driver,
    /// The sanitizer API.
    Sanitizer,
    /// CUPTI: its version.
    Cupti,
    /// CUPTI and the library next to it: checks that they measure hardware counters.
    Profiler,
    /// The run-time compiler: its version. Checks that it compiles for tools.
    Nvrtc,
    /// The sandbox of replays, for the folder at the path: the parts that are in force.
    Sandbox,
}

/// One side of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum ProbeSide {
    /// Memory accesses, tensors, allocations, copies
    Accesses,
    /// Stall samples
    Samples,
    /// Measured times of kernels, copies and waits, at nearly no cost
    Timeline,
}

/// An address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SpaceArg {
    /// Device memory
    Global,
    /// Memory shared in a block
    Shared,
    /// Memory private to a thread
    Local,
}

/// Action when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WhenFullArg {
    /// The kernel waits for the host: nothing is lost
    Wait,
    /// Accesses are dropped and counted
    Drop,
}

/// Rejects an invalid regular expression while the command line can still be corrected.
pub(crate) fn regular_expression(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Reads the size of a buffer.
fn size(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if (1 << 20..=64 << 30).contains(&bytes) { Ok(bytes) } else { Err("use 1M to 64G".to_owned()) }
}

/// Reads the size of a budget on the disk.
fn budget(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    if (1 << 20..=1 << 40).contains(&bytes) { Ok(bytes) } else { Err("use 1M to 1T".to_owned()) }
}

/// Reads a time such as `30s`, in milliseconds.
fn duration_ms(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|symbol: char| symbol.is_ascii_alphabetic());
    let unit_ms = match &text[digits.len()..] {
        "ms" => 1.0,
        "" | "s" => 1e3,
        "m" | "min" => 6e4,
        "h" => 3.6e6,
        other => return Err(format!("`{other}` is not a unit: use ms, s, m or h")),
    };
    let number: f64 = digits.parse().map_err(|_| "a time is a number and ms, s, m or h".to_owned())?;
    let time = std::time::Duration::try_from_secs_f64(number * unit_ms / 1e3);
    let millis = time.ok().and_then(|time| u64::try_from(time.as_millis()).ok());
    millis.filter(|millis| *millis > 0).ok_or_else(|| "use a time of at least 1ms".to_owned())
}

/// Reads a size such as `64M`, in powers of 1024.
fn bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|symbol: char| !symbol.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches("IB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        other => return Err(format!("`{other}` is not a unit: use K, M, G or T")),
    };
    let number: u64 = digits.parse().map_err(|_| "a size is a number and K, M, G or T".to_owned())?;
    number.checked_mul(1 << shift).ok_or_else(|| "that is more than a machine can hold".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let read = ["500ms", "30", "1.5s", "10m", "2h"].map(duration_ms);
        assert_eq!(read, [500, 30_000, 1_500, 600_000, 7_200_000].map(Ok));
        for wrong in ["", "s", "0", "-1s", "1d", "0.1ms", "1e300h", "é"] {
            assert!(duration_ms(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(
            [size("64M"), size("1g"), size("2GiB"), size("1048576")],
            [64 << 20, 1 << 30, 2 << 30, 1 << 20].map(Ok)
        );
        for wrong in ["", "M", "12X", "1K", "99999999999G", "-1M", "é"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
        assert_eq!((budget("1T"), size("1T").is_err()), (Ok(1 << 40), true));
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory as _;
        RecorderArgs::command().debug_assert();
    }
}
