//! Gates: captures judged by the history of others.

use std::collections::BTreeMap;

use stallmap::session::Session;
use stallmap_console::answer::fresh_rows;
use stallmap_console::args::diff::{DiffMetric, DiffPart};
use stallmap_console::args::gate::{ChangeCondition, ChangeLimit};
use stallmap_console::args::label::LabelCondition;
use stallmap_console::args::trend::{TrendArgs, TrendMetric, TrendSubject};
use stallmap_console::exit::{CommandFailure, NOT_COMPARABLE, Outcome, USAGE};
use stallmap_console::output::number::{counted, ratio};
use stallmap_console::row::QueryRow as _;
use stallmap_console::rows;

use crate::trend::costs::title_of_none;
use crate::trend::history::{CaptureHistory, HistoryChange, MIN_CAPTURES};
use crate::trend::series::shown;

/// Rows of a failed condition that are named.
const SHOWN_ROWS: usize = 5;

rows! {
    /// A value of a thing in a capture.
    #[derive(Clone, Debug)]
    struct HistoryPoint {
        name: String,
        series: String,
        origin: String,
        capture: String,
        value: f64,
        is_head: bool,
        is_base: bool,
    }
}

/// A thing that is judged: its series, and the model, program, rank and GPU that it is of.
type JudgedThing = (String, String);

/// The judgement of a condition.
pub(crate) struct GateJudgement {
    /// The numbers in one line.
    pub(crate) summary: String,
    /// Reason why the condition holds. None if it does not.
    pub(crate) failure: Option<String>,
}

/// Judges a condition.
pub(crate) async fn judge(
    session: &Session,
    args: &TrendArgs,
    gate: &ChangeCondition,
) -> Outcome<GateJudgement> {
    let (subject, metric) = (subject(gate)?, metric(gate)?);
    let sql = statement(args, subject, metric);
    let points = HistoryPoint::read("history", &fresh_rows(session, &sql).await?)?;
    let judged = histories(points, args.head.is_empty(), args.baseline.is_empty());
    let heads: usize = judged.values().map(|(_, history)| history.head.len()).max().unwrap_or(0);
    let bases: usize = judged.values().map(|(_, history)| history.base.len()).max().unwrap_or(0);
    if heads == 0 || bases == 0 || gate.is_beyond_noise && bases < MIN_CAPTURES {
        let (heads, bases) =
            (counted(heads as u64, "capture", "captures"), counted(bases as u64, "capture", "captures"));
        let what = format!("`{}` cannot be checked: {heads} to judge, {bases} to compare with", gate.text);
        return Err(CommandFailure::message(NOT_COMPARABLE, what).hint(format!(
            "name labels with --head and --baseline. Noise takes {MIN_CAPTURES} captures or more"
        )));
    }
    if let Some(what) = lacking(&judged, metric) {
        let what = format!("`{}` cannot be checked: {what} {}", gate.text, title_of_none(metric));
        return Err(CommandFailure::message(NOT_COMPARABLE, what)
            .hint("`time` and `launches` are known without samples".to_owned()));
    }
    let changes = judged.into_values().filter(|(_, history)| !history.head.is_empty());
    let mut failed: Vec<(String, HistoryChange)> = Vec::new();
    let mut summary = String::new();
    for (name, history) in changes {
        let change = history.change();
        let text = format!(
            "{name}: {} in {}, {} in {}: {}",
            shown(metric, change.base),
            counted(history.base.len() as u64, "capture", "captures"),
            shown(metric, change.head),
            counted(history.head.len() as u64, "capture", "captures"),
            described(&change)
        );
        if subject == TrendSubject::Total {
            summary.clone_from(&text);
        }
        if holds(gate, &change) {
            failed.push((text, change));
        }
    }
    failed.sort_by(|(_, one), (_, other)| {
        (other.head - other.base).abs().total_cmp(&(one.head - one.base).abs())
    });
    let failure = (!failed.is_empty()).then(|| {
        let mut lines = vec![format!("failed: {}", gate.text)];
        lines.extend(failed.iter().take(SHOWN_ROWS).map(|(text, _)| format!("  {text}")));
        lines
            .extend((failed.len() > SHOWN_ROWS).then(|| format!("  and {} more", failed.len() - SHOWN_ROWS)));
        lines.join("\n")
    });
    Ok(GateJudgement { summary, failure })
}

