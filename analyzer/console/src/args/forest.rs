//! `stallmap forest`

use std::path::PathBuf;

use clap::Args;
use stallmap::location::CaptureLocation;

use super::examples;
use super::filter::FilterArgs;
use super::list::ListOutput;

/// `stallmap forest`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap forest train.stallmap", "the costliest tensors with their bases and sources"),
    ("stallmap forest train.stallmap --tensor wte.weight", "trees of tensors by a part of their name"),
    ("stallmap forest train.stallmap --line :31", "the tensors that the launches of one line waited for"),
    ("stallmap forest train.stallmap --svg forest.svg", "a drawing, which any browser opens"),
    ("stallmap forest train.stallmap --dot - | dot -Tpdf > forest.pdf", "for Graphviz"),
    ("stallmap forest train.stallmap --format json", "for programs, with complete values"),
]))]
pub struct ForestArgs {
    /// Capture
    #[arg(value_name = "NAME.stallmap")]
    pub capture: CaptureLocation,
    /// Show only the trees of these tensors: a part of a name, or a tensor_id
    #[arg(long, value_name = "NAME")]
    pub tensor: Option<String>,
    /// Tensors to show, costliest first, with their bases and copies. The rest as one row
    #[arg(short = 'n', long, value_name = "N", default_value_t = 12, value_parser = clap::value_parser!(u32).range(1..))]
    pub top: u32,
    /// Show each tensor separately instead of grouping tensors with the same line and the same views
    #[arg(long)]
    pub each: bool,
    /// Launches to show.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Format of the rows.
    #[command(flatten)]
    pub output: ListOutput,
    /// Write Graphviz text to this file. - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["svg", "format", "json", "sql"])]
    pub dot: Option<PathBuf>,
    /// Write SVG to this file. - is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "json", "sql"])]
    pub svg: Option<PathBuf>,
    /// Print the queries instead of running them
    #[arg(long)]
    pub sql: bool,
}
