//! Dot-commands: commands of the shell in addition to SQL.

use std::io::Write as _;

use rustyline::completion::FilenameCompleter;

use super::{ShellStep, SqlShell, examples, settings};
use crate::commands::describe;
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::explain::explain;
use stallmap_console::library::saved_queries;
use stallmap_console::library::saved_query;
use stallmap_console::names::{SessionNames, nearest};
use stallmap_console::output;
use stallmap_console::output::table::TextTable;
use stallmap_report::report::query_of as report_query;
use stallmap_report::report::section_names as report_sections;

/// Maximum of nested files.
const MAX_FILES: usize = 16;

/// A dot-command: name, argument, meaning.
struct DotCommand {
    name: &'static str,
    argument: DotArgument,
    doc: &'static str,
    run: fn(&mut SqlShell, &str) -> Outcome<ShellStep>,
}

/// Argument of a dot-command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DotArgument {
    Nothing,
    Relation,
    Example,
    Query,
    File,
    MaybeFile,
    Format,
    Switch,
    Shape,
    Pager,
    Number,
}

impl DotArgument {
    const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "",
            Self::Relation => " NAME",
            Self::Example => " [N|NAME]",
            Self::Query => " NAME [PARAMETER=VALUE]...",
            Self::File => " FILE",
            Self::MaybeFile => " [FILE]",
            Self::Format => " FORMAT",
            Self::Switch => " on|off",
            Self::Shape => " [on|off|auto]",
            Self::Pager => " [on|off|PROGRAM]",
            Self::Number => " N",
        }
    }

    /// True if it can be omitted.
    const fn is_optional(self) -> bool {
        matches!(
            self,
            Self::Nothing | Self::Example | Self::MaybeFile | Self::Switch | Self::Shape | Self::Pager
        )
    }
}

/// Every dot-command.
const COMMANDS: &[DotCommand] = &[
    DotCommand {
        name: ".tables",
        argument: DotArgument::Nothing,
        doc: "list tables with rows, bytes and a description",
        run: |shell, _| shell.draw(&describe::tables(&shell.session)),
    },
    DotCommand {
        name: ".views",
        argument: DotArgument::Nothing,
        doc: "list views of the SQL library, and custom ones",
        run: |shell, _| shell.draw(&describe::views(&shell.session)?),
    },
    DotCommand {
        name: ".doc",
        argument: DotArgument::Relation,
        doc: "describe a table, view or function with its columns or arguments",
        run: |shell, name| shell.show(&shell.runtime.block_on(describe::document(&shell.session, name))?),
    },
    DotCommand {
        name: ".schema",
        argument: DotArgument::Relation,
        doc: "list columns and types of a table or view",
        run: |shell, name| shell.draw(&shell.runtime.block_on(describe::columns(&shell.session, name))?),
    },
    DotCommand {
        name: ".sql",
        argument: DotArgument::Relation,
        doc: "show the SQL of a view, or of a section of the report",
        run: |shell, name| shell.show(&sql_of(shell, name)?),
    },
    DotCommand {
        name: ".examples",
        argument: DotArgument::Example,
        doc: "list questions with their SQL, or run one",
        run: examples::run,
    },
    DotCommand {
        name: ".queries",
        argument: DotArgument::Nothing,
        doc: "list saved queries of the custom library, with parameters",
        run: |shell, _| queries(shell),
    },
    DotCommand { name: ".run", argument: DotArgument::Query, doc: "run a saved query", run: run_query },
    DotCommand {
        name: ".read",
        argument: DotArgument::File,
        doc: "run the statements and dot-commands of a file",
        run: read,
    },
    DotCommand {
        name: ".output",
        argument: DotArgument::MaybeFile,
        doc: "write rows to a file, or show them again",
        run: settings::set_output,
    },
    DotCommand {
        name: ".format",
        argument: DotArgument::Format,
        doc: "set the output format: table, csv, json, jsonl",
        run: settings::set_format,
    },
    DotCommand {
        name: ".expanded",
        argument: DotArgument::Shape,
        doc: "show rows as records, as columns (the pager scrolls), or as they fit. \\G does so once",
        run: settings::set_expanded,
    },
    DotCommand {
        name: ".rows",
        argument: DotArgument::Number,
        doc: "set the maximum rows of a table, 0 for all",
        run: settings::set_rows,
    },
    DotCommand {
        name: ".timing",
        argument: DotArgument::Switch,
        doc: "show rows and time after each statement",
        run: settings::set_timing,
    },
    DotCommand {
        name: ".pager",
        argument: DotArgument::Pager,
        doc: "set the pager for long results",
        run: settings::set_pager,
    },
    DotCommand {
        name: ".help",
        argument: DotArgument::Nothing,
        doc: "show this list",
        run: |shell, _| shell.show(&help()),
    },
    DotCommand {
        name: ".quit",
        argument: DotArgument::Nothing,
        doc: "exit, like Ctrl-D",
        run: |_, _| Ok(ShellStep::Quit),
    },
];

