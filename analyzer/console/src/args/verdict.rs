//! `stallmap NAME.stallmap`, `stallmap why` and `stallmap open`

use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::{FilterArgs, ProgramPhase};

/// `stallmap NAME.stallmap`
#[derive(Args, Debug)]
pub struct VerdictArgs {
    /// Capture to explain on one screen: what ran, what the GPU waited for, and what to change first
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Option<CaptureLocation>,
    /// Format of the answer.
    #[command(flatten)]
    pub output: VerdictOutput,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
    /// Phase of the program that shares and the sentence are about [default: steady]
    #[arg(long, value_enum, value_name = "PHASE")]
    pub phase: Option<ProgramPhase>,
    /// More than a screen: the first finding of every kind, and each loss in full
    #[arg(short, long)]
    pub verbose: bool,
}

/// Output format of the verdict, and of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum VerdictFormat {
    /// Text, as wide as the terminal [default]
    #[value(alias = "table")]
    Text,
    /// One object, with the queries or the rows behind it
    Json,
}

/// Options for the output format of the verdict, and of a finding.
#[derive(Args, Debug)]
pub struct VerdictOutput {
    /// Output format
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<VerdictFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
}

impl VerdictOutput {
    /// True for one object instead of text.
    pub fn is_json(&self) -> bool {
        self.json || self.format == Some(VerdictFormat::Json)
    }
}

/// `stallmap why`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap why train.stallmap 1", "the first finding: its sentence, advice, evidence and instructions"),
    ("stallmap why train.stallmap --line :31", "the first finding of the launches of one line"),
    ("stallmap why train.stallmap 2 --json", "for programs: the finding with its evidence as rows"),
    ("stallmap why train.stallmap 2 --sql", "the query of its evidence, to run or to change"),
]))]
pub struct WhyArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Number of the finding, as `stallmap NAME.stallmap` and `stallmap top findings` rank them
    #[arg(value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub number: u32,
    /// Rows of evidence
    #[arg(short = 'n', long = "top", value_name = "ROWS", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub rows: u32,
    /// Only findings of some launches.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Format of the answer.
    #[command(flatten)]
    pub output: VerdictOutput,
    /// Print the query of its evidence instead of running it
    #[arg(long)]
    pub sql: bool,
}

/// `stallmap open`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap open train.stallmap", "write the report as an HTML page, print its path and show it in the browser"),
    ("stallmap open train.stallmap --serve", "the same with a box for SQL, until Ctrl-C"),
]))]
pub struct OpenArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Folder of source files, if not where the compiler found them
    #[arg(long = "source-root", value_name = "DIR")]
    pub root: Option<std::path::PathBuf>,
    /// Serve the page with a box for SQL on a free port of this machine, until Ctrl-C
    #[arg(long)]
    pub serve: bool,
}

impl VerdictArgs {
    /// True if nothing of it was typed.
    pub fn is_empty(&self) -> bool {
        self.capture.is_none()
            && self.output.format.is_none()
            && !self.output.json
            && !self.sql
            && !self.verbose
            && self.phase.is_none()
    }
}
