//! `stallmap serve`

use clap::Args;

use super::{NamedCapture, examples};

/// `stallmap serve`
#[derive(Args, Debug)]
#[command(after_help = examples(&[
    ("stallmap serve --stdio train.stallmap", "the process that the Python package starts"),
]))]
pub struct Serve {
    /// Captures, each as NAME=CAPTURE if there are several
    #[arg(value_name = "[NAME=]NAME.stallmap", required = true)]
    pub captures: Vec<NamedCapture>,
    /// Read requests from standard input, write results to standard output, and exit at the end of the input
    #[arg(long, required = true)]
    pub stdio: bool,
}
