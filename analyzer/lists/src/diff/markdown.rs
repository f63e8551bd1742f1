//! A comparison as markdown, for a comment: verdict, changes, gates, how comparable the captures are.

use stallmap_console::output::markdown::{code, prose};
use stallmap_console::output::{self, number};

use super::fact::CaptureFact;
use super::found::ComparisonResult;
use super::gate::{SHOWN_ROWS, described};
use super::screen::{kernels, place};
use super::verdict;
use super::write::{ComparisonSubject, unit};

/// Most rows of a table: a comment holds 65,536 characters.
const MAX_ROWS: usize = 50;

/// The text.
pub(super) fn markdown(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> String {
    let sentences = found.headlines.iter().map(|headline| format!("**{}**", prose(&headline.sentence)));
    let mut blocks: Vec<String> = sentences.collect();
    blocks.extend(changes(subject, found));
    blocks.extend(gates(found));
    blocks.push(facts(subject.facts));
    let captures =
        subject.captures.iter().map(|(name, path)| code(&format!("{name}={}", output::path(path))));
    blocks.push(format!("Repeat: `stallmap diff` {}", captures.collect::<Vec<_>>().join(" ")));
    blocks.join("\n\n") + "\n"
}

fn changes(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Option<String> {
    let changes = found.changes.as_ref().filter(|changes| !changes.rows.is_empty())?;
    let mut lines = vec![
        format!("| {} | change | interval | place |", subject.measure.title()),
        "|---:|---:|---|---|".to_owned(),
    ];
    for row in changes.rows.iter().take(MAX_ROWS) {
        let values = verdict::range(row, unit(subject.measure));
        let change = match (row.is_noise(), row.ratio) {
            (true, _) => "not significant".to_owned(),
            (false, Some(ratio)) => number::ratio(ratio),
            (false, None) => "new".to_owned(),
        };
        let interval = verdict::interval(row).unwrap_or_default();
        let mut names = vec![code(&place(row))];
        for (status, word) in [("added", "new"), ("removed", "gone")] {
            names.extend(kernels(changes, row, status).map(|kernels| format!("{word}: {}", code(&kernels))));
        }
        lines.push(format!("| {values} | {change} | {interval} | {} |", names.join("<br>")));
    }
    Some(lines.join("\n"))
}

fn gates(found: &ComparisonResult) -> Option<String> {
    let mut lines = vec!["| gate | result | rows |".to_owned(), "|---|---|---|".to_owned()];
    for gate in &found.gates {
        let result = if gate.failure.is_some() { "**fails**" } else { "passes" };
        let rows = gate.rows.iter().take(SHOWN_ROWS);
        let rows: Vec<String> = rows.map(|row| code(&described(row, gate.unit))).collect();
        lines.push(format!("| {} | {result} | {} |", code(&gate.condition), rows.join("<br>")));
    }
    (!found.gates.is_empty()).then(|| lines.join("\n"))
}

fn facts(facts: &[CaptureFact]) -> String {
    let differences: Vec<&CaptureFact> = facts.iter().filter(|fact| fact.verdict != "same").collect();
    if differences.is_empty() {
        return "The captures were made alike.".to_owned();
    }
    let mut lines = vec![
        "<details><summary>Differences in how the captures were made</summary>\n".to_owned(),
        "| fact | base | other | meaning |".to_owned(),
        "|---|---|---|---|".to_owned(),
    ];
    for fact in differences.iter().take(MAX_ROWS) {
        let meaning = prose(fact.meaning.as_deref().unwrap_or_default());
        let (base, value) = (code(&fact.base_value), code(&fact.value));
        lines.push(format!("| {} | {base} | {}: {value} | {meaning} |", fact.name, code(&fact.capture)));
    }
    lines.push("\n</details>".to_owned());
    lines.join("\n")
}
