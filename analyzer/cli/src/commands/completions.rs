//! `stallmap completions`: completions of the command line for shells.

use clap::CommandFactory;

use stallmap_console::args::{Cli, Completions};
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::output;

/// Prints the completions for a shell.
pub(super) fn run(args: &Completions) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "stallmap", &mut script);
    output::print(&String::from_utf8_lossy(&script)).map(|()| OK)
}
