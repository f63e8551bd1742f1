//! `stallmap sql`

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCandidates;
use stallmap::location::CaptureLocation;

use super::examples;
use super::named::NamedCapture;
use crate::complete;

/// `stallmap sql`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap sql train.stallmap", "a shell: .help lists its commands"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM coverage'", "one statement"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch WHERE kernel_id = 0'", "the first launch"),
    ("stallmap sql a=before.stallmap b=after.stallmap", "several: FROM a.launch, FROM b.launch, or FROM every.launch"),
    ("stallmap sql --over runs/ -c 'SELECT capture, sum(samples) FROM pc_sample GROUP BY 1'", "all captures in a folder"),
    ("stallmap sql --over s3://bucket/nightly -c 'SELECT * FROM fleet'", "all captures below a prefix of a bucket"),
    ("stallmap sql train.stallmap -f query.sql --format csv", "a file of statements, as CSV"),
    ("stallmap sql train.stallmap -c 'SELECT * FROM launch' -o launch.parquet", "write rows to a file"),
    ("echo 'SELECT * FROM run' | stallmap sql train.stallmap --format jsonl", "statements from another program"),
    ("stallmap sql train.stallmap --library my/ --query slow --set top=5", "a saved query: my/slow.sql"),
]))]
pub struct SqlArgs {
    /// Captures. Each of several has the name NAME from NAME=CAPTURE, or its file's
    #[arg(value_name = "[NAME=]NAME.stallmap", required_unless_present = "over")]
    pub captures: Vec<NamedCapture>,
    /// Query all captures in folders, below s3:// prefixes, or listed ones, as one: each table and view has the rows of
    /// all, with the columns capture, commit, labels, rank, host, gpu and time. The table `fleet` lists the captures
    #[arg(long, value_name = "FOLDER|PREFIX|NAME.stallmap", num_args = 1.., conflicts_with_all = ["captures", "query"])]
    pub over: Vec<CaptureLocation>,
    /// Run the statements on the cluster of this scheduler, whose executors read the captures. See `stallmap cluster`
    #[arg(long, value_name = "HOST:PORT", requires = "over")]
    pub cluster: Option<String>,
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
    pub set: Vec<ParameterSetting>,
    /// Output format of rows. With an output file, its extension decides: csv, json, jsonl, md, parquet, or txt for a
    /// text table, whose longest cells are cut without --wide
    #[arg(long, value_enum)]
    pub format: Option<RowFormat>,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
    /// Write the rows of the only statement to this file
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Maximum rows of a table, 0 for all. The rest are counted [default: 100 on a terminal, otherwise all]
    #[arg(short = 'n', long, visible_alias = "top", value_name = "N")]
    pub rows: Option<usize>,
    /// Longest time of a statement [default: none]
    #[arg(long, value_name = "SECONDS", conflicts_with = "cluster", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: Option<u64>,
}

/// `stallmap cluster`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap cluster scheduler --prefix runs/", "answer statements with the work of executors"),
    ("stallmap cluster executor --scheduler 127.0.0.1:7271 --prefix runs/", "work for a scheduler"),
    ("stallmap cluster -- executor --help", "the options of an executor"),
]))]
pub struct ClusterArgs {
    /// Arguments of `stallmap-cluster`
    #[arg(value_name = "ARGUMENT", required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<OsString>,
}

/// Output format of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RowFormat {
    /// Aligned columns
    #[value(alias = "text")]
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

impl RowFormat {
    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }
}

/// A parameter's value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterSetting {
    /// The parameter.
    pub name: String,
    /// The value, as it was typed.
    pub value: String,
}

impl FromStr for ParameterSetting {
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
