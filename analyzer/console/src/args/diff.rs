//! `stallmap diff`

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::gate::Gate;
use super::tree::share;
use super::{NamedCapture, ReportFormat, examples};

/// `stallmap diff`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap diff before.stallmap after.stallmap", "what changed by more than chance, and whether it can be compared"),
    ("stallmap diff before.stallmap after.stallmap --by kernels,lines -m time", "some parts, another metric"),
    ("stallmap diff base.stallmap one.stallmap two.stallmap", "several captures, each beside the first"),
    ("stallmap diff main.stallmap pr.stallmap --fail-if 'time > +5% beyond noise'", "a gate: exit code 6 where it fails"),
    ("stallmap diff main.stallmap pr.stallmap --fail-if-rows gate.sql", "a gate of your own: a query over a, b and every"),
    ("stallmap diff before.stallmap after.stallmap --by tensors --sql", "the statements behind it, to run or to change"),
]))]
pub struct Diff {
    /// The captures: the first is what the others are compared with. In SQL they are a, b, c and so on, or have a name
    /// before =
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true, num_args = 2..)]
    pub captures: Vec<NamedCapture>,
    /// What to compare, with commas for several; without a word all but instructions
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub by: Vec<Part>,
    /// What is compared
    #[arg(short, long, value_enum, value_name = "METRIC", default_value_t = DiffMetric::Samples)]
    pub metric: DiffMetric,
    /// What sums are divided by
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = Per::Auto)]
    pub per: Per,
    /// Rows of each part; the others are summed up
    #[arg(short = 'n', long = "top", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// List every row, those without a difference beyond noise too
    #[arg(short, long)]
    pub all: bool,
    /// How much a launch differs from a repetition by chance, where the captures have too few to tell
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%")]
    pub spread: f64,
    /// Compare what should not be: samples of other GPUs
    #[arg(long)]
    pub force: bool,
    /// Fail where this holds: [PART.]METRIC > or < CHANGE [beyond noise], as in 'time > +5%', 'launches > +0',
    /// 'tensors.samples > +10% beyond noise'. Several times for several
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub gates: Vec<Gate>,
    /// Fail where a statement of this file returns a row, and print the first of them: as the statement sorts them, or the
    /// largest first. Several times for several
    #[arg(long = "fail-if-rows", value_name = "FILE.sql")]
    pub row_gates: Vec<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Print the statements instead of running them; they run in `stallmap sql a=... b=...`
    #[arg(long)]
    pub sql: bool,
}

/// What is compared piece by piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Tensors, by name or by the op, line and shape of their birth
    #[value(alias = "tensor")]
    Tensors,
    /// What tensors are to the model: parameters, gradients, activations
    #[value(alias = "role")]
    Roles,
    /// Lines of Python that launched kernels
    #[value(alias = "line")]
    Lines,
    /// Operators
    #[value(aliases = ["op", "operators"])]
    Ops,
    /// Kernels, by their code, or by name where that changed
    #[value(aliases = ["kernel", "functions"])]
    Kernels,
    /// Instructions of kernels whose code is the same
    #[value(alias = "instruction")]
    Instructions,
}

/// What is compared of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffMetric {
    /// Samples; as time, where one sample stands for other time
    Samples,
    /// Samples of memory stalls; likewise
    #[value(aliases = ["memory_samples", "memory-samples"])]
    Memory,
    /// Estimated time of the GPU
    Time,
    /// Launches
    Launches,
    /// Sectors of 32 bytes that requests touch
    Sectors,
    /// Bytes that requests touch
    Bytes,
}

/// What sums are divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Per {
    /// Steps where their number differs, otherwise nothing
    Auto,
    /// Nothing
    Total,
    /// The capture's optimizer steps
    Step,
    /// The capture's launches
    Launch,
}

impl Part {
    /// The query's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Roles => "roles",
            Self::Lines => "lines",
            Self::Ops => "ops",
            Self::Kernels => "kernels",
            Self::Instructions => "instructions",
        }
    }
}

impl DiffMetric {
    /// The name that the user types.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Samples => "samples",
            Self::Memory => "memory",
            Self::Time => "time",
            Self::Launches => "launches",
            Self::Sectors => "sectors",
            Self::Bytes => "bytes",
        }
    }
}
