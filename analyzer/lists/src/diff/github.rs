//! A comparison as commands of a GitHub workflow: errors for gates, warnings for lines that got worse.

use std::path::Path;

use stallmap_console::output::number;
use stallmap_console::place::LineLocation;

use super::found::ComparisonResult;
use super::gate::described;
use super::verdict::{self, TotalChange};
use super::write::{ComparisonSubject, unit};

/// Annotations of one kind that a step shows.
const MOST: usize = 10;

/// One command a line.
pub(super) fn github(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> String {
    let mut lines: Vec<String> = errors(subject, found).into_iter().take(MOST).collect();
    lines.extend(warnings(subject, found).take(MOST));
    let notice = |headline: &TotalChange| command("notice", None, None, "stallmap diff", &headline.sentence);
    lines.extend(found.headlines.iter().map(notice));
    lines.join("\n") + "\n"
}

fn errors(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Vec<String> {
    let mut errors = Vec::new();
    for gate in found.failed() {
        let title = format!("stallmap: {}", gate.condition);
        let error = |place, text: &str| command("error", place, subject.root, &title, text);
        errors.extend(
            gate.rows.iter().map(|row| error(LineLocation::parse(&row.what), &described(row, gate.unit))),
        );
        if gate.rows.is_empty() {
            errors.push(error(None, gate.failure.as_deref().unwrap_or_default()));
        }
    }
    errors
}

fn warnings<'a>(
    subject: &'a ComparisonSubject<'_>,
    found: &'a ComparisonResult,
) -> impl Iterator<Item = String> + 'a {
    found.worse().map(|(row, place)| {
        let change = row.ratio.map_or_else(|| "new".to_owned(), number::ratio);
        let title = format!("stallmap: {} {change}", subject.measure.title());
        let values = verdict::range(row, unit(subject.measure));
        let text = format!("{values}{}, {}", verdict::bracketed(row), row.what);
        command("warning", Some(place), subject.root, &title, &text)
    })
}

fn command(
    level: &str,
    place: Option<LineLocation<'_>>,
    root: Option<&Path>,
    title: &str,
    text: &str,
) -> String {
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
        let place = LineLocation { file: "/src/a,b.py", line: 3, function: "f" };
        let line = command("error", Some(place), Some(Path::new("/src")), "time: +5 %", "x\n::error::y");
        assert_eq!(line, "::error file=a%2Cb.py,line=3,title=time%3A +5 %25::x%0A::error::y");
    }
}
