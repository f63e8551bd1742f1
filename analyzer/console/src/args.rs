//! Commands and options of the command line. The comments are the help texts. No logic.

pub mod diff;
pub mod export;
pub mod forest;
pub mod gate;
pub mod import;
pub mod list;
pub mod mcp;
pub mod memory;
pub mod named;
pub mod order;
#[cfg(test)]
mod page;
pub mod serve;
pub mod share;
pub mod top;
pub mod tree;
pub mod verdict;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ColorChoice, Parser, Subcommand, ValueEnum};
use clap_complete::ArgValueCandidates;
use stallmap::location::Location;

use self::memory::Memory;
use self::named::NamedCapture;
use crate::{complete, exit};

/// Which tensor, line and kernel was the GPU waiting for?
///
/// Analyze captures written by `stallmap-record -o NAME.stallmap -- PROGRAM`, on any machine, without a GPU.
#[derive(Debug, Parser)]
#[command(name = "stallmap", version, arg_required_else_help = true, after_help = examples(&[
    ("stallmap train.stallmap", "one screen: what the GPU waited for, and what to change first"),
    ("stallmap open train.stallmap", "the same and everything else as a page in the browser"),
    ("stallmap report train.stallmap", "stalls by tensor, kernel and line, the verdict first"),
    ("stallmap top tensors train.stallmap", "the tensors that the GPU waited for most"),
    ("stallmap tree train.stallmap -t 1%", "call paths from Python to kernels, and what they cost"),
    ("stallmap forest train.stallmap --svg forest.svg", "tensors with their views and copies, drawn"),
    ("stallmap diff before.stallmap after.stallmap", "significant changes"),
    ("stallmap source train.stallmap", "the hottest kernel's code, and the producer of each stall"),
    ("stallmap sql train.stallmap", "a SQL shell over everything recorded"),
    ("stallmap check train.stallmap", "completeness and consistency of the capture"),
]))]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// The capture to explain without a command.
    #[command(flatten)]
    pub verdict: verdict::Verdict,
    /// Folder with custom views and queries (*.sql), in addition to the built-in ones [env: STALLMAP_LIBRARY]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub library: Option<PathBuf>,
    /// Compute results again that are in the cache, and replace them
    #[arg(long, global = true, help_heading = "Global options")]
    pub recompute: bool,
    /// Read results that a sender stored in a capture (`prepare --in-place`, verified by `check`)
    #[arg(long, global = true, conflicts_with = "recompute", help_heading = "Global options")]
    pub trust_stored: bool,
    /// Memory for queries: a size such as 8G, or a share of the machine's. Larger queries write to temporary files (or
    /// fail)
    #[arg(
        long,
        global = true,
        value_name = "SIZE|PERCENT",
        default_value = "60%",
        help_heading = "Global options"
    )]
    pub memory: Memory,
    /// Colours: auto, always or never. By default on a terminal that can, unless NO_COLOR is set, or with CLICOLOR_FORCE
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value_t = ColorChoice::Auto,
        hide_possible_values = true,
        help_heading = "Global options"
    )]
    pub color: ColorChoice,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what the GPU waited for: the verdict, then tensors, kernels, lines and ops by stall cost, and coverage
    Report(Report),
    /// Explain one finding of the verdict: its evidence, its instructions, its tensor
    Why(verdict::Why),
    /// Write the report as an HTML page and show it in the browser
    Open(verdict::Open),
    /// List the costliest tensors, ops, lines, kernels or findings
    Top(top::Top),
    /// Show the cost of call paths: Python frames, ops, kernels. As a tree from either end, flat, or compared with
    /// another capture
    Tree(tree::Tree),
    /// Show tensors with their views, copies, writes and costs: as text, Graphviz or SVG
    Forest(forest::Forest),
    /// Compare captures: significant changes in tensors, lines, ops and kernels, with gates for tests
    Diff(diff::Diff),
    /// Show a kernel's code by line and instruction, with stall reasons, producers and tensors
    Source(Source),
    /// Convert a capture to the files of another tool
    Export(export::Export),
    /// Write a capture from a recording of another tool: a trace, a report, a snapshot
    ///
    /// Supported are traces of PyTorch's profiler (Kineto JSON, also compressed), PyTorch's execution traces and memory
    /// snapshots, reports of Nsight Systems exported to SQLite or Parquet, raw pages of Nsight Compute as CSV, traces of
    /// CUTracer, and profiles of Proton, rocprofv3 and Operator Profiler. Data that a source lacks is empty or null in the
    /// capture, and a row of `loss` names it. Environment variables in a source are not imported.
    Import(import::Import),
    /// Answer questions of an agent about captures: an MCP server on standard input and output, read only
    Mcp(mcp::Mcp),
    /// Query one capture, or several by name, in SQL: interactively, or with statements
    Sql(Sql),
    /// Show the content of a capture: runs, devices, tables and views. Or document one table or view
    Info(Info),
    /// Verify captures: container, hashes, schema, references, conservation of stalls
    Check(Check),
    /// Compute results of captures in advance, for faster later commands
    ///
    /// Results are the analyses of machine code, the rows of the views that commands read, and the answers to the
    /// questions of the report and its page. They are cached in $STALLMAP_CACHE, else in $XDG_CACHE_HOME/stallmap, else
    /// in ~/.cache/stallmap. Their key is the content of the
    /// capture or function and the rules of this release: captures with the same function share its analysis. Every
    /// command uses and fills the cache, and runs without it if the folder is not writable. STALLMAP_CACHE=off disables
    /// it, and --recompute replaces its content. It can be deleted at any time.
    Prepare(Prepare),
    /// Write a capture file from a folder, or from a part of a capture
    Pack(share::Pack),
    /// Write a folder from a capture file, with tables for any Parquet reader
    Unpack(share::Unpack),
    /// Write a capture without names of users, machines and folders, without arguments and data, and more with --also
    ///
    /// Paths lose their folders and keep the file's name. Paths inside of public packages stay. Hosts and users become
    /// placeholders. Arguments of programs and error texts are removed. Addresses move, but keep their order and all
    /// distances within a region. Values passed to kernels and memory of bundles become zeros. Cubins lose PTX, debug
    /// information, and the folders in their line tables. Names of code and of the model, base names of files and times
    /// stay unless --also removes them. Readable names allow guesses to be tested: hashes in a capture are computed
    /// from its content. Accesses stay too: they show which elements of a tensor were read, such as the rows of an
    /// embedding, and with them the tokens of a text. `pack --without accesses` omits them. The result is searched for
    /// all replaced values before it is put into place. If one remains, nothing is written.
    Redact(share::Redact),
    /// Print the content of captures as one number, and compare it
    Id(share::Id),
    /// Serve browsers and queries of other programs: pages with a box for SQL, PostgreSQL's protocol, or pipes as `stallmap.open`
    /// in Python uses
    Serve(serve::Serve),
    /// Print completions for a shell
    Completions(Completions),
}

