//! `stallmap report`

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::FilterArgs;
use super::list::ListFormat;
use crate::complete;

/// `stallmap report`
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap report train.stallmap", "up to 60 lines: the verdict, losses, and costs of tensors, lines and more as they fit"),
    ("stallmap report train.stallmap --all", "every section, with findings, the costliest waits and coverage"),
    ("stallmap report train.stallmap --section tensors --top 50", "more rows of one section"),
    ("stallmap report train.stallmap --section tensors --sql", "its query, to run or to change"),
    ("stallmap report train.stallmap --line :31", "the launches of one line: findings, tensors, kernels, ops"),
    ("stallmap report train.stallmap --format json > report.json", "for programs, with complete values"),
    ("stallmap report train.stallmap --html report.html", "an HTML page with drawings, which opens offline"),
    ("stallmap report --over runs/", "all captures in a folder: changes over time, and costs of all together"),
]))]
pub struct ReportArgs {
    /// Capture: a .stallmap file, a folder written by `unpack`, or an https:// or s3:// URL of a file
    #[arg(
        value_name = "NAME.stallmap",
        required = false,
        required_unless_present = "over",
        default_value_if("over", ArgPredicate::IsPresent, "")
    )]
    pub capture: CaptureLocation,
    /// Report on all captures in folders, below s3:// prefixes, or listed ones, together: captures, changes over time,
    /// and costs of kernels, lines, tensors and ranks
    #[arg(
        long,
        value_name = "FOLDER|PREFIX|NAME.stallmap",
        num_args = 1..,
        conflicts_with_all = ["capture", "section", "html", "all", "kernel", "line", "op", "phase"]
    )]
    pub over: Vec<CaptureLocation>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Rows per section, the rest as one row [default: 5, with --all, --section or another format 10, with --html 100, of
    /// its waits 30]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Only this section (repeatable): wrong, findings, tensors, why, kernels, blocks, lines, ops, memory, path, ranks, counters, replays,
    /// losses, coverage
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", add = ArgValueCandidates::new(complete::sections))]
    pub section: Vec<String>,
    /// Launches to show: findings, tensors, kernels, lines and ops of them.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Every section with more rows, also those that the verdict replaces
    #[arg(long, short = 'v', visible_alias = "verbose")]
    pub all: bool,
    /// Print the sections' queries instead of running them
    #[arg(long)]
    pub sql: bool,
    /// Write everything to this file as an HTML page, with call paths, code, stalls and memory. The page needs no
    /// network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "sql", "section", "all", "kernel", "line", "op"])]
    pub html: Option<PathBuf>,
    /// With --html: show the page in the browser
    #[arg(long, requires = "html")]
    pub open: bool,
    /// With --html: compare with this capture, and show the changes since then
    #[arg(long, value_name = "OTHER.stallmap", requires = "html")]
    pub baseline: Option<CaptureLocation>,
    /// With --html: folder of source files, if not where the compiler found them. The page contains the text of hot
    /// lines
    #[arg(long = "source-root", value_name = "DIR", requires = "html")]
    pub root: Option<PathBuf>,
}

impl ReportArgs {
    /// The output format.
    pub fn format(&self) -> ReportFormat {
        if self.json { ReportFormat::Json } else { self.format }
    }

    /// True for the text without a choice of sections.
    pub fn is_brief(&self) -> bool {
        self.section.is_empty() && !self.all && self.html.is_none() && self.format() == ReportFormat::Text
    }
}

/// Output format of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ReportFormat {
    /// Tables for reading, as wide as the terminal
    #[value(alias = "table")]
    Text,
    /// One object: sections with their queries and full rows
    Json,
    /// All rows as CSV. Several sections are separated by `# section` lines
    Csv,
    /// One object per line. With several sections, each has its name as `section`
    Jsonl,
    /// Tables for comments and documents, each below its title
    #[value(alias = "md")]
    Markdown,
}

impl ReportFormat {
    /// The format of the same rows as a list.
    pub const fn list(self) -> ListFormat {
        match self {
            Self::Text => ListFormat::Table,
            Self::Json => ListFormat::Json,
            Self::Csv => ListFormat::Csv,
            Self::Jsonl => ListFormat::Jsonl,
            Self::Markdown => ListFormat::Markdown,
        }
    }
}
