//! `stallmap id`, `stallmap pack`, `stallmap unpack`, `stallmap redact`: captures that are passed on.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;
use stallmap_schema::capture::labels;
use stallmap_write::subset::LaunchRanges;

use super::examples;

/// `stallmap pack`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap pack train/ train.stallmap", "a file from a folder"),
    ("stallmap pack train.stallmap small.stallmap --without accesses,bundles", "the data for most queries"),
    ("stallmap pack train.stallmap step.stallmap --launches 0-1", "some launches, by kernel_id"),
    ("stallmap pack train.stallmap softmax.stallmap --launches softmax", "launches of kernels by name"),
    ("stallmap pack train.stallmap code.stallmap --only pc_sample", "samples, and the tables that they refer to"),
    ("stallmap pack train.stallmap text.stallmap --source-root .", "with the text of source lines, for an older capture"),
]))]
pub struct PackArgs {
    /// Capture: a folder, a file, or a URL
    #[arg(value_name = "CAPTURE")]
    pub capture: CaptureLocation,
    /// Capture file to write. It must not exist
    #[arg(value_name = "NAME.stallmap")]
    pub file: PathBuf,
    /// Omit a kind of data. Omitted data counts as lost
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub without: Vec<DataKind>,
    /// Keep only these launches: a kernel_id as in 7, a range as in 10-19, or a regular expression for kernel names
    #[arg(long, value_name = "ID|RANGE|REGEX,...", value_delimiter = ',')]
    pub launches: Vec<LaunchRanges>,
    /// Keep only these tables, the tables that they refer to, and metadata of runs, launches and losses
    #[arg(long, value_name = "TABLE", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Add the text of the source lines that stacks and code name, from files below this folder
    #[arg(long = "source-root", value_name = "DIR", conflicts_with_all = ["without", "launches", "only"])]
    pub root: Option<PathBuf>,
}

/// A kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DataKind {
    /// Memory accesses of kernels, the largest part of most captures
    Accesses,
    /// Memory in bundles. Without it, launches cannot be replayed
    Bundles,
    /// PC samples
    Samples,
    /// Hardware counters
    Counters,
    /// Machine code: instructions and producers
    Code,
    /// Parameters of launches
    Parameters,
}

/// `stallmap label`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap label train.stallmap", "show the labels in its manifest"),
    ("stallmap label train.stallmap model=gpt2 commit=1f3a9c0", "set two"),
    ("stallmap label train.stallmap model=", "remove one"),
]))]
pub struct LabelArgs {
    /// Capture, a file or a folder. Its manifest is replaced, its ids stay
    #[arg(value_name = "NAME.stallmap")]
    pub capture: PathBuf,
    /// Labels to set. An empty value removes the label
    #[arg(value_name = "KEY=VALUE", value_parser = labels::parse)]
    pub labels: Vec<(String, String)>,
}

/// `stallmap unpack`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap unpack train.stallmap train/", "a folder from a file"),
    ("duckdb -c \"FROM 'train/tables/launch.parquet'\"", "for other tools"),
]))]
pub struct UnpackArgs {
    /// Capture file, or a URL of one
    #[arg(value_name = "NAME.stallmap")]
    pub file: CaptureLocation,
    /// Folder to create. It must not exist
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// `stallmap id`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap id train.stallmap", "one number for the capture, and one per table"),
    ("stallmap id mine.stallmap https://host/yours.stallmap", "exit code 0 for equal content, else 1 with a list"),
]))]
pub struct IdArgs {
    /// Captures: files, folders or URLs
    #[arg(value_name = "CAPTURE", required = true)]
    pub captures: Vec<CaptureLocation>,
}

/// `stallmap redact`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap redact train.stallmap public.stallmap", "without users, machines, folders, arguments, data"),
    ("stallmap redact train.stallmap public.stallmap --also symbols,names", "also without names of code and of the model"),
    ("stallmap redact train.stallmap public.stallmap --coarsen", "also without the elements that were read"),
    ("stallmap redact b.stallmap b2.stallmap --salt \"$SECRET\"", "captures with one salt can be compared"),
    ("stallmap redact train.stallmap internal.stallmap --keep arguments", "for readers who may know the command line"),
]))]
pub struct RedactArgs {
    /// Capture: a file, a folder, or a URL
    #[arg(value_name = "CAPTURE")]
    pub capture: CaptureLocation,
    /// Capture file to write. It must not exist
    #[arg(value_name = "NAME.stallmap")]
    pub file: PathBuf,
    /// Replace additional data
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub also: Vec<AlsoRemove>,
    /// Keep data that is replaced by default
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    pub keep: Vec<KeepArg>,
    /// Replace each memory access by counts. Costs stay, and the elements that were read do not show
    #[arg(long)]
    pub coarsen: bool,
    /// Use the same placeholders for equal secrets in all captures redacted with this text. Keep it secret
    #[arg(long, value_name = "TEXT")]
    pub salt: Option<String>,
}

/// Data to remove on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AlsoRemove {
    /// Names of kernels, Python functions, custom ops and regions
    Symbols,
    /// Names of modules and parameters of models
    Names,
    /// Base names of files
    Files,
    /// Absolute times: all times move together, to the year 2000
    Times,
}

/// Data to retain on request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepArg {
    /// Arguments of programs. Paths in them lose their folders
    Arguments,
    /// Error texts. Paths in them lose their folders
    Details,
    /// Values passed to kernels, with addresses unchanged
    Parameters,
    /// Memory of bundled launches: their data
    Contents,
}