/// `stallmap report`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap report train.stallmap", "the verdict, tensors, kernels, lines, ops, losses and coverage"),
    ("stallmap report train.stallmap --all", "every section, with findings and the costliest waits"),
    ("stallmap report train.stallmap --section tensors --top 50", "more rows of one section"),
    ("stallmap report train.stallmap --section tensors --sql", "its query, to run or to change"),
    ("stallmap report train.stallmap --format json > report.json", "for programs, with complete values"),
    ("stallmap report train.stallmap --html report.html", "an HTML page with drawings, which opens offline"),
]))]
pub struct Report {
    /// Capture: a .stallmap file, a folder written by `unpack`, or an https:// or s3:// URL of a file
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Location,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Rows per section, the rest as one row [default: 5, with --all, --section or another format 10, with --html 100]
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub top: Option<u32>,
    /// Only this section (repeatable): findings, tensors, why, kernels, lines, ops, ranks, counters, replays, losses,
    /// coverage
    #[arg(long, value_name = "NAME", num_args = 0..=1, default_missing_value = "", add = ArgValueCandidates::new(complete::sections))]
    pub section: Vec<String>,
    /// Every section, also those that the verdict replaces
    #[arg(long)]
    pub all: bool,
    /// Print the sections' queries instead of running them
    #[arg(long)]
    pub sql: bool,
    /// Write everything to this file as an HTML page, with call paths, code, stalls and memory. The page needs no
    /// network
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "sql", "section", "all"])]
    pub html: Option<PathBuf>,
    /// With --html: compare with this capture, and show the changes since then
    #[arg(long, value_name = "OTHER.stallmap", requires = "html")]
    pub baseline: Option<Location>,
    /// With --html: folder of source files, if not where the compiler found them. The page contains the text of hot
    /// lines
    #[arg(long = "source-root", value_name = "DIR", requires = "html")]
    pub root: Option<PathBuf>,
}

impl Report {
    /// The output format.
    pub fn format(&self) -> ReportFormat {
        if self.json { ReportFormat::Json } else { self.format }
    }

    /// True for the text without a choice of sections.
    pub fn is_brief(&self) -> bool {
        self.section.is_empty() && !self.all && self.html.is_none() && self.format() == ReportFormat::Text
    }
}

