//! A comparison as commands of a GitHub workflow: errors for gates, warnings for lines that got worse.

use std::path::Path;

use stallmap_console::output::number;
use stallmap_console::place::Place;

use super::found::Found;
use super::gate::described;
use super::row::Row;
use super::verdict;
use super::write::{Subject, unit};

/// Annotations of one kind that a step shows.
const MOST: usize = 10;

/// One command a line.
pub(super) fn github(subject: &Subject<'_>, found: &Found, root: Option<&Path>) -> String {
    let mut lines: Vec<String> = errors(found, root);
    lines.truncate(MOST);
    let mut warnings = warnings(subject, found, root);
    warnings.truncate(MOST);
    lines.extend(warnings);
    for headline in &found.headlines {
        lines.push(command("notice", None, None, "stallmap diff", &headline.sentence));
    }
    lines.join("\n") + "\n"
}

fn errors(found: &Found, root: Option<&Path>) -> Vec<String> {
    let failed = found.gates.iter().filter(|gate| gate.failure.is_some());
    let one = |gate: &super::gate::Judged| -> Vec<String> {
        let title = format!("stallmap: {}", gate.condition);
        let rows = gate
            .rows
            .iter()
            .map(|row| command("error", Place::parse(&row.what), root, &title, &described(row, gate.unit)));
        let rows: Vec<String> = rows.collect();
        let reason = gate.failure.as_deref().unwrap_or_default();
        if rows.is_empty() { vec![command("error", None, root, &title, reason)] } else { rows }
    };
    failed.flat_map(one).collect()
}

fn warnings(subject: &Subject<'_>, found: &Found, root: Option<&Path>) -> Vec<String> {
    let unit = unit(subject.measure);
    let rows = found.changes.iter().flat_map(|changes| &changes.rows);
    let worse = rows.filter(|row| !row.is_noise() && row.change > 0.0);
    let one = |row: &Row| {
        let place = Place::parse(&row.what)?;
        let change = row.ratio.map_or_else(|| "new".to_owned(), number::ratio);
        let title = format!("stallmap: {} {change}", subject.measure.title());
        let interval = verdict::interval(row).map(|interval| format!(" ({interval})")).unwrap_or_default();
        let text = format!("{}{interval}, {}", verdict::range(row, unit), row.what);
        Some(command("warning", Some(place), root, &title, &text))
    };
    worse.filter_map(one).collect()
}

fn command(level: &str, place: Option<Place<'_>>, root: Option<&Path>, title: &str, text: &str) -> String {
    let place = place.map(|place| format!("file={},line={},", property(place.file_below(root)), place.line));
    format!("::{level} {}title={}::{}", place.unwrap_or_default(), property(title), data(text))
}

/// Text of a command.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a command.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_end_their_command() {
        let place = Place { file: "/src/a,b.py", line: 3, function: "f" };
        let line = command("error", Some(place), Some(Path::new("/src")), "time: +5 %", "x\n::error::y");
        assert_eq!(line, "::error file=a%2Cb.py,line=3,title=time%3A +5 %25::x%0A::error::y");
    }
}
