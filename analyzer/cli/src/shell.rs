//! The SQL shell: statements and dot-commands, typed or from a text.

mod complete;
mod dot;
mod editor;
mod examples;
mod history;
mod settings;

use std::sync::Arc;
use std::time::Duration;

use rustyline::Editor;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use stallmap::ending::StatementEnd;
use stallmap::session::Session;
use stallmap::statements;
use tokio::runtime::{Builder, Runtime};
use tokio::time::sleep;

use self::editor::LineAssistant;
use crate::commands::query::RowTarget;
use crate::commands::query::StatementResult;
use crate::commands::query::run_statement;
use stallmap_console::context::runtime;
use stallmap_console::exit::{CommandFailure, IO, Outcome, QUERY};
use stallmap_console::explain::explain;
use stallmap_console::names::SessionNames;
use stallmap_console::output;
use stallmap_console::output::number::{grouped, nanoseconds};
use stallmap_console::output::pager::Pager;
use stallmap_console::output::progress::ProgressSpinner;
use stallmap_console::output::rows::RowStyle;
use stallmap_console::output::table::TableShape;
use stallmap_schema::capture::unfinished;

/// The end of a statement whose rows are records.
const RECORDS: &str = "\\G";

/// A shorter query shows no progress.
const PATIENCE: Duration = Duration::from_secs(1);

/// An open session with the settings of its output.
pub(crate) struct SqlShell {
    session: Arc<Session>,
    runtime: Runtime,
    names: SessionNames,
    style: RowStyle,
    target: RowTarget,
    /// True if each statement is followed by its rows and time.
    has_timing: bool,
    /// True if interactive: Ctrl-C ends a statement and not the shell.
    is_interactive: bool,
    /// Longest time of a statement.
    longest: Option<Duration>,
    pager: Pager,
    /// Nested files of `.read`.
    depth: usize,
}

/// The shell's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ShellStep {
    /// The next line.
    Line,
    /// The end.
    Quit,
}

impl SqlShell {
    /// A shell over open captures.
    pub(crate) fn new(
        session: Session,
        style: RowStyle,
        target: RowTarget,
        longest: Option<Duration>,
    ) -> Outcome<Self> {
        let names = SessionNames::from_session(&session).map_err(|error| explain(error, None))?;
        let pager = Pager::of_environment(|name| std::env::var(name).ok());
        let (session, runtime) = (Arc::new(session), runtime()?);
        let (has_timing, is_interactive, depth) = (false, false, 0);
        Ok(Self { session, runtime, names, style, target, has_timing, is_interactive, longest, pager, depth })
    }

    /// Runs a dot-command, or statements.
    fn run(&mut self, text: &str) -> Outcome<ShellStep> {
        let line = text.trim();
        if line.starts_with(['.', '\\']) || dot::is_alias(line) {
            return dot::run(self, line);
        }
        if let Some(text) = line.strip_suffix(RECORDS) {
            let usual = self.style.shape;
            self.style.shape = TableShape::Records;
            let done = self.run(text);
            self.style.shape = usual;
            return done;
        }
        for statement in statements::split(text) {
            let done = self.run_statement(statement)?;
            if done.rows.is_none() {
                // A view may have been created or dropped.
                self.names =
                    SessionNames::from_session(&self.session).map_err(|error| explain(error, None))?;
            }
            if self.has_timing {
                output::note(timing(&done));
            }
        }
        Ok(ShellStep::Line)
    }

    /// Runs the lines of a text. The first failure ends it.
    fn run_lines(&mut self, text: &str) -> Outcome<ShellStep> {
        let mut pending = String::new();
        for line in text.split_inclusive('\n') {
            pending.push_str(line);
            if !editor::is_complete(&pending) {
                continue;
            }
            if self.run(&pending)? == ShellStep::Quit {
                return Ok(ShellStep::Quit);
            }
            pending.clear();
        }
        self.run(&pending)
    }

    fn run_statement(&mut self, sql: &str) -> Outcome<StatementResult> {
        let progress = ProgressSpinner::after(PATIENCE, self.session.work(), "running");
        if self.is_interactive || self.longest.is_some() {
            return self.run_until_stopped(sql, &progress);
        }
        let voice = progress.voice();
        self.runtime.block_on(run_statement(&self.session, sql, self.style, &self.target, &voice))
    }

    /// Runs a statement that Ctrl-C in the shell, and the end of its time, stop.
    ///
    /// A runtime of its own waits for them: a query that occupies every thread would block both on its own runtime.
    fn run_until_stopped(&mut self, sql: &str, progress: &ProgressSpinner) -> Outcome<StatementResult> {
        let (session, sql, style) = (Arc::clone(&self.session), sql.to_owned(), self.style);
        let (target, voice) = (self.paged_target(), progress.voice());
        let ending = StatementEnd::default();
        let work = async move { run_statement(&session, &sql, style, &target, &voice).await };
        let task = self.runtime.spawn(ending.clone().within(work));
        let abort = task.abort_handle();
        let done = signals()?.block_on(async {
            tokio::select! {
                done = task => Ok(done),
                reason = self.stopped() => Err(reason),
            }
        });
        let reason = match done {
            Ok(done) => return done.unwrap_or_else(|error| Err(CommandFailure::new(QUERY, error))),
            Err(reason) => reason,
        };
        ending.end();
        abort.abort();
        progress.voice().end();
        if self.is_interactive {
            output::clear_line();
        } else {
            // The program ends before the task, which removes the file that it writes.
            drop(unfinished::remove_all());
        }
        // Tasks that do not stop at once end by themselves, on detached threads.
        std::mem::replace(&mut self.runtime, runtime()?).shutdown_background();
        Err(reason)
    }

