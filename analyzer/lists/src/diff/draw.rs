//! Comparisons as tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use arrow::error::ArrowError;

use super::fact::CaptureFact;
use super::row::CompareRow;
use stallmap_console::args::diff::DiffPart;
use stallmap_console::output::number;
use stallmap_console::output::table::{TextTable, is_aggregate};
use stallmap_console::output::value::NumberFormat;

/// Format of values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DiffUnit {
    /// As numbers.
    Number,
    /// As nanoseconds.
    Time,
    /// As bytes.
    Bytes,
}

/// Drawing parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiffDrawing<'a> {
    /// The captures' names, the first one's first.
    pub(super) names: &'a [String],
    /// Part of the rows. None for totals.
    pub(super) part: Option<DiffPart>,
    /// Format of values.
    pub(super) unit: DiffUnit,
}

/// Columns of text, one after another.
#[derive(Default)]
struct TextColumns {
    fields: Vec<Field>,
    cells: Vec<ArrayRef>,
    numbers: Vec<usize>,
}

impl TextColumns {
    fn number(&mut self, header: String, cells: Vec<String>) {
        self.numbers.push(self.fields.len());
        self.text(header, cells.into_iter().map(Some).collect());
    }

    fn text(&mut self, header: String, cells: Vec<Option<String>>) {
        self.fields.push(Field::new(header, DataType::Utf8, true));
        self.cells.push(Arc::new(StringArray::from(cells)));
    }

    /// The same if a cell has text. Nothing otherwise.
    fn text_if_any(&mut self, header: &str, cells: Vec<Option<String>>) {
        if cells.iter().any(Option::is_some) {
            self.text(header.to_owned(), cells);
        }
    }

    fn table(self, look: NumberFormat) -> Result<TextTable, ArrowError> {
        let batch = RecordBatch::try_new(Arc::new(Schema::new(self.fields)), self.cells)?;
        Ok(TextTable::from_batches(&[batch], look)?.numbers(&self.numbers))
    }
}

/// The facts that differ. Equal ones are counted below.
pub(super) fn facts(facts: &[CaptureFact], names: &[String]) -> Result<(TextTable, usize), ArrowError> {
    let mut shown: Vec<Vec<&CaptureFact>> = Vec::new();
    for fact in facts {
        match shown.last_mut() {
            Some(last) if last.iter().all(|other| other.name == fact.name) => last.push(fact),
            _ => shown.push(vec![fact]),
        }
    }
    let all = shown.len();
    shown.retain(|facts| facts.iter().any(|fact| fact.verdict != "same"));
    let same = all - shown.len();
    let mut columns = TextColumns::default();
    let one = |of: &dyn Fn(&CaptureFact) -> String| -> Vec<Option<String>> {
        shown.iter().map(|facts| facts.first().map(|fact| of(fact))).collect()
    };
    columns.text("fact".into(), one(&|fact| fact.name.clone()));
    let (base, others) =
        names.split_first().map_or((String::new(), &[][..]), |(base, others)| (base.clone(), others));
    columns.text(base, one(&|fact| fact.base_value.clone()));
    for name in others {
        let value = |facts: &Vec<&CaptureFact>| {
            facts.iter().find(|fact| fact.capture == *name).map(|fact| fact.value.clone())
        };
        columns.text(name.clone(), shown.iter().map(value).collect());
    }
    let worst = |facts: &Vec<&CaptureFact>| {
        facts.iter().find(|fact| fact.verdict != "same").map(|fact| fact.verdict.clone())
    };
    columns.text("verdict".into(), shown.iter().map(worst).collect());
    let meaning = |facts: &Vec<&CaptureFact>| facts.iter().find_map(|fact| fact.meaning.clone());
    columns.text("meaning".into(), shown.iter().map(meaning).collect());
    let verdict = columns.fields.len().saturating_sub(2);
    Ok((columns.table(NumberFormat::Exact)?.whole(&[0, verdict]), same))
}