/// `stallmap source`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap source train.stallmap", "the hottest kernel: its hottest lines, and their producers"),
    ("stallmap source train.stallmap --kernel softmax --top 3", "a kernel by a part of its name"),
    ("stallmap source train.stallmap --kernel softmax --all", "every instruction in program order"),
    ("stallmap source train.stallmap --html softmax.html --source-root ~/project", "an HTML page with the source next to it"),
    ("stallmap source train.stallmap --sql", "its queries, to run or to change"),
]))]
pub struct Source {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Location,
    /// Kernel: its name, a part of it, a regular expression, or its function_id [default: the hottest]
    #[arg(short, long, value_name = "KERNEL", add = ArgValueCandidates::new(complete::kernels))]
    pub kernel: Option<String>,
    /// Locations to show, the rest as one row
    #[arg(short = 'n', long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
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
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "sql", "all"])]
    pub html: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub format: ReportFormat,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}

/// `stallmap sql`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap sql train.stallmap", "a shell: .help lists its commands"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM coverage'", "one statement"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch WHERE kernel_id = 0'", "the first launch"),
    ("stallmap sql a=before.stallmap b=after.stallmap", "several: FROM a.launch, FROM b.launch, or FROM every.launch"),
    ("stallmap sql train.stallmap -f query.sql --format csv", "a file of statements, as CSV"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch' -o launch.parquet", "write rows to a file"),
    ("echo 'SELECT * FROM run' | stallmap sql train.stallmap --format jsonl", "statements from another program"),
    ("stallmap sql train.stallmap --library my/ --query slow --set top=5", "a saved query: my/slow.sql"),
]))]
pub struct Sql {
    /// Captures. Each of several has the name NAME from NAME=CAPTURE, or its file's
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true)]
    pub captures: Vec<NamedCapture>,
    /// Run these statements and exit
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    pub command: Vec<String>,
    /// Run the statements of this file and exit. - is standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub file: Option<PathBuf>,
    /// Run a saved query of the library (see --library) and exit
    #[arg(
        short,
        long,
        value_name = "NAME",
        conflicts_with_all = ["command", "file"],
        add = ArgValueCandidates::new(complete::queries)
    )]
    pub query: Option<String>,
    /// Set a parameter of the saved query
    #[arg(long, value_name = "NAME=VALUE", requires = "query")]
    pub set: Vec<Setting>,
    /// Output format of rows. With an output file, its extension decides
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// Write the rows of the only statement to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Maximum rows of a table, 0 for all. The rest are counted [default: 100 on a terminal, otherwise all]
    #[arg(long, value_name = "N")]
    pub rows: Option<usize>,
}

/// `stallmap info`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap info train.stallmap", "runs, devices, tables with rows and bytes, views"),
    ("stallmap info train.stallmap tensor_stall_cost", "one view: description, columns, SQL"),
]))]
pub struct Info {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Location,
    /// Table or view
    #[arg(value_name = "TABLE|VIEW", add = ArgValueCandidates::new(complete::relations))]
    pub name: Option<String>,
}

/// `stallmap check`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap check *.stallmap", "exit code 0 without violations, else 1 with a list"),
    ("stallmap check --library my/", "the same for a folder of custom views and queries"),
]))]
pub struct Check {
    /// Captures. Optional with --library
    #[arg(value_name = "NAME.stallmap")]
    pub captures: Vec<Location>,
}

/// `stallmap prepare`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap prepare *.stallmap", "prepare all captures, with times"),
    ("STALLMAP_CACHE=~/team/cache stallmap prepare train.stallmap", "into a shared folder"),
    ("stallmap prepare --in-place train.stallmap", "store the results in the capture, too"),
]))]
pub struct Prepare {
    /// Captures
    #[arg(value_name = "NAME.stallmap", required = true)]
    pub captures: Vec<Location>,
    /// Store the results in the captures, too: --trust-stored reads them on another machine
    #[arg(long)]
    pub in_place: bool,
}

/// `stallmap completions`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap completions bash > ~/.local/share/bash-completion/completions/stallmap", "for bash"),
]))]
pub struct Completions {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
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
}

/// Ranking of locations in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SourceSort {
    /// Samples of warps that waited there
    Samples,
    /// Samples of warps, there or elsewhere, that waited for its loads or stores
    Charged,
}

/// Output format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Aligned columns
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects
    Json,
    /// One object per line
    Jsonl,
    /// A table for comments and documents
    #[value(alias = "md")]
    Markdown,
    /// Parquet, to a file
    Parquet,
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// The parameter.
    pub name: String,
    /// The value, as it was typed.
    pub value: String,
}

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, value) = text.split_once('=').ok_or("it is not NAME=VALUE")?;
        let name = name.trim_start_matches('$').to_owned();
        if name.is_empty() {
            Err("it has no name".to_owned())
        } else {
            Ok(Self { name, value: value.to_owned() })
        }
    }
}

impl RowFormat {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// Examples and exit codes, below the options.
fn examples(lines: &[(&str, &str)]) -> String {
    let mut text = "Examples:\n".to_owned();
    for (command, meaning) in lines {
        text.extend(["  ", command, "\n      ", meaning, "\n"]);
    }
    text + "\n" + exit::HELP
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
