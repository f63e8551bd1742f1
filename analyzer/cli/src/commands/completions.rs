//! `stallmap completions`: completions of the command line for shells. They call this program with a variable.

use clap_complete::env::Shells;

use stallmap_console::args::CompletionsArgs;
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome};
use stallmap_console::output;

/// The variable that names the shell to complete for.
pub(crate) const VARIABLE: &str = "STALLMAP_COMPLETE";

/// Prints what a shell runs to get completions.
pub(super) fn run(args: &CompletionsArgs) -> Outcome {
    let name = args.shell.to_string();
    let builtin = Shells::builtins();
    let shell = builtin.completer(&name);
    let shell = shell.ok_or_else(|| CommandFailure::message(IO, format!("no completions for {name}")))?;
    let mut script = Vec::new();
    shell
        .write_registration(VARIABLE, "stallmap", "stallmap", "stallmap", &mut script)
        .map_err(|error| CommandFailure::io(error, "write completions"))?;
    output::print(&String::from_utf8_lossy(&script)).map(|()| OK)
}
