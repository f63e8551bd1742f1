//! One check of a machine: its result with the parts of a recording that need it.

use serde_json::{Value, json};

/// A part of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
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
pub(crate) const ALL: &[Side] = &[Side::Accesses, Side::Samples, Side::Counters];
/// Needed by both runs of a recording.
pub(crate) const BOTH: &[Side] = &[Side::Accesses, Side::Samples];
/// Needed by the run that records accesses.
pub(crate) const ACCESSES: &[Side] = &[Side::Accesses];
/// Needed by the run that takes samples.
pub(crate) const SAMPLES: &[Side] = &[Side::Samples];
/// Needed where the hardware measures.
pub(crate) const MEASURES: &[Side] = &[Side::Samples, Side::Counters];
/// Needed for hardware counters.
pub(crate) const COUNTERS: &[Side] = &[Side::Counters];
/// Needed for Python stacks, ops and tensors.
pub(crate) const PYTHON: &[Side] = &[Side::Python];

/// A check's result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
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
pub(crate) struct Check {
    /// Name of the thing that is checked.
    pub name: &'static str,
    /// The result.
    pub state: State,
    /// The finding.
    pub detail: String,
    /// An action, where something is wrong.
    pub hint: Option<String>,
    needed_by: &'static [Side],
}

impl Side {
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

impl State {
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

impl Check {
    /// All is well.
    pub(crate) fn ok(name: &'static str, needed_by: &'static [Side], detail: impl Into<String>) -> Self {
        Self { name, state: State::Ok, detail: detail.into(), hint: None, needed_by }
    }

    /// The result for something missing.
    pub(crate) fn missing(
        name: &'static str,
        needed_by: &'static [Side],
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { state: State::Missing, hint: Some(hint.into()), ..Self::ok(name, needed_by, detail) }
    }

    /// The result for something unusable.
    pub(crate) fn problem(
        name: &'static str,
        needed_by: &'static [Side],
        detail: impl Into<String>,
        hint: impl Into<String>,
    ) -> Self {
        Self { state: State::Problem, ..Self::missing(name, needed_by, detail, hint) }
    }

    /// The result is not known.
    pub(crate) fn unknown(name: &'static str, needed_by: &'static [Side], detail: impl Into<String>) -> Self {
        Self { state: State::Unknown, ..Self::ok(name, needed_by, detail) }
    }

    /// True if `side` cannot be recorded without it.
    pub(crate) fn is_needed_by(&self, side: Side) -> bool {
        self.needed_by.contains(&side)
    }

    /// True if this check does not prevent a recording.
    pub(crate) fn allows_recording(&self) -> bool {
        matches!(self.state, State::Ok | State::Unknown)
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
