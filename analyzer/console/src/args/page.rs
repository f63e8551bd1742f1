//! `docs/src/reference/commands.md` equals the declarations of the command line: `UPDATE=1 cargo test -p
//! stallmap-console -- page` writes it. `analyzer/cli/tests/cli/examples.rs` runs its examples.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};

use super::CliArgs;
use crate::exit;

const HEAD: &str = "\
# Commands

This page is generated from the declarations of the command line.
`UPDATE=1 cargo test -p stallmap-console -- page` writes it.
`stallmap COMMAND --help` prints the same text.
";

#[test]
fn the_page_is_what_the_declarations_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/commands.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/src/reference/commands.md is stale: UPDATE=1 writes it");
}

fn page() -> String {
    let mut root = CliArgs::command();
    root.build();
    let mut page = HEAD.to_owned();
    let globals = root.get_arguments().filter(|argument| argument.is_global_set());
    table(&mut page, "option of every command", globals);
    writeln!(page, "\n```text\n{}\n```", exit::HELP).unwrap();
    let is_own = |argument: &&Arg| {
        !argument.is_global_set() && !["help", "version"].contains(&argument.get_id().as_str())
    };
    writeln!(page, "\n## stallmap NAME.stallmap\n\nExplain a capture on one screen.").unwrap();
    table(
        &mut page,
        "argument",
        root.get_arguments().filter(is_own).filter(|argument| argument.is_positional()),
    );
    table(
        &mut page,
        "option",
        root.get_arguments().filter(is_own).filter(|argument| !argument.is_positional()),
    );
    commands(&mut page, &root, "stallmap");
    page
}

fn commands(page: &mut String, parent: &Command, path: &str) {
    for command in
        parent.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
    {
        let path = format!("{path} {}", command.get_name());
        let about = command.get_long_about().or_else(|| command.get_about());
        writeln!(page, "\n## {path}\n\n{}", about.map(ToString::to_string).unwrap_or_default()).unwrap();
        let usage = command.clone().render_usage().to_string();
        writeln!(page, "\n```text\n{}\n```", usage.trim()).unwrap();
        let is_own = |argument: &&Arg| !argument.is_global_set() && argument.get_id() != "help";
        let own = || command.get_arguments().filter(is_own).filter(|argument| !argument.is_hide_set());
        table(page, "argument", own().filter(|argument| argument.is_positional()));
        table(page, "option", own().filter(|argument| !argument.is_positional()));
        examples(page, command);
        commands(page, command, &path);
    }
}

fn table<'a>(page: &mut String, kind: &str, arguments: impl Iterator<Item = &'a Arg>) {
    let mut arguments = arguments.peekable();
    if arguments.peek().is_some() {
        writeln!(page, "\n| {kind} | meaning |\n|---|---|").unwrap();
    }
    for argument in arguments {
        writeln!(page, "| `{}` | {} |", name(argument), meaning(argument)).unwrap();
    }
}

/// Syntax: `-n, --top N`.
fn name(argument: &Arg) -> String {
    let short = argument.get_short().map(|short| format!("-{short}"));
    let long = argument.get_long().map(|long| format!("--{long}"));
    let names = [short, long].into_iter().flatten().collect::<Vec<_>>().join(", ");
    let takes_value = argument.get_action().takes_values();
    let value = argument.get_value_names().unwrap_or_default().join(" ");
    let value = if takes_value { value } else { String::new() };
    format!("{names} {value}").trim().replace('|', "\\|")
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help());
    let mut text = help.map(|help| help.to_string().split_whitespace().collect::<Vec<_>>().join(" "));
    let text = text.get_or_insert_default();
    let values = argument.get_possible_values();
    let values: Vec<String> = values
        .iter()
        .filter(|value| !value.is_hide_set() && argument.get_action().takes_values())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}`: {help}", value.get_name()),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        write!(text, "; {}", values.join("; ")).unwrap();
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, "; default `{}`", defaults.join(",")).unwrap();
    }
    text.replace('|', "\\|")
}

/// The examples of the help: a command, and its description below.
fn examples(page: &mut String, command: &Command) {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let lines = help.lines().skip(1).take_while(|line| line.starts_with("  "));
    let lines: Vec<&str> = lines.map(str::trim).collect();
    if lines.is_empty() {
        return;
    }
    writeln!(page, "\n```sh").unwrap();
    for pair in lines.chunks(2) {
        let (command, meaning) = (pair[0], pair.get(1).copied().unwrap_or_default());
        writeln!(page, "# {meaning}\n{command}").unwrap();
    }
    writeln!(page, "```").unwrap();
}
