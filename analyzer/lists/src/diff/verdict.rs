//! The first lines of a comparison: how much faster or slower, how sure that is, and the rows that changed.

use stallmap_console::args::diff::DiffMetric;
use stallmap_console::output::number;
use stallmap_console::rows;

use super::draw::DiffUnit;
use super::fact::{self, CaptureFact, JobAmount};
use super::row::CompareRow;

rows! {
/// A row of `sql/queries/diff/line_kernels.sql`.
#[derive(Clone, Debug)]
pub(super) struct DiffLineKernel {
    /// The other capture.
    pub(super) capture: String,
    /// The row that it belongs to.
    pub(super) what: String,
    /// added, removed.
    pub(super) status: String,
    /// The kernel.
    pub(super) kernel: String,
}
}

rows! {
/// A row of `sql/queries/diff/work.sql`.
#[derive(Clone, Debug)]
pub(super) struct WorkShare {
    /// The other capture.
    pub(super) capture: String,
    /// The change by more or fewer of the same work, as part of the first capture's time.
    pub(super) calls: Option<f64> as "calls_share",
    /// By larger or smaller shapes.
    pub(super) size: Option<f64> as "size_share",
    /// By the same work in other time.
    pub(super) speed: Option<f64> as "speed_share",
    /// By kernels that only one capture has.
    pub(super) unmatched: Option<f64> as "unmatched_share",
    /// The complete change.
    pub(super) change: Option<f64> as "change_share",
    /// The time from the first to the last work in the first capture, nanoseconds.
    pub(super) base_span: Option<f64>,
    /// The same in the other.
    pub(super) span: Option<f64>,
}
}

rows! {
/// A row of `sql/queries/diff/steps.sql`.
#[derive(Clone, Debug)]
pub(super) struct StepLength {
    /// The other capture.
    pub(super) capture: String,
    /// The mean length of a step in the first capture, nanoseconds.
    pub(super) base_ns: Option<f64>,
    /// In the other.
    pub(super) ns: Option<f64>,
    /// The busy part in the first capture.
    pub(super) base_busy: Option<f64>,
    /// In the other.
    pub(super) busy: Option<f64>,
    /// Lower end of the interval of the difference.
    pub(super) change_low: Option<f64>,
    /// Its upper end.
    pub(super) change_high: Option<f64>,
}
}

/// A part of a change that is too small to be named, relative to the first capture.
const SMALL: f64 = 0.005;

/// Behind totals of jobs with unequal numbers of steps or ranks.
const PER_STEP: &str = " `--per step` compares a step of each.";

impl WorkShare {
    /// The change that is more or less work.
    fn work(&self) -> f64 {
        self.calls.unwrap_or(0.0) + self.size.unwrap_or(0.0)
    }

    /// True if most of the change is more or less work.
    fn is_work(&self) -> bool {
        let work = self.work();
        self.change.is_some_and(|change| work * change > 0.0 && work.abs() > (change - work).abs())
    }

    /// The parts that are not small. None if there is nothing but speed.
    fn parts(&self) -> Option<String> {
        let named = [
            (self.calls, "more calls", "fewer calls"),
            (self.size, "larger shapes", "smaller shapes"),
            (self.speed, "slower work", "faster work"),
            (self.unmatched, "kernels without a counterpart", "kernels without a counterpart"),
        ];
        let is_small = |share: Option<f64>| share.is_none_or(|share| share.abs() < SMALL);
        if is_small(self.calls) && is_small(self.size) && is_small(self.unmatched) {
            return None;
        }
        if self.change.is_some_and(|change| self.unmatched.unwrap_or(0.0).abs() > 0.5 * change.abs()) {
            return Some("Kernels without a counterpart make most of the change.".to_owned());
        }
        let (small, named): (Vec<_>, Vec<_>) = named.into_iter().partition(|(share, ..)| is_small(*share));
        let part = |(share, more, less): (Option<f64>, &str, &str)| {
            let share = share.unwrap_or(0.0);
            format!("{:+.1} % by {}", 100.0 * share, if share > 0.0 { more } else { less })
        };
        let rest: f64 = small.iter().filter_map(|(share, ..)| *share).sum();
        // Shares have one decimal of a percent.
        let rest = (rest.abs() >= 0.000_5).then(|| format!("{:+.1} % by the rest", 100.0 * rest));
        Some(format!("By parts: {}.", named.into_iter().map(part).chain(rest).collect::<Vec<_>>().join(", ")))
    }
}

