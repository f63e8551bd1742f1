//! `stallmap mcp`

use clap::Args;

use super::examples;
use super::named::NamedCapture;

/// `stallmap mcp`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap mcp train.stallmap", "as the command of an MCP server: stdio, read only"),
    ("stallmap mcp a=before.stallmap b=after.stallmap", "two captures, which the tool `diff` compares"),
]))]
pub struct McpArgs {
    /// Captures. In queries they are a, b, c and so on, or NAME from NAME=CAPTURE. A single one needs no name
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true)]
    pub captures: Vec<NamedCapture>,
    /// Longest time of a call
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub timeout: u64,
}
