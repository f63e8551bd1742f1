//! The report as text for people, as JSON and as CSV for programs.

use std::io::{self, Write};
use std::path::Path;

use arrow::array::RecordBatch;
use arrow::json::ArrayWriter;

use super::Answer;
use crate::args::RowFormat;
use crate::commands::arrow_failure;
use crate::exit::{Failure, Outcome, QUERY};
use crate::output::paint::Role;
use crate::output::rows::{self, Style};
use crate::output::shorten::printable;
use crate::output::table::{Canvas, Table};
use crate::output::value::Look;
use crate::output::{self, written};

/// Writes the report for people.
pub(super) fn text(out: &mut dyn Write, capture: &Path, subject: &str, answers: &[Answer]) -> Outcome<()> {
    let canvas = output::page();
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 {
            written(writeln!(out))?;
        }
        written(heading(out, canvas, subject, answer))?;
        let table = Table::of(&answer.rows, Look::Report).map_err(arrow_failure)?;
        if table.rows() > 0 {
            written(table.draw(out, canvas))?;
        }
    }
    written(footer(out, canvas, capture).and_then(|()| out.flush()))
}

fn heading(out: &mut dyn Write, canvas: Canvas, subject: &str, answer: &Answer) -> io::Result<()> {
    let paint = canvas.paint;
    let is_empty = answer.count() == 0;
    if answer.section.name == "losses" {
        let (role, text) = if is_empty {
            (Role::Good, "Nothing was lost.".to_owned())
        } else {
            (Role::Warning, format!("! {}", answer.section.title()))
        };
        return writeln!(out, "{}", paint.text(role, &text));
    }
    let of = if answer.section.name == "coverage" && !subject.is_empty() {
        format!(" of {subject}")
    } else {
        String::new()
    };
    writeln!(out, "{}", paint.text(Role::Heading, &format!("{}{of}", answer.section.title())))?;
    for line in answer.section.doc() {
        writeln!(out, "{}", paint.text(Role::Dim, line))?;
    }
    if is_empty { writeln!(out, "(nothing of this kind was recorded)") } else { Ok(()) }
}

fn footer(out: &mut dyn Write, canvas: Canvas, capture: &Path) -> io::Result<()> {
    let capture = printable(&capture.display().to_string());
    let hints = [
        format!("stallmap report {capture} --section tensors --sql   prints the query of a section"),
        format!("stallmap sql {capture}   asks your own"),
    ];
    writeln!(out)?;
    hints.iter().try_for_each(|hint| writeln!(out, "{}", canvas.paint.text(Role::Dim, hint)))
}

/// Writes one JSON object; numbers are as the queries gave them.
pub(super) fn json(out: &mut dyn Write, capture: &Path, answers: &[Answer]) -> Outcome<()> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    written(write!(out, "{{\"capture\":{},\"sections\":[", text(&capture.display().to_string())))?;
    for (index, answer) in answers.iter().enumerate() {
        let section = answer.section;
        let comma = if index > 0 { "," } else { "" };
        let (name, title, sql) = (text(section.name), text(section.title()), text(&answer.sql));
        written(write!(out, "{comma}\n{{\"name\":{name},\"title\":{title},\"sql\":{sql},\"rows\":"))?;
        written(out.write_all(&json_rows(&answer.rows)?))?;
        written(write!(out, "}}"))?;
    }
    written(writeln!(out, "\n]}}").and_then(|()| out.flush()))
}

fn json_rows(rows: &[RecordBatch]) -> Outcome<Vec<u8>> {
    let builder = arrow::json::WriterBuilder::new().with_explicit_nulls(true);
    let mut writer: ArrayWriter<Vec<u8>> = builder.build(Vec::new());
    for batch in rows {
        writer.write(batch).map_err(arrow_failure)?;
    }
    writer.finish().map_err(arrow_failure)?;
    Ok(writer.into_inner())
}

/// Writes CSV: a section alone is plain CSV; several are set apart by comment lines.
pub(super) fn csv(out: &mut dyn Write, answers: &[Answer]) -> Outcome<()> {
    for (index, answer) in answers.iter().enumerate() {
        if answers.len() > 1 {
            let gap = if index > 0 { "\n" } else { "" };
            written(writeln!(out, "{gap}# {}", answer.section.name))?;
        }
        written(out.flush())?;
        let style = Style { format: RowFormat::Csv, canvas: output::sheet(), limit: None };
        let wrong = |error| match error {
            rows::WriteError::Io(error) => Failure::io(error, "write to standard output"),
            other => Failure::new(QUERY, other),
        };
        let Some(first) = answer.rows.first() else { continue };
        let mut writer = rows::writer(Box::new(output::stdout()), &first.schema(), style).map_err(wrong)?;
        answer.rows.iter().try_for_each(|batch| writer.write(batch)).map_err(wrong)?;
        writer.finish().map_err(wrong)?;
    }
    Ok(())
}
