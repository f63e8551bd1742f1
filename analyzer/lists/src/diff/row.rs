//! One row of a comparison: the first capture and another.

use stallmap_console::rows;

rows! {
/// A row of `sql/queries/diff/compare.sql`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CompareRow {
    /// The other capture.
    pub(super) capture: String,
    /// The row, or the label of aggregated rows.
    pub(super) what: String,
    /// More about it.
    pub(super) detail: Option<String>,
    /// Its name in the first capture, if different.
    pub(super) was: Option<String>,
    /// more, less, or ~ if not significant.
    pub(super) verdict: Option<String>,
    /// added, removed.
    pub(super) status: Option<String>,
    /// Its rank, the same for all captures.
    pub(super) place: f64,
    /// Aggregated rows.
    pub(super) rows: f64,
    /// Rows that the first capture lacks.
    pub(super) new_rows: f64,
    /// Rows that the other capture lacks.
    pub(super) gone_rows: f64,
    /// Launches in the first capture.
    pub(super) base_launches: f64,
    /// Launches in the other capture.
    pub(super) launches: f64,
    /// The metric in the first capture.
    pub(super) base_value: f64,
    /// The metric in the other.
    pub(super) value: f64,
    /// The difference.
    pub(super) change: f64,
    /// Lower end of its interval.
    pub(super) change_low: f64,
    /// Upper end of its interval.
    pub(super) change_high: f64,
    /// The ratio. None if the first value is zero.
    pub(super) ratio: Option<f64>,
    /// Lower end of its interval.
    pub(super) ratio_low: Option<f64>,
    /// Upper end of its interval.
    pub(super) ratio_high: Option<f64>,
}
}

impl CompareRow {
    /// True if the difference is not significant.
    pub(super) fn is_noise(&self) -> bool {
        self.verdict.as_deref() == Some("~")
    }
}