impl StepLength {
    /// The lengths of a step as a sentence.
    fn sentence(&self, unit: DiffUnit) -> Option<String> {
        let (before, after) = (self.base_ns?, self.ns?);
        let is_noise = self.change_low? <= 0.0 && self.change_high? >= 0.0;
        let change = if is_noise { "within noise".to_owned() } else { number::ratio(after / before) };
        let percent = |share: f64| format!("{:.1} %", 100.0 * share);
        Some(format!(
            "A step lasts {} → {} ({change}), GPU busy {} → {}.",
            unit.value(before),
            unit.value(after),
            percent(self.base_busy?),
            percent(self.busy?)
        ))
    }
}

/// The change of one total.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TotalChange {
    /// The sentence.
    pub(super) sentence: String,
    /// The total. None where it cannot be compared.
    pub(super) row: Option<CompareRow>,
}

impl TotalChange {
    /// A total that cannot be compared.
    pub(super) fn unknown(title: &str, reason: Option<String>) -> Self {
        let sentence = match reason {
            Some(reason) => format!("The total {title} cannot be compared: {reason}."),
            None => format!("No launch has {title} to compare."),
        };
        Self { sentence, row: None }
    }
}

/// Words for a metric.
#[derive(Clone, Copy, Debug)]
pub(super) struct MetricWords<'a> {
    /// The metric.
    pub(super) metric: DiffMetric,
    /// Its title.
    pub(super) title: &'a str,
    /// Format of its values.
    pub(super) unit: DiffUnit,
    /// Addition to values: a step, a launch.
    pub(super) per: &'a str,
    /// True if the values are estimates.
    pub(super) is_estimated: bool,
    /// The facts that may make totals unequal. Empty where steps or launches are compared.
    pub(super) amounts: &'a [CaptureFact],
}

/// One sentence for each capture, from the rows of the total.
pub(super) fn headlines(
    rows: &[CompareRow],
    base: &str,
    words: MetricWords<'_>,
    shares: &[WorkShare],
    steps: &[StepLength],
) -> Vec<TotalChange> {
    let headline = |row: &CompareRow| {
        let work = shares.iter().find(|work| work.capture == row.capture);
        let is_work = !row.is_noise() && work.is_some_and(WorkShare::is_work);
        let parts = work.and_then(WorkShare::parts).map(|parts| format!(" {parts}")).unwrap_or_default();
        let steps = steps.iter().find(|steps| steps.capture == row.capture);
        let steps = steps.and_then(|steps| steps.sentence(words.unit));
        let length = steps.or_else(|| work.filter(|_| is_work).and_then(|work| span(work, words.unit)));
        let length = length.map(|length| format!(" {length}")).unwrap_or_default();
        let amount = fact::amount(words.amounts, &row.capture);
        let base = amount.as_ref().map_or(base.to_owned(), |amount| format!("{base} ({})", amount.words));
        let job = amount.as_ref().filter(|_| is_work);
        let sentence = if is_work { of_work(row, &base, words, job) } else { sentence(row, &base, words) };
        let hint = if amount.is_some_and(|amount| amount.has_steps) { PER_STEP } else { "" };
        TotalChange { sentence: sentence + &parts + &length + hint, row: Some(row.clone()) }
    };
    rows.iter().map(headline).collect()
}

/// The sentence about a capture whose change is mostly more or less work: this is neither faster nor slower.
fn of_work(row: &CompareRow, base: &str, words: MetricWords<'_>, amount: Option<&JobAmount>) -> String {
    let is_more = row.change > 0.0;
    let is_job = amount.is_some_and(|amount| if is_more { amount.ratio > 1.0 } else { amount.ratio < 1.0 });
    let verdict = match (is_job, is_more) {
        (true, true) => "is a larger job than",
        (true, false) => "is a smaller job than",
        (false, true) => "does more work than",
        (false, false) => "does less work than",
    };
    let change = row.ratio.map_or_else(|| "from nothing".to_owned(), number::ratio);
    format!(
        "{} {verdict} {base}: {change} time{}, {}{}.",
        row.capture,
        bracketed(row),
        range(row, words.unit),
        words.per,
    )
}

/// The time from the first to the last work.
fn span(work: &WorkShare, unit: DiffUnit) -> Option<String> {
    let (before, after) = (unit.value(work.base_span?), unit.value(work.span?));
    Some(if before == after {
        format!("Both last {before}.")
    } else {
        format!("They last {before} and {after}.")
    })
}

