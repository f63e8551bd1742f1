//! The comparison in the requested format.

use std::io::Write;
use std::path::Path;

use super::draw::{self, Picture, Unit};
use super::fact::Fact;
use super::query::Measure;
use super::row::Row;
use clap::ValueEnum;
use stallmap::library::queries::diff as queries;
use stallmap_console::answer::{Answer, csv, json_rows};
use stallmap_console::args::ReportFormat;
use stallmap_console::args::diff::{DiffMetric, Part, Per};
use stallmap_console::exit::Outcome;
use stallmap_console::explain::arrow_failure;
use stallmap_console::output::paint::Role;
use stallmap_console::output::shorten::printable;
use stallmap_console::output::{self, written};
use stallmap_console::row::Row as _;

/// Subject of the comparison.
pub(super) struct Subject<'a> {
    /// The captures by name.
    pub(super) captures: Vec<(&'a str, &'a Path)>,
    /// Their names.
    pub(super) names: &'a [String],
    /// Their facts.
    pub(super) facts: &'a [Fact],
    /// Measurement of the metric.
    pub(super) measure: Measure,
    /// Divisor of sums.
    pub(super) per: Per,
    /// Output format.
    pub(super) format: ReportFormat,
}

/// Unit of a metric.
pub(super) fn unit(measure: Measure) -> Unit {
    match measure.metric {
        DiffMetric::Bytes => Unit::Bytes,
        _ if measure.is_time() => Unit::Time,
        _ => Unit::Number,
    }
}

/// Writes it.
pub(super) fn write(subject: &Subject<'_>, answers: &[Answer]) -> Outcome<()> {
    let mut out = output::stdout_as(subject.format == ReportFormat::Text);
    match subject.format {
        ReportFormat::Text => text(&mut out, subject, answers),
        ReportFormat::Json => json(&mut out, subject, answers),
        ReportFormat::Csv => csv(&mut out, answers),
    }
}

fn text(out: &mut dyn Write, subject: &Subject<'_>, answers: &[Answer]) -> Outcome<()> {
    let canvas = output::page();
    for (index, answer) in answers.iter().enumerate() {
        if index > 0 {
            written(writeln!(out))?;
        }
        let name = answer.section.name;
        written(writeln!(out, "{}", canvas.paint.text(Role::Heading, &heading(subject, answer))))?;
        for line in answer.section.doc() {
            written(writeln!(out, "{}", canvas.paint.text(Role::Dim, line)))?;
        }
        if name == "comparable" {
            comparable(out, subject)?;
            continue;
        }
        let part = Part::value_variants().iter().copied().find(|part| part.name() == name);
        let picture = Picture { names: subject.names, part, unit: unit(subject.measure) };
        let mut rows = Row::read(queries::COMPARE.name, &answer.rows)?;
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

fn heading(subject: &Subject<'_>, answer: &Answer) -> String {
    let title = answer.section.title();
    let per = match subject.per {
        Per::Step => ", a step",
        Per::Launch => ", a launch on average",
        Per::Auto | Per::Total => "",
    };
    match answer.section.name {
        "comparable" => title.to_owned(),
        "totals" => format!("{title}{per}"),
        _ => format!("{title} by {}{per}", subject.measure.title()),
    }
}

/// The captures, and the facts that differ.
fn comparable(out: &mut dyn Write, subject: &Subject<'_>) -> Outcome<()> {
    let canvas = output::page();
    for (name, path) in &subject.captures {
        written(writeln!(out, "{name}: {}", printable(&path.display().to_string())))?;
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
    written(writeln!(out, "{}", canvas.paint.text(Role::Dim, &text)))
}

fn table_is_empty(subject: &Subject<'_>) -> bool {
    subject.facts.iter().all(|fact| fact.verdict == "same")
}

fn json(out: &mut dyn Write, subject: &Subject<'_>, answers: &[Answer]) -> Outcome<()> {
    let text = |text: &str| serde_json::Value::from(text).to_string();
    let captures = subject.captures.iter();
    let captures: Vec<String> = captures
        .map(|(name, path)| {
            format!("{{\"name\":{},\"path\":{}}}", text(name), text(&path.display().to_string()))
        })
        .collect();
    written(write!(
        out,
        "{{\"captures\":[{}],\"metric\":{},\"sections\":[",
        captures.join(","),
        text(subject.measure.title())
    ))?;
    for (index, answer) in answers.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        let (name, title, sql) = (text(answer.section.name), text(answer.section.title()), text(&answer.sql));
        written(write!(out, "{comma}\n{{\"name\":{name},\"title\":{title},\"sql\":{sql},\"rows\":"))?;
        written(out.write_all(&json_rows(&answer.rows)?))?;
        written(write!(out, "}}"))?;
    }
    written(writeln!(out, "\n]}}").and_then(|()| out.flush()))
}
