//! Commands and options of the command line. The comments are the help texts. No logic.

pub mod block;
pub mod diff;
pub mod export;
pub mod filter;
pub mod forest;
pub mod gate;
pub mod import;
pub mod label;
pub mod list;
pub mod mcp;
pub use stallmap::tables::memory;
pub mod named;
pub mod order;
#[cfg(test)]
mod page;
mod report;
pub mod serve;
pub mod share;
mod source;
mod sql;
pub mod top;
pub mod tree;
pub mod trend;
pub mod verdict;

use std::path::PathBuf;

use clap::{Args, ColorChoice, Parser, Subcommand};
use clap_complete::ArgValueCandidates;
use stallmap::location::CaptureLocation;
use stallmap::session::resources::CostFrom;

use self::memory::MemoryBound;
use crate::{complete, exit};

pub use self::report::{ReportArgs, ReportFormat};
pub use self::source::{SourceArgs, SourceSort};
pub use self::sql::{ClusterArgs, ParameterSetting, RowFormat, SqlArgs};

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
pub struct CliArgs {
    /// The command.
    #[command(subcommand)]
    pub command: Option<StallmapCommand>,
    /// The capture to explain without a command.
    #[command(flatten)]
    pub verdict: verdict::VerdictArgs,
    /// Folder with custom views and queries (*.sql), in addition to the built-in ones [env: STALLMAP_LIBRARY]
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub library: Option<PathBuf>,
    /// Compute results again that are in the cache or in the capture, and replace those in the cache
    #[arg(long, global = true, help_heading = "Global options")]
    pub recompute: bool,
    /// Memory for queries: a size such as 8G, or a share of the machine's. Larger queries write to temporary files (or
    /// fail)
    #[arg(
        long,
        global = true,
        value_name = "SIZE|PERCENT",
        default_value = "60%",
        help_heading = "Global options"
    )]
    pub memory: MemoryBound,
    /// Samples that count as the cost of a launch: program, replays or auto (verified replays if the program has few)
    #[arg(
        long,
        global = true,
        value_name = "RUNS",
        default_value_t = CostFrom::Auto,
        help_heading = "Global options"
    )]
    pub cost_from: CostFrom,
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
    /// Text with full names and every column, wider than the terminal if they need it
    #[arg(short, long, global = true, help_heading = "Global options")]
    pub wide: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum StallmapCommand {
    /// Show what the GPU waited for: the verdict, then tensors, kernels, lines and ops by stall cost, and losses
    Report(ReportArgs),
    /// Explain one finding of the verdict: its evidence, its instructions, its tensor
    Why(verdict::WhyArgs),
    /// Write the report as an HTML page and show it in the browser
    Open(verdict::OpenArgs),
    /// List the costliest tensors, ops, lines, kernels or findings
    Top(top::TopArgs),
    /// Show the cost of call paths: Python frames, ops, kernels. As a tree from either end, flat, or compared with
    /// another capture
    Tree(tree::TreeArgs),
    /// Show tensors with their views, copies, writes and costs: as text, Graphviz or SVG
    Forest(forest::ForestArgs),
    /// Show the accesses of one block of one launch in order, with the elements of tensors
    Block(block::BlockArgs),
    /// Compare captures: significant changes in tensors, lines, ops and kernels, with gates for tests
    Diff(diff::DiffArgs),
    /// Show costs of many captures over time, with intervals and changes, and judge a capture by the history of others
    Trend(trend::TrendArgs),
    /// Show a kernel's code by line and instruction, with stall reasons, producers and tensors
    Source(SourceArgs),
    /// Convert a capture to the files of another tool
    Export(export::ExportArgs),
    /// Write a capture from a recording of another tool: a trace, a report, a snapshot
    ///
    /// Supported are traces of PyTorch's profiler (Kineto JSON, also compressed), PyTorch's execution traces and memory
    /// snapshots, reports of Nsight Systems and their exports, raw pages of Nsight Compute as CSV, traces of CUTracer, and
    /// profiles of Proton, rocprofv3 and Operator Profiler. Data that a source lacks is empty or null in the capture, and a row of `loss` names it. Environment variables in a source are not imported.
    Import(import::ImportArgs),
    /// Answer questions of an agent about captures: an MCP server on standard input and output, read only
    Mcp(mcp::McpArgs),
    /// Query one capture, or several by name, in SQL: interactively, or with statements
    Sql(SqlArgs),
    /// Start the scheduler or an executor of a cluster, for `sql --cluster`. Runs the program `stallmap-cluster`
    Cluster(ClusterArgs),
    /// Show the content of a capture: runs and devices, tables or views. Or document one table or view
    Info(InfoArgs),
    /// Verify captures: container, hashes, schema, references, conservation of stalls
    Check(CheckArgs),
    /// Compute results of captures in advance, for faster later commands
    ///
    /// Results are the analyses of machine code, the rows of the views that commands read, and the answers to the
    /// questions of the report and its page. They are cached in $STALLMAP_CACHE, else in $XDG_CACHE_HOME/stallmap, else
    /// in ~/.cache/stallmap. Their key is the content of the
    /// capture or function and the rules of this release: captures with the same function share its analysis. Every
    /// command uses and fills the cache, and runs without it if the folder is not writable, belongs to another user, or can
    /// be written by others. STALLMAP_CACHE=off disables it, and --recompute replaces its content. It can be deleted at any
    /// time.
    Prepare(PrepareArgs),
    /// Write a capture file from a folder, or from a part of a capture
    Pack(share::PackArgs),
    /// Write a folder from a capture file, with tables for any Parquet reader
    Unpack(share::UnpackArgs),
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
    Redact(share::RedactArgs),
    /// Print the content of captures as one number, and compare it
    Id(share::IdArgs),
    /// Show the labels of a capture, such as its commit or model, or set some
    Label(share::LabelArgs),
    /// Serve browsers and queries of other programs: pages with a box for SQL, PostgreSQL's protocol, or pipes as `stallmap.open`
    /// in Python uses
    Serve(serve::ServeArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
}

/// `stallmap info`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap info train.stallmap", "the capture, its runs and devices"),
    ("stallmap info train.stallmap --tables", "its tables with rows and bytes"),
    ("stallmap info train.stallmap tensor_stall_cost", "one view: description, columns, SQL"),
]))]
pub struct InfoArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Table or view
    #[arg(value_name = "TABLE|VIEW", add = ArgValueCandidates::new(complete::relations))]
    pub name: Option<String>,
    /// List the tables with their rows and bytes instead
    #[arg(long, conflicts_with = "name")]
    pub tables: bool,
    /// List the views instead
    #[arg(long, conflicts_with = "name")]
    pub views: bool,
}

