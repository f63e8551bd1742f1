//! What can be typed: commands and options. The comments are the help; nothing happens here.

pub(crate) mod diff;
pub(crate) mod export;
pub(crate) mod forest;
pub(crate) mod gate;
pub(crate) mod list;
#[cfg(test)]
mod page;
pub(crate) mod share;
pub(crate) mod top;
pub(crate) mod tree;

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, Parser, Subcommand, ValueEnum};
use stallmap::location::Location;

use crate::exit;

/// Which tensor, line and kernel was the GPU waiting for?
///
/// Answers from a capture that `stallmap-record -o NAME.stallmap -- PROGRAM` made, on any machine, without a GPU.
#[derive(Debug, Parser)]
#[command(name = "stallmap", version, after_help = examples(&[
    ("stallmap report train.stallmap", "what the GPU waited for, coverage first"),
    ("stallmap top tensors train.stallmap", "the tensors that were waited for most"),
    ("stallmap tree train.stallmap -t 1%", "call paths from Python to kernels, and what they cost"),
    ("stallmap forest train.stallmap --svg forest.svg", "how tensors came from tensors, drawn"),
    ("stallmap diff before.stallmap after.stallmap", "what changed by more than chance"),
    ("stallmap source train.stallmap", "the hottest kernel's code, and what each stall waits for"),
    ("stallmap sql train.stallmap", "a SQL shell over everything recorded"),
    ("stallmap check train.stallmap", "whether the capture is whole and its numbers add up"),
]))]
pub(crate) struct Cli {
    /// The command.
    #[command(subcommand)]
    pub(crate) command: Command,
    /// A folder of your own views and queries (*.sql), used beside ours; or set STALLMAP_LIBRARY
    #[arg(long, global = true, value_name = "DIR", help_heading = "Global options")]
    pub(crate) library: Option<PathBuf>,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what the GPU waited for: coverage first, then tensors, kernels, lines and ops by stall cost
    Report(Report),
    /// List the costliest tensors, ops, lines or kernels
    Top(top::Top),
    /// Show what call paths cost: Python frames, ops, kernels; as a tree from either end, flat, or against another capture
    Tree(tree::Tree),
    /// Show how tensors came from tensors, views, copies and writes, and what each cost: text, Graphviz or a picture
    Forest(forest::Forest),
    /// Compare captures: what changed by more than chance, in tensors, lines, ops, kernels; gates for tests
    Diff(diff::Diff),
    /// Show a kernel's code: stalls by reason, what they wait for, the tensors touched, by line and instruction
    Source(Source),
    /// Write the files of another tool from a capture
    Export(export::Export),
    /// Query one capture, or several under names, in SQL: a shell, or one statement
    Sql(Sql),
    /// Show what a capture holds: runs, devices, tables and views; or document one table or view
    Info(Info),
    /// Verify captures: container, hashes, schema, references, conservation of stalls
    Check(Check),
    /// Analyze the machine code of captures ahead, so that other commands need not
    ///
    /// What is found in a function's code is kept in $STALLMAP_CACHE, else in $XDG_CACHE_HOME/stallmap, else in
    /// ~/.cache/stallmap, by content: captures that hold the same function share it. Every command uses and fills that
    /// folder, and does without it where it cannot; STALLMAP_CACHE=off switches it off. It can be deleted at any time.
    Prepare(Prepare),
    /// Make a capture file of a folder, or of a part of a capture
    Pack(share::Pack),
    /// Make a folder of a capture file, whose tables any Parquet reader can read
    Unpack(share::Unpack),
    /// Write a capture without people, machines, folders, arguments and data, and more on demand
    ///
    /// Paths lose their folders and keep the file's name; paths inside of public packages stay. Hosts and users become
    /// words. Arguments of programs and texts of errors go. Addresses move, in their order, with all distances within a
    /// region. Values passed to kernels and memory of bundles become zeros. Cubins lose PTX, what debuggers read, and
    /// the folders in their line tables. Names of code and of the model, base names of files and times stay unless
    /// --also says otherwise. Whatever stays readable can be searched for guesses: hashes in a capture are made of what
    /// stands in it. Afterwards everything is searched for what was replaced; where something remains, nothing is kept.
    Redact(share::Redact),
    /// Say what captures hold as one number, and whether they hold the same
    Id(share::Id),
    /// Print the completions for a shell
    Completions(Completions),
}

