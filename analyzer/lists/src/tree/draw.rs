//! Rows as text: numbers, then the tree.

use super::cost::{LaunchCost, PairedCosts, is_sum};
use super::path::PathStep;
use super::row::{AggregateReason, ParentLink, SignificantChange, TreeRow, TreeRowKind};
use stallmap_console::args::tree::TreeMetric;
use stallmap_console::output::number;
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten, width};
use stallmap_console::output::table::TableCanvas;

/// Between columns.
const GAP: &str = "  ";
/// Minimum length of a shortened name.
const NARROWEST: usize = 24;
/// Maximum of drawn guides: deeper rows show the innermost.
const MAX_GUIDES: usize = 24;

/// A column of numbers.
struct TreeColumn {
    header: String,
    cells: Vec<String>,
    role: fn(&str) -> TextRole,
}

/// Drawing parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct TreeDrawing<'a> {
    /// The names of steps.
    pub(super) steps: &'a [PathStep],
    /// Metrics of rows.
    pub(super) metrics: &'a [TreeMetric],
    /// True if two captures are compared.
    pub(super) is_diff: bool,
    /// Header of the tree.
    pub(super) header: &'a str,
}

/// The rows as text, one line each. A row that only counts deeper levels is appended to its parent's line.
pub(super) fn draw(rows: &[TreeRow], picture: &TreeDrawing<'_>, canvas: TableCanvas) -> String {
    let (lines, notes) = fold(rows);
    let columns = columns(&lines, picture);
    let widths: Vec<usize> = columns
        .iter()
        .map(|column| column.cells.iter().chain([&column.header]).map(|text| width(text)).max().unwrap_or(0))
        .collect();
    let used: usize = widths.iter().map(|width| width + GAP.len()).sum();
    let room = canvas.width.map_or(usize::MAX, |limit| limit.saturating_sub(used));
    let mut text = String::new();
    let headers: String =
        columns.iter().zip(&widths).map(|(column, &width)| pad(&column.header, width) + GAP).collect();
    line(&mut text, &canvas.paint.text(TextRole::Header, &format!("{headers}{}", picture.header)));
    let rules: String = widths.iter().map(|&width| "─".repeat(width) + GAP).collect();
    line(
        &mut text,
        &canvas.paint.text(TextRole::Dim, &format!("{rules}{}", "─".repeat(width(picture.header)))),
    );
    let mut guides = Vec::new();
    for (index, row) in lines.iter().enumerate() {
        for (column, &width) in columns.iter().zip(&widths) {
            let cell = &column.cells[index];
            text += &canvas.paint.text((column.role)(cell), &pad(cell, width));
            text += GAP;
        }
        let lead = lead(row, &mut guides);
        text += &canvas.paint.text(TextRole::Dim, &lead);
        let note = notes[index].map(|count| format!(" … {count} deeper")).unwrap_or_default();
        let label = label(row, picture) + &note;
        let label = shorten(&label, room.saturating_sub(width(&lead)).max(NARROWEST), ShortenSide::Middle);
        line(&mut text, &canvas.paint.text(role(row), &label));
    }
    text
}

/// The rows with a line, and for each the number of names hidden below it.
fn fold(rows: &[TreeRow]) -> (Vec<&TreeRow>, Vec<Option<usize>>) {
    let (mut lines, mut notes) = (Vec::new(), Vec::new());
    for row in rows {
        let note_above = notes.last_mut();
        if let (TreeRowKind::Hidden(AggregateReason::Deep, count), ParentLink::Chain, Some(note)) =
            (row.what, row.link, note_above)
        {
            *note = Some(count);
        } else {
            lines.push(row);
            notes.push(None);
        }
    }
    (lines, notes)
}

fn columns(rows: &[&TreeRow], picture: &TreeDrawing<'_>) -> Vec<TreeColumn> {
    let plain = |_: &str| TextRole::Plain;
    let column = |header: String, cells: Vec<String>| TreeColumn { header, cells, role: plain };
    let cells = |of: &dyn Fn(&TreeRow) -> String| rows.iter().map(|row| of(row)).collect::<Vec<String>>();
    let mut columns = Vec::new();
    let whole = rows.first().map(|row| row.total.after).unwrap_or_default();
    if let (Some(&first), false) = (picture.metrics.first(), picture.is_diff)
        && is_sum(first)
    {
        columns.push(column("share".into(), cells(&|row| share(&row.total.after, &whole, first))));
    }
    for (index, &metric) in picture.metrics.iter().enumerate() {
        let name = header(metric);
        if picture.is_diff {
            columns.push(column(
                format!("{name} before"),
                cells(&|row| value(row.total.before.value(metric), metric)),
            ));
            columns.push(column("after".into(), cells(&|row| value(row.total.after.value(metric), metric))));
            let change = column("change".into(), cells(&|row| change(row, index, metric)));
            columns.push(TreeColumn { role: change_role, ..change });
            columns.push(column("ratio".into(), cells(&|row| by(row, index, |change| change.ratio))));
            // Launches are counted exactly, and names need room.
            if index == 0 && metric != TreeMetric::Launches {
                columns.push(column("low".into(), cells(&|row| by(row, index, |change| change.ratio_low))));
                columns.push(column("high".into(), cells(&|row| by(row, index, |change| change.ratio_high))));
            }
            continue;
        }
        columns.push(column(name.into(), cells(&|row| value(row.total.after.value(metric), metric))));
        if index == 0 && is_sum(metric) {
            columns.push(column("self".into(), cells(&|row| own(row, metric))));
        }
    }
    columns
}