    /// Waits for the reason to stop a statement.
    async fn stopped(&self) -> CommandFailure {
        tokio::select! {
            () = interrupted(&self.pager), if self.is_interactive => CommandFailure::message(QUERY, "cancelled"),
            () = passed(&self.pager, self.longest.unwrap_or_default()), if self.longest.is_some() => {
                CommandFailure::over_time("statement", self.longest.unwrap_or_default())
            }
            else => std::future::pending().await,
        }
    }

    /// Destination of rows in interactive mode.
    fn paged_target(&self) -> RowTarget {
        match &self.target {
            RowTarget::Stdout if self.is_interactive && self.pager.is_on => {
                let mut pager = self.pager.clone();
                pager.is_sideways = self.style.shape == TableShape::Columns;
                RowTarget::Pager(pager)
            }
            target => target.clone(),
        }
    }
}

/// Waits for a Ctrl-C that is not for the pager.
async fn interrupted(pager: &Pager) {
    loop {
        if tokio::signal::ctrl_c().await.is_err() {
            // Without a signal, a statement runs to its end.
            return std::future::pending().await;
        }
        if !pager.has_terminal() {
            return;
        }
    }
}

/// Returns when a statement's time has passed. Rows in a pager wait for their reader.
async fn passed(pager: &Pager, longest: Duration) {
    sleep(longest).await;
    if pager.has_terminal() {
        std::future::pending::<()>().await;
    }
}

/// The runtime that waits for Ctrl-C.
fn signals() -> Outcome<Runtime> {
    let signals = Builder::new_current_thread().enable_all().build();
    signals.map_err(|error| CommandFailure::new(IO, anyhow::Error::from(error).context("wait for Ctrl-C")))
}

/// Runs the dot-commands and statements of a text. The first failure ends it.
pub(crate) fn batch(mut shell: SqlShell, text: &str) -> Outcome<()> {
    shell.run_lines(text).map(|_| ())
}

/// Reads lines from the user until the end. Failures are printed and the shell continues.
pub(crate) fn interactive(mut shell: SqlShell) -> Outcome<()> {
    let wrong = |error| CommandFailure::new(IO, anyhow::Error::from(error).context("read from the terminal"));
    let mut editor = editor::editor(shell.names.clone()).map_err(wrong)?;
    let history = history::path();
    if let Some(path) = &history {
        // The first session has none.
        drop(editor.load_history(path));
    }
    (shell.has_timing, shell.is_interactive) = (true, true);
    hear_signals()?;
    greet(&shell);
    let mut interrupts = 0;
    loop {
        let text = match lines(&mut editor) {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => {
                interrupts += 1;
                if interrupts == 2 {
                    output::note("Ctrl-D or .quit leaves");
                }
                continue;
            }
            Err(ReadlineError::Eof) => return Ok(()),
            Err(error) => return Err(wrong(error)),
        };
        interrupts = 0;
        if let (Ok(true), Some(path)) = (editor.add_history_entry(text.trim()), &history) {
            // A full disk must not end the session.
            drop(editor.append_history(path));
        }
        match shell.run(&text) {
            Ok(ShellStep::Line) => {}
            Ok(ShellStep::Quit) => return Ok(()),
            // The user left the pager early.
            Err(failure) if failure.is_broken_pipe() && output::is_terminal() => {}
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) => output::message(&failure),
        }
        if let Some(assistant) = editor.helper_mut() {
            assistant.learn(&shell.names);
        }
    }
}

/// Reads the lines of a dot-command or of statements.
fn lines(editor: &mut Editor<LineAssistant, FileHistory>) -> rustyline::Result<String> {
    let mut text = String::new();
    loop {
        if let Some(assistant) = editor.helper_mut() {
            assistant.continue_below(&text);
        }
        let prompt = if text.is_empty() { editor::PROMPT } else { editor::CONTINUED };
        text += &editor.readline(prompt)?;
        if editor::is_complete(&text) {
            return Ok(text);
        }
        text.push('\n');
    }
}

/// From now on Ctrl-C is a signal to wait for, and does not end the program, even while a pager runs.
fn hear_signals() -> Outcome<()> {
    let signals = signals()?;
    signals.block_on(async {
        let waiting = tokio::signal::ctrl_c();
        // Polling once registers the handler. This future itself is dropped.
        drop(tokio::time::timeout(Duration::ZERO, waiting).await);
    });
    Ok(())
}

fn greet(shell: &SqlShell) {
    let captures: Vec<String> = if shell.session.is_led() {
        vec!["all captures: `fleet` has a row of each".to_owned()]
    } else {
        let captures = shell.session.captures().iter();
        captures
            .map(|capture| format!("{} = {}", capture.name, output::path(capture.reader.path())))
            .collect()
    };
    output::note(format_args!(
        "{}\n{} tables, {} views. .help lists commands, .examples shows questions, .quit exits",
        captures.join("\n"),
        shell.names.tables.len(),
        shell.names.views.len()
    ));
}

fn timing(done: &StatementResult) -> String {
    let lasted = |duration: Duration| nanoseconds(duration.as_nanos() as f64);
    let times = format!("preparing {}, execution {}", lasted(done.preparing), lasted(done.execution));
    match done.rows {
        Some(1) => format!("1 row, {times}"),
        Some(rows) => format!("{} rows, {times}", grouped(rows as i128)),
        None => format!("done, {times}"),
    }
}
