//! The shown part of a forest: the costliest tensors with their bases and copies. The rest is counted.

use std::collections::BTreeSet;

use super::tree::{ForestEdge, ForestNode, RelationKind, TensorForest};

/// Copies that are followed back from the costliest tensor.
const MAX_COPIES: usize = 4;

/// Selection of tensors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorChoice {
    /// Number of tensors, costliest first.
    pub top: usize,
    /// Only the trees of tensors with this part of a name, or with this id.
    pub tensor: Option<String>,
}

/// The shown part of a forest.
#[derive(Clone, Debug, Default)]
pub struct ForestPicture {
    /// Nodes, bases before their views, roots by cost.
    pub(super) nodes: Vec<ForestNode>,
    /// Relations between them.
    pub(super) edges: Vec<ForestEdge>,
    /// True for nodes on the path to the costliest one.
    pub(super) blamed: Vec<bool>,
    /// Per node, the hidden views: tensors, and the samples of their trees.
    pub(super) hidden_views: Vec<(usize, f64)>,
    /// Tensors in hidden trees, with their samples.
    pub(super) hidden: (usize, f64),
    /// Unattributed samples, by label.
    pub(super) others: Vec<(String, f64)>,
    /// All samples taken.
    pub(super) total: f64,
    /// Samples of the costliest node.
    pub(super) most: f64,
}

impl ForestPicture {
    /// True if it shows no tensor.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

impl TensorForest {
    /// The selected part. None if no tensor matches.
    pub fn choose(&self, choice: &TensorChoice) -> Option<ForestPicture> {
        let mut visible = self.chosen(choice)?;
        self.add_bases(&mut visible);
        let blamed = self.blamed(&visible);
        visible.extend(&blamed);
        Some(self.picture(&visible, &blamed))
    }

    /// The selected tensors: the costliest, or those of the named trees.
    fn chosen(&self, choice: &TensorChoice) -> Option<BTreeSet<usize>> {
        let mut meant: Vec<usize> = match &choice.tensor {
            // Without samples, tensors are all that is known.
            None if self.nodes.iter().all(|node| node.samples <= 0.0) => (0..self.nodes.len()).collect(),
            None => (0..self.nodes.len()).filter(|&node| self.nodes[node].samples > 0.0).collect(),
            Some(name) => {
                let trees: BTreeSet<usize> = (0..self.nodes.len())
                    .filter(|&node| is_meant(&self.nodes[node], name))
                    .map(|node| self.root(node))
                    .collect();
                if trees.is_empty() {
                    return None;
                }
                (0..self.nodes.len()).filter(|&node| trees.contains(&self.root(node))).collect()
            }
        };
        let cost = |&node: &usize| self.nodes[node].samples;
        meant.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then(a.cmp(b)));
        meant.truncate(choice.top);
        Some(meant.into_iter().collect())
    }

    fn root(&self, node: usize) -> usize {
        self.bases(node).last().unwrap_or(node)
    }

    /// A node and all that it is a view of.
    fn bases(&self, node: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(node), |&node| self.nodes[node].base)
    }

    fn add_bases(&self, visible: &mut BTreeSet<usize>) {
        let bases: Vec<usize> = visible.iter().flat_map(|&node| self.bases(node)).collect();
        visible.extend(bases);
    }

    /// The path to the costliest tensor: its base, the source of that copy, and so on.
    fn blamed(&self, visible: &BTreeSet<usize>) -> BTreeSet<usize> {
        let cost = |&&node: &&usize| self.nodes[node].samples;
        let costliest = visible.iter().max_by(|a, b| cost(a).total_cmp(&cost(b)).then(b.cmp(a)));
        let mut way = BTreeSet::new();
        let mut ends: Vec<usize> = costliest.copied().into_iter().collect();
        for _ in 0..=MAX_COPIES {
            way.extend(ends.iter().flat_map(|&node| self.bases(node)));
            let copies = self.edges.iter().filter(|edge| edge.kind == RelationKind::Copy);
            ends = copies
                .filter(|edge| way.contains(&edge.target) && !way.contains(&edge.source))
                .map(|edge| edge.source)
                .collect();
        }
        way
    }

    fn picture(&self, visible: &BTreeSet<usize>, blamed: &BTreeSet<usize>) -> ForestPicture {
        let order = self.order(visible);
        let mut indexes = vec![None; self.nodes.len()];
        for (index, &node) in order.iter().enumerate() {
            indexes[node] = Some(index);
        }
        let nodes = order.iter().map(|&node| {
            let base = self.nodes[node].base.and_then(|base| indexes[base]);
            ForestNode { base, ..self.nodes[node].clone() }
        });
        let mut picture = ForestPicture {
            nodes: nodes.collect(),
            blamed: order.iter().map(|node| blamed.contains(node)).collect(),
            hidden_views: vec![(0, 0.0); order.len()],
            others: self.others.clone(),
            total: self.total(),
            most: order.iter().map(|&node| self.nodes[node].samples).fold(0.0, f64::max),
            ..ForestPicture::default()
        };
        for (index, node) in self.nodes.iter().enumerate() {
            let is_shown = indexes[index].is_some();
            if !is_shown {
                let shown = self.bases(index).find_map(|base| indexes[base]);
                let hidden = shown.map_or(&mut picture.hidden, |base| &mut picture.hidden_views[base]);
                hidden.0 += node.count;
                hidden.1 += node.samples;
            }
        }
        let shown = |edge: &ForestEdge| Some((indexes[edge.source]?, indexes[edge.target]?));
        picture.edges = self
            .edges
            .iter()
            .filter_map(|edge| {
                shown(edge).map(|(source, target)| ForestEdge { source, target, ..edge.clone() })
            })
            .collect();
        picture
    }

    /// Shown nodes: trees by cost, each base before its views, views by cost.
    fn order(&self, visible: &BTreeSet<usize>) -> Vec<usize> {
        let cost = |node: usize| self.nodes[node].tree_samples;
        let mut order = Vec::new();
        let mut waiting: Vec<usize> =
            visible.iter().copied().filter(|&node| self.nodes[node].base.is_none()).collect();
        waiting.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(b.cmp(&a)));
        while let Some(node) = waiting.pop() {
            order.push(node);
            let mut views: Vec<usize> =
                visible.iter().copied().filter(|&view| self.nodes[view].base == Some(node)).collect();
            views.sort_by(|&a, &b| cost(a).total_cmp(&cost(b)).then(b.cmp(&a)));
            waiting.extend(views);
        }
        order
    }
}

impl ForestPicture {
    /// True if an edge lies on the path to the costliest tensor.
    pub(super) fn is_blamed(&self, edge: &ForestEdge) -> bool {
        edge.kind == RelationKind::Copy
            && edge.source != edge.target
            && self.blamed[edge.source]
            && self.blamed[edge.target]
    }

    /// A part of all samples.
    pub(super) fn share(&self, samples: f64) -> f64 {
        if self.total > 0.0 { samples / self.total } else { 0.0 }
    }
}

fn is_meant(node: &ForestNode, name: &str) -> bool {
    let is_named = node.tensor.name.to_lowercase().contains(&name.to_lowercase());
    is_named || name.parse().is_ok_and(|id: u64| node.tensor_ids.contains(&id))
}
