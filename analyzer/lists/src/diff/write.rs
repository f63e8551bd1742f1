//! The comparison in the requested format.

use std::io::Write;
use std::path::Path;

use super::draw::{self, DiffDrawing, DiffUnit};
use super::fact::{self, CaptureFact};
use super::found::ComparisonResult;
use super::gate::JudgedCondition;
use super::query::DiffMeasure;
use super::row::CompareRow;
use super::verdict::TotalChange;
use super::{github, markdown, sarif, screen};
use clap::ValueEnum;
use serde_json::{Value, json};
use stallmap::library::queries::diff as queries;
use stallmap_console::answer::{SectionAnswer, json_rows, sections};
use stallmap_console::args::RowFormat;
use stallmap_console::args::diff::{DiffDivisor, DiffFormat, DiffMetric, DiffPart};
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{printable, wrap};
use stallmap_console::output::{self, written};
use stallmap_console::row::QueryRow as _;

/// Subject of the comparison.
pub(super) struct ComparisonSubject<'a> {
    /// The captures by name.
    pub(super) captures: Vec<(&'a str, &'a Path)>,
    /// Their names.
    pub(super) names: &'a [String],
    /// Their facts.
    pub(super) facts: &'a [CaptureFact],
    /// Measurement of the metric.
    pub(super) measure: DiffMeasure,
    /// Divisor of sums.
    pub(super) per: DiffDivisor,
    /// Output format.
    pub(super) format: DiffFormat,
    /// Folder that file names are relative to.
    pub(super) root: Option<&'a Path>,
}

/// Version of the JSON object's form. It grows when a field changes or goes.
const VERSION: u32 = 1;

/// Unit of a metric.
pub(super) fn unit(measure: DiffMeasure) -> DiffUnit {
    match measure.metric {
        DiffMetric::Bytes => DiffUnit::Bytes,
        _ if measure.is_time() => DiffUnit::Time,
        _ => DiffUnit::Number,
    }
}

