//! `stallmap id`, `stallmap pack`, `stallmap unpack`, `stallmap redact`: captures that are passed on.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use regex::Regex;
use stallmap::location::Location;
use stallmap_schema::capture::subset;

use super::examples;

/// `stallmap pack`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap pack train/ train.stallmap", "a file of a folder"),
    ("stallmap pack train.stallmap small.stallmap --without accesses,bundles", "what most questions need"),
    ("stallmap pack train.stallmap step.stallmap --launches 0-1", "some launches, by their kernel_id"),
    ("stallmap pack train.stallmap softmax.stallmap --launches softmax", "launches of kernels whose name matches"),
    ("stallmap pack train.stallmap code.stallmap --only pc_sample", "samples, and what they refer to"),
]))]
pub(crate) struct Pack {
    /// The capture: a folder, a file, or a URL
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: Location,
    /// The capture file to write; it must not exist
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) file: PathBuf,
    /// Leave out a kind of data; what is gone is counted as lost
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub(crate) without: Vec<Kind>,
    /// Keep only these launches: a kernel_id as in 7, a range as in 10-19, or a regular expression for kernel names
    #[arg(long, value_name = "ID|RANGE|REGEX,...", value_delimiter = ',')]
    pub(crate) launches: Vec<Launches>,
    /// Keep only these tables, those that they refer to, and what is known of runs, launches and losses
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// Accesses of kernels to memory: nearly all of most captures
    Accesses,
    /// Memory that bundles hold: launches cannot be replayed any more
    Bundles,
    /// PC samples
    Samples,
    /// Hardware counters
    Counters,
    /// Machine code: instructions, and what waits for what
    Code,
    /// Parameters of launches
    Parameters,
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

/// `stallmap unpack`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap unpack train.stallmap train/", "a folder of a file"),
    ("duckdb -c \"FROM 'train/tables/launch.parquet'\"", "which other tools read as it is"),
]))]
pub(crate) struct Unpack {
    /// The capture file, or a URL of one
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) file: Location,
    /// The folder to make; it must not exist
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
}

/// `stallmap id`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap id train.stallmap", "what the capture holds as one number, and each table as one"),
    ("stallmap id mine.stallmap https://host/yours.stallmap", "exit code 0: they hold the same; 1: what differs is listed"),
]))]
pub(crate) struct Id {
    /// The captures: files, folders or URLs
    #[arg(value_name = "CAPTURE", required = true)]
    pub(crate) captures: Vec<Location>,
}

/// `stallmap redact`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap redact train.stallmap public.stallmap", "without people, machines, folders, arguments, data"),
    ("stallmap redact train.stallmap public.stallmap --also symbols,names", "without names of code and of the model, too"),
    ("stallmap redact b.stallmap b2.stallmap --salt \"$SECRET\"", "captures with one salt can be compared"),
    ("stallmap redact train.stallmap ours.stallmap --keep arguments", "for people who may know how it was started"),
]))]
pub(crate) struct Redact {
    /// The capture: a file, a folder, or a URL
    #[arg(value_name = "CAPTURE")]
    pub(crate) capture: Location,
    /// The capture file to write; it must not exist
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) file: PathBuf,
    /// Replace more
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub(crate) also: Vec<Also>,
    /// Keep what would be replaced
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub(crate) keep: Vec<Keep>,
    /// Give equal secrets equal words in all captures that are redacted with this text; keep it secret
    #[arg(long, value_name = "TEXT")]
    pub(crate) salt: Option<String>,
}

/// What goes on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Also {
    /// Names of kernels, Python functions, custom ops and regions
    Symbols,
    /// Names of modules and parameters of models
    Names,
    /// Base names of files
    Files,
    /// When it was: all times move together, into the year 2000
    Times,
}

/// What stays on demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Keep {
    /// Arguments of programs; paths in them lose their folders all the same
    Arguments,
    /// Texts of errors; paths in them lose their folders all the same
    Details,
    /// Values passed to kernels, with the addresses among them as they were
    Parameters,
    /// What memory of bundled launches held: their data
    Contents,
}
