//! Dot-commands: what the shell can do beside SQL.

use clap::ValueEnum;

use super::{Next, Shell};
use crate::args::RowFormat;
use crate::commands::{Names, describe, explain, report_query};
use crate::exit::{Failure, Outcome, USAGE};
use crate::output;
use crate::output::table::Table;

/// A dot-command: name, argument, meaning.
struct Command {
    name: &'static str,
    argument: Argument,
    doc: &'static str,
    run: fn(&mut Shell, &str) -> Outcome<Next>,
}

/// What a dot-command takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Argument {
    Nothing,
    Relation,
    Format,
    Switch,
    Number,
}

impl Argument {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Relation => " NAME",
            Self::Format => " FORMAT",
            Self::Switch => " on|off",
            Self::Number => " N",
        }
    }
}

/// Every dot-command.
const COMMANDS: &[Command] = &[
    Command {
        name: ".tables",
        argument: Argument::Nothing,
        doc: "tables with rows, bytes and what a row is",
        run: |shell, _| draw(&describe::tables(&shell.session)),
    },
    Command {
        name: ".views",
        argument: Argument::Nothing,
        doc: "views of the SQL library",
        run: |shell, _| draw(&describe::views(&shell.session)?),
    },
    Command {
        name: ".doc",
        argument: Argument::Relation,
        doc: "what a table or view is, and each of its columns",
        run: |shell, name| said(&shell.runtime.block_on(describe::document(&shell.session, name))?),
    },
    Command {
        name: ".schema",
        argument: Argument::Relation,
        doc: "columns and types of a table or view",
        run: |shell, name| draw(&shell.runtime.block_on(describe::columns(&shell.session, name))?),
    },
    Command {
        name: ".sql",
        argument: Argument::Relation,
        doc: "the SQL of a view, or of a section of the report",
        run: |shell, name| said(&sql_of(shell, name)?),
    },
    Command {
        name: ".format",
        argument: Argument::Format,
        doc: "how rows are printed: table, csv, json, jsonl",
        run: set_format,
    },
    Command {
        name: ".rows",
        argument: Argument::Number,
        doc: "rows of a table that are shown; 0 for all",
        run: set_rows,
    },
    Command {
        name: ".timing",
        argument: Argument::Switch,
        doc: "whether rows and time follow each statement",
        run: set_timing,
    },
    Command { name: ".help", argument: Argument::Nothing, doc: "this list", run: |_, _| said(&help()) },
    Command {
        name: ".quit",
        argument: Argument::Nothing,
        doc: "leave; Ctrl-D does too",
        run: |_, _| Ok(Next::Quit),
    },
];

/// Words that people type out of habit.
const ALIASES: &[(&str, &str)] = &[
    ("quit", ".quit"),
    ("exit", ".quit"),
    ("help", ".help"),
    (".exit", ".quit"),
    (".q", ".quit"),
    ("\\q", ".quit"),
];

/// Whether a line without a dot is a dot-command all the same.
pub(super) fn is_alias(line: &str) -> bool {
    ALIASES.iter().any(|&(alias, _)| alias == line.trim_end_matches(';'))
}

/// Runs a dot-command or an alias of one.
pub(super) fn run(shell: &mut Shell, line: &str) -> Outcome<Next> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |&(_, name)| name);
    let Some(command) = COMMANDS.iter().find(|command| command.name == word) else {
        let nearest = crate::commands::nearest(word, COMMANDS.iter().map(|command| command.name));
        let hint = nearest.map_or(".help lists them".to_owned(), |name| format!("did you mean `{name}`?"));
        return Err(Failure::message(USAGE, format!("no dot-command `{word}`")).hint(hint));
    };
    let argument = argument.trim();
    if argument.is_empty() && command.argument != Argument::Nothing && command.argument != Argument::Switch {
        return Err(Failure::message(USAGE, format!("usage: {}{}", command.name, command.argument.name())));
    }
    (command.run)(shell, argument)
}

/// Where the replaced text starts, and what could replace it.
pub(super) fn complete(names: &Names, before: &str) -> (usize, Vec<String>) {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let prefix = &before[start..];
    let word = before.split_whitespace().next().unwrap_or_default();
    let argument = COMMANDS.iter().find(|command| command.name == word).map(|command| command.argument);
    let all: Vec<String> = match argument {
        Some(Argument::Relation) if start > 0 => names.relations().map(str::to_owned).collect(),
        Some(Argument::Format) if start > 0 => formats(),
        Some(Argument::Switch) if start > 0 => vec!["on".to_owned(), "off".to_owned()],
        _ if before.trim_start() == prefix.trim_start() => {
            COMMANDS.iter().map(|c| c.name.to_owned()).collect()
        }
        _ => Vec::new(),
    };
    (start, all.into_iter().filter(|name| name.starts_with(prefix)).collect())
}

fn draw(table: &Table) -> Outcome<Next> {
    output::written(table.draw(&mut output::stdout(), output::sheet())).map(|()| Next::Line)
}

fn said(text: &str) -> Outcome<Next> {
    output::print(text).map(|()| Next::Line)
}

fn help() -> String {
    let line = |command: &Command| {
        let usage = format!("{}{}", command.name, command.argument.name());
        format!("  {usage:<16}  {}\n", command.doc)
    };
    let head = "SQL, ended by a semicolon; Ctrl-C cancels it; Tab completes. Beside it:\n";
    std::iter::once(head.to_owned()).chain(COMMANDS.iter().map(line)).collect()
}

fn sql_of(shell: &Shell, name: &str) -> Outcome<String> {
    let views = shell.session.library().map_err(|error| explain(error, None))?;
    match views.iter().find(|view| view.name == name) {
        Some(view) => Ok(view.sql.trim_end().to_owned() + "\n"),
        None => report_query(name),
    }
}

fn formats() -> Vec<String> {
    RowFormat::value_variants()
        .iter()
        .filter(|&&format| format != RowFormat::Parquet)
        .map(|f| f.name())
        .collect()
}

fn set_format(shell: &mut Shell, name: &str) -> Outcome<Next> {
    match RowFormat::from_str(name, true) {
        Ok(RowFormat::Parquet) => Err(Failure::message(USAGE, "Parquet cannot be shown in the shell")
            .hint("write it with `stallmap sql NAME.stallmap -c SQL -o FILE.parquet`".to_owned())),
        Ok(format) => {
            shell.style.format = format;
            Ok(Next::Line)
        }
        Err(_) => Err(Failure::message(USAGE, format!("no format `{name}`")).hint(formats().join(", "))),
    }
}

fn set_rows(shell: &mut Shell, number: &str) -> Outcome<Next> {
    let rows: usize =
        number.parse().map_err(|_| Failure::message(USAGE, format!("`{number}` is no number of rows")))?;
    shell.style.limit = (rows > 0).then_some(rows);
    Ok(Next::Line)
}

fn set_timing(shell: &mut Shell, switch: &str) -> Outcome<Next> {
    shell.has_timing = match switch {
        "on" => true,
        "off" => false,
        "" => !shell.has_timing,
        other => return Err(Failure::message(USAGE, format!("`{other}` is neither on nor off"))),
    };
    Ok(Next::Line)
}
