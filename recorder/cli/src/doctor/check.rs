//! One check of a machine: its result with the parts of a recording that need it.

use serde_json::{Value, json};

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckedSide {
    /// Memory accesses.
    Accesses,
    /// Stall samples.
    Samples,
    /// Hardware counters, in replays.
    Counters,
    /// Python stacks, ops and tensors.
    Python,
}

/// Needed by both runs of a recording, and by replays.
pub(crate) const ALL: &[CheckedSide] = &[CheckedSide::Accesses, CheckedSide::Samples, CheckedSide::Counters];
/// Needed by both runs of a recording.
pub(crate) const BOTH: &[CheckedSide] = &[CheckedSide::Accesses, CheckedSide::Samples];
/// Needed by the run that records accesses.
pub(crate) const ACCESSES: &[CheckedSide] = &[CheckedSide::Accesses];
/// Needed by the run that takes samples.
pub(crate) const SAMPLES: &[CheckedSide] = &[CheckedSide::Samples];
/// Needed where the hardware measures.
pub(crate) const MEASURES: &[CheckedSide] = &[CheckedSide::Samples, CheckedSide::Counters];
/// Needed for hardware counters.
pub(crate) const COUNTERS: &[CheckedSide] = &[CheckedSide::Counters];
/// Needed for Python stacks, ops and tensors.
pub(crate) const PYTHON: &[CheckedSide] = &[CheckedSide::Python];

/// A check's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckState {
    /// The check passed.
    Ok,
    /// Not there.
    Missing,
    /// There, but not as it should be.
    Problem,
    /// Could not be found out. Recording may work.
    Unknown,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoctorCheck {
    /// Name of the thing that is checked.
    pub name: &'static str,
    /// The result.
    pub state: CheckState,
    /// The finding.
    pub detail: String,
    /// An action, where something is wrong.
    pub hint: Option<String>,
    needed_by: &'static [CheckedSide],
}

impl CheckedSide {
    /// Every side, in the order of reports.
    pub(crate) const ALL: [Self; 4] = [Self::Accesses, Self::Samples, Self::Counters, Self::Python];

    /// Its name in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Accesses => "accesses",
            Self::Samples => "samples",
            Self::Counters => "counters",
            Self::Python => "python",
        }
    }
}

impl CheckState {
    /// Its name in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Missing => "missing",
            Self::Problem => "problem",
            Self::Unknown => "unknown",
        }
    }
}

impl DoctorCheck {
    /// All is well.
    pub(crate) fn ok(
        name: &'static str,
        needed_by: &'static [CheckedSide],
        detail: impl Into<String>,
    ) -> Self {
        Self { name, state: CheckState::Ok, detail: detail.into(), hint: None, needed_by }
    }

    /// The result for something missing.
    pub(crate) fn missing(
        name: &'static str,
        needed_by: &'static [CheckedSide],
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { state: CheckState::Missing, hint: Some(hint.into()), ..Self::ok(name, needed_by, detail) }
    }

    /// The result for something unusable.
    pub(crate) fn problem(
        name: &'static str,
        needed_by: &'static [CheckedSide],
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { state: CheckState::Problem, ..Self::missing(name, needed_by, detail, hint) }
    }

    /// The result is not known.
    pub(crate) fn unknown(
        name: &'static str,
        needed_by: &'static [CheckedSide],
        detail: impl Into<String>,
    ) -> Self {
        Self { state: CheckState::Unknown, ..Self::ok(name, needed_by, detail) }
    }

    /// True if `side` cannot be recorded without it.
    pub(crate) fn is_needed_by(&self, side: CheckedSide) -> bool {
        self.needed_by.contains(&side)
    }

    /// True if this check does not prevent a recording.
    pub(crate) fn allows_recording(&self) -> bool {
        matches!(self.state, CheckState::Ok | CheckState::Unknown)
    }

    /// The check for programs.
    pub(crate) fn to_json(&self) -> Value {
        let needed_by: Vec<&str> = self.needed_by.iter().map(|side| side.word()).collect();
        json!({
            "name": self.name,
            "state": self.state.word(),
            "detail": self.detail,
            "hint": self.hint,
            "needed_by": needed_by,
        })
    }
}