/// `stallmap check`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap check *.stallmap", "exit code 0 without violations, else 1 with a list"),
    ("stallmap check --library my/", "the same for a folder of custom views and queries"),
]))]
pub struct CheckArgs {
    /// Captures. Optional with --library
    #[arg(value_name = "NAME.stallmap")]
    pub captures: Vec<CaptureLocation>,
    /// Only compute two of the stored views again, at random, and keep the outcome: later commands refuse stored rows that
    /// differ. The first command that reads stored rows starts this in the background, if there is a cache
    #[arg(long)]
    pub sample: bool,
}

/// `stallmap prepare`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap prepare *.stallmap", "prepare all captures, with times"),
    ("STALLMAP_CACHE=~/results stallmap prepare train.stallmap", "into another folder"),
    ("stallmap prepare --in-place train.stallmap", "store rows of views in the capture, too"),
]))]
pub struct PrepareArgs {
    /// Captures
    #[arg(value_name = "NAME.stallmap", required = true)]
    pub captures: Vec<CaptureLocation>,
    /// Store rows of views in the captures, too: other machines read them, and `check` verifies them
    #[arg(long)]
    pub in_place: bool,
}

/// `stallmap completions`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap completions bash > ~/.local/share/bash-completion/completions/stallmap", "for bash"),
]))]
pub struct CompletionsArgs {
    /// Shell
    #[arg(value_enum)]
    pub shell: clap_complete::Shell,
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
        CliArgs::command().debug_assert();
    }
}
