//! `stallmap sql`: statements from arguments, a file, a pipe, or the shell.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::shell::{self, SqlShell};
use stallmap::location::CaptureLocation;
use stallmap_console::args::{RowFormat, SqlArgs};
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{CommandFailure, IO, OK, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::rows::RowStyle;
use stallmap_console::output::table::TableShape;

use crate::commands::cluster;
use crate::commands::query::RowTarget;
use stallmap_console::library::saved_query;

/// Default rows of a table on a terminal.
const TERMINAL_ROWS: usize = 100;

/// Runs the statements, or the shell if there are none and standard input is a terminal.
pub(super) fn run(context: &CommandContext, args: &SqlArgs) -> Outcome {
    let format = format(args)?;
    let limit = match args.rows {
        Some(0) => None,
        Some(rows) => Some(rows),
        None => output::is_terminal().then_some(TERMINAL_ROWS),
    };
    let style = RowStyle { format, canvas: output::sheet(), shape: TableShape::default(), limit };
    let target = args.output.clone().map_or(RowTarget::Stdout, RowTarget::File);
    let longest = args.timeout.map(Duration::from_secs);
    let captures: Vec<_> =
        args.captures.iter().map(|capture| (capture.name.clone(), capture.path.clone())).collect();
    if let Some(name) = &args.query {
        let session = context.open(&captures)?;
        let values: Vec<_> =
            args.set.iter().map(|setting| (setting.name.clone(), setting.value.clone())).collect();
        let sql = saved_query(&session, name, &values)?;
        return shell::batch(SqlShell::new(session, style, target, longest)?, &sql).map(|()| OK);
    }
    let is_shell = args.command.is_empty() && args.file.is_none() && io::stdin().is_terminal();
    if is_shell && args.output.is_some() {
        return Err(CommandFailure::message(USAGE, "--output needs a statement")
            .hint("give one with -c or -f".to_owned()));
    }
    let text = if is_shell { None } else { Some(statements(args)?) };
    if let (Some(text), Some(_)) = (&text, &args.output) {
        let count = stallmap::statements::split(text).len();
        if count != 1 {
            return Err(CommandFailure::message(
                USAGE,
                format!("--output takes the rows of one statement, not of {count}"),
            ));
        }
    }
    if let Some(scheduler) = &args.cluster {
        return cluster::statements(context, (scheduler, args), text.as_deref(), (style, &target));
    }
    if !args.over.is_empty() {
        return over(context, &args.over, text.as_deref(), (style, target, longest));
    }
    let shell = SqlShell::new(context.open(&captures)?, style, target, longest)?;
    run_shell(shell, text.as_deref())
}

fn run_shell(shell: SqlShell, text: Option<&str>) -> Outcome {
    match text {
        None => shell::interactive(shell),
        Some(text) => shell::batch(shell, text),
    }
    .map(|()| OK)
}

/// The same over all captures in folders. Captures that cannot be read are named and counted.
fn over(
    context: &CommandContext,
    places: &[CaptureLocation],
    text: Option<&str>,
    (style, target, longest): (RowStyle, RowTarget, Option<Duration>),
) -> Outcome {
    let fleet = stallmap_lists::trend::open(context, places, &[])?;
    let (found, skipped) = (fleet.found, fleet.skipped);
    let outcome = run_shell(SqlShell::new(fleet.session, style, target, longest)?, text);
    stallmap_lists::trend::say_skipped(found, &skipped);
    outcome
}

/// The requested format, by option or by the file's extension.
fn format(args: &SqlArgs) -> Outcome<RowFormat> {
    let named = if args.json { Some(RowFormat::Json) } else { args.format };
    let by_ending = match args.output.as_deref().and_then(Path::extension) {
        Some(ending) if named.is_none() => Some(of_ending(&ending.to_string_lossy())?),
        _ => None,
    };
    let format = named.or(by_ending).unwrap_or(RowFormat::Table);
    if format == RowFormat::Parquet && args.output.is_none() && output::is_terminal() {
        let failure = CommandFailure::message(USAGE, "Parquet cannot be shown on a terminal");
        return Err(failure.hint("write it to a file with -o FILE.parquet".to_owned()));
    }
    Ok(format)
}

/// The format of files with this ending.
fn of_ending(ending: &str) -> Outcome<RowFormat> {
    Ok(match ending {
        "csv" => RowFormat::Csv,
        "json" => RowFormat::Json,
        "jsonl" | "ndjson" => RowFormat::Jsonl,
        "md" => RowFormat::Markdown,
        "parquet" => RowFormat::Parquet,
        "txt" => RowFormat::Table,
        _ => {
            let hint = "endings: csv, json, jsonl, md, parquet, txt. For another one, name the --format";
            return Err(CommandFailure::message(USAGE, format!("no format is known for files .{ending}"))
                .hint(hint.to_owned()));
        }
    })
}

fn statements(args: &SqlArgs) -> Outcome<String> {
    match &args.file {
        Some(path) if path != &PathBuf::from("-") => std::fs::read_to_string(path)
            .map_err(|error| CommandFailure::io(error, format!("read statements from `{}`", path.display()))),
        None if !args.command.is_empty() => Ok(args.command.join("\n;\n")),
        _ => {
            let mut text = String::new();
            io::stdin().lock().read_to_string(&mut text).map_err(|error| {
                CommandFailure::new(
                    IO,
                    anyhow::Error::from(error).context("read statements from standard input"),
                )
            })?;
            Ok(text)
        }
    }
}
