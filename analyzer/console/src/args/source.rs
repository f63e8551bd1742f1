//! `stallmap source`

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::FilterArgs;
use super::report::ReportFormat;

/// `stallmap source`
#[expect(clippy::struct_excessive_bools, reason = "each is an option of its own")]
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap source train.stallmap", "the hottest kernel: its hottest lines, and their producers"),
    ("stallmap source train.stallmap --kernel softmax --top 3", "a kernel by a part of its name"),
    ("stallmap source train.stallmap --line :31", "the hottest kernel of a Python line"),
    ("stallmap source train.stallmap --kernel softmax --all", "every instruction in program order"),
    ("stallmap source train.stallmap --html softmax.html --source-root ~/project", "an HTML page with the source next to it"),
    ("stallmap source train.stallmap --sql", "its queries, to run or to change"),
]))]
pub struct SourceArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Launches whose hottest kernel is shown, by default all.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Locations to show, the rest as one row
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Ranking of locations
    #[arg(long, value_enum, default_value_t = SourceSort::Samples)]
    pub sort: SourceSort,
    /// Show every instruction in program order
    #[arg(long)]
    pub all: bool,
    /// Folder of source files, if not where the compiler found them
    #[arg(long = "source-root", value_name = "DIR")]
    pub root: Option<PathBuf>,
    /// Write an HTML page to this file, including the text of the source files. The page needs no network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "sql", "all"])]
    pub html: Option<PathBuf>,
    /// With --html: show the page in the browser
    #[arg(long, requires = "html")]
    pub open: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}

impl SourceArgs {
    /// The output format.
    pub fn format(&self) -> ReportFormat {
        if self.json { ReportFormat::Json } else { self.format }
    }
}

/// Ranking of locations in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceSort {
    /// Samples of warps that waited there
    Samples,
    /// Samples of warps, there or elsewhere, that waited for its loads or stores
    Charged,
}
