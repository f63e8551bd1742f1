//! `stallmap diff`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::ProgramPhase;
use super::gate::ChangeCondition;
use super::label::LabelCondition;
use super::named::NamedCapture;
use super::tree::share;

/// `stallmap diff`
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap diff before.stallmap after.stallmap", "how much faster or slower, and the lines that changed"),
    ("stallmap diff before.stallmap after.stallmap --all", "comparability, totals, and every part"),
    ("stallmap diff before.stallmap after.stallmap --by kernels,lines -m sectors", "some parts, another metric"),
    ("stallmap diff base.stallmap one.stallmap two.stallmap", "several captures, each compared with the first"),
    ("stallmap diff before.stallmap after.stallmap --phase steady", "the steps only, without set-up"),
    ("stallmap diff main.stallmap pr.stallmap --fail-if 'time > +5% beyond noise'", "a gate: exit code 6 if it fails"),
    ("stallmap diff --over runs/ --base branch=main --head commit=9c01", "the newest captures with these labels"),
    ("stallmap diff main.stallmap pr.stallmap --format markdown", "a comment for a pull request"),
    ("stallmap diff main.stallmap pr.stallmap --html diff.html", "a page that opens offline, with the code of changed lines"),
    ("stallmap diff main.stallmap pr.stallmap --format github", "annotations of a GitHub workflow"),
    ("stallmap diff main.stallmap pr.stallmap --fail-if-rows gate.sql", "a custom gate: a query over a, b and every"),
    ("stallmap diff before.stallmap after.stallmap --first", "the first launch and tensor at which two runs of a program differ"),
    ("stallmap diff before.stallmap after.stallmap --by tensors --sql", "its statements, to run or to change"),
]))]
pub struct DiffArgs {
    /// Captures: each is compared with the first. In SQL they are a, b, c and so on, or NAME from NAME=CAPTURE
    #[arg(value_name = "[NAME=]NAME.stallmap", required_unless_present = "over", num_args = 2..)]
    pub captures: Vec<NamedCapture>,
    /// Choose two captures in folders, below s3:// prefixes, or of listed ones: the newest with the labels of --base, and
    /// the newest with those of --head
    #[arg(long, value_name = "FOLDER|PREFIX|NAME.stallmap", num_args = 1.., conflicts_with = "captures")]
    pub over: Vec<CaptureLocation>,
    /// With --over: a label of the capture to compare with (repeatable)
    #[arg(long, value_name = "KEY=VALUE", requires = "over")]
    pub base: Vec<LabelCondition>,
    /// With --over: a label of the other capture (repeatable) [default: the newest of all]
    #[arg(long, value_name = "KEY=VALUE", requires = "over")]
    pub head: Vec<LabelCondition>,
    /// Parts to compare as tables, comma-separated [default: lines, and with --all, json, jsonl or csv all but aligned and instructions]
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    pub by: Vec<DiffPart>,
    /// Metric to compare [default: time, or samples if the captures do not know time alike]
    #[arg(short, long, value_enum, value_name = "METRIC")]
    pub metric: Option<DiffMetric>,
    /// Divisor of sums
    #[arg(long, value_enum, value_name = "UNIT", default_value_t = DiffDivisor::Auto)]
    pub per: DiffDivisor,
    /// Only launches of this phase of the program: its steps, set-up or all [default: steady if all captures have steps and --per is
    /// auto, else all]. Facts are of the whole captures
    #[arg(long, value_enum, value_name = "PHASE")]
    pub phase: Option<ProgramPhase>,
    /// Rows per part, the rest as one row
    #[arg(short = 'n', long = "top", value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Tables of every part with every row, including rows without a significant difference
    #[arg(short, long)]
    pub all: bool,
    /// The first launch and tensor at which two runs of one program differ: by launches, arguments, accesses, and the memory of
    /// bundles. Addresses are not compared
    #[arg(long, conflicts_with_all = ["by", "metric", "phase", "all", "html", "sql", "gates", "row_gates"])]
    pub first: bool,
    /// Variation of a launch between repetitions, for captures with too few repeated launches
    #[arg(long, value_name = "SHARE", value_parser = share, default_value = "5%")]
    pub spread: f64,
    /// Compare captures that are not comparable, such as samples of different GPUs
    #[arg(long)]
    pub force: bool,
    /// Fail if this holds: [PART.]METRIC > or < CHANGE [beyond noise], as in 'time > +5%', 'launches > +0',
    /// 'tensors.samples > +10% beyond noise' (repeatable)
    #[arg(long = "fail-if", value_name = "CONDITION")]
    pub gates: Vec<ChangeCondition>,
    /// Fail if a statement of this file returns a row, and print the first rows: in the statement's order, or the
    /// largest first (repeatable)
    #[arg(long = "fail-if-rows", value_name = "FILE.sql")]
    pub row_gates: Vec<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = DiffFormat::Text)]
    pub format: DiffFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the comparison to this file as an HTML page, with the code of changed lines. The page needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "sql", "by", "all"])]
    pub html: Option<PathBuf>,
    /// With --html: show the page in the browser
    #[arg(long, requires = "html")]
    pub open: bool,
    /// Folder that file names of annotations and of SARIF are relative to, and folder of source files with --html
    #[arg(long = "source-root", value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Print the statements instead of running them. They run in `stallmap sql a=... b=...`
    #[arg(long)]
    pub sql: bool,
}

