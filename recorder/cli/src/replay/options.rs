//! The options of `replay`. The comments are the help.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stallmap_replay::ablate::ExperimentKinds;
use stallmap_write::subset::LaunchRanges;

use crate::args::MessageVerbosity;

/// Examples of `replay --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  stallmap-record replay step.stallmap
  stallmap-record replay step.stallmap --kernels gemm --instrument counters --metrics memory,occupancy
  stallmap-record replay step.stallmap --instrument pc-samples --precision 2 --budget 60
  stallmap-record replay step.stallmap --kernels softmax --ablate=tensors,lines
  stallmap-record replay step.stallmap --kernels gemm --redirect
  stallmap-record replay step.stallmap --launches 1 --export repro
  stallmap-record replay step.stallmap --launches 1 --export repro --language python

Launches can be replayed if the capture was recorded with --replay. Each one runs
in fresh processes at its recorded addresses: first without an instrument, to
verify it, then under the instruments. The memory that it writes is compared
each time. The results become further runs of the capture, which is replaced
when all replays are done. The machine code is that of the capture: before it
runs, the command says what runs, and in which sandbox.

Exit codes:
  0    every selected launch was replayed and verified
  1    some were not, or an instrument failed (the capture has the reasons)
  124  the capture could not be written (run `recover` to use what was replayed)
  125  nothing was replayed: wrong options, no bundles, no GPU, no whole sandbox
       with --sandbox require
  128 + the signal that interrupted it (the capture is unchanged, run `recover`
       to use what was replayed)";

/// The options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ReplayOptions {
    /// The capture, recorded with --replay
    #[arg(value_name = "NAME.stallmap")]
    pub capture: PathBuf,
    /// Write a new capture instead of replacing this one
    #[arg(short, long, value_name = "NAME.stallmap")]
    pub output: Option<PathBuf>,
    /// Launches and instruments
    #[command(flatten)]
    pub selection: ReplaySelection,
    /// Number and time of replays
    #[command(flatten)]
    pub extent: ReplayExtent,
    /// Measure the time that memory accesses cost: run each launch again without those of one tensor, source line or
    /// instruction, in turn with the whole [default targets: all three]
    #[arg(
        long,
        value_enum,
        value_name = "TARGET,...",
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true
    )]
    pub ablate: Option<Vec<ExperimentTarget>>,
    /// Measure the time that device memory costs: run each launch again with one object that it reads in L2, and with
    /// all of them, in turn with the launch as it was. Large objects are mapped to a few MiB, small ones are read before
    #[arg(long)]
    pub redirect: bool,
    /// Write each launch as a program into this folder, and replay nothing
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Language of the program [default: c]
    #[arg(long, value_enum, value_name = "LANGUAGE", requires = "export")]
    pub language: Option<LanguageArg>,
    /// Sandbox for the processes that run the machine code: they read libraries and the capture, write the folder of
    /// the replays, and start and reach nothing else. `auto` warns where the kernel lacks a part of it, `require` runs
    /// nothing there
    #[arg(long, value_enum, value_name = "USE", default_value_t = SandboxOption::Auto)]
    pub sandbox: SandboxOption,
    /// Keep the folder of the replays, NAME.stallmap.replays
    #[arg(long)]
    pub keep: bool,
    /// Remove what an interrupted replay left, and replace the output
    #[arg(short, long)]
    pub force: bool,
    /// Verbosity
    #[command(flatten)]
    pub voice: MessageVerbosity,
}

impl ReplayOptions {
    /// The instruments that are wanted.
    pub(super) fn instruments(&self) -> Vec<ReplayInstrument> {
        let named = &self.selection.instrument;
        if named.is_empty() && self.ablate.is_none() && !self.redirect {
            return vec![ReplayInstrument::PcSamples, ReplayInstrument::Counters];
        }
        named.clone()
    }

    /// The experiments that are wanted.
    pub(super) fn targets(&self) -> Option<ExperimentKinds> {
        let named = self.ablate.as_ref()?;
        let has = |target| named.is_empty() || named.contains(&target);
        Some(ExperimentKinds {
            tensors: has(ExperimentTarget::Tensors),
            lines: has(ExperimentTarget::Lines),
            instructions: has(ExperimentTarget::Instructions),
        })
    }
}

