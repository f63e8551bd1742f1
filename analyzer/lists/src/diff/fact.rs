//! Comparability: facts of the captures side by side, and consequences of their differences.

use super::query::DiffMeasure;
use stallmap_console::args::diff::{DiffDivisor, DiffMetric};
use stallmap_console::rows;

/// Facts that change the time of a sample.
const TIME_OF_A_SAMPLE: [&str; 3] = ["multiprocessors", "SM clock, MHz", "sampling period, cycles"];

/// The fact that says how time is known.
const TIMING: &str = "time is";

/// The fact that says if the variation of launches is known.
const VARIATION: &str = "launches that repeat another";

rows! {
    /// A fact of the first capture next to that of another.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(super) struct CaptureFact {
        /// Its name.
        pub(super) name: String as "fact",
        /// In the first capture.
        pub(super) base_value: String,
        /// The other capture.
        pub(super) capture: String,
        /// In the other capture.
        pub(super) value: String,
        /// same, caution, normalized, not comparable.
        pub(super) verdict: String,
        /// Explanation. None if equal.
        pub(super) meaning: Option<String>,
    }
}

/// A capture's amount of work next to that of the first, where the jobs are unequal.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct JobAmount {
    /// The numbers that differ: `8 ranks instead of 1`.
    pub(super) words: String,
    /// The steps of all ranks, relative to the first capture.
    pub(super) ratio: f64,
    /// True if a step of one can be compared with a step of the other.
    pub(super) has_steps: bool,
}

/// Consequences of the facts.
#[derive(Clone, Debug)]
pub(super) struct FactDecision {
    /// True if a sample represents a different time in another capture.
    pub(super) is_scaled: bool,
    /// Divisor of sums.
    pub(super) per: DiffDivisor,
    /// Totals that cannot be compared.
    pub(super) unknown: Vec<&'static str>,
}

impl FactDecision {
    pub(super) fn from_facts(facts: &[CaptureFact], per: DiffDivisor) -> Self {
        let differs =
            |name: &str| facts.iter().any(|fact| fact.name == name && fact.base_value != fact.value);
        let lacks = |name: &str| {
            facts.iter().any(|fact| {
                fact.name == name && [&fact.base_value, &fact.value].contains(&&"none".to_owned())
            })
        };
        let is_stepless = facts
            .iter()
            .any(|fact| fact.name == "steps" && [&fact.base_value, &fact.value].contains(&&"0".to_owned()));
        // One step of every capture is all that they have in common with a program without steps.
        let is_single = facts.iter().all(|fact| {
            fact.name != "steps" || [&fact.base_value, &fact.value].iter().all(|steps| *steps == "1")
        });
        let has_steps = !is_stepless && !is_single;
        let is_scaled = TIME_OF_A_SAMPLE.into_iter().any(differs);
        let per = match per {
            DiffDivisor::Auto if has_steps => DiffDivisor::Step,
            DiffDivisor::Auto => DiffDivisor::Total,
            given => given,
        };
        let mut unknown = Vec::new();
        if is_scaled || lacks("samples are of") {
            unknown.extend(["samples", "memory samples"]);
        }
        let is_measured = |value: &str| value.contains("measured");
        let is_mixed = facts
            .iter()
            .any(|fact| fact.name == TIMING && is_measured(&fact.base_value) != is_measured(&fact.value));
        if lacks(TIMING) || is_mixed {
            unknown.push("time");
        }
        if lacks("accesses recorded") {
            unknown.extend(["sectors", "bytes"]);
        }
        Self { is_scaled, per, unknown }
    }

    /// Measurement of a metric.
    pub(super) fn measure(&self, metric: DiffMetric) -> DiffMeasure {
        let counts_samples = matches!(metric, DiffMetric::Samples | DiffMetric::Memory);
        DiffMeasure { metric, is_scaled: self.is_scaled && counts_samples }
    }
}