/// Exclusive value of a row. Hidden rows have none of their own.
fn own(row: &TreeRow, metric: TreeMetric) -> String {
    let is_hidden = matches!(row.what, TreeRowKind::Hidden(..));
    if row.own.is_empty() || is_hidden { "-".into() } else { value(row.own.after.value(metric), metric) }
}

fn share(cost: &LaunchCost, whole: &LaunchCost, metric: TreeMetric) -> String {
    let (part, whole) = (cost.sum(metric), whole.sum(metric));
    if whole > 0.0 { number::percent(part / whole) } else { "-".into() }
}

/// A metric's name above its column.
const fn header(metric: TreeMetric) -> &'static str {
    match metric {
        TreeMetric::Samples => "samples",
        TreeMetric::MemorySamples => "memory samples",
        TreeMetric::MemoryShare => "memory",
        TreeMetric::Time => "time",
        TreeMetric::Launches => "launches",
        TreeMetric::TimePerLaunch => "time a launch",
        TreeMetric::Flops => "flop",
        TreeMetric::FlopRate => "flop/s",
        TreeMetric::Bytes => "bytes",
        TreeMetric::ByteRate => "byte/s",
    }
}

fn value(value: Option<f64>, metric: TreeMetric) -> String {
    let Some(value) = value else { return "-".into() };
    match metric {
        TreeMetric::MemoryShare => number::percent(value),
        TreeMetric::Time | TreeMetric::TimePerLaunch => number::nanoseconds(value),
        TreeMetric::Flops => number::operations(value),
        TreeMetric::FlopRate => number::operations(value) + "/s",
        TreeMetric::Bytes => number::bytes(value),
        TreeMetric::ByteRate => number::bytes(value) + "/s",
        _ => number::measured(value),
    }
}

/// The change of a metric, marked if not significant.
fn change(row: &TreeRow, index: usize, metric: TreeMetric) -> String {
    let Some(change) = row.total.change(metric) else { return "-".into() };
    let is_noise = change.abs() > 0.0 && row.changes.get(index).is_some_and(SignificantChange::is_noise);
    let (mark, sign) = (if is_noise { "~ " } else { "" }, if change > 0.0 { "+" } else { "" });
    format!("{mark}{sign}{}", value(Some(change), metric))
}

/// A ratio of a row's change. None for added or removed rows.
fn by(row: &TreeRow, index: usize, of: fn(&SignificantChange) -> Option<f64>) -> String {
    let change = row.changes.get(index).filter(|_| status(&row.total).is_none());
    change.and_then(of).map_or_else(|| "-".into(), number::ratio)
}

fn change_role(cell: &str) -> TextRole {
    match cell.chars().next() {
        Some('+') => TextRole::Error,
        Some('-') if cell.len() > 1 => TextRole::Good,
        _ => TextRole::Plain,
    }
}

/// The guides before a name. `guides` stores for each branching above whether more rows follow.
fn lead(row: &TreeRow, guides: &mut Vec<bool>) -> String {
    guides.truncate(row.guides);
    let left_out = guides.len().saturating_sub(MAX_GUIDES);
    let mut lead = if left_out > 0 { "⋯ ".to_owned() } else { String::new() };
    for &goes_on in guides.iter().skip(left_out) {
        lead += if goes_on { "│  " } else { "   " };
    }
    match row.link {
        ParentLink::Chain => {}
        ParentLink::Middle => lead += "├─ ",
        ParentLink::Last => lead += "└─ ",
    }
    if row.link != ParentLink::Chain {
        guides.push(row.link == ParentLink::Middle);
    }
    lead
}

fn label(row: &TreeRow, picture: &TreeDrawing<'_>) -> String {
    let mut label = printable(&row.what.name(picture.steps)).replace('\n', "␊");
    if picture.is_diff
        && let Some(status) = status(&row.total)
    {
        label.extend(["  [", status, "]"]);
    }
    label
}

/// Status of a path that exists in only one of two captures.
pub(super) fn status(total: &PairedCosts) -> Option<&'static str> {
    match (total.before.is_some(), total.after.is_some()) {
        (false, true) => Some("added"),
        (true, false) => Some("removed"),
        _ => None,
    }
}

fn role(row: &TreeRow) -> TextRole {
    match row.what {
        TreeRowKind::All => TextRole::Heading,
        TreeRowKind::Step(_) => TextRole::Plain,
        TreeRowKind::Hidden(..) => TextRole::Dim,
    }
}

fn pad(text: &str, to: usize) -> String {
    " ".repeat(to.saturating_sub(width(text))) + text
}

fn line(text: &mut String, content: &str) {
    text.push_str(content.trim_end());
    text.push('\n');
}