/// `stallmap report`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap report train.stallmap", "every section, for people"),
    ("stallmap report train.stallmap --section tensors --top 50", "one section, further down"),
    ("stallmap report train.stallmap --section tensors --sql", "the query behind it, to run or to change"),
    ("stallmap report train.stallmap --format json > report.json", "for programs: nothing is shortened"),
    ("stallmap report train.stallmap --html report.html", "a page with pictures, which opens offline"),
]))]
pub(crate) struct Report {
    /// The capture: a .stallmap file, a folder that `unpack` made, or an https:// or s3:// URL of a file
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) capture: Location,
    /// How to print
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Rows of each section; the others are summed up in one row. Without a word 10, in a page 100
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: Option<u32>,
    /// Only this section, several times for several
    #[arg(long, value_name = "NAME")]
    pub(crate) section: Vec<String>,
    /// Print the sections' queries instead of running them
    #[arg(long)]
    pub(crate) sql: bool,
    /// Write everything as a page into this file, with call paths, code, stalls and memory drawn; it opens offline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "sql", "section"])]
    pub(crate) html: Option<PathBuf>,
    /// For a page: where source files are, if not where the compiler found them; it holds the text of hot lines
    #[arg(long = "source-root", value_name = "DIR", requires = "html")]
    pub(crate) root: Option<PathBuf>,
}

/// `stallmap source`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap source train.stallmap", "the hottest kernel: its hottest lines, and what they wait for"),
    ("stallmap source train.stallmap --kernel softmax --top 3", "a kernel by a part of its name"),
    ("stallmap source train.stallmap --kernel softmax --all", "every instruction in its order"),
    ("stallmap source train.stallmap --html softmax.html --source-root ~/project", "a page with the source beside it"),
    ("stallmap source train.stallmap --sql", "the queries behind it, to run or to change"),
]))]
pub(crate) struct Source {
    /// The capture
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) capture: Location,
    /// A kernel: its name, a part of it, a regular expression, or its function_id; without it the hottest
    #[arg(short, long, value_name = "KERNEL")]
    pub(crate) kernel: Option<String>,
    /// Places to show; the others are summed up
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) top: u32,
    /// What makes a place hot
    #[arg(long, value_enum, default_value_t = SourceSort::Samples)]
    pub(crate) sort: SourceSort,
    /// Show every instruction in its order instead
    #[arg(long)]
    pub(crate) all: bool,
    /// Where source files are, if not where the compiler found them
    #[arg(long = "source-root", value_name = "DIR")]
    pub(crate) root: Option<PathBuf>,
    /// Write a page into this file: it opens offline, and holds the text of the source files
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "sql", "all"])]
    pub(crate) html: Option<PathBuf>,
    /// How to print
    #[arg(long, value_enum, default_value_t = ReportFormat::Text)]
    pub(crate) format: ReportFormat,
    /// Print the queries instead of running them
    #[arg(long)]
    pub(crate) sql: bool,
}

/// `stallmap sql`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap sql train.stallmap", "a shell: .help says what it can do"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM coverage'", "one statement"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch WHERE kernel_id = 0'", "the first launch; `function_id` is its kernel's code"),
    ("stallmap sql a=before.stallmap b=after.stallmap", "several: FROM a.launch, FROM b.launch, or FROM every.launch"),
    ("stallmap sql train.stallmap -f query.sql --format csv", "a file of statements, as CSV"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch' -o launch.parquet", "into a file"),
    ("echo 'SELECT * FROM run' | stallmap sql train.stallmap --format jsonl", "statements from another program"),
    ("stallmap sql train.stallmap --library my/ --query slow --set top=5", "a saved query: my/slow.sql"),
]))]
pub(crate) struct Sql {
    /// Captures; each with a name before it where there are several
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true)]
    pub(crate) captures: Vec<NamedCapture>,
    /// Run these statements and exit
    #[arg(short, long, value_name = "SQL", allow_hyphen_values = true)]
    pub(crate) command: Vec<String>,
    /// Run the statements of this file and exit; - is the standard input
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) file: Option<PathBuf>,
    /// Run a saved query of the library (see --library) and exit
    #[arg(short, long, value_name = "NAME", conflicts_with_all = ["command", "file"])]
    pub(crate) query: Option<String>,
    /// Set a parameter of the saved query
    #[arg(long, value_name = "NAME=VALUE", requires = "query")]
    pub(crate) set: Vec<Setting>,
    /// How to print rows; where a file is written, its ending decides
    #[arg(long, value_enum)]
    pub(crate) format: Option<RowFormat>,
    /// Write the rows of the one statement into this file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Rows of a table to show, 0 for all; others are counted. On a terminal 100, otherwise all
    #[arg(long, value_name = "N")]
    pub(crate) rows: Option<usize>,
}

