//! Comparability: facts of the captures side by side, and consequences of their differences.

use arrow::array::RecordBatch;

use super::query::Measure;
use super::read::Columns;
use crate::args::diff::{DiffMetric, Per};
use crate::exit::Outcome;

/// Facts that change the time of a sample.
const TIME_OF_A_SAMPLE: [&str; 3] = ["multiprocessors", "SM clock, MHz", "sampling period, cycles"];

/// A fact of the first capture next to that of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fact {
    /// Its name.
    pub(super) name: String,
    /// In the first capture.
    pub(super) base_value: String,
    /// The other capture.
    pub(super) capture: String,
    /// In the other capture.
    pub(super) value: String,
    /// same, caution, normalized, not comparable.
    pub(super) verdict: String,
    /// Explanation. Empty if equal.
    pub(super) meaning: String,
}

/// The facts of a query's rows.
pub(super) fn facts(rows: &[RecordBatch]) -> Outcome<Vec<Fact>> {
    let mut facts = Vec::new();
    for batch in rows {
        let columns = Columns::of(batch);
        let (name, base_value, capture) =
            (columns.texts("fact")?, columns.texts("base_value")?, columns.texts("capture")?);
        let (value, verdict, meaning) =
            (columns.texts("value")?, columns.texts("verdict")?, columns.texts("meaning")?);
        let text =
            |texts: &[Option<String>], row: usize| texts.get(row).cloned().flatten().unwrap_or_default();
        facts.extend((0..batch.num_rows()).map(|row| Fact {
            name: text(&name, row),
            base_value: text(&base_value, row),
            capture: text(&capture, row),
            value: text(&value, row),
            verdict: text(&verdict, row),
            meaning: text(&meaning, row),
        }));
    }
    Ok(facts)
}

/// Consequences of the facts.
#[derive(Clone, Debug)]
pub(super) struct Decision {
    /// True if a sample represents a different time in another capture.
    pub(super) is_scaled: bool,
    /// Divisor of sums.
    pub(super) per: Per,
    /// Totals that cannot be compared.
    pub(super) unknown: Vec<&'static str>,
}

impl Decision {
    pub(super) fn of(facts: &[Fact], per: Per) -> Self {
        let differs =
            |name: &str| facts.iter().any(|fact| fact.name == name && fact.base_value != fact.value);
        let lacks = |name: &str| {
            facts.iter().any(|fact| {
                fact.name == name && [&fact.base_value, &fact.value].contains(&&"none".to_owned())
            })
        };
        let is_scaled = TIME_OF_A_SAMPLE.into_iter().any(differs);
        let per = match per {
            Per::Auto if differs("steps") => Per::Step,
            Per::Auto => Per::Total,
            given => given,
        };
        let mut unknown = Vec::new();
        if is_scaled || lacks("samples are of") {
            unknown.extend(["samples", "memory samples"]);
        }
        if lacks("samples are of") {
            unknown.push("time");
        }
        if lacks("accesses recorded") {
            unknown.extend(["sectors", "bytes"]);
        }
        Self { is_scaled, per, unknown }
    }

    /// Measurement of a metric.
    pub(super) fn measure(&self, metric: DiffMetric) -> Measure {
        let counts_samples = matches!(metric, DiffMetric::Samples | DiffMetric::Memory);
        Measure { metric, is_scaled: self.is_scaled && counts_samples }
    }
}

/// The facts that prevent a comparison, as text. None if there are none.
pub(super) fn refusal(facts: &[Fact], base: &str) -> Option<String> {
    let refused: Vec<String> = facts
        .iter()
        .filter(|fact| fact.verdict == "not comparable")
        .map(|fact| {
            let Fact { name, base_value, capture, value, meaning, .. } = fact;
            format!("{name}: {base_value} in {base}, {value} in {capture}; {meaning}")
        })
        .collect();
    (!refused.is_empty()).then(|| refused.join("; "))
}
