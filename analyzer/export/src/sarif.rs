//! SARIF 2.1.0: findings as results of code scanning, one rule per kind.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;
use stallmap_console::explain::explain;
use stallmap_console::place::LineLocation;
use stallmap_console::rows;
use stallmap_schema::hash::checksum;

use crate::source::{ExportSource, FileFormat, json as document};

/// SARIF.
pub(crate) const FORMAT: FileFormat = FileFormat { queries: &[queries::RESULTS, queries::LOSSES], write };

rows! {
    /// A finding.
    struct SarifFinding {
        kind: String as "finding",
        subject: Option<String>,
        sentence: String,
        advice: Option<String>,
        kernel: Option<String>,
        line: Option<String>,
        op: Option<String>,
        samples: Option<f64>,
        saving_samples: Option<f64>,
        saving_share: Option<f64>,
        found_by: String,
        query: Option<String>,
        is_significant: Option<bool>,
    }
}

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let findings: Vec<SarifFinding> = source.read(queries::RESULTS)?;
    let losses: Vec<crate::timeline::TimelineLoss> = source.read(queries::LOSSES)?;
    let views = source.session().library().map_err(|error| explain(error, None))?;
    let mut kinds: BTreeMap<&str, &str> = BTreeMap::new();
    for finding in &findings {
        let view = views.iter().find(|view| view.name == finding.found_by);
        kinds.insert(&finding.kind, view.map_or("", |view| view.doc.as_str()));
    }
    let ids: Vec<&str> = kinds.keys().copied().collect();
    let rules: Vec<Value> = kinds.iter().map(|(id, doc)| rule(id, doc)).collect();
    let results: Vec<Value> = findings
        .iter()
        .zip(fingerprints(&findings))
        .map(|(finding, fingerprint)| result(finding, &ids, &fingerprint))
        .collect();
    let lost = losses.iter().map(|loss| {
        let text = format!("the capture lacks {} of {}: {}", loss.lost_count, loss.kind, loss.reason);
        json!({ "level": "warning", "message": { "text": text } })
    });
    let lost: Vec<Value> = lost.collect();
    document(&json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": { "name": "stallmap", "version": env!("CARGO_PKG_VERSION"), "rules": rules } },
            "invocations": [{ "executionSuccessful": true, "toolExecutionNotifications": lost }],
            "originalUriBaseIds": { "SRCROOT": { "description": { "text": "folder of the program's source files" } } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    }))
}

fn rule(id: &str, doc: &str) -> Value {
    let title = id.replace('_', " ");
    let help = if doc.is_empty() { title.clone() } else { doc.replace('\n', " ") };
    json!({
        "id": id, "name": id, "shortDescription": { "text": title }, "fullDescription": { "text": help.clone() },
        "help": { "text": help }, "defaultConfiguration": { "level": "warning" },
    })
}

fn result(finding: &SarifFinding, rules: &[&str], fingerprint: &str) -> Value {
    let advice = finding.advice.as_ref().map(|advice| format!(" {advice}")).unwrap_or_default();
    let level = if finding.is_significant == Some(true) { "warning" } else { "note" };
    let place = finding.line.as_deref().and_then(LineLocation::parse);
    let locations: Vec<Value> = place.iter().map(|place| place.location(None)).collect();
    json!({
        "ruleId": finding.kind,
        "ruleIndex": rules.iter().position(|rule| *rule == finding.kind),
        "level": level,
        "message": { "text": format!("{}{advice}", finding.sentence) },
        "locations": locations,
        "partialFingerprints": { "stallmap/v1": fingerprint },
        "properties": {
            "subject": finding.subject, "kernel": finding.kernel, "op": finding.op, "samples": finding.samples,
            "savingSamples": finding.saving_samples, "savingShare": finding.saving_share, "query": finding.query,
        },
    })
}

/// Identities of findings that a moved line keeps: kind, kernel, op, file, function and subject, without line numbers.
/// Equal ones are numbered in the order of the findings.
fn fingerprints(findings: &[SarifFinding]) -> Vec<String> {
    let mut counts: BTreeMap<u64, usize> = BTreeMap::new();
    let fingerprint = |finding: &SarifFinding| {
        let place = finding.line.as_deref().and_then(LineLocation::parse);
        let (file, function) = place.map_or(("", ""), |place| (place.file, place.function));
        let [kernel, op, subject] =
            [&finding.kernel, &finding.op, &finding.subject].map(|text| text.as_deref().unwrap_or_default());
        let parts = [finding.kind.as_str(), kernel, op, file, function, &without_lines(subject)];
        let hash = checksum(parts.join("\u{1f}").as_bytes());
        let count = counts.entry(hash).or_default();
        *count += 1;
        format!("{hash:016x}:{count}")
    };
    findings.iter().map(fingerprint).collect()
}

/// The text with each `:31` shortened to `:`.
fn without_lines(text: &str) -> String {
    let mut shorter = String::new();
    let mut is_line = false;
    for char in text.chars() {
        is_line = char == ':' || is_line && char.is_ascii_digit();
        if !is_line || char == ':' {
            shorter.push(char);
        }
    }
    shorter
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_numbers_are_left_out_of_identities() {
        assert_eq!(without_lines("t() at :31 in f[x 16]"), "t() at : in f[x 16]");
    }
}