/// Output format of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffFormat {
    /// A verdict and the changed lines, or tables, as wide as the terminal
    #[value(alias = "table")]
    Text,
    /// One object: verdict, gates, and sections with their queries and full rows
    Json,
    /// All rows as CSV. Several sections are separated by `# section` lines
    Csv,
    /// All rows as one object per line. With several sections, each has its name as `section`
    Jsonl,
    /// Verdict, changes and gates as markdown, for a comment
    #[value(alias = "md")]
    Markdown,
    /// Annotations of lines as commands of a GitHub workflow
    Github,
    /// Changes and gates as SARIF 2.1.0, for code scanning
    Sarif,
}

/// Part of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffPart {
    /// Tensors, by name or by op, line and shape of their allocation
    #[value(alias = "tensor")]
    Tensors,
    /// Tensors by role in the model: parameters, gradients, activations
    #[value(alias = "role")]
    Roles,
    /// Python lines that launched kernels
    #[value(alias = "line")]
    Lines,
    /// Operators
    #[value(aliases = ["op", "operators"])]
    Ops,
    /// Kernels, by code hash, else by name
    #[value(aliases = ["kernel", "functions"])]
    Kernels,
    /// Ops that all captures have, else kernels, else modules: for other GPUs, libraries and releases
    #[value(alias = "work")]
    Aligned,
    /// Instructions of kernels with equal code
    #[value(alias = "instruction")]
    Instructions,
}

/// Metric of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffMetric {
    /// Samples, converted to time if a sample represents different times
    Samples,
    /// Samples of memory stalls, converted likewise
    #[value(aliases = ["memory_samples", "memory-samples"])]
    Memory,
    /// GPU time: measured, or else estimated from samples
    Time,
    /// Launches
    Launches,
    /// Sectors of 32 bytes that requests touch
    Sectors,
    /// Bytes that requests touch
    Bytes,
}

/// Divisor of sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DiffDivisor {
    /// Steps if all captures have some, otherwise nothing
    Auto,
    /// None
    Total,
    /// Optimizer steps of the capture
    Step,
    /// Launches of the capture
    Launch,
}

impl DiffArgs {
    /// A comparison with the defaults of the command line. The first capture is the base.
    pub fn for_captures(captures: Vec<NamedCapture>) -> Self {
        Self {
            captures,
            over: Vec::new(),
            base: Vec::new(),
            head: Vec::new(),
            by: Vec::new(),
            metric: None,
            per: DiffDivisor::Auto,
            phase: None,
            rows: 10,
            all: false,
            first: false,
            spread: 0.05,
            force: false,
            gates: Vec::new(),
            row_gates: Vec::new(),
            format: DiffFormat::Text,
            json: false,
            html: None,
            open: false,
            root: None,
            sql: false,
        }
    }

    /// The output format.
    pub fn format(&self) -> DiffFormat {
        if self.json { DiffFormat::Json } else { self.format }
    }

    /// True if parts are printed as tables.
    pub fn is_tables(&self) -> bool {
        self.all
            || !self.by.is_empty()
            || matches!(self.format(), DiffFormat::Json | DiffFormat::Csv | DiffFormat::Jsonl)
    }
}

impl DiffPart {
    /// The query's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tensors => "tensors",
            Self::Roles => "roles",
            Self::Lines => "lines",
            Self::Ops => "ops",
            Self::Kernels => "kernels",
            Self::Aligned => "aligned",
            Self::Instructions => "instructions",
        }
    }
}

impl DiffMetric {
    /// The name on the command line.
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
