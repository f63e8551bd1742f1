//! A comparison as SARIF 2.1.0: a result for each gate that fails, and for each line that got worse.

use std::path::Path;

use serde_json::{Value, json};
use stallmap_console::place::LineLocation;

use super::found::ComparisonResult;
use super::gate::described;
use super::row::CompareRow;
use super::verdict;
use super::write::{ComparisonSubject, unit};

/// The rules, with their texts.
const RULES: [(&str, &str); 2] = [
    ("gate", "A condition of stallmap diff --fail-if or --fail-if-rows holds."),
    ("regression", "A line costs significantly more than in the first capture."),
];

/// The document.
pub(super) fn sarif(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Value {
    let rules = RULES.iter().map(|(id, text)| json!({ "id": id, "shortDescription": { "text": text } }));
    let mut results = gates(subject, found);
    results.extend(regressions(subject, found));
    let notes = found.headlines.iter();
    let notes = notes.map(|headline| json!({ "level": "note", "message": { "text": headline.sentence } }));
    json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "stallmap", "version": env!("CARGO_PKG_VERSION"), "rules": rules.collect::<Vec<_>>(),
            } },
            "invocations": [{
                "executionSuccessful": true, "toolExecutionNotifications": notes.collect::<Vec<_>>(),
            }],
            "originalUriBaseIds": { "SRCROOT": { "description": { "text": "folder of the program's source files" } } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    })
}

fn gates(subject: &ComparisonSubject<'_>, found: &ComparisonResult) -> Vec<Value> {
    let mut results = Vec::new();
    for gate in found.failed() {
        results.extend(gate.rows.iter().map(|row| {
            let text = format!("{}: {}", gate.condition, described(row, gate.unit));
            result(0, "error", &text, Some(row), subject.root)
        }));
        if gate.rows.is_empty() {
            let reason = gate.failure.as_deref().unwrap_or_default();
            results.push(result(0, "error", reason, None, subject.root));
        }
    }
    results
}

fn regressions<'a>(
    subject: &'a ComparisonSubject<'_>,
    found: &'a ComparisonResult,
) -> impl Iterator<Item = Value> + 'a {
    found.worse().map(|(row, _)| {
        let values = verdict::range(row, unit(subject.measure));
        let text = format!("{}: {} {values}{}", row.what, subject.measure.title(), verdict::bracketed(row));
        result(1, "warning", &text, Some(row), subject.root)
    })
}

fn result(rule: usize, level: &str, text: &str, row: Option<&CompareRow>, root: Option<&Path>) -> Value {
    let place = row.and_then(|row| LineLocation::parse(&row.what));
    let locations: Vec<Value> = place.iter().map(|place| place.location(root)).collect();
    let properties = row.map(|row| {
        json!({
            "capture": row.capture, "baseValue": row.base_value, "value": row.value, "ratio": row.ratio,
            "ratioLow": row.ratio_low, "ratioHigh": row.ratio_high,
        })
    });
    json!({
        "ruleId": RULES.get(rule).map(|(id, _)| id), "ruleIndex": rule, "level": level,
        "message": { "text": text }, "locations": locations, "properties": properties.unwrap_or_else(|| json!({})),
    })
}