fn sentence(row: &CompareRow, base: &str, words: MetricWords<'_>) -> String {
    let capture = &row.capture;
    let title = words.title;
    let values = format!("{}{}", range(row, words.unit), words.per);
    let basis = if words.is_estimated { ", estimated" } else { "" };
    if row.change == 0.0 {
        return match words.metric {
            DiffMetric::Time => format!("{capture} takes as long as {base}: {values}{basis}."),
            _ => format!("{capture} has as many {title} as {base}: {values}."),
        };
    }
    let change = row.ratio.map_or_else(|| "from nothing".to_owned(), number::ratio);
    let interval = bracketed(row);
    let verdict = match (words.metric, row.is_noise(), row.change > 0.0) {
        (DiffMetric::Time, true, _) => format!("{capture} is as fast as {base} within noise"),
        (DiffMetric::Time, false, true) => format!("{capture} is slower than {base}"),
        (DiffMetric::Time, false, false) => format!("{capture} is faster than {base}"),
        (_, true, _) => format!("{capture} has as many {title} as {base} within noise"),
        (_, false, true) => format!("{capture} has more {title} than {base}"),
        (_, false, false) => format!("{capture} has fewer {title} than {base}"),
    };
    let noun = if words.metric == DiffMetric::Time { " time" } else { "" };
    format!("{verdict}: {change}{noun}{interval}, {values}{basis}.")
}

/// The confidence interval of a ratio. None for exact numbers, and where it has no end.
pub(super) fn interval(row: &CompareRow) -> Option<String> {
    let (low, high) = (row.ratio_low?, row.ratio_high?);
    let is_interval = low < high && high.is_finite();
    is_interval.then(|| format!("95 % CI {} to {}", number::ratio(low), number::ratio(high)))
}

/// The interval in brackets, after a space. Empty without one.
pub(super) fn bracketed(row: &CompareRow) -> String {
    interval(row).map(|interval| format!(" ({interval})")).unwrap_or_default()
}

