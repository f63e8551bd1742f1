//! One statement from text to written rows.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use stallmap::session::Session;

use stallmap_console::absent;
use stallmap_console::args::RowFormat;
use stallmap_console::caution;
use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::explain::explain_in;
use stallmap_console::output;
use stallmap_console::output::file::StagedFile;
use stallmap_console::output::number::grouped;
use stallmap_console::output::pager::Pager;
use stallmap_console::output::progress::ProgressReporter;
use stallmap_console::output::rows::{self, RowSink, RowStyle, WriteError};

/// Result of a statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StatementResult {
    /// Rows of the result. None without columns, such as for CREATE VIEW.
    pub(crate) rows: Option<usize>,
    /// From text to the plan, including the computation of repeated views.
    pub(crate) preparing: Duration,
    /// From the plan to the last row.
    pub(crate) execution: Duration,
}

/// Destination of a statement's rows.
#[derive(Clone, Debug)]
pub(crate) enum RowTarget {
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
    style: RowStyle,
    target: &RowTarget,
    voice: &ProgressReporter,
) -> Outcome<StatementResult> {
    let started = Instant::now();
    let fail = |error| explain_in(error, session, sql);
    let frame = session.sql(sql).await.map_err(fail)?;
    let mut stream = frame.execute_stream().await.map_err(|error| fail(error.into()))?;
    let prepared = Instant::now();
    let schema = stream.schema();
    let output = OutputFile::new(target, style.format)?;
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
    let done = |rows| StatementResult { rows, preparing: prepared - started, execution: prepared.elapsed() };
    let Some(writer) = writer else {
        if rows > 0 {
            output::note(format_args!("{rows} rows without columns: SELECT * shows all columns"));
        }
        return Ok(done(None));
    };
    let statement = done(Some(rows));
    writer.finish().map_err(wrong)?;
    output.keep()?;
    caution::note_capture(session, sql).await;
    if rows == 0 {
        absent::note(session, sql).await;
    } else {
        caution::note(session, sql).await;
    }
    Ok(statement)
}

impl RowTarget {
    fn is_terminal(&self) -> bool {
        !matches!(self, Self::File(_)) && output::is_terminal()
    }
}

/// An output that never leaves a partial file.
pub(super) struct OutputFile<'a> {
    target: &'a RowTarget,
    is_text: bool,
    place: Option<StagedFile>,
}

impl<'a> OutputFile<'a> {
    pub(super) fn new(target: &'a RowTarget, format: RowFormat) -> Outcome<Self> {
        let place = match target {
            RowTarget::File(path) => Some(StagedFile::for_path(path)?),
            _ => None,
        };
        Ok(Self { target, is_text: format == RowFormat::Table, place })
    }

    pub(super) fn sink(&self) -> Outcome<RowSink> {
        let stdout = || output::stdout_as(self.is_text);
        match (self.target, &self.place) {
            (RowTarget::Pager(pager), _) => {
                Ok(pager.sink().map_or_else(stdout, |sink| Box::new(sink) as RowSink))
            }
            (_, Some(place)) => {
                let file = File::create(place.path()).map_err(|error| self.failure(error.into()))?;
                Ok(Box::new(BufWriter::new(file)))
            }
            _ => Ok(stdout()),
        }
    }

    pub(super) fn keep(mut self) -> Outcome<()> {
        let renamed = self.place.take().map_or(Ok(()), StagedFile::keep);
        renamed.map_err(|error| self.failure(error.into()))
    }

    pub(super) fn failure(&self, error: WriteError) -> CommandFailure {
        let place = match self.target {
            RowTarget::Stdout | RowTarget::Pager(_) => "standard output".to_owned(),
            RowTarget::File(path) => format!("`{}`", path.display()),
        };
        match error {
            WriteError::Io(error) => CommandFailure::io(error, format!("write to {place}")),
            other => CommandFailure::new(
                QUERY,
                anyhow::Error::from(other).context(format!("write rows to {place}")),
            ),
        }
    }
}
