//! Sections with their rows: queried, and written as JSON and as CSV for programs.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;
use arrow::json::ArrayWriter;
use stallmap::session::Session;

use super::absent;
use super::explain::{arrow_failure, explain};
use crate::args::RowFormat;
use crate::exit::{CommandFailure, Outcome, QUERY};
use crate::output::progress::ProgressSpinner;
use crate::output::rows::{self, RowStyle};
use crate::output::table::TableShape;
use crate::output::value::with_hex;
use crate::output::{self, written};
use stallmap::library::queries::CommandQuery;

/// A section with its rows.
#[derive(Clone, Debug)]
pub struct SectionAnswer {
    /// The section.
    pub section: CommandQuery,
    /// Its query, as a user can run it.
    pub sql: String,
    /// Its rows: one batch or more, for the column types.
    pub rows: Vec<RecordBatch>,
    /// Reason for missing rows, if the capture causes it.
    pub absence: Option<String>,
}

impl SectionAnswer {
    /// Number of rows.
    pub fn count(&self) -> usize {
        self.rows.iter().map(RecordBatch::num_rows).sum()
    }
}

/// Queries sections.
pub async fn answers(
    session: &Session,
    wanted: &[CommandQuery],
    parameters: &[(&str, u64)],
) -> Outcome<Vec<SectionAnswer>> {
    answers_of(session, wanted.iter().map(|section| (*section, section.sql(parameters))).collect()).await
}

/// Queries sections by their statements.
pub async fn answers_of(
    session: &Session,
    texts: Vec<(CommandQuery, String)>,
) -> Outcome<Vec<SectionAnswer>> {
    let _progress = ProgressSpinner::for_work(session.work(), "asking");
    let found = rows_of_all(session, &texts).await?;
    let mut answers = Vec::new();
    for ((section, sql), rows) in texts.into_iter().zip(found) {
        let is_empty = rows.iter().all(|batch| batch.num_rows() == 0);
        let absence = if is_empty { absent::why(session, &sql).await } else { None };
        answers.push(SectionAnswer { section, sql, rows, absence });
    }
    Ok(answers)
}

/// Computes the views of queries that are to be asked, all at the same time. Queries whose rows are stored need none.
pub async fn prepare(session: &Session, texts: &[(CommandQuery, String)]) -> Outcome<()> {
    let is_new =
        |(query, sql): &&(CommandQuery, String)| query.is_whole() && session.remembered(sql).is_none();
    let new: Vec<&str> = texts.iter().filter(is_new).map(|(_, sql)| sql.as_str()).collect();
    session.keep_views_of(&new).await.map_err(|error| explain(error, Some(session)))
}

/// The rows of queries of the library, filled in, asked at the same time. They are stored for later commands.
pub async fn rows_of_all(
    session: &Session,
    texts: &[(CommandQuery, String)],
) -> Outcome<Vec<Vec<RecordBatch>>> {
    prepare(session, texts).await?;
    let mut found: Vec<_> = texts.iter().map(|(_, sql)| session.remembered(sql)).collect();
    let new = texts.iter().zip(&found).filter(|(_, rows)| rows.is_none());
    let new: Vec<&str> = new.map(|((_, sql), _)| sql.as_str()).collect();
    let computed = session.rows_of_all(&new).await.map_err(|error| explain(error, Some(session)))?;
    for (sql, rows) in new.iter().zip(&computed) {
        session.remember(sql, rows);
    }
    let mut computed = computed.into_iter();
    Ok(found.iter_mut().filter_map(|rows| rows.take().or_else(|| computed.next())).collect())
}

/// The line printed instead of rows if there are none.
pub fn nothing(section: CommandQuery, absence: Option<&str>) -> String {
    let text = section.nothing().trim_end_matches(')');
    let why = absence.map(|why| format!(":\n {}", why.replacen("; ", ";\n ", 1))).unwrap_or_default();
    format!("{text}{why})\n")
}

/// The rows of a query of the library, filled in.
pub async fn asked(session: &Session, query: CommandQuery, sql: &str) -> Outcome<Vec<RecordBatch>> {
    remembered(session, sql, query.is_whole()).await
}

/// The rows of a query of the library that reads views whole. Those of the views are stored, too.
pub async fn kept_rows(session: &Session, sql: &str) -> Outcome<Vec<RecordBatch>> {
    remembered(session, sql, true).await
}

/// The rows of a query of the library.
pub async fn rows(session: &Session, sql: &str) -> Outcome<Vec<RecordBatch>> {
    remembered(session, sql, false).await
}

/// Rows that are stored for later commands: one batch or more, for the column types.
async fn remembered(session: &Session, sql: &str, is_whole: bool) -> Outcome<Vec<RecordBatch>> {
    if let Some(rows) = session.remembered(sql) {
        return Ok(rows);
    }
    let fresh = if is_whole { fresh_kept_rows(session, sql).await } else { fresh_rows(session, sql).await };
    let rows = fresh?;
    session.remember(sql, &rows);
    Ok(rows)
}

