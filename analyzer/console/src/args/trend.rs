//! `stallmap trend`

use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;

use super::examples;
use super::gate::ChangeCondition;
use super::label::LabelCondition;
use super::list::ListFormat;

/// `stallmap trend`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap trend runs/ --label model=gpt2", "GPU time of each capture, drawn, and the lines that changed"),
    ("stallmap trend s3://bucket/nightly --by kernels -m samples", "kernels by the content of their code"),
    ("stallmap trend runs/ --baseline branch=main --head commit=9c01 --fail-if 'time > +5% beyond noise'", "a gate against history: exit code 6 if it fails"),
    ("stallmap trend runs/ --format json", "every point with its interval, for programs"),
]))]
pub struct TrendArgs {
    /// Folders, s3:// prefixes, captures
    #[arg(value_name = "FOLDER|PREFIX|NAME.stallmap", required = true)]
    pub places: Vec<CaptureLocation>,
    /// Things to follow [default: lines]
    #[arg(long, value_enum, value_name = "WHAT")]
    by: Option<TrendSubject>,
    /// Number to follow [default: time]
    #[arg(short, long, value_enum, value_name = "METRIC")]
    metric: Option<TrendMetric>,
    /// Only captures with this label (repeatable)
    #[arg(long, value_name = "KEY=VALUE")]
    pub label: Vec<LabelCondition>,
    /// Rows, the costliest and those that changed first [default: 10]
    #[arg(short = 'n', long = "top", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rows: Option<u32>,
    /// Fail if this holds for the head, compared with the baseline: [PART.]METRIC > or < CHANGE [beyond noise]. Noise is
    /// the variation of the baseline's captures (repeatable)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub gates: Vec<ChangeCondition>,
    /// With --fail-if: a label of the captures to compare with (repeatable) [default: all that are older than the head]
    #[arg(long, value_name = "KEY=VALUE", requires = "gates")]
    pub baseline: Vec<LabelCondition>,
    /// With --fail-if: a label of the captures to judge (repeatable) [default: the newest one]
    #[arg(long, value_name = "KEY=VALUE", requires = "gates")]
    pub head: Vec<LabelCondition>,
    /// Output format [default: table]
    #[arg(long, value_enum)]
    format: Option<ListFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Print the query instead of running it
    #[arg(long)]
    pub sql: bool,
}

/// Things whose cost is followed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrendSubject {
    /// All launches together
    Total,
    /// Kernels, by the content of their code
    #[value(alias = "kernel")]
    Kernels,
    /// Python lines, by their position in the function
    #[value(alias = "line")]
    Lines,
    /// Operators
    #[value(alias = "op")]
    Ops,
    /// Roles of tensors in the model
    #[value(alias = "role")]
    Roles,
    /// Tensors, by their label
    #[value(alias = "tensor")]
    Tensors,
}

/// Number that is followed over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrendMetric {
    /// GPU time: measured, or else estimated from samples
    Time,
    /// Samples
    Samples,
    /// Samples of memory stalls
    Memory,
    /// Launches
    Launches,
}

impl TrendArgs {
    /// The things to follow.
    pub fn subject(&self) -> TrendSubject {
        self.by.unwrap_or(TrendSubject::Lines)
    }

    /// The number to follow.
    pub fn metric(&self) -> TrendMetric {
        self.metric.unwrap_or(TrendMetric::Time)
    }

    /// Maximum rows.
    pub fn rows(&self) -> usize {
        usize::try_from(self.rows.unwrap_or(10)).unwrap_or(usize::MAX)
    }

    /// The output format.
    pub fn format(&self) -> ListFormat {
        if self.json { ListFormat::Json } else { self.format.unwrap_or(ListFormat::Table) }
    }
}

impl TrendSubject {
    /// The value of `trend.kind`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Kernels => "kernel",
            Self::Lines => "line",
            Self::Ops => "op",
            Self::Roles => "role",
            Self::Tensors => "tensor",
        }
    }
}

impl TrendMetric {
    /// The value of `trend.metric`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Samples => "samples",
            Self::Memory => "memory",
            Self::Launches => "launches",
        }
    }
}