/// Writes it.
pub(super) fn write(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Outcome<()> {
    match subject.format {
        DiffFormat::Text => screen_or_tables(subject, found),
        DiffFormat::Json => json(&mut output::stdout_as(false), subject, found),
        DiffFormat::Csv => sections(&mut output::stdout_as(false), &found.answers, RowFormat::Csv),
        DiffFormat::Jsonl => sections(&mut output::stdout_as(false), &found.answers, RowFormat::Jsonl),
        DiffFormat::Markdown => output::print(&markdown::markdown(subject, found)),
        DiffFormat::Github => output::print(&github::github(subject, found)),
        DiffFormat::Sarif => {
            let document = sarif::sarif(subject, found);
            output::print_data(format!("{document:#}\n").as_bytes())
        }
    }
}

fn screen_or_tables(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Outcome<()> {
    let canvas = output::page();
    if found.changes.is_some() {
        let lines = screen::screen(found, unit(subject.measure), subject.facts, canvas);
        return output::print(&(lines.join("\n") + "\n"));
    }
    let columns = canvas.width.unwrap_or(usize::MAX);
    for headline in &found.headlines {
        let line = wrap(&printable(&headline.sentence), columns);
        output::print(&(canvas.paint.text(TextRole::Heading, &line) + "\n"))?;
    }
    output::print("\n")?;
    tables(subject, &found.answers)
}

/// Sections as tables.
pub(super) fn tables(subject: &ComparisonSubject<'_>, answers: &[SectionAnswer]) -> Outcome<()> {
    text(&mut output::stdout_as(true), subject, answers)
}

fn text(out: &mut dyn Write, subject: &ComparisonSubject<'_>, answers: &[SectionAnswer]) -> Outcome<()> {
    let canvas = output::page();
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 {
            written(writeln!(out))?;
        }
        let name = answer.section.name;
        written(writeln!(out, "{}", canvas.paint.text(TextRole::Heading, &heading(subject, answer))))?;
        for line in answer.section.doc() {
            written(writeln!(out, "{}", canvas.paint.text(TextRole::Dim, line)))?;
        }
        if name == "comparable" {
            comparable(out, subject)?;
            continue;
        }
        let part = DiffPart::value_variants().iter().copied().find(|part| part.name() == name);
        let picture = DiffDrawing { names: subject.names, part, unit: unit(subject.measure) };
        let mut rows = CompareRow::read(queries::COMPARE.name, &answer.rows)?;
        if part.is_none() {
            draw::in_order(&mut rows);
        }
        let table = draw::rows(&rows, &picture).map_err(arrow_failure)?;
        if table.rows() == 0 {
            written(writeln!(out, "(nothing of this kind was recorded)"))?;
        } else {
            written(table.draw(out, canvas))?;
        }
    }
    written(out.flush())
}

/// The divisor of values, and the ranks that they are of.
pub(super) fn per(divisor: DiffDivisor, facts: &[CaptureFact]) -> String {
    let (unit, aggregate) = match divisor {
        DiffDivisor::Step => (" a step", "mean"),
        DiffDivisor::Launch => (" a launch", "mean"),
        DiffDivisor::Auto | DiffDivisor::Total => ("", "sum"),
    };
    let ranks = fact::ranks(facts).map(|ranks| format!(", {aggregate} of {ranks}"));
    format!("{unit}{}", ranks.unwrap_or_default())
}

fn heading(subject: &ComparisonSubject<'_>, answer: &SectionAnswer) -> String {
    let title = answer.section.title();
    let per = per(subject.per, subject.facts);
    let per = if per.starts_with(' ') { format!(",{per}") } else { per };
    match answer.section.name {
        "comparable" => title.to_owned(),
        "totals" => format!("{title}{per}"),
        _ => format!("{title} by {}{per}", subject.measure.title()),
    }
}

/// The captures, and the facts that differ.
fn comparable(out: &mut dyn Write, subject: &ComparisonSubject<'_>) -> Outcome<()> {
    let canvas = output::page();
    for (name, path) in &subject.captures {
        written(writeln!(out, "{name}: {}", output::path(path)))?;
    }
    let (table, same) = draw::facts(subject.facts, subject.names).map_err(arrow_failure)?;
    if table.rows() > 0 {
        written(table.prose("meaning", canvas).draw(out, canvas))?;
    }
    let text = match (table_is_empty(subject), same) {
        (true, _) => format!("All {same} facts are the same."),
        (false, 1) => "1 other fact is the same.".to_owned(),
        (false, _) => format!("{same} other facts are the same."),
    };
    written(writeln!(out, "{}", canvas.paint.text(TextRole::Dim, &text)))
}

fn table_is_empty(subject: &ComparisonSubject<'_>) -> bool {
    subject.facts.iter().all(|fact| fact.verdict == "same")
}

fn json(out: &mut dyn Write, subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Outcome<()> {
    let captures = subject.captures.iter();
    let captures: Vec<Value> =
        captures.map(|(name, path)| json!({ "name": name, "path": path.display().to_string() })).collect();
    let head = json!({
        "version": VERSION,
        "captures": captures,
        "metric": subject.measure.title(),
        "verdict": found.headlines.iter().map(headline).collect::<Vec<_>>(),
        "gates": found.gates.iter().map(gate).collect::<Vec<_>>(),
    });
    let head = head.to_string();
    written(write!(out, "{},\"sections\":[", head.trim_end_matches('}')))?;
    let text = |text: &str| Value::from(text).to_string();
    for (index, answer) in found.answers.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (name, title, sql) = (text(answer.section.name), text(answer.section.title()), text(&answer.sql));
        written(write!(out, "{comma}\n{{\"name\":{name},\"title\":{title},\"sql\":{sql},\"rows\":"))?;
        written(out.write_all(&json_rows(&answer.rows)?))?;
        written(write!(out, "}}"))?;
    }
    written(writeln!(out, "\n]}}").and_then(|()| out.flush()))
}

fn headline(headline: &TotalChange) -> Value {
    let mut value = headline.row.as_ref().map_or_else(|| json!({}), row);
    let is_significant = headline.row.as_ref().is_some_and(|row| !row.is_noise());
    if let Value::Object(fields) = &mut value {
        fields.insert("sentence".into(), headline.sentence.as_str().into());
        fields.insert("is_significant".into(), is_significant.into());
    }
    value
}

/// A condition: the total it is about, else the row with the largest change, and all rows for which it holds.
fn gate(gate: &JudgedCondition) -> Value {
    let subject = gate.total.as_ref().or_else(|| gate.rows.first());
    json!({
        "condition": gate.condition, "holds": gate.failure.is_some(),
        "value": subject.map(|row| row.change), "low": subject.map(|row| row.change_low),
        "high": subject.map(|row| row.change_high), "rows": gate.rows.iter().map(row).collect::<Vec<_>>(),
    })
}

fn row(row: &CompareRow) -> Value {
    json!({
        "capture": row.capture, "what": row.what, "base_value": row.base_value, "value": row.value,
        "change": row.change, "change_low": row.change_low, "change_high": row.change_high,
        "ratio": row.ratio, "ratio_low": row.ratio_low, "ratio_high": row.ratio_high,
    })
}
