//! A comparison of two captures as one screen: the verdict, the rows that changed, what else differs.

use stallmap_console::output::TableCanvas;
use stallmap_console::output::number::{self, counted};
use stallmap_console::output::paint::TextRole;
use stallmap_console::output::shorten::{ShortenSide, printable, shorten, width, wrap};
use stallmap_console::output::table::is_aggregate;
use stallmap_console::place::LineLocation;

use super::draw::DiffUnit;
use super::fact::{self, CaptureFact};
use super::found::{ComparisonResult, PartChanges};
use super::row::CompareRow;
use super::verdict;

/// Columns of a page that is not for a terminal.
const PAGE: usize = 120;
/// Columns of a change.
const CHANGE: usize = 9;
/// Kernels named under a row.
const KERNELS: usize = 3;

/// The lines.
pub(super) fn screen(
    found: &ComparisonResult,
    unit: DiffUnit,
    facts: &[CaptureFact],
    canvas: TableCanvas,
) -> Vec<String> {
    let columns = canvas.width.unwrap_or(PAGE);
    let mut lines: Vec<String> = Vec::new();
    for headline in &found.headlines {
        let sentence = wrap(&printable(&headline.sentence), columns);
        lines.extend(sentence.lines().map(|line| canvas.paint.text(TextRole::Heading, line)));
    }
    if let Some(changes) = &found.changes {
        lines.push(String::new());
        lines.extend(changed(changes, unit, columns));
    }
    lines.push(String::new());
    for text in tail(facts) {
        lines.extend(wrap(&text, columns).lines().map(|line| canvas.paint.text(TextRole::Dim, line)));
    }
    lines
}

/// The rows with a significant change, the kernels that they gained and lost, and the sum of the rest.
fn changed(changes: &PartChanges, unit: DiffUnit, columns: usize) -> Vec<String> {
    let values: Vec<String> = changes.rows.iter().map(|row| verdict::range(row, unit)).collect();
    let room = values.iter().map(|value| width(value)).max().unwrap_or(0);
    let indent = room + CHANGE + 5;
    let mut lines = Vec::new();
    for (row, values) in changes.rows.iter().zip(&values) {
        let gap = " ".repeat(room - width(values));
        let change = change(row);
        let name = shorten(&place(row), columns.saturating_sub(indent), ShortenSide::Start);
        lines.push(format!(" {gap}{values}  {change:>CHANGE$}  {name}"));
        for (status, word) in [("added", "new"), ("removed", "gone")] {
            if let Some(kernels) = kernels(changes, row, status) {
                let text = format!("{word}: {kernels}");
                let text = shorten(&text, columns.saturating_sub(indent), ShortenSide::End);
                lines.push(format!("{}{text}", " ".repeat(indent)));
            }
        }
    }
    if lines.is_empty() {
        lines.push(" no row changed".to_owned());
    }
    lines
}

/// The change in percent, or a word for it.
pub(super) fn change(row: &CompareRow) -> String {
    match (row.status.as_deref(), row.ratio) {
        _ if row.is_noise() => "~".to_owned(),
        (Some("added"), _) => "new".to_owned(),
        (Some("removed"), _) => "gone".to_owned(),
        (_, Some(ratio)) => number::ratio(ratio),
        (_, None) => String::new(),
    }
}

/// The name of a row, and its earlier place. Sums say of how much.
pub(super) fn place(row: &CompareRow) -> String {
    let text = printable(&row.what);
    if is_sum(row) {
        let rows = counted(whole(row.rows), "other", "others");
        return if row.is_noise() { format!("{rows}, not significant") } else { rows };
    }
    let detail = row.detail.as_ref().map(|detail| format!(", {}", printable(detail))).unwrap_or_default();
    let was = row.was.as_ref().map(|was| format!(" (was {})", earlier(&row.what, was))).unwrap_or_default();
    text + &detail + &was
}

/// True for the sum of the rows that have no place of their own.
fn is_sum(row: &CompareRow) -> bool {
    row.rows > 1.0 || is_aggregate(&row.what) && !row.what.starts_with('(')
}

/// An earlier place: its line number alone if the rest is the same.
fn earlier(now: &str, was: &str) -> String {
    match (LineLocation::parse(now), LineLocation::parse(was)) {
        (Some(now), Some(was)) if (now.file, now.function) == (was.file, was.function) => {
            format!(":{}", was.line)
        }
        _ => printable(was),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of rows")]
fn whole(count: f64) -> u64 {
    count as u64
}

/// Kernels that a row gained or lost.
pub(super) fn kernels(changes: &PartChanges, row: &CompareRow, status: &str) -> Option<String> {
    let all = changes
        .kernels
        .iter()
        .filter(|kernel| kernel.status == status && kernel.what == row.what && kernel.capture == row.capture);
    let names: Vec<String> = all.map(|kernel| printable(&kernel.kernel)).collect();
    let shown = names.iter().take(KERNELS).cloned().collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(KERNELS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    // A row of one capture only has nothing but new or lost kernels.
    (!names.is_empty() && row.status.is_none()).then(|| shown + &more)
}

/// Differences between the captures, and the next commands.
fn tail(facts: &[CaptureFact]) -> Vec<String> {
    let names = fact::differences(facts);
    let mut lines = Vec::new();
    if !names.is_empty() {
        let count = counted(names.len() as u64, "difference", "differences");
        lines.push(format!("{count} in how the captures were made: {}", names.join(" · ")));
    }
    lines.push("more: --all · --by tensors,kernels · --format markdown · --fail-if 'time > +5%'".to_owned());
    lines
}
