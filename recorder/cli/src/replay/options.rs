//! The options of `replay`; the comments are the help.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use regex::Regex;
use stallmap_schema::capture::subset;

use crate::args::Voice;

/// Examples of `replay --help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  stallmap-record replay step.stallmap
  stallmap-record replay step.stallmap --kernels gemm --instrument counters --metrics memory,occupancy
  stallmap-record replay step.stallmap --instrument pc-samples --precision 2 --budget 60
  stallmap-record replay step.stallmap --launches 1 --export repro

Launches are there to be replayed where the capture was recorded with --replay.
Each is run in fresh processes at the addresses that it had, once without any
instrument to see that it does what it did, then under the instruments; what
it wrote is compared each time. The results become further runs of the capture,
which is replaced when all is done.

Exit codes:
  0    every launch that was asked for was replayed and verified
  1    some were not, or an instrument failed; the capture says which, and why
  124  the capture could not be written; what was replayed is kept for `recover`
  125  nothing was replayed: wrong options, no bundles, no GPU
  128 + the signal that interrupted it; the capture is as it was, and what was
       replayed is kept for `recover`";

/// The options of `replay`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Replay {
    /// The capture, recorded with --replay
    #[arg(value_name = "NAME.stallmap")]
    pub capture: PathBuf,
    /// Write a new capture instead of replacing this one
    #[arg(short, long, value_name = "NAME.stallmap")]
    pub output: Option<PathBuf>,
    /// Which launches, under what
    #[command(flatten)]
    pub selection: Selection,
    /// How often and how long
    #[command(flatten)]
    pub extent: Extent,
    /// Write each launch as a program of its own into this folder, and replay nothing
    #[arg(long, value_name = "DIR")]
    pub export: Option<PathBuf>,
    /// Keep the folder of what the replays wrote
    #[arg(long)]
    pub keep: bool,
    /// Give up what an interrupted replay left, and replace the output
    #[arg(short, long)]
    pub force: bool,
    /// How much to say
    #[command(flatten)]
    pub voice: Voice,
}

/// What is replayed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// The instruments, one after the other; all begin with a run without any
    #[arg(
        long,
        value_enum,
        value_name = "INSTRUMENT,...",
        value_delimiter = ',',
        default_value = "pc-samples,counters"
    )]
    pub instrument: Vec<Instrument>,
    /// Only kernels whose name, mangled or not, this regular expression finds
    #[arg(long, value_name = "REGEX", value_parser = crate::args::regular_expression)]
    pub kernels: Option<String>,
    /// Only these launches: a kernel_id as in 7, a range as in 10-19, or a regular expression for kernel names
    #[arg(long, value_name = "ID|RANGE|REGEX,...", value_delimiter = ',')]
    pub launches: Vec<Launches>,
    /// Sets of metrics (speed, memory, occupancy, tensor, instructions, issue, sass) or single ones by their names in ncu;
    /// all sets but sass otherwise
    #[arg(long, value_name = "SET|METRIC,...", value_delimiter = ',')]
    pub metrics: Vec<String>,
}

/// Launches, as they are named on the command line.
#[derive(Clone, Debug)]
pub(crate) enum Launches {
    /// By `kernel_id`; both ends belong to the range.
    Ids(RangeInclusive<u64>),
    /// By the name of the kernel.
    Kernel(Regex),
}

impl FromStr for Launches {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse()? {
            subset::Launches::Ids(ids) => Ok(Self::Ids(ids)),
            subset::Launches::Kernel(name) => {
                Regex::new(&name).map(Self::Kernel).map_err(|cause| cause.to_string())
            }
        }
    }
}

/// How much is replayed.
#[derive(Debug, Args)]
#[command(next_help_heading = "Extent")]
pub(crate) struct Extent {
    /// Replays of each launch: for samples the most (2000 otherwise), else all (3 without an instrument, else 1)
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// Sample until the share of every instruction with 2 % of a launch's samples or more, or of the largest, is known to
    /// so many percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = positive)]
    pub precision: f64,
    /// Begin no further replay of a launch under an instrument after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 10.0, value_parser = positive)]
    pub budget: f64,
    /// Sample every 2^EXP cycles; chosen by the launch's duration otherwise
    #[arg(long, value_name = "EXP", value_parser = clap::value_parser!(u32).range(5..=31))]
    pub period: Option<u32>,
    /// Caches before each replay: cold, as ncu does it, or as the replay before left them; counters begin cold, all else
    /// warm
    #[arg(long, value_enum, value_name = "STATE")]
    pub cache: Option<Cache>,
    /// Place memory anywhere and translate the pointers in parameters, as is done where the recorded addresses are taken
    #[arg(long)]
    pub translate: bool,
    /// End a process that replays one launch for more than so many seconds beyond its budget
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0, value_parser = positive)]
    pub timeout: f64,
}

/// An instrument of replays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Instrument {
    /// None: verified and timed
    Native,
    /// Stall samples
    PcSamples,
    /// Hardware counters
    Counters,
    /// Memory accesses, of launches that the capture has none of
    Accesses,
}

impl Instrument {
    /// What it gives, in messages.
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
pub(crate) enum Cache {
    /// Flushed
    Cold,
    /// As they are
    Warm,
}

/// The options of a worker, which nobody but `replay` starts.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Its plan
    pub plan: PathBuf,
}

/// Reads a number of seconds or percent.
fn positive(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "it is no number".to_owned())?;
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
