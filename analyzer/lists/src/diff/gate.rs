//! Conditions that make the comparison fail.

use super::draw::DiffUnit;
use super::row::CompareRow;
use stallmap_console::args::gate::{ChangeCondition, ChangeLimit};

/// Rows reported for a failed condition.
pub(super) const SHOWN_ROWS: usize = 5;

/// A condition and its result.
#[derive(Clone, Debug)]
pub(super) struct JudgedCondition {
    /// The condition, or the file of statements.
    pub(super) condition: String,
    /// The rows for which it holds, the largest change first. Empty for a file.
    pub(super) rows: Vec<CompareRow>,
    /// The total that it is about, for a condition without a part.
    pub(super) total: Option<CompareRow>,
    /// Format of values.
    pub(super) unit: DiffUnit,
    /// Reason why it holds, as text. None if it does not.
    pub(super) failure: Option<String>,
}

/// Judges a condition. Rows are those of the part, or of the total.
pub(super) fn judge(gate: &ChangeCondition, rows: &[CompareRow], unit: DiffUnit) -> JudgedCondition {
    let mut failed: Vec<CompareRow> = rows.iter().filter(|row| holds(gate, row)).cloned().collect();
    failed.sort_by(|one, other| other.change.abs().total_cmp(&one.change.abs()));
    let total = rows.first().filter(|_| gate.part.is_none()).cloned();
    let failure = failure(gate, &failed, unit);
    JudgedCondition { condition: gate.text.clone(), rows: failed, total, unit, failure }
}

fn failure(gate: &ChangeCondition, failed: &[CompareRow], unit: DiffUnit) -> Option<String> {
    if failed.is_empty() {
        return None;
    }
    let mut lines = vec![format!("failed: {}", gate.text)];
    lines.extend(failed.iter().take(SHOWN_ROWS).map(|row| format!("  {}", described(row, unit))));
    if failed.len() > SHOWN_ROWS {
        lines.push(format!("  and {} more", failed.len() - SHOWN_ROWS));
    }
    Some(lines.join("\n"))
}

/// True if a row's change exceeds the limit: its estimate, or for significant changes only, its complete interval.
fn holds(gate: &ChangeCondition, row: &CompareRow) -> bool {
    let (value, limit) = match gate.limit {
        ChangeLimit::Amount(amount) => {
            let end = if gate.is_above { row.change_low } else { row.change_high };
            (if gate.is_beyond_noise { end } else { row.change }, amount)
        }
        ChangeLimit::Share(share) => {
            let end = if gate.is_above { row.ratio_low } else { row.ratio_high };
            let ratio = if gate.is_beyond_noise { end } else { row.ratio };
            // A row missing in the first capture grows beyond every share.
            let new = if row.value > 0.0 && !gate.is_beyond_noise { f64::INFINITY } else { 1.0 };
            (ratio.unwrap_or(new) - 1.0, share)
        }
    };
    let is_beyond = if gate.is_above { value > limit } else { value < limit };
    is_beyond && !(gate.is_beyond_noise && row.is_noise())
}

/// One row in words.
pub(super) fn described(row: &CompareRow, unit: DiffUnit) -> String {
    let CompareRow { capture, what, .. } = row;
    let detail = row.detail.as_ref().map(|detail| format!(" ({detail})")).unwrap_or_default();
    let (before, after) = (unit.value(row.base_value), unit.value(row.value));
    let (low, high) = (unit.change(row.change_low), unit.change(row.change_high));
    format!("{what}{detail}: {before}, {after} in {capture}: {} ({low} to {high})", unit.change(row.change))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(base_value: f64, value: f64, ratio_low: f64, verdict: &str) -> CompareRow {
        CompareRow {
            what: "total".into(),
            capture: "b".into(),
            base_value,
            value,
            change: value - base_value,
            change_low: (ratio_low - 1.0) * base_value,
            ratio: (base_value > 0.0).then(|| value / base_value),
            ratio_low: Some(ratio_low),
            ratio_high: Some(f64::INFINITY),
            verdict: Some(verdict.into()),
            ..CompareRow::default()
        }
    }

    #[track_caller]
    fn check(condition: &str, row: &CompareRow, expected: bool) {
        let gate: ChangeCondition = condition.parse().unwrap();
        assert_eq!(
            judge(&gate, std::slice::from_ref(row), DiffUnit::Number).failure.is_some(),
            expected,
            "{condition}"
        );
    }

    #[test]
    fn estimates_and_intervals_are_asked_apart() {
        let slower = row(100.0, 120.0, 1.02, "more");
        check("samples > +10%", &slower, true);
        check("samples > +10% beyond noise", &slower, false);
        check("samples > +1% beyond noise", &slower, true);
        check("samples > +20", &slower, false);
        check("samples > +19", &slower, true);
        check("samples < -1%", &slower, false);
        check("samples > +1% beyond noise", &row(100.0, 120.0, 1.02, "~"), false);
    }

    #[test]
    fn what_is_new_grows_beyond_every_share() {
        check("tensors.samples > +1000%", &row(0.0, 3.0, 0.0, "~"), true);
        check("tensors.samples > +1000% beyond noise", &row(0.0, 3.0, 0.0, "~"), false);
        check("tensors.samples > +1000% beyond noise", &row(0.0, 300.0, 60.0, "more"), true);
        check("tensors.samples > +10%", &row(0.0, 0.0, 0.0, "~"), false);
    }
}
