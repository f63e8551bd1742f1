//! The SQL shell: statements and dot-commands, from a person or from a text.

mod complete;
mod dot;
mod editor;
mod history;
pub(crate) mod lexer;

use std::sync::Arc;

use rustyline::error::ReadlineError;
use stallmap::session::Session;
use tokio::runtime::{Builder, Runtime};

use crate::commands::{Names, Statement, Target, explain, run_statement, runtime, split_statements};
use crate::exit::{Failure, IO, Outcome, QUERY};
use crate::output;
use crate::output::number::{grouped, nanoseconds};
use crate::output::rows::Style;

/// An open session with the settings of its output.
pub(crate) struct Shell {
    session: Arc<Session>,
    runtime: Runtime,
    names: Names,
    style: Style,
    target: Target,
    /// Whether each statement is followed by its rows and time.
    has_timing: bool,
}

/// What comes after a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The next line.
    Line,
    /// The end.
    Quit,
}

impl Shell {
    /// A shell over open captures.
    pub(crate) fn new(session: Session, runtime: Runtime, style: Style, target: Target) -> Outcome<Self> {
        let names = Names::of(&session).map_err(|error| explain(error, None))?;
        Ok(Self { session: Arc::new(session), runtime, names, style, target, has_timing: false })
    }

    /// Runs a dot-command, or statements.
    fn run(&mut self, text: &str, run: fn(&mut Self, &str) -> Outcome<Statement>) -> Outcome<Next> {
        let line = text.trim();
        if line.starts_with('.') || dot::is_alias(line) {
            return dot::run(self, line);
        }
        for statement in split_statements(text) {
            let done = run(self, statement)?;
            if self.has_timing {
                output::note(timing(&done));
            }
        }
        Ok(Next::Line)
    }

    /// Runs a statement to its end.
    fn run_plainly(&mut self, sql: &str) -> Outcome<Statement> {
        self.runtime.block_on(run_statement(&self.session, sql, self.style, &self.target))
    }

    /// Runs a statement that Ctrl-C ends.
    ///
    /// The signal is waited for on a runtime of its own: a query that keeps every thread busy would not let the
    /// threads that run it hear of it.
    fn run_until_interrupted(&mut self, sql: &str) -> Outcome<Statement> {
        let (session, sql, style) = (Arc::clone(&self.session), sql.to_owned(), self.style);
        let target = self.target.clone();
        let task = self.runtime.spawn(async move { run_statement(&session, &sql, style, &target).await });
        let abort = task.abort_handle();
        let signals = Builder::new_current_thread().enable_all().build();
        let signals = signals
            .map_err(|error| Failure::new(IO, anyhow::Error::from(error).context("wait for Ctrl-C")))?;
        let done = signals.block_on(async {
            tokio::select! {
                done = task => Some(done),
                _ = tokio::signal::ctrl_c() => None,
            }
        });
        if let Some(done) = done {
            return done.unwrap_or_else(|error| Err(Failure::new(QUERY, error)));
        }
        abort.abort();
        // After the ^C that the terminal echoed.
        output::note("");
        // What does not stop at once ends by itself, on threads that nobody waits for.
        std::mem::replace(&mut self.runtime, runtime()?).shutdown_background();
        Err(Failure::message(QUERY, "cancelled"))
    }
}

/// Runs the dot-commands and statements of a text; the first failure ends it.
pub(crate) fn batch(mut shell: Shell, text: &str) -> Outcome<()> {
    let mut pending = String::new();
    for line in text.split_inclusive('\n') {
        pending.push_str(line);
        if !editor::is_complete(&pending) {
            continue;
        }
        if shell.run(&pending, Shell::run_plainly)? == Next::Quit {
            return Ok(());
        }
        pending.clear();
    }
    shell.run(&pending, Shell::run_plainly).map(|_| ())
}

/// Reads lines from a person until they leave; failures are said and the shell goes on.
pub(crate) fn interactive(mut shell: Shell) -> Outcome<()> {
    let wrong = |error| Failure::new(IO, anyhow::Error::from(error).context("read from the terminal"));
    let mut editor = editor::editor(shell.names.clone()).map_err(wrong)?;
    let history = history::path();
    if let Some(path) = &history {
        // The first session has none.
        drop(editor.load_history(path));
    }
    shell.has_timing = true;
    greet(&shell);
    loop {
        let text = match editor.readline(editor::PROMPT) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        if let (Ok(true), Some(path)) = (editor.add_history_entry(text.trim()), &history) {
            // A full disk must not end the session.
            drop(editor.append_history(path));
        }
        match shell.run(&text, Shell::run_until_interrupted) {
            Ok(Next::Line) => {}
            Ok(Next::Quit) => return Ok(()),
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => output::message(&failure),
        }
    }
}

fn greet(shell: &Shell) {
    let captures = shell.session.captures().iter();
    let captures: Vec<String> =
        captures.map(|capture| format!("{} = {}", capture.name, capture.reader.path().display())).collect();
    output::note(format_args!(
        "{}\n{} tables, {} views; .help says what you can do, .quit leaves",
        captures.join("\n"),
        shell.names.tables.len(),
        shell.names.views.len()
    ));
}

fn timing(done: &Statement) -> String {
    let elapsed = nanoseconds(done.elapsed.as_nanos() as f64);
    match done.rows {
        Some(1) => format!("1 row, {elapsed}"),
        Some(rows) => format!("{} rows, {elapsed}", grouped(rows as i128)),
        None => format!("done, {elapsed}"),
    }
}