/// The rows of any query that reads views whole. The rows of the views are stored, those of the query are not.
pub async fn fresh_kept_rows(session: &Session, sql: &str) -> Outcome<Vec<RecordBatch>> {
    session.keep_views_of(&[sql]).await.map_err(|error| explain(error, Some(session)))?;
    fresh_rows(session, sql).await
}

/// The rows of any query: one batch or more, for the column types.
pub async fn fresh_rows(session: &Session, sql: &str) -> Outcome<Vec<RecordBatch>> {
    let rows = session.rows_of_all(&[sql]).await.map_err(|error| explain(error, Some(session)))?;
    Ok(rows.into_iter().flatten().collect())
}

/// Writes one JSON object, with numbers as the queries return them, and hashes as text.
pub fn json(out: &mut dyn Write, capture: &Path, answers: &[SectionAnswer]) -> Outcome<()> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    written(write!(out, "{{\"capture\":{},\"sections\":[", text(&capture.display().to_string())))?;
    for (index, answer) in answers.iter().enumerate() {
        let section = answer.section;
        let comma = if index > 0 { "," } else { "" };
        let (name, title, sql) = (text(section.name), text(section.title()), text(&answer.sql));
        written(write!(out, "{comma}\n{{\"name\":{name},\"title\":{title},\"sql\":{sql},\"rows\":"))?;
        let rows = answer.rows.iter().map(with_hex).collect::<Result<Vec<_>, _>>().map_err(arrow_failure)?;
        written(out.write_all(&json_rows(&rows)?))?;
        written(write!(out, "}}"))?;
    }
    written(writeln!(out, "\n]}}").and_then(|()| out.flush()))
}

/// Rows as one JSON array of objects.
pub fn json_rows(rows: &[RecordBatch]) -> Outcome<Vec<u8>> {
    let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
    let mut writer: ArrayWriter<Vec<u8>> = builder.build(Vec::new());
    for batch in rows {
        writer.write(batch).map_err(arrow_failure)?;
    }
    writer.finish().map_err(arrow_failure)?;
    Ok(writer.into_inner())
}

/// Writes answers in the format of a program: one JSON object, or the rows of each section.
pub fn for_program(
    out: &mut dyn Write,
    capture: &Path,
    answers: &[SectionAnswer],
    format: RowFormat,
) -> Outcome<()> {
    match format {
        RowFormat::Json => json(out, capture, answers),
        format => sections(out, answers, format),
    }
}

/// Writes the rows of each section. Several sections of CSV are separated by comment lines, those of markdown by titles,
/// and rows of JSON lines name theirs.
pub fn sections(out: &mut dyn Write, answers: &[SectionAnswer], format: RowFormat) -> Outcome<()> {
    let is_one = answers.len() == 1;
    for (index, answer) in answers.iter().enumerate() {
        let gap = if index > 0 { "\n" } else { "" };
        match format {
            RowFormat::Markdown => written(writeln!(out, "{gap}## {}\n", answer.section.title()))?,
            RowFormat::Csv if !is_one => written(writeln!(out, "{gap}# {}", answer.section.name))?,
            _ => {}
        }
        written(out.flush())?;
        let is_named = format == RowFormat::Jsonl && !is_one;
        let name = |batch: &RecordBatch| named(batch, answer.section.name);
        let batches = answer.rows.iter().map(|batch| if is_named { name(batch) } else { Ok(batch.clone()) });
        let batches = batches.collect::<Result<Vec<_>, _>>().map_err(arrow_failure)?;
        write_rows(&batches, format)?;
    }
    Ok(())
}

/// Rows with the name of their section as the first column.
fn named(batch: &RecordBatch, section: &str) -> Result<RecordBatch, ArrowError> {
    let name: ArrayRef =
        Arc::new(StringArray::from_iter_values(std::iter::repeat_n(section, batch.num_rows())));
    let schema = batch.schema();
    let fields = std::iter::once(Arc::new(Field::new("section", DataType::Utf8, false)))
        .chain(schema.fields().iter().map(Arc::clone));
    let columns = std::iter::once(name).chain(batch.columns().iter().map(Arc::clone)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), columns)
}

/// Writes rows to standard output in a format.
pub fn write_rows(rows: &[RecordBatch], format: RowFormat) -> Outcome<()> {
    let wrong = |error| match error {
        rows::WriteError::Io(error) => CommandFailure::io(error, "write to standard output"),
        other => CommandFailure::new(QUERY, other),
    };
    let style = RowStyle { format, canvas: output::sheet(), shape: TableShape::default(), limit: None };
    let Some(first) = rows.first() else { return Ok(()) };
    let mut writer =
        rows::writer(output::stdout_as(format == RowFormat::Table), &first.schema(), style).map_err(wrong)?;
    rows.iter().try_for_each(|batch| writer.write(batch)).map_err(wrong)?;
    writer.finish().map_err(wrong)
}
