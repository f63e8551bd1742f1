//! What is printed: one row after another, each with its place in the tree.

use regex::Regex;

use super::cost::Costs;
use stallmap_console::args::tree::{Metric, TreeSort};

/// What is shown, and in which order.
#[derive(Clone, Debug)]
pub(super) struct Choice<'a> {
    /// Paths through a match.
    pub(super) include: Option<&'a Regex>,
    /// Nothing at a match, and below it.
    pub(super) exclude: Option<&'a Regex>,
    /// What has at least this share of the whole.
    pub(super) threshold: f64,
    /// Levels.
    pub(super) depth: usize,
    /// What the threshold is a share of.
    pub(super) metric: Metric,
    /// What comes first.
    pub(super) sort: TreeSort,
    /// Whether two captures are compared.
    pub(super) is_diff: bool,
}

/// Why something is summed up rather than shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// It matches `--exclude`.
    Excluded,
    /// It does not match `--include`.
    NotIncluded,
    /// It is below `--threshold`.
    Small,
    /// It is deeper than `--depth`.
    Deep,
}

/// All reasons, in the order in which their rows come.
pub(super) const WHYS: [Why; 4] = [Why::Small, Why::NotIncluded, Why::Excluded, Why::Deep];

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Everything.
    All,
    /// A step, by its number.
    Step(usize),
    /// This many names that are not shown.
    Hidden(Why, usize),
}

/// How a row is tied to its parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It is all that its parent has, and stands right below it.
    Chain,
    /// Others of the parent follow.
    Middle,
    /// It is the parent's last.
    Last,
}

/// A row of a tree or a list.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    /// The row of the parent.
    pub(super) parent: Option<usize>,
    /// Levels from the whole.
    pub(super) depth: usize,
    /// Guides to draw before it: branchings above.
    pub(super) guides: usize,
    /// The tie to the parent.
    pub(super) link: Link,
    /// What it is.
    pub(super) what: What,
    /// Launches whose path ends here. Hidden rows own all that they hide, so that what rows own adds up to the whole.
    pub(super) own: Costs,
    /// Launches whose path comes through here.
    pub(super) total: Costs,
    /// How the total differs between two captures, by each metric asked for; nothing where there is one capture.
    pub(super) changes: Vec<Change>,
}

/// How a number differs between two captures, and whether by more than chance.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Change {
    /// more, less, or ~ where chance explains it.
    pub(super) verdict: Option<String>,
    /// How often chance alone makes so large a difference.
    pub(super) p: Option<f64>,
    /// The second in terms of the first.
    pub(super) ratio: Option<f64>,
    /// The lower end of its interval.
    pub(super) ratio_low: Option<f64>,
    /// The upper end.
    pub(super) ratio_high: Option<f64>,
    /// The variance of the first's sum, as far as it is known.
    pub(super) before_variance: Option<f64>,
    /// Of the second's.
    pub(super) after_variance: Option<f64>,
}

impl Change {
    /// Whether chance explains it.
    pub(super) fn is_noise(&self) -> bool {
        self.verdict.as_deref() == Some("~")
    }
}

impl What {
    /// The name for people.
    pub(super) fn name(self, steps: &[super::path::Step]) -> String {
        match self {
            Self::All => "all launches".to_owned(),
            Self::Step(step) => steps.get(step).map(|step| step.name.clone()).unwrap_or_default(),
            Self::Hidden(why, count) => {
                let why = match why {
                    Why::Excluded => "excluded",
                    Why::NotIncluded => "not included",
                    Why::Small => "below the threshold",
                    Why::Deep => "deeper",
                };
                format!("({count} {why})")
            }
        }
    }
}