/// `stallmap info`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap info train.stallmap", "runs, devices, tables with rows and bytes, views"),
    ("stallmap info train.stallmap tensor_stall_cost", "one view: what a row is, each column, its SQL"),
]))]
pub(crate) struct Info {
    /// The capture
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) capture: Location,
    /// A table or a view
    #[arg(value_name = "TABLE|VIEW")]
    pub(crate) name: Option<String>,
}

/// `stallmap check`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap check *.stallmap", "exit code 0: nothing is wrong with any; 1: what is wrong is listed"),
    ("stallmap check --library my/", "the same of a folder of your own views and queries"),
]))]
pub(crate) struct Check {
    /// The captures; none where only a library is checked
    #[arg(value_name = "NAME.stallmap")]
    pub(crate) captures: Vec<Location>,
}

/// `stallmap prepare`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap prepare *.stallmap", "what was analyzed, and in what time"),
    ("STALLMAP_CACHE=~/team/cache stallmap prepare train.stallmap", "into a folder that others share"),
]))]
pub(crate) struct Prepare {
    /// The captures
    #[arg(value_name = "NAME.stallmap", required = true)]
    pub(crate) captures: Vec<Location>,
}

/// `stallmap completions`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap completions bash > ~/.local/share/bash-completion/completions/stallmap", "for bash"),
]))]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// How a report is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Tables for people, as wide as the terminal
    Text,
    /// One object: sections with their queries and full rows
    Json,
    /// Full rows; several sections follow each other after `# section` lines
    Csv,
}

/// What makes a place in the code hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum SourceSort {
    /// Samples of warps that stood there
    Samples,
    /// Samples of warps, there or elsewhere, that waited for what it loads or stores
    Charged,
}

/// How rows are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RowFormat {
    /// Aligned columns
    Table,
    /// Comma-separated values with a header
    Csv,
    /// One array of objects
    Json,
    /// One object a line
    Jsonl,
    /// Parquet, into a file
    Parquet,
}

/// A capture and the name that SQL knows it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamedCapture {
    /// The name before `=`.
    pub(crate) name: Option<String>,
    /// The capture.
    pub(crate) path: Location,
}

impl FromStr for NamedCapture {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_name = |name: &str| {
            !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
        };
        match text.split_once('=') {
            // A path may hold `=` too: what is before it is a name only where it looks like one.
            Some((name, path)) if is_name(name) && !path.is_empty() => {
                Ok(Self { name: Some(name.to_ascii_lowercase()), path: path.into() })
            }
            Some((name, "")) => Err(format!("`{name}=` names no capture")),
            _ => Ok(Self { name: None, path: text.into() }),
        }
    }
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    /// The parameter.
    pub(crate) name: String,
    /// The value, as it was typed.
    pub(crate) value: String,
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
    /// The name that the user types.
    pub(crate) fn name(self) -> String {
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

    #[test]
    fn names_of_captures_are_before_the_equals_sign() {
        let parse = |text: &str| text.parse::<NamedCapture>();
        let named = |name: Option<&str>, path: &str| {
            Ok(NamedCapture { name: name.map(str::to_owned), path: path.into() })
        };
        assert_eq!(parse("a=one.stallmap"), named(Some("a"), "one.stallmap"));
        assert_eq!(parse("one.stallmap"), named(None, "one.stallmap"));
        assert_eq!(parse("runs/lr=0.1/one.stallmap"), named(None, "runs/lr=0.1/one.stallmap"));
        assert!(parse("a=").is_err());
    }
}