/// The captures that have nothing of a number at all, in words. Only samples are missing where one side has none: stalls may
/// be gone.
fn lacking(
    judged: &BTreeMap<JudgedThing, (String, CaptureHistory)>,
    metric: TrendMetric,
) -> Option<&'static str> {
    let has = |values: fn(&CaptureHistory) -> &[f64]| {
        judged.values().any(|(_, history)| values(history).iter().any(|value| *value > 0.0))
    };
    match (has(|history| &history.head), has(|history| &history.base)) {
        (true, true) => None,
        (true, false) | (false, true) if metric != TrendMetric::Samples => None,
        (false, true) => Some("the head has no"),
        (true, false) => Some("the baseline has no"),
        (false, false) => Some("the captures have no"),
    }
}

/// The change of a mean in percent, with its interval where the noise is known.
fn described(change: &HistoryChange) -> String {
    if change.base <= 0.0 {
        return "new".to_owned();
    }
    let part = |by: f64| ratio((change.base + by) / change.base);
    let middle = part(change.head - change.base);
    if change.low.is_finite() {
        format!("{middle} ({} to {})", part(change.low), part(change.high))
    } else {
        middle
    }
}

/// True if a change exceeds the limit of a condition: its estimate, or its complete interval.
fn holds(gate: &ChangeCondition, change: &HistoryChange) -> bool {
    let end = if gate.is_above { change.low } else { change.high };
    let by = if gate.is_beyond_noise { end } else { change.head - change.base };
    let (value, limit) = match gate.limit {
        ChangeLimit::Amount(amount) => (by, amount),
        ChangeLimit::Share(share) if change.base > 0.0 => (by / change.base, share),
        // What no capture of the baseline has grows beyond every share.
        ChangeLimit::Share(share) => (if by > 0.0 { f64::INFINITY } else { 0.0 }, share),
    };
    let is_beyond = if gate.is_above { value > limit } else { value < limit };
    is_beyond && !(gate.is_beyond_noise && change.is_noise())
}

/// The values of each thing, from points in the order of time. Without labels for the head, it is the newest capture. The
/// baseline is older than every head, unless its labels choose newer captures only.
fn histories(
    points: Vec<HistoryPoint>,
    is_newest: bool,
    is_any_base: bool,
) -> BTreeMap<JudgedThing, (String, CaptureHistory)> {
    let newest = points.last().map(|point| point.capture.clone());
    let is_head = |point: &HistoryPoint| {
        if is_newest { newest.as_ref() == Some(&point.capture) } else { point.is_head }
    };
    let first_head = points.iter().position(is_head).unwrap_or(points.len());
    let is_older = is_any_base || points[..first_head].iter().any(|point| point.is_base);
    let mut all: BTreeMap<JudgedThing, (String, CaptureHistory)> = BTreeMap::new();
    for (at, point) in points.into_iter().enumerate() {
        let is_head = is_head(&point);
        let (name, history) = all.entry((point.series, point.origin)).or_default();
        if is_head {
            history.head.push(point.value);
            *name = point.name;
        } else if point.is_base && (at < first_head || !is_older) {
            history.base.push(point.value);
        }
    }
    all
}

/// All values of a subject, in the order of time.
fn statement(args: &TrendArgs, subject: TrendSubject, metric: TrendMetric) -> String {
    let value = match metric {
        TrendMetric::Time => "time_ns",
        TrendMetric::Samples => "samples",
        TrendMetric::Memory => "memory_samples",
        TrendMetric::Launches => "CAST(launch_count AS DOUBLE)",
    };
    format!(
        "SELECT name, series, concat_ws(', ', model, program, CAST(rank AS VARCHAR), gpu) AS origin, capture, {value} AS value, \
         coalesce({}, false) AS is_head, coalesce({}, false) AS is_base \
         FROM trend_point WHERE kind = '{}' AND {value} IS NOT NULL ORDER BY time, capture, series",
        LabelCondition::all_sql(&args.head),
        LabelCondition::all_sql(&args.baseline),
        subject.kind()
    )
}

fn subject(gate: &ChangeCondition) -> Outcome<TrendSubject> {
    Ok(match gate.part {
        None => TrendSubject::Total,
        Some(DiffPart::Tensors) => TrendSubject::Tensors,
        Some(DiffPart::Roles) => TrendSubject::Roles,
        Some(DiffPart::Lines) => TrendSubject::Lines,
        Some(DiffPart::Ops) => TrendSubject::Ops,
        Some(DiffPart::Kernels) => TrendSubject::Kernels,
        Some(DiffPart::Aligned | DiffPart::Instructions) => {
            return Err(unknown(gate, "aligned work and instructions are compared by `stallmap diff`"));
        }
    })
}