/// Commands of other shells.
const ALIASES: &[(&str, &str)] = &[
    ("quit", ".quit"),
    ("exit", ".quit"),
    ("help", ".help"),
    (".exit", ".quit"),
    (".q", ".quit"),
    ("\\q", ".quit"),
    ("\\?", ".help"),
    ("\\h", ".help"),
    ("\\d", ".tables"),
    ("\\dt", ".tables"),
    ("\\dv", ".views"),
    ("\\i", ".read"),
    ("\\o", ".output"),
    ("\\x", ".expanded"),
    ("\\timing", ".timing"),
];

/// True if a line without a dot is a dot-command.
pub(super) fn is_alias(line: &str) -> bool {
    ALIASES.iter().any(|&(alias, _)| alias == line.trim_end_matches(';'))
}

/// Runs a dot-command or an alias of one.
pub(super) fn run(shell: &mut SqlShell, line: &str) -> Outcome<ShellStep> {
    let line = line.trim().trim_end_matches(';').trim_end();
    let (word, argument) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = if word == "\\d" && !argument.trim().is_empty() { ".doc" } else { word };
    let word = ALIASES.iter().find(|(alias, _)| *alias == word).map_or(word, |&(_, name)| name);
    let Some(command) = COMMANDS.iter().find(|command| command.name == word) else {
        let near = nearest(word, COMMANDS.iter().map(|command| command.name));
        let hint = near.map_or(".help lists them".to_owned(), |name| format!("did you mean `{name}`?"));
        return Err(CommandFailure::message(USAGE, format!("no dot-command `{word}`")).hint(hint));
    };
    let argument = argument.trim();
    if argument.is_empty() && !command.argument.is_optional() {
        return Err(CommandFailure::message(
            USAGE,
            format!("usage: {}{}", command.name, command.argument.name()),
        ));
    }
    (command.run)(shell, argument)
}

/// Start of the replaced text, and its candidates.
pub(super) fn complete(names: &SessionNames, before: &str) -> (usize, Vec<String>) {
    let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let prefix = &before[start..];
    let mut words = before[..start].split_whitespace();
    let Some(word) = words.next() else {
        return (start, starting_with(prefix, COMMANDS.iter().map(|command| command.name.to_owned())));
    };
    let is_first = words.next().is_none();
    let command = COMMANDS.iter().find(|command| command.name == word);
    let Some(command) = command.filter(|_| is_first) else { return (start, Vec::new()) };
    let switch = || vec!["on".to_owned(), "off".to_owned()];
    let all: Vec<String> = match command.argument {
        DotArgument::Relation if word == ".doc" => {
            names.relations().map(str::to_owned).chain(names.functions.iter().cloned()).collect()
        }
        DotArgument::Relation if word == ".sql" => {
            names.views.keys().cloned().chain(report_sections()).collect()
        }
        DotArgument::Relation => names.relations().map(str::to_owned).collect(),
        DotArgument::Example => examples::names(),
        DotArgument::Query => names.queries.clone(),
        DotArgument::File | DotArgument::MaybeFile => return files(before),
        DotArgument::Format => settings::formats(),
        DotArgument::Switch | DotArgument::Pager => switch(),
        DotArgument::Shape => switch().into_iter().chain(["auto".to_owned()]).collect(),
        DotArgument::Nothing | DotArgument::Number => Vec::new(),
    };
    (start, starting_with(prefix, all.into_iter()))
}

