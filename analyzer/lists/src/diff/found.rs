//! Results of a comparison.

use stallmap_console::answer::SectionAnswer;
use stallmap_console::place::LineLocation;

use super::gate::JudgedCondition;
use super::row::CompareRow;
use super::verdict::{DiffLineKernel, TotalChange};

/// Results of a comparison.
pub(super) struct ComparisonResult {
    /// Sections with their rows, the facts first.
    pub(super) answers: Vec<SectionAnswer>,
    /// The change of the total, one for each capture after the first.
    pub(super) headlines: Vec<TotalChange>,
    /// The rows that changed, if they are wanted.
    pub(super) changes: Option<PartChanges>,
    /// The conditions.
    pub(super) gates: Vec<JudgedCondition>,
}

impl ComparisonResult {
    /// The conditions that hold.
    pub(super) fn failed(&self) -> impl Iterator<Item = &JudgedCondition> {
        self.gates.iter().filter(|gate| gate.failure.is_some())
    }

    /// Lines that cost significantly more than in the first capture.
    pub(super) fn worse(&self) -> impl Iterator<Item = (&CompareRow, LineLocation<'_>)> {
        let rows = self.changes.iter().flat_map(|changes| &changes.rows);
        let worse = rows.filter(|row| !row.is_noise() && row.change > 0.0);
        worse.filter_map(|row| Some((row, LineLocation::parse(&row.what)?)))
    }
}

/// Rows of one part.
pub(super) struct PartChanges {
    /// The rows: those with a significant change, then sums.
    pub(super) rows: Vec<CompareRow>,
    /// Kernels that a row has in one capture only.
    pub(super) kernels: Vec<DiffLineKernel>,
}
