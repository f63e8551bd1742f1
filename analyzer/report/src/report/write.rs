//! The report as text.

use std::io::{self, Write};
use std::path::Path;

use stallmap_console::answer::{Answer, nothing};
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::Role;
use stallmap_console::output::shorten::printable;
use stallmap_console::output::table::{Canvas, Table};
use stallmap_console::output::value::Look;
use stallmap_console::output::{self, written};

/// Columns that programs and the page identify rows by. The text report has names.
const IDENTITIES: &[&str] = &["function_id", "full_name", "label_source", "tensor_id"];

/// Columns of sentences, which have their words.
const PLACES: &[&str] = &["line", "code_function_id", "pc"];

/// Columns of tensors that the report without a choice of sections leaves to `--all`.
const BRIEFLY: &[&str] = &["low", "high", "op", "born_at"];

/// Writes the text report, the verdict first.
pub(super) fn text(
    out: &mut dyn Write,
    capture: &Path,
    subject: &str,
    verdict: Option<&str>,
    is_brief: bool,
    answers: &[Answer],
) -> Outcome<()> {
    let canvas = output::page();
    written(write!(out, "{}", verdict.unwrap_or_default()))?;

    for (index, answer) in answers.iter().enumerate() {
        if index > 0 || verdict.is_some() {
            written(writeln!(out))?;
        }
        written(heading(out, canvas, subject, is_brief, answer))?;
        let table = Table::of(&answer.rows, Look::Report).map_err(arrow_failure)?;
        let hidden = match answer.section.name {
            "tensors" if is_brief => BRIEFLY,
            "findings" | "why" => PLACES,
            _ => &[],
        };
        let table = table.without(if output::is_wide() { &[] } else { IDENTITIES }).without(hidden);
        let table = table.prose("why", canvas).advice("sentence", "advice", canvas);
        if table.rows() > 0 {
            written(table.draw(out, canvas))?;
        }
    }
    written(footer(out, canvas, capture).and_then(|()| out.flush()))
}

fn heading(
    out: &mut dyn Write,
    canvas: Canvas,
    subject: &str,
    is_brief: bool,
    answer: &Answer,
) -> io::Result<()> {
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
    for line in answer.section.doc().filter(|_| !is_brief) {
        writeln!(out, "{}", paint.text(Role::Dim, line))?;
    }
    if is_empty { write!(out, "{}", nothing(answer.section, answer.absence.as_deref())) } else { Ok(()) }
}

fn footer(out: &mut dyn Write, canvas: Canvas, capture: &Path) -> io::Result<()> {
    let capture = printable(&capture.display().to_string());
    let hints = [
        format!("stallmap report {capture} --all   has all sections with more rows, and the coverage"),
        format!("stallmap report {capture} --section tensors --sql   prints the query of a section"),
        format!("stallmap sql {capture}   runs your own queries"),
    ];
    writeln!(out)?;
    hints.iter().try_for_each(|hint| writeln!(out, "{}", canvas.paint.text(Role::Dim, hint)))
}