fn starting_with(prefix: &str, names: impl Iterator<Item = String>) -> Vec<String> {
    names.filter(|name| name.starts_with(prefix)).collect()
}

/// Names of files.
fn files(before: &str) -> (usize, Vec<String>) {
    let found = FilenameCompleter::new().complete_path(before, before.len());
    let (start, pairs) = found.unwrap_or((before.len(), Vec::new()));
    (start, pairs.into_iter().map(|pair| pair.replacement).collect())
}

impl SqlShell {
    /// Prints a text, through the pager if it is long and the shell is interactive.
    pub(super) fn show(&self, text: &str) -> Outcome<ShellStep> {
        match self.pager.sink().filter(|_| self.is_interactive) {
            Some(mut paged) => output::written(paged.write_all(text.as_bytes()))?,
            None => output::print(text)?,
        }
        Ok(ShellStep::Line)
    }

    /// Prints a table in the same way.
    pub(super) fn draw(&self, table: &TextTable) -> Outcome<ShellStep> {
        let mut text = Vec::new();
        output::written(table.draw(&mut text, output::sheet()))?;
        self.show(&String::from_utf8_lossy(&text))
    }
}

fn help() -> String {
    let line = |command: &DotCommand| {
        let usage = format!("{}{}", command.name, command.argument.name());
        format!("  {usage:<31}  {}\n", command.doc)
    };
    let head = "SQL, ended by a semicolon. Ctrl-C cancels it, Ctrl-D exits, Tab completes. Other commands:\n";
    std::iter::once(head.to_owned()).chain(COMMANDS.iter().map(line)).collect()
}

fn sql_of(shell: &SqlShell, name: &str) -> Outcome<String> {
    let views = shell.session.library().map_err(|error| explain(error, None))?;
    match views.iter().find(|view| view.name == name) {
        Some(view) => Ok(view.sql.trim_end().to_owned() + "\n"),
        None => report_query(name),
    }
}

fn queries(shell: &SqlShell) -> Outcome<ShellStep> {
    if shell.session.queries().is_empty() {
        return shell
            .show("(no saved queries; --library DIR names a folder of them, see `stallmap sql --help`)\n");
    }
    shell.draw(&saved_queries(&shell.session))
}

/// Runs `NAME parameter=value ...`. Values with spaces are in single quotes.
fn run_query(shell: &mut SqlShell, text: &str) -> Outcome<ShellStep> {
    let (name, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let sql = saved_query(&shell.session, name, &values(rest)?)?;
    shell.run(&sql)
}

/// `name=value` pairs, separated by spaces.
fn values(text: &str) -> Outcome<Vec<(String, String)>> {
    let (mut words, mut is_quoted, mut is_open) = (Vec::<String>::new(), false, false);
    for char in text.chars() {
        match char {
            '\'' => is_quoted = !is_quoted,
            char if char.is_whitespace() && !is_quoted => is_open = false,
            char if is_open => words.iter_mut().last().into_iter().for_each(|word| word.push(char)),
            char => {
                words.push(char.to_string());
                is_open = true;
            }
        }
    }
    let pair = |word: String| {
        let wrong = || CommandFailure::message(USAGE, format!("`{word}` is not PARAMETER=VALUE"));
        let (name, value) = word.split_once('=').ok_or_else(wrong)?;
        Ok((name.trim_start_matches('$').to_owned(), value.to_owned()))
    };
    words.into_iter().map(pair).collect()
}

/// Runs a file's statements and dot-commands.
fn read(shell: &mut SqlShell, file: &str) -> Outcome<ShellStep> {
    if shell.depth == MAX_FILES {
        return Err(CommandFailure::message(
            USAGE,
            format!("`{file}` is read by itself, or by too many files"),
        ));
    }
    let text = std::fs::read_to_string(file)
        .map_err(|error| CommandFailure::io(error, format!("read statements from `{file}`")))?;
    shell.depth += 1;
    let done = shell.run_lines(&text);
    shell.depth -= 1;
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_pairs_and_quotes_keep_spaces() {
        let pairs = values(" top=3  name='two words' $x=").unwrap();
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(pairs, [pair("top", "3"), pair("name", "two words"), pair("x", "")]);
        assert!(values("top").is_err());
    }
}