/// The use of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SandboxOption {
    /// All of it, or nothing is run
    Require,
    /// The parts that the kernel has
    Auto,
    /// None
    Off,
}

impl SandboxOption {
    /// Its name on the command line.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LanguageArg {
    /// C, built with the driver's headers
    C,
    /// Python, with no package but numpy if it is there
    Python,
}

/// The accesses that an experiment leaves out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExperimentTarget {
    /// All accesses of one tensor's memory
    Tensors,
    /// All accesses of one source line
    Lines,
    /// One memory instruction
    Instructions,
}

/// Launches and instruments.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct ReplaySelection {
    /// Instruments, in this order. A run without an instrument comes first [default: pc-samples,counters, and none with
    /// --ablate or --redirect]
    #[arg(long, value_enum, value_name = "INSTRUMENT,...", value_delimiter = ',')]
    pub instrument: Vec<ReplayInstrument>,
    /// Only kernels whose name, mangled or not, matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = crate::args::regular_expression)]
    pub kernels: Option<String>,
    /// Only these launches: a kernel_id as in 7, a range as in 10-19, or a regular expression for kernel names
    #[arg(long, value_name = "ID|RANGE|REGEX,...", value_delimiter = ',')]
    pub launches: Vec<LaunchRanges>,
    /// Sets of metrics (speed, memory, occupancy, tensor, instructions, issue, sass), or metrics by their names in ncu
    /// [default: all sets but sass]
    #[arg(long, value_name = "SET|METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
}

/// Number and time of replays.
#[derive(Debug, Args)]
#[command(next_help_heading = "Extent")]
pub(crate) struct ReplayExtent {
    /// Replays of each launch, for samples the maximum [default: samples 2000, experiments 15, without an instrument 3, else 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Sample until the 95 % CI of each large share is within PERCENT of it: shares of instructions with 2 % of a
    /// launch's samples or more, or the largest share
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = positive)]
    pub precision: f64,
    /// Start no further replay of a launch under an instrument after SECONDS
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    pub budget: f64,
    /// Sample every 2^EXP cycles [default: by the launch's duration]
    #[arg(long, value_name = "EXP", value_parser = clap::value_parser!(u32).range(5..=31))]
    pub period: Option<u32>,
    /// Caches before each replay: flushed, as in ncu, or as the replay before left them [default: cold for counters,
    /// else warm]
    #[arg(long, value_enum, value_name = "STATE")]
    pub cache: Option<CacheState>,
    /// Place memory anywhere and translate pointers in parameters [default: only if the recorded addresses are taken]
    #[arg(long)]
    pub translate: bool,
    /// End a process that replays one launch for more than SECONDS beyond its budget
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = positive)]
    pub timeout: f64,
}

/// An instrument of replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayInstrument {
    /// None: verified and timed
    Native,
    /// Stall samples
    PcSamples,
    /// Hardware counters
    Counters,
    /// Memory accesses, of launches without any in the capture
    Accesses,
}

impl ReplayInstrument {
    /// Name of its results in messages.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Native => "durations",
            Self::PcSamples => "stall samples",
            Self::Counters => "counters",
            Self::Accesses => "accesses",
        }
    }
}

/// The state of the caches before a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CacheState {
    /// Flushed
    Cold,
    /// As they are
    Warm,
}

/// The options of a worker, which only `replay` starts.
#[derive(Debug, Args)]
pub(crate) struct WorkerOptions {
    /// Its plan, in the folder of the replays
    pub plan: PathBuf,
    /// The capture, which a sandbox lets it read
    #[arg(long)]
    pub capture: Option<PathBuf>,
    /// Its sandbox
    #[arg(long, value_enum, default_value_t = SandboxOption::Auto)]
    pub sandbox: SandboxOption,
}

/// Reads a number of seconds or percent.
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if number > 0.0 && number.is_finite() { Ok(number) } else { Err("use a number above 0".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_percent_are_positive() {
        assert_eq!([positive("2"), positive("0.5")], [Ok(2.0), Ok(0.5)]);
        for wrong in ["0", "-1", "inf", "nan", "1s", ""] {
            assert!(positive(wrong).is_err(), "{wrong}");
        }
    }
}
