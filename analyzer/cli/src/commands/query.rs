//! One statement from text to written rows.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use futures::StreamExt;
use stallmap::session::Session;

use stallmap_console::absent;
use stallmap_console::args::RowFormat;
use stallmap_console::exit::{Failure, Outcome, QUERY};
use stallmap_console::explain::explain_in;
use stallmap_console::output;
use stallmap_console::output::number::grouped;
use stallmap_console::output::pager::Pager;
use stallmap_console::output::progress::Voice;
use stallmap_console::output::rows::{self, Sink, Style, WriteError};

/// Result of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Statement {
    /// Rows of the result. None without columns, such as for CREATE VIEW.
    pub(crate) rows: Option<usize>,
    /// From text to the plan, including the computation of repeated views.
    pub(crate) preparing: Duration,
    /// From the plan to the last row.
    pub(crate) execution: Duration,
}

/// Destination of a statement's rows.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// Standard output, through a pager if longer than the screen.
    Pager(Pager),
    /// A file, renamed into place after the last row.
    File(PathBuf),
}

/// Runs a statement and writes its rows, with progress.
pub(crate) async fn run_statement(
    session: &Session,
    sql: &str,
    style: Style,
    target: &Target,
    voice: &Voice,
) -> Outcome<Statement> {
    let started = Instant::now();
    let fail = |error| explain_in(error, session, sql);
    let frame = session.sql(sql).await.map_err(fail)?;
    let mut stream = frame.execute_stream().await.map_err(|error| fail(error.into()))?;
    let prepared = Instant::now();
    let schema = stream.schema();
    let output = Output::new(target);
    let wrong = |error| output.failure(error);
    let mut writer = if schema.fields().is_empty() {
        None
    } else {
        Some(rows::writer(output.sink()?, &schema, style).map_err(wrong)?)
    };
    let is_seen_at_once = style.format != RowFormat::Table && target.is_terminal();
    let mut rows = 0;
    while let Some(batch) = stream.next().await {
        let batch = batch.map_err(|error| fail(error.into()))?;
        rows += batch.num_rows();
        if is_seen_at_once {
            voice.end();
        }
        voice.say(format!("{} rows", grouped(rows as i128)));
        writer.iter_mut().try_for_each(|writer| writer.write(&batch)).map_err(wrong)?;
    }
    voice.end();
    let done = |rows| Statement { rows, preparing: prepared - started, execution: prepared.elapsed() };
    let Some(writer) = writer else {
        if rows > 0 {
            output::note(format_args!("{rows} rows without columns: SELECT * shows all columns"));
        }
        return Ok(done(None));
    };
    let statement = done(Some(rows));
    writer.finish().map_err(wrong)?;
    output.keep()?;
    if rows == 0 {
        absent::note(session, sql).await;
    }
    Ok(statement)
}

impl Target {
    fn is_terminal(&self) -> bool {
        !matches!(self, Self::File(_)) && output::is_terminal()
    }
}

/// An output that never leaves a partial file: rows go to a temporary file next to the requested one.
struct Output<'a> {
    target: &'a Target,
    unfinished: Option<PathBuf>,
}

impl<'a> Output<'a> {
    fn new(target: &'a Target) -> Self {
        let unfinished = match target {
            Target::File(path) if is_replaceable(path) => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(format!(".{}.unfinished", std::process::id()));
                Some(path.with_file_name(name))
            }
            _ => None,
        };
        Self { target, unfinished }
    }

    fn sink(&self) -> Outcome<Sink> {
        match self.target {
            Target::Stdout => Ok(Box::new(output::stdout())),
            Target::Pager(pager) => Ok(match pager.sink() {
                Some(sink) => Box::new(sink),
                None => Box::new(output::stdout()),
            }),
            Target::File(path) => {
                let file = File::create(self.unfinished.as_ref().unwrap_or(path));
                let file = file.map_err(|error| self.failure(error.into()))?;
                Ok(Box::new(BufWriter::new(file)))
            }
        }
    }

    fn keep(mut self) -> Outcome<()> {
        match (self.target, &self.unfinished) {
            (Target::File(path), Some(unfinished)) => {
                fs::rename(unfinished, path).map_err(|error| self.failure(error.into()))?;
            }
            _ => return Ok(()),
        }
        self.unfinished = None;
        Ok(())
    }

    fn failure(&self, error: WriteError) -> Failure {
        let place = match self.target {
            Target::Stdout | Target::Pager(_) => "standard output".to_owned(),
            Target::File(path) => format!("`{}`", path.display()),
        };
        match error {
            WriteError::Io(error) => Failure::io(error, format!("write to {place}")),
            other => {
                Failure::new(QUERY, anyhow::Error::from(other).context(format!("write rows to {place}")))
            }
        }
    }
}

impl Drop for Output<'_> {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // The file may never have been created. Nothing better can be done.
            drop(fs::remove_file(unfinished));
        }
    }
}

/// True if a rename may put a file there: pipes and devices are written in place.
fn is_replaceable(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.is_file())
}
