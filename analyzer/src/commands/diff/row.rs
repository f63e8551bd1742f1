//! One row of a comparison: a thing in the first capture and in another.

/// A row of `sql/diff/compare.sql`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Row {
    /// The other capture.
    pub(super) capture: String,
    /// The thing, or in parentheses what is summed up.
    pub(super) what: String,
    /// More about it.
    pub(super) detail: Option<String>,
    /// What that was in the first capture, where it differs.
    pub(super) was: Option<String>,
    /// more, less, or ~ for what chance explains.
    pub(super) verdict: Option<String>,
    /// added, removed.
    pub(super) status: Option<String>,
    /// Its rank, the same for all captures.
    pub(super) place: f64,
    /// Things that are summed up.
    pub(super) rows: f64,
    /// Those that the first capture lacks.
    pub(super) new_rows: f64,
    /// Those that the other capture lacks.
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
    /// The quotient; none where the first is nothing.
    pub(super) ratio: Option<f64>,
    /// Lower end of its interval.
    pub(super) ratio_low: Option<f64>,
    /// Upper end of its interval.
    pub(super) ratio_high: Option<f64>,
}

impl Row {
    /// Whether chance explains the difference.
    pub(super) fn is_noise(&self) -> bool {
        self.verdict.as_deref() == Some("~")
    }
}
