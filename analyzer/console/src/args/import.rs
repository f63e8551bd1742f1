//! `stallmap import`

use std::path::PathBuf;

use clap::Args;

use super::examples;

/// `stallmap import`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap import trace.json.gz -o train.stallmap", "a trace of PyTorch's profiler"),
    ("stallmap import trace.json.gz execution.json -o train.stallmap", "with the execution trace of the same run"),
    ("stallmap import trace.json.gz --into train.stallmap -o timed.stallmap", "with its times on the launches of a capture"),
]))]
pub struct ImportArgs {
    /// File of another tool. Its content decides the format, never its name. A profiler's trace is joined with an
    /// execution trace of the same run, with the trace in which its graph was captured, or with those of other processes
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Add the times of a trace to this capture of the same program, as a run of its own
    #[arg(long, value_name = "CAPTURE")]
    pub into: Option<PathBuf>,
    /// Capture to write
    #[arg(short, long, value_name = "NAME.stallmap", required = true)]
    pub output: PathBuf,
    /// Store no rows of views in the capture
    #[arg(long)]
    pub no_prepare: bool,
}
