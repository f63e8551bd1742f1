//! Selection of nodes: the rest is aggregated next to their siblings. Children always add up to their parent.

use std::cmp::Ordering;

use super::cost::{PairedCosts, is_sum};
use super::forest::{PathForest, PathNode, ROOT};
use super::path::PathStep;
use super::row::{AggregateReason, ParentLink, RowChoice, TreeRow, TreeRowKind, WHYS};
use stallmap_console::args::tree::{TreeMetric, TreeSort};

/// One pending row.
#[derive(Clone, Debug)]
struct PendingRow {
    what: PendingContent,
    parent: Option<usize>,
    depth: usize,
    guides: usize,
    link: ParentLink,
    /// True if a node above matches the include pattern.
    is_inside: bool,
}

/// Content of a pending row.
#[derive(Clone, Debug)]
enum PendingContent {
    Node(usize),
    Hidden(AggregateReason, usize, Box<PairedCosts>),
}

/// Properties of every node, computed before printing.
struct TreePruner<'a> {
    forest: &'a PathForest,
    steps: &'a [PathStep],
    choice: &'a RowChoice<'a>,
    /// True if a step matches the include pattern.
    included: Vec<bool>,
    /// True if a step matches the exclude pattern.
    excluded: Vec<bool>,
    /// True if a node, or one below it that is not excluded, matches the include pattern.
    leads: Vec<bool>,
    /// Value for the threshold.
    weight: Vec<f64>,
    /// Value for the order.
    rank: Vec<f64>,
    /// True if a node is among the costliest, of those that nothing else hides.
    is_top: Vec<bool>,
}

/// The rows of a forest, parents before children.
pub(super) fn rows(forest: &PathForest, steps: &[PathStep], choice: &RowChoice<'_>) -> Vec<TreeRow> {
    let pruner = TreePruner::for_forest(forest, steps, choice);
    let whole = PendingContent::Node(ROOT);
    let mut tasks = vec![PendingRow {
        what: whole,
        parent: None,
        depth: 0,
        guides: 0,
        link: ParentLink::Chain,
        is_inside: false,
    }];
    let mut rows = Vec::new();
    while let Some(task) = tasks.pop() {
        let row = |what, own, total| TreeRow {
            parent: task.parent,
            depth: task.depth,
            guides: task.guides,
            link: task.link,
            what,
            own,
            total,
            changes: Vec::new(),
        };
        match task.what {
            PendingContent::Hidden(why, count, costs) => {
                rows.push(row(TreeRowKind::Hidden(why, count), *costs, *costs));
            }
            PendingContent::Node(at) => {
                let node = &forest.nodes()[at];
                let what = node.step.map_or(TreeRowKind::All, TreeRowKind::Step);
                rows.push(row(what, node.own, node.total));
                // The last one is popped first.
                tasks.extend(pruner.children(node, &task, rows.len() - 1).into_iter().rev());
            }
        }
    }
    rows
}

impl<'a> TreePruner<'a> {
    fn for_forest(forest: &'a PathForest, steps: &'a [PathStep], choice: &'a RowChoice<'a>) -> Self {
        let matching = |regex: Option<&regex::Regex>, otherwise| {
            let is_match = |step: &PathStep| regex.map_or(otherwise, |regex| regex.is_match(&step.name));
            steps.iter().map(is_match).collect::<Vec<bool>>()
        };
        let (included, excluded) = (matching(choice.include, true), matching(choice.exclude, false));
        let leads = forest.fold(
            |node| {
                (node.step.is_none_or(|step| excluded[step]), node.step.is_some_and(|step| included[step]))
            },
            |parent, &(is_excluded, leads)| parent.1 |= leads && !is_excluded,
        );
        let leads = leads.into_iter().map(|(_, leads)| leads).collect();
        let weights = |metric| {
            forest.fold(|node| node.own.weight(metric, choice.is_diff), |parent, child| *parent += child)
        };
        let rank = match choice.sort {
            TreeSort::Metric(metric) if is_sum(metric) => weights(metric),
            TreeSort::Metric(metric) => {
                forest.nodes().iter().map(|node| ratio(&node.total, metric, choice.is_diff)).collect()
            }
            TreeSort::Name => vec![0.0; forest.nodes().len()],
        };
        let weight = weights(choice.metric);
        let is_top = forest.nodes().iter().map(|_| true).collect();
        let mut pruner = Self { forest, steps, choice, included, excluded, leads, weight, rank, is_top };
        if choice.top < forest.nodes().len() {
            pruner.is_top = pruner.costliest();
        }
        pruner
    }

