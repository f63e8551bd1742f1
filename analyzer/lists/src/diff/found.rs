//! Results of a comparison.

use stallmap_console::answer::Answer;

use super::gate::Judged;
use super::row::Row;
use super::verdict::{Headline, LineKernel};

/// Results of a comparison.
pub(super) struct Found {
    /// Sections with their rows, the facts first.
    pub(super) answers: Vec<Answer>,
    /// The change of the total, one for each capture after the first.
    pub(super) headlines: Vec<Headline>,
    /// The rows that changed, if they are wanted.
    pub(super) changes: Option<Changes>,
    /// The conditions.
    pub(super) gates: Vec<Judged>,
}

/// Rows of one part.
pub(super) struct Changes {
    /// The rows: those with a significant change, then sums.
    pub(super) rows: Vec<Row>,
    /// Kernels that a row has in one capture only.
    pub(super) kernels: Vec<LineKernel>,
}
