//! Printed rows, each with its position in the tree.

use regex::Regex;

use super::cost::PairedCosts;
use stallmap_console::args::tree::{TreeMetric, TreeSort};

/// Selection and order of rows.
#[derive(Clone, Debug)]
pub(super) struct RowChoice<'a> {
    /// Paths through a match.
    pub(super) include: Option<&'a Regex>,
    /// Excludes matches and everything below them.
    pub(super) exclude: Option<&'a Regex>,
    /// Minimum share of the total.
    pub(super) threshold: f64,
    /// Levels.
    pub(super) depth: usize,
    /// Steps: the costliest with those above them.
    pub(super) top: usize,
    /// Metric of the threshold.
    pub(super) metric: TreeMetric,
    /// Sort key.
    pub(super) sort: TreeSort,
    /// True if two captures are compared.
    pub(super) is_diff: bool,
}

/// Reason why a row is aggregated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AggregateReason {
    /// It matches `--exclude`.
    Excluded,
    /// It does not match `--include`.
    NotIncluded,
    /// It is below `--threshold`.
    Small,
    /// It is deeper than `--depth`.
    Deep,
    /// It is beyond `--top`.
    More,
}

/// All reasons, in row order.
pub(super) const WHYS: [AggregateReason; 5] = [
    AggregateReason::Small,
    AggregateReason::NotIncluded,
    AggregateReason::Excluded,
    AggregateReason::Deep,
    AggregateReason::More,
];

/// Kind of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TreeRowKind {
    /// Everything.
    All,
    /// A step, by its number.
    Step(usize),
    /// This many hidden names.
    Hidden(AggregateReason, usize),
}

/// Link between a row and its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParentLink {
    /// The only child of its parent, directly below it.
    Chain,
    /// Not the parent's last.
    Middle,
    /// It is the parent's last.
    Last,
}

/// A row of a tree or a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TreeRow {
    /// The row of the parent.
    pub(super) parent: Option<usize>,
    /// Levels from the root.
    pub(super) depth: usize,
    /// Guides to draw before it: branchings above.
    pub(super) guides: usize,
    /// The tie to the parent.
    pub(super) link: ParentLink,
    /// Its kind.
    pub(super) what: TreeRowKind,
    /// Launches whose path ends here. Hidden rows count all launches that they hide: exclusive values add up to the
    /// total.
    pub(super) own: PairedCosts,
    /// Launches whose path passes through here.
    pub(super) total: PairedCosts,
    /// Changes of the total between two captures, by requested metric. Empty with one capture.
    pub(super) changes: Vec<SignificantChange>,
}

/// Difference of a number between two captures, and its significance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SignificantChange {
    /// more, less, or ~ if not significant.
    pub(super) verdict: Option<String>,
    /// Probability of so large a difference by random variation alone.
    pub(super) p: Option<f64>,
    /// The second in terms of the first.
    pub(super) ratio: Option<f64>,
    /// The lower end of its interval.
    pub(super) ratio_low: Option<f64>,
    /// The upper end.
    pub(super) ratio_high: Option<f64>,
    /// The variance of the first sum, if known.
    pub(super) before_variance: Option<f64>,
    /// The variance of the second sum.
    pub(super) after_variance: Option<f64>,
}

impl SignificantChange {
    /// True if not significant.
    pub(super) fn is_noise(&self) -> bool {
        self.verdict.as_deref() == Some("~")
    }
}

impl TreeRowKind {
    /// The displayed name.
    pub(super) fn name(self, steps: &[super::path::PathStep]) -> String {
        match self {
            Self::All => "all launches".to_owned(),
            Self::Step(step) => steps.get(step).map(|step| step.name.clone()).unwrap_or_default(),
            Self::Hidden(why, count) => {
                let why = match why {
                    AggregateReason::Excluded => "excluded",
                    AggregateReason::NotIncluded => "not included",
                    AggregateReason::Small => "below the threshold",
                    AggregateReason::Deep => "deeper",
                    AggregateReason::More => "more",
                };
                format!("({count} {why})")
            }
        }
    }
}