/// Both values, with one unit if it is the same.
pub(super) fn range(row: &CompareRow, unit: DiffUnit) -> String {
    let (before, after) = (unit.value(row.base_value), unit.value(row.value));
    if before == after {
        return before;
    }
    match (before.rsplit_once(' '), after.rsplit_once(' ')) {
        (Some((number, before)), Some((_, suffix))) if before == suffix => format!("{number} → {after}"),
        _ => format!("{before} → {after}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(base_value: f64, value: f64, verdict: &str) -> CompareRow {
        let ratio = (base_value > 0.0).then_some(value / base_value);
        CompareRow {
            capture: "b".into(),
            base_value,
            value,
            change: value - base_value,
            ratio,
            ratio_low: ratio.map(|ratio| ratio - 0.1),
            ratio_high: ratio.map(|ratio| ratio + 0.1),
            verdict: Some(verdict.into()),
            ..CompareRow::default()
        }
    }

    #[test]
    fn less_of_the_same_work_is_not_faster() {
        let words = MetricWords {
            metric: DiffMetric::Time,
            title: "time",
            unit: DiffUnit::Time,
            per: "",
            is_estimated: false,
            amounts: &[],
        };
        let row = row(5000.0, 4000.0, "less");
        let share = |calls: f64, size: f64, unmatched: f64| WorkShare {
            capture: "b".into(),
            calls: Some(calls),
            size: Some(size),
            speed: Some(-0.2 - calls - size - unmatched),
            unmatched: Some(unmatched),
            change: Some(-0.2),
            base_span: Some(7000.0),
            span: Some(7000.0),
        };
        let say = |share: WorkShare, steps: &[StepLength]| {
            headlines(std::slice::from_ref(&row), "a", words, &[share], steps)[0].sentence.clone()
        };
        assert_eq!(
            say(share(-0.15, -0.1, 0.0), &[]),
            "b does less work than a: -20.0 % time (95 % CI -30.0 % to -10.0 %), 5 → 4 µs. By parts: -15.0 % by fewer calls, \
             -10.0 % by smaller shapes, +5.0 % by slower work. Both last 7 µs."
        );
        let faster = "b is faster than a: -20.0 % time (95 % CI -30.0 % to -10.0 %), 5 → 4 µs.";
        assert_eq!(
            say(share(0.1, 0.0, 0.02), &[]),
            format!(
                "{faster} By parts: +10.0 % by more calls, -32.0 % by faster work, +2.0 % by kernels without a \
                 counterpart."
            )
        );
        let steps = StepLength {
            capture: "b".into(),
            base_ns: Some(8000.0),
            ns: Some(6000.0),
            base_busy: Some(0.625),
            busy: Some(0.5),
            change_low: Some(-2500.0),
            change_high: Some(-1500.0),
        };
        let same = share(0.0, 0.0, 0.0);
        assert_eq!(
            say(same.clone(), std::slice::from_ref(&steps)),
            format!("{faster} A step lasts 8 µs → 6 µs (-25.0 %), GPU busy 62.5 % → 50.0 %.")
        );
        let noise = StepLength { change_high: Some(1.0), ..steps };
        assert!(say(same, &[noise]).contains("6 µs (within noise)"));
    }

    #[test]
    fn jobs_of_unequal_amount_are_larger_or_smaller() {
        let fact = |name: &str, base_value: &str, value: &str| CaptureFact {
            name: name.into(),
            base_value: base_value.into(),
            capture: "b".into(),
            value: value.into(),
            verdict: "normalized".into(),
            meaning: None,
        };
        let share = |calls: f64, speed: f64| WorkShare {
            capture: "b".into(),
            calls: Some(calls),
            size: None,
            speed: Some(speed),
            unmatched: None,
            change: Some(calls + speed),
            base_span: None,
            span: None,
        };
        let say = |value: f64, share: WorkShare, amounts: &[CaptureFact]| {
            let words = MetricWords {
                metric: DiffMetric::Time,
                title: "time",
                unit: DiffUnit::Time,
                per: "",
                is_estimated: false,
                amounts,
            };
            let verdict = if value > 1000.0 { "more" } else { "less" };
            let row = CompareRow { ratio_low: None, ..row(1000.0, value, verdict) };
            headlines(&[row], "a", words, &[share], &[])[0].sentence.clone()
        };
        let steps = fact("steps", "10", "20");
        assert_eq!(
            say(2600.0, share(1.0, 0.6), std::slice::from_ref(&steps)),
            "b is a larger job than a (20 steps instead of 10): +160.0 % time, 1 → 2.60 µs. By parts: +100.0 % by more \
             calls, +60.0 % by slower work."
        );
        let both = [steps, fact("ranks", "8", "1")];
        assert_eq!(
            say(250.0, share(-0.75, 0.0), &both),
            "b is a smaller job than a (1 rank instead of 8, 20 steps instead of 10): -75.0 % time, 1 µs → 250 ns. By \
             parts: -75.0 % by fewer calls. `--per step` compares a step of each."
        );
        // Fewer ranks, and nevertheless more work.
        assert!(say(2000.0, share(1.0, 0.0), &both).starts_with("b does more work than a (1 rank"));
        assert!(say(800.0, share(1.0, -1.2), &both).starts_with("b is faster than a (1 rank"));
        // A program without steps has no number of them.
        let unknown = [fact("steps", "0", "20"), fact("ranks", "1", "1")];
        assert!(say(2000.0, share(1.0, 0.0), &unknown).starts_with("b does more work than a: +100.0 %"));
    }

    #[test]
    fn a_sentence_has_direction_change_interval_and_values() {
        let words = MetricWords {
            metric: DiffMetric::Time,
            title: "time",
            unit: DiffUnit::Time,
            per: " a step",
            is_estimated: true,
            amounts: &[],
        };
        let say = |row: &CompareRow, words| sentence(row, "a", words);
        let slower =
            "b is slower than a: +25.0 % time (95 % CI +15.0 % to +35.0 %), 4 → 5 µs a step, estimated.";
        assert_eq!(say(&row(4000.0, 5000.0, "more"), words), slower);
        let noise =
            "b is as fast as a within noise: +1.0 % time (95 % CI -9.0 % to +11.0 %), 1 → 1.01 ms a step.";
        let measured = MetricWords { is_estimated: false, ..words };
        assert_eq!(say(&row(1e6, 1.01e6, "~"), measured), noise);
        assert_eq!(say(&row(1e6, 1e6, "~"), measured), "b takes as long as a: 1 ms a step.");
        let launches = MetricWords {
            metric: DiffMetric::Launches,
            title: "launches",
            unit: DiffUnit::Number,
            per: "",
            ..measured
        };
        let exact = CompareRow { ratio_low: Some(1.5), ratio_high: Some(1.5), ..row(2.0, 3.0, "more") };
        assert_eq!(say(&exact, launches), "b has more launches than a: +50.0 %, 2 → 3.");
        let new = "b has more launches than a: from nothing, 0 → 3.";
        assert_eq!(say(&row(0.0, 3.0, "more"), launches), new);
    }
}