fn metric(gate: &ChangeCondition) -> Outcome<TrendMetric> {
    Ok(match gate.metric {
        DiffMetric::Time => TrendMetric::Time,
        DiffMetric::Samples => TrendMetric::Samples,
        DiffMetric::Memory => TrendMetric::Memory,
        DiffMetric::Launches => TrendMetric::Launches,
        DiffMetric::Sectors | DiffMetric::Bytes => {
            return Err(unknown(gate, "sectors and bytes are compared by `stallmap diff`"));
        }
    })
}

fn unknown(gate: &ChangeCondition, hint: &str) -> CommandFailure {
    CommandFailure::message(USAGE, format!("`{}` has no history", gate.text)).hint(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(condition: &str, base: &[f64], head: f64, expected: bool) {
        let gate: ChangeCondition = condition.parse().unwrap();
        let change = CaptureHistory { base: base.to_vec(), head: vec![head] }.change();
        assert_eq!(holds(&gate, &change), expected, "{condition}: {change:?}");
    }

    #[test]
    fn noise_is_that_of_the_baseline() {
        let calm = [100.0, 100.2, 99.8, 100.1, 99.9];
        check("time > +5%", &calm, 110.0, true);
        check("time > +5% beyond noise", &calm, 110.0, true);
        check("time > +9.9% beyond noise", &calm, 110.0, false);
        let wild = [100.0, 120.0, 80.0, 110.0, 90.0];
        check("time > +5%", &wild, 110.0, true);
        check("time > +5% beyond noise", &wild, 110.0, false);
        check("time < -5% beyond noise", &calm, 90.0, true);
        check("time > +2us", &calm, 3000.0, true);
        check("lines.samples > +1000%", &[], 3.0, true);
    }

    /// Captures with one value each, in the order of time. `h` marks the head, `b` the baseline.
    #[track_caller]
    fn check_history(marks: &[(&str, f64)], [is_newest, is_any_base]: [bool; 2], base: &[f64], head: &[f64]) {
        let point = |(at, (mark, value)): (usize, &(&str, f64))| HistoryPoint {
            name: "gemm".to_owned(),
            series: "7".to_owned(),
            origin: String::new(),
            capture: at.to_string(),
            value: *value,
            is_head: mark.contains('h'),
            is_base: mark.contains('b'),
        };
        let all = histories(marks.iter().enumerate().map(point).collect(), is_newest, is_any_base);
        let (name, history) = &all[&("7".to_owned(), String::new())];
        assert_eq!((name.as_str(), &history.base[..], &history.head[..]), ("gemm", base, head), "{marks:?}");
    }

    #[test]
    fn captures_are_judged_by_older_ones() {
        let all = [("hb", 1.0), ("hb", 2.0), ("hb", 3.0)];
        check_history(&all, [true, true], &[1.0, 2.0], &[3.0]);
        let middle = [("b", 1.0), ("hb", 2.0), ("b", 3.0)];
        check_history(&middle, [false, true], &[1.0], &[2.0]);
        let several = [("b", 1.0), ("hb", 2.0), ("b", 3.0), ("hb", 4.0)];
        check_history(&several, [false, false], &[1.0], &[2.0, 4.0]);
        // Labels may choose newer captures only.
        check_history(&[("h", 1.0), ("b", 2.0)], [false, false], &[2.0], &[1.0]);
        check_history(&[("h", 1.0), ("b", 2.0)], [false, true], &[], &[1.0]);
    }

    #[test]
    fn captures_without_samples_are_not_judged_by_them() {
        let judged = |base: f64, head: f64| {
            let history = CaptureHistory { base: vec![base, base], head: vec![head] };
            BTreeMap::from([(("total".to_owned(), String::new()), ("all launches".to_owned(), history))])
        };
        assert_eq!(lacking(&judged(0.0, 0.0), TrendMetric::Samples), Some("the captures have no"));
        assert_eq!(lacking(&judged(0.0, 3.0), TrendMetric::Samples), Some("the baseline has no"));
        assert_eq!(lacking(&judged(3.0, 0.0), TrendMetric::Samples), Some("the head has no"));
        assert_eq!(lacking(&judged(3.0, 1.0), TrendMetric::Samples), None);
        assert_eq!(lacking(&judged(3.0, 0.0), TrendMetric::Memory), None);
    }
}