    /// Marks the costliest nodes of those that nothing else hides. A node weighs no less than those below it, and comes
    /// before them if it weighs as much.
    fn costliest(&self) -> Vec<bool> {
        let mut found = Vec::new();
        let mut tasks = vec![(ROOT, 0, false)];
        while let Some((at, depth, is_inside)) = tasks.pop() {
            let node = &self.forest.nodes()[at];
            let is_inside = is_inside || node.step.is_some_and(|step| self.included[step]);
            for &child in &node.children {
                if self.hides(child, depth + 1, is_inside).is_none() {
                    found.push((child, depth + 1));
                    tasks.push((child, depth + 1, is_inside));
                }
            }
        }
        let order = |(one, above): &(usize, usize), (other, below): &(usize, usize)| {
            self.weight[*other].total_cmp(&self.weight[*one]).then(above.cmp(below)).then(one.cmp(other))
        };
        found.sort_by(order);
        let mut is_top: Vec<bool> = self.forest.nodes().iter().map(|_| false).collect();
        found.iter().take(self.choice.top).for_each(|(node, _)| is_top[*node] = true);
        is_top
    }

    /// Rows below a node: the shown children in order, then the hidden ones by reason.
    fn children(&self, node: &PathNode, above: &PendingRow, row: usize) -> Vec<PendingRow> {
        let is_inside = above.is_inside || node.step.is_some_and(|step| self.included[step]);
        let mut shown = Vec::new();
        let mut hidden = WHYS.map(|why| (why, 0, PairedCosts::default()));
        for &child in &node.children {
            match self.hides(child, above.depth + 1, is_inside) {
                None => shown.push(child),
                Some(wanted) => {
                    for (_, count, costs) in hidden.iter_mut().filter(|(why, ..)| *why == wanted) {
                        *count += 1;
                        costs.add(&self.forest.nodes()[child].total);
                    }
                }
            }
        }
        shown.sort_by(|&a, &b| self.order(a, b));
        let hidden = hidden.into_iter().filter(|(_, count, _)| *count > 0);
        let hidden = hidden.map(|(why, count, costs)| PendingContent::Hidden(why, count, Box::new(costs)));
        let below: Vec<PendingContent> = shown.into_iter().map(PendingContent::Node).chain(hidden).collect();
        let (last, is_chain) = (below.len().saturating_sub(1), below.len() == 1 && node.own.is_empty());
        let guides = above.guides + usize::from(above.link != ParentLink::Chain);
        let task = |(index, what)| PendingRow {
            what,
            parent: Some(row),
            depth: above.depth + 1,
            guides,
            link: match index {
                _ if is_chain => ParentLink::Chain,
                index if index == last => ParentLink::Last,
                _ => ParentLink::Middle,
            },
            is_inside,
        };
        below.into_iter().enumerate().map(task).collect()
    }

    /// Reason to hide a node, if any.
    fn hides(&self, node: usize, depth: usize, is_inside: bool) -> Option<AggregateReason> {
        let step = self.forest.nodes()[node].step?;
        if self.excluded[step] {
            Some(AggregateReason::Excluded)
        } else if !is_inside && !self.leads[node] {
            Some(AggregateReason::NotIncluded)
        } else if depth > self.choice.depth {
            Some(AggregateReason::Deep)
        } else if self.weight[node] < self.choice.threshold * self.whole() {
            Some(AggregateReason::Small)
        } else {
            (!self.is_top[node]).then_some(AggregateReason::More)
        }
    }

    /// Total for shares: in a comparison, the larger of both totals.
    fn whole(&self) -> f64 {
        let total = &self.forest.nodes()[ROOT].total;
        total.before.sum(self.choice.metric).max(total.after.sum(self.choice.metric))
    }

    fn order(&self, a: usize, b: usize) -> Ordering {
        let name = |node: usize| {
            let step = self.forest.nodes()[node].step.and_then(|step| self.steps.get(step));
            step.map(|step| step.name.as_str())
        };
        self.rank[b].total_cmp(&self.rank[a]).then_with(|| name(a).cmp(&name(b))).then(a.cmp(&b))
    }
}

/// A ratio to sort by. None comes last.
pub(super) fn ratio(costs: &PairedCosts, metric: TreeMetric, is_diff: bool) -> f64 {
    let value = if is_diff { costs.change(metric).map(f64::abs) } else { costs.after.value(metric) };
    value.unwrap_or(f64::NEG_INFINITY)
}
