//! The first lines of a comparison: how much faster or slower, how sure that is, and the rows that changed.

use stallmap_console::args::diff::DiffMetric;
use stallmap_console::output::number;
use stallmap_console::rows;

use super::draw::DiffUnit;
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
    /// The change by other numbers of launches of the same kernels, as part of the first capture's time.
    pub(super) work: Option<f64> as "work_share",
    /// The complete change.
    pub(super) change: Option<f64> as "change_share",
    /// The time from the first to the last work in the first capture, nanoseconds.
    pub(super) base_span: Option<f64>,
    /// The same in the other.
    pub(super) span: Option<f64>,
}
}

impl WorkShare {
    /// The part of the change that is work and that which is not, if most of it is work.
    fn parts(&self) -> Option<(f64, f64)> {
        let (work, change) = (self.work?, self.change?);
        let rest = change - work;
        (work * change > 0.0 && work.abs() > rest.abs()).then_some((work, rest))
    }
}

/// The change of one total.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TotalChange {
    /// The sentence.
    pub(super) sentence: String,
    /// The total.
    pub(super) row: CompareRow,
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
}

/// One sentence for each capture, from the rows of the total.
pub(super) fn headlines(
    rows: &[CompareRow],
    base: &str,
    words: MetricWords<'_>,
    shares: &[WorkShare],
) -> Vec<TotalChange> {
    let headline = |row: &CompareRow| {
        let work = shares.iter().find(|work| work.capture == row.capture);
        let amount = work.filter(|_| !row.is_noise()).and_then(|work| of_work(row, base, words, work));
        TotalChange { sentence: amount.unwrap_or_else(|| sentence(row, base, words)), row: row.clone() }
    };
    rows.iter().map(headline).collect()
}

/// The sentence about a capture that does more or less of the same work: this is neither faster nor slower. None if
/// something else is most of the change.
fn of_work(row: &CompareRow, base: &str, words: MetricWords<'_>, work: &WorkShare) -> Option<String> {
    let (amount, rest) = work.parts()?;
    let verdict = if amount > 0.0 { "more" } else { "less" };
    let change = row.ratio.map(number::ratio)?;
    let signed = |share: f64| number::ratio(1.0 + share);
    let span = work.base_span.zip(work.span).map(|(before, after)| {
        let (before, after) = (words.unit.value(before), words.unit.value(after));
        if before == after {
            format!(" Both last {before}.")
        } else {
            format!(" They last {before} and {after}.")
        }
    });
    Some(format!(
        "{} does {verdict} work than {base}: {change} time{}, {}{}: {} by launches of the same kernels, {} by the rest.{}",
        row.capture,
        bracketed(row),
        range(row, words.unit),
        words.per,
        signed(amount),
        signed(rest),
        span.unwrap_or_default()
    ))
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
        };
        let row = row(5000.0, 4000.0, "less");
        let share = |work: f64| WorkShare {
            capture: "b".into(),
            work: Some(work),
            change: Some(-0.2),
            base_span: Some(7000.0),
            span: Some(7000.0),
        };
        let sentence =
            |work: f64| headlines(std::slice::from_ref(&row), "a", words, &[share(work)])[0].sentence.clone();
        assert_eq!(
            sentence(-0.25),
            "b does less work than a: -20.0 % time (95 % CI -30.0 % to -10.0 %), 5 → 4 µs: -25.0 % by launches of the \
             same kernels, +5.0 % by the rest. Both last 7 µs."
        );
        assert!(sentence(-0.05).starts_with("b is faster than a"), "{}", sentence(-0.05));
        assert!(sentence(0.1).starts_with("b is faster than a"), "{}", sentence(0.1));
    }

    #[test]
    fn a_sentence_has_direction_change_interval_and_values() {
        let words = MetricWords {
            metric: DiffMetric::Time,
            title: "time",
            unit: DiffUnit::Time,
            per: " a step",
            is_estimated: true,
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