/// Reason why a total cannot be compared, as a clause. None if the facts say of none.
pub(super) fn unknown(facts: &[CaptureFact], base: &str, total: &str) -> Option<String> {
    let (name, noun) = match total {
        "time" => (TIMING, "times"),
        "sectors" | "bytes" => ("accesses recorded", "accesses"),
        _ => ("samples are of", "samples"),
    };
    let known = || facts.iter().filter(|fact| fact.name == name);
    let lacking = |fact: &CaptureFact| {
        let sides = [(base, &fact.base_value), (fact.capture.as_str(), &fact.value)];
        sides.into_iter().find(|(_, value)| *value == "none").map(|(capture, _)| capture.to_owned())
    };
    if let Some(capture) = known().find_map(lacking) {
        return Some(format!("{capture} has no {noun}"));
    }
    if total == "time" {
        let CaptureFact { base_value, capture, value, .. } =
            known().find(|fact| fact.base_value != fact.value)?;
        return Some(format!("time is {base_value} in {base}, and {value} in {capture}"));
    }
    TIME_OF_A_SAMPLE
        .into_iter()
        .any(|name| facts.iter().any(|fact| fact.name == name && fact.base_value != fact.value))
        .then(|| "a sample represents a different time in each capture".to_owned())
}

/// True if the time of a capture is an estimate.
pub(super) fn is_estimated(facts: &[CaptureFact]) -> bool {
    let timing = facts.iter().filter(|fact| fact.name == TIMING);
    timing.flat_map(|fact| [&fact.base_value, &fact.value]).any(|value| value.starts_with("estimated"))
}

/// The numbers of ranks of the captures, as words: one number if it is that of all. None if all have one process.
pub(super) fn ranks(facts: &[CaptureFact]) -> Option<String> {
    let facts = || facts.iter().filter(|fact| fact.name == "ranks");
    let others = facts().map(|fact| fact.value.as_str());
    let mut numbers: Vec<&str> = facts().take(1).map(|fact| fact.base_value.as_str()).chain(others).collect();
    numbers.dedup();
    let is_job = numbers.iter().any(|number| !matches!(*number, "0" | "1"));
    is_job.then(|| format!("{} ranks", numbers.join(" and ")))
}

/// The ranks and steps of a capture that are not as many as in the first. None if they are, or not known.
pub(super) fn amount(facts: &[CaptureFact], capture: &str) -> Option<JobAmount> {
    let counts = |name: &str| {
        let fact = facts.iter().find(|fact| fact.capture == capture && fact.name == name)?;
        let (before, after) = (fact.base_value.parse::<u32>().ok()?, fact.value.parse::<u32>().ok()?);
        (before > 0 && after > 0).then_some((before, after))
    };
    let known = ["rank", "step"].map(|noun| (noun, counts(&format!("{noun}s"))));
    let unequal = known.iter().filter_map(|(noun, counts)| {
        let (before, after) = counts.filter(|(before, after)| before != after)?;
        Some(format!("{after} {noun}{} instead of {before}", if after == 1 { "" } else { "s" }))
    });
    let words = unequal.collect::<Vec<_>>().join(", ");
    let ratios = known.iter().filter_map(|(_, counts)| counts.map(|(a, b)| f64::from(b) / f64::from(a)));
    let has_steps = known.iter().all(|(_, counts)| counts.is_some());
    (!words.is_empty()).then(|| JobAmount { words, ratio: ratios.product(), has_steps })
}

/// The names of the facts that differ.
pub(super) fn differences(facts: &[CaptureFact]) -> Vec<&str> {
    // Captures that both lack repeated launches do not differ in it.
    let is_shared = |fact: &CaptureFact| fact.name == VARIATION && fact.base_value == fact.value;
    let differing = facts.iter().filter(|fact| fact.verdict != "same" && !is_shared(fact));
    let mut names: Vec<&str> = differing.map(|fact| fact.name.as_str()).collect();
    names.dedup();
    names
}

/// The facts that prevent a comparison, as text. None if there are none.
pub(super) fn refusal(facts: &[CaptureFact], base: &str) -> Option<String> {
    let refused: Vec<String> = facts
        .iter()
        .filter(|fact| fact.verdict == "not comparable")
        .map(|fact| {
            let CaptureFact { name, base_value, capture, value, meaning, .. } = fact;
            format!(
                "{name}: {base_value} in {base}, {value} in {capture}; {}",
                meaning.as_deref().unwrap_or_default()
            )
        })
        .collect();
    (!refused.is_empty()).then(|| refused.join("; "))
}