/// A part, or the totals.
pub(super) fn rows(rows: &[CompareRow], picture: &DiffDrawing<'_>) -> Result<TextTable, ArrowError> {
    let (base, others) =
        picture.names.split_first().map_or(("", &[][..]), |(base, others)| (base.as_str(), others));
    let things = things(rows);
    let unit = |row: &CompareRow| picture.unit_of(row);
    let mut columns = TextColumns::default();
    let first = |of: &dyn Fn(&CompareRow) -> String| -> Vec<String> {
        things.iter().map(|thing| thing.first().map(|row| of(row)).unwrap_or_default()).collect()
    };
    columns.number(base.to_owned(), first(&|row| unit(row).value(row.base_value)));
    for name in others {
        let of = |of: &dyn Fn(&CompareRow) -> String| -> Vec<String> {
            let cell =
                |thing: &Vec<&CompareRow>| thing.iter().find(|row| row.capture == *name).map(|row| of(row));
            things.iter().map(|thing| cell(thing).unwrap_or_else(|| "-".into())).collect()
        };
        let header = |text: &str| if others.len() > 1 { format!("{text} {name}") } else { text.to_owned() };
        columns.number(name.clone(), of(&|row| unit(row).value(row.value)));
        columns.number(header("change"), of(&|row| change(row, unit(row))));
        if others.len() == 1 {
            columns.number("low".into(), of(&|row| unit(row).change(row.change_low)));
            columns.number("high".into(), of(&|row| unit(row).change(row.change_high)));
        }
        columns.number(header("ratio"), of(&by));
    }
    let texts = |of: &dyn Fn(&CompareRow) -> Option<String>| -> Vec<Option<String>> {
        // The name in the newest capture.
        things.iter().map(|thing| thing.iter().rev().find_map(|row| of(row))).collect()
    };
    let (what, detail) = picture.headers();
    columns.text(what.into(), texts(&|row| Some(name(row))));
    columns.text_if_any(detail, texts(&|row| picture.detail(row)));
    columns.text_if_any("was", texts(&|row| row.was.clone()));
    if picture.part.is_some() {
        columns.text_if_any("launches", texts(&launches));
    }
    columns.table(NumberFormat::Report)
}

/// Totals in the order of the metrics.
pub(super) fn in_order(rows: &mut [CompareRow]) {
    const ORDER: [&str; 6] = ["samples", "memory samples", "time", "launches", "sectors", "bytes"];
    rows.sort_by_key(|row| ORDER.iter().position(|name| *name == row.what));
}

/// Rows of one rank: the same row in each capture.
fn things(rows: &[CompareRow]) -> Vec<Vec<&CompareRow>> {
    let mut things: Vec<Vec<&CompareRow>> = Vec::new();
    for row in rows {
        match things.last_mut() {
            #[expect(clippy::float_cmp, reason = "ranks are integers")]
            Some(last) if last.iter().all(|other| other.place == row.place) => last.push(row),
            _ => things.push(vec![row]),
        }
    }
    things
}

fn name(row: &CompareRow) -> String {
    let counts = [(row.new_rows, "added"), (row.gone_rows, "removed")];
    let counts = counts.into_iter().filter(|(count, _)| row.rows > 1.0 && *count > 0.0);
    let counts: Vec<String> =
        counts.map(|(count, what)| format!("{} {what}", number::measured(count))).collect();
    if counts.is_empty() { row.what.clone() } else { format!("{}: {}", row.what, counts.join(", ")) }
}

/// Launches, if their number changed.
fn launches(row: &CompareRow) -> Option<String> {
    let is_one_thing = row.rows <= 1.0 && row.status.is_none() && !is_aggregate(&row.what);
    let (before, after) = (number::measured(row.base_launches), number::measured(row.launches));
    (is_one_thing && before != after).then(|| format!("{before}, now {after}"))
}

fn change(row: &CompareRow, unit: DiffUnit) -> String {
    let text = unit.change(row.change);
    if row.is_noise() && row.change.abs() > 0.0 { format!("~ {text}") } else { text }
}

fn by(row: &CompareRow) -> String {
    match (&row.status, row.ratio) {
        (Some(status), _) => status.clone(),
        (None, None) => "-".into(),
        (None, Some(ratio)) => number::ratio(ratio),
    }
}

impl DiffUnit {
    pub(super) fn value(self, value: f64) -> String {
        match self {
            Self::Number => number::measured(value),
            Self::Time => number::nanoseconds(value),
            Self::Bytes => number::bytes(value),
        }
    }

    pub(super) fn change(self, change: f64) -> String {
        let sign = if change > 0.0 { "+" } else { "" };
        format!("{sign}{}", self.value(change))
    }
}

impl DiffDrawing<'_> {
    /// Totals are of several units.
    fn unit_of(&self, row: &CompareRow) -> DiffUnit {
        match (self.part, row.what.as_str()) {
            (None, "time") => DiffUnit::Time,
            (None, "bytes") => DiffUnit::Bytes,
            (None, _) => DiffUnit::Number,
            (Some(_), _) => self.unit,
        }
    }

    /// Details of a row: for a row of one capture only, there is no other code.
    fn detail(&self, row: &CompareRow) -> Option<String> {
        row.detail.clone().filter(|_| self.part != Some(DiffPart::Kernels) || row.status.is_none())
    }

    /// Header of the name columns.
    const fn headers(&self) -> (&'static str, &'static str) {
        match self.part {
            None => ("total", "detail"),
            Some(DiffPart::Tensors) => ("tensor", "type"),
            Some(DiffPart::Roles) => ("role", "detail"),
            Some(DiffPart::Lines) => ("line", "in backward"),
            Some(DiffPart::Ops) => ("op", "phase"),
            Some(DiffPart::Kernels) => ("kernel", "code"),
            Some(DiffPart::Aligned) => ("aligned by", "detail"),
            Some(DiffPart::Instructions) => ("instruction", "kernel"),
        }
    }
}
