//! Settings of dot-commands: format, rows, timing, pager, output file.

use std::path::PathBuf;

use clap::ValueEnum;

use super::{ShellStep, SqlShell};
use crate::commands::query::RowTarget;
use stallmap_console::args::RowFormat;
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::table::TableShape;

/// The formats of the shell.
pub(super) fn formats() -> Vec<String> {
    RowFormat::value_variants()
        .iter()
        .filter(|&&format| format != RowFormat::Parquet)
        .map(|f| f.name())
        .collect()
}

/// `.format FORMAT`
pub(super) fn set_format(shell: &mut SqlShell, name: &str) -> Outcome<ShellStep> {
    match RowFormat::from_str(name, true) {
        Ok(RowFormat::Parquet) => Err(CommandFailure::message(USAGE, "Parquet cannot be shown in the shell")
            .hint("write it with `stallmap sql NAME.stallmap -c SQL -o FILE.parquet`".to_owned())),
        Ok(format) => {
            shell.style.format = format;
            Ok(ShellStep::Line)
        }
        Err(_) => {
            Err(CommandFailure::message(USAGE, format!("no format `{name}`")).hint(formats().join(", ")))
        }
    }
}

/// `.rows N`
pub(super) fn set_rows(shell: &mut SqlShell, number: &str) -> Outcome<ShellStep> {
    let rows: usize = number
        .parse()
        .map_err(|_| CommandFailure::message(USAGE, format!("`{number}` is not a number of rows")))?;
    shell.style.limit = (rows > 0).then_some(rows);
    Ok(ShellStep::Line)
}

/// `.expanded on|off|auto`. Without an argument it switches between on and auto.
pub(super) fn set_expanded(shell: &mut SqlShell, argument: &str) -> Outcome<ShellStep> {
    shell.style.shape = match argument {
        "off" => TableShape::Columns,
        "" if shell.style.shape == TableShape::Records => TableShape::Fitting,
        "auto" => TableShape::Fitting,
        "on" | "" => TableShape::Records,
        other => {
            return Err(CommandFailure::message(USAGE, format!("`{other}` is neither on, off nor auto")));
        }
    };
    Ok(ShellStep::Line)
}

/// `.timing on|off`
pub(super) fn set_timing(shell: &mut SqlShell, switch: &str) -> Outcome<ShellStep> {
    shell.has_timing = switched(shell.has_timing, switch)?;
    Ok(ShellStep::Line)
}

/// `.pager on|off|PROGRAM`. Without an argument it prints the current one.
pub(super) fn set_pager(shell: &mut SqlShell, argument: &str) -> Outcome<ShellStep> {
    match argument {
        "" => {
            let state = if shell.pager.is_on { "on" } else { "off" };
            output::note(format_args!("pager: {state}, `{}`", shell.pager.command()));
        }
        "on" | "off" => shell.pager.is_on = switched(shell.pager.is_on, argument)?,
        command => shell.pager.use_command(command),
    }
    Ok(ShellStep::Line)
}

/// `.output FILE` writes the rows of the next statements, each replacing the one before. Without an argument it shows
/// them again.
#[expect(clippy::unnecessary_wraps, reason = "every dot command is of one type")]
pub(super) fn set_output(shell: &mut SqlShell, file: &str) -> Outcome<ShellStep> {
    shell.target = if file.is_empty() { RowTarget::Stdout } else { RowTarget::File(PathBuf::from(file)) };
    if shell.is_interactive && !file.is_empty() {
        let format = shell.style.format.name();
        output::note(format_args!(
            "rows are written to {file} as {format}. .output without a file shows them again"
        ));
    }
    Ok(ShellStep::Line)
}

fn switched(is_on: bool, switch: &str) -> Outcome<bool> {
    match switch {
        "on" => Ok(true),
        "off" => Ok(false),
        "" => Ok(!is_on),
        other => Err(CommandFailure::message(USAGE, format!("`{other}` is neither on nor off"))),
    }
}
