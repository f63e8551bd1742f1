//! `stallmap export`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use stallmap::location::Location;

use super::examples;

/// `stallmap export`
#[derive(Args, Debug)]
pub struct Export {
    /// Target tool.
    #[command(subcommand)]
    pub form: Form,
}

/// Target tool.
#[derive(Debug, Subcommand)]
pub enum Form {
    /// TenProf: `tensor_stall_cost.csv`, forest.txt, blame.dot, `pc_samples.csv`
    Tenprof(Tenprof),
    /// Flame graphs: folded stacks, one call path per line with its samples, on standard output
    Folded(Folded),
}

/// `stallmap export folded`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap export folded train.stallmap > train.folded", "for speedscope, inferno, flamegraph.pl"),
    ("stallmap export folded train.stallmap --sql", "its query"),
]))]
pub struct Folded {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: PathBuf,
    /// Print the query instead of running it
    #[arg(long)]
    pub sql: bool,
}

/// `stallmap export tenprof`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap export tenprof train.stallmap blame/", "the four files, with exact numbers"),
    ("stallmap export tenprof train.stallmap blame/ --sql", "their queries"),
]))]
pub struct Tenprof {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: Location,
    /// Folder to create. It must not exist, or be empty
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}
