//! Paths with equal beginnings, merged: nodes with the cost of launches that end there, and of all that pass through.

use std::collections::HashMap;

use super::cost::PairedCosts;
use super::path::LaunchPaths;

/// The node of everything.
pub(super) const ROOT: usize = 0;

/// A node where paths meet.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathNode {
    /// The step that leads here. None for the root.
    pub(super) step: Option<usize>,
    /// The node before. The root is its own parent.
    pub(super) parent: usize,
    /// The nodes after.
    pub(super) children: Vec<usize>,
    /// Launches whose path ends here.
    pub(super) own: PairedCosts,
    /// Launches whose path passes through here.
    pub(super) total: PairedCosts,
}

/// All nodes. Children come after their parents.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PathForest(Vec<PathNode>);

impl PathForest {
    /// The forest of paths, from their first step or from their last.
    pub(super) fn from_paths(paths: &LaunchPaths, is_bottom_up: bool) -> Self {
        let root = PathNode {
            step: None,
            parent: ROOT,
            children: vec![],
            own: PairedCosts::default(),
            total: PairedCosts::default(),
        };
        let mut forest = Self(vec![root]);
        let mut known = HashMap::new();
        for path in &paths.paths {
            let mut at = ROOT;
            for index in 0..path.steps.len() {
                let index = if is_bottom_up { path.steps.len() - 1 - index } else { index };
                let step = path.steps[index];
                at = *known.entry((at, step)).or_insert_with(|| forest.grow(at, step));
            }
            forest.0[at].own.add(&path.cost);
        }
        forest.sum_up();
        forest
    }

    /// The nodes. Children come after their parents.
    pub(super) fn nodes(&self) -> &[PathNode] {
        &self.0
    }

    /// A number for each node, from its exclusive value and its children's numbers.
    pub(super) fn fold<T>(&self, own: impl Fn(&PathNode) -> T, join: impl Fn(&mut T, &T)) -> Vec<T> {
        let mut found: Vec<T> = self.0.iter().map(own).collect();
        for at in (ROOT + 1..found.len()).rev() {
            let (before, from) = found.split_at_mut(at);
            join(&mut before[self.0[at].parent], &from[0]);
        }
        found
    }

    fn grow(&mut self, parent: usize, step: usize) -> usize {
        let at = self.0.len();
        let (own, total) = (PairedCosts::default(), PairedCosts::default());
        self.0.push(PathNode { step: Some(step), parent, children: vec![], own, total });
        self.0[parent].children.push(at);
        at
    }

    fn sum_up(&mut self) {
        let totals = self.fold(|node| node.own, PairedCosts::add);
        for (node, total) in self.0.iter_mut().zip(totals) {
            node.total = total;
        }
    }
}
