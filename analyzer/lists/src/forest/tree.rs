//! The forest: tensors below their bases, and relations between them.

use std::collections::{BTreeMap, BTreeSet};

use super::read::{ForestTensor, TensorRelation};

/// All tensors of a capture, and its samples.
#[derive(Clone, Debug, Default)]
pub struct TensorForest {
    /// Bases before their views.
    pub(super) nodes: Vec<ForestNode>,
    /// Relations but views.
    pub(super) edges: Vec<ForestEdge>,
    /// Unattributed samples, by label.
    pub(super) others: Vec<(String, f64)>,
}

/// A tensor, or a group of equal ones: one name, type, op, line and base, with equal views.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ForestNode {
    /// The first of them.
    pub(super) tensor: ForestTensor,
    /// Number of them.
    pub(super) count: usize,
    /// All of them.
    pub(super) tensor_ids: Vec<u64>,
    /// The node that it is a view of.
    pub(super) base: Option<usize>,
    /// Samples attributed to them.
    pub(super) samples: f64,
    /// Samples attributed to them, their views and the views of those.
    pub(super) tree_samples: f64,
    /// Estimated time of their own samples, nanoseconds.
    pub(super) time_ns: f64,
}

/// Relation between two tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RelationKind {
    /// The same elements in other memory.
    Copy,
    /// Written by an op that reads the other.
    InPlace,
    /// Created by an op that reads the other.
    Op,
}

/// A relation between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ForestEdge {
    /// The tensor that was read.
    pub(super) source: usize,
    /// The tensor that was created or written.
    pub(super) target: usize,
    /// Kind of relation.
    pub(super) kind: RelationKind,
    /// The op.
    pub(super) op: Option<String>,
    /// The line that called it.
    pub(super) line: Option<String>,
    /// Calls, over all tensors of the nodes.
    pub(super) calls: u64,
}

impl TensorForest {
    /// The forest of a capture's tensors.
    pub(super) fn from_tensors(
        tensors: &[ForestTensor],
        relations: &[TensorRelation],
        others: Vec<(String, f64)>,
        each: bool,
    ) -> Self {
        let mut forest = Self { others, ..Self::default() };
        let indexes = forest.plant(tensors, each);
        forest.relate(relations, &indexes);
        // Views come after their bases, so from the end every node is complete before it is added to its base.
        for node in (0..forest.nodes.len()).rev() {
            let samples = forest.nodes[node].tree_samples;
            if let Some(base) = forest.nodes[node].base {
                forest.nodes[base].tree_samples += samples;
            }
        }
        forest
    }

    /// Adds tensors, grouped if equal. Returns each tensor's node.
    fn plant(&mut self, tensors: &[ForestTensor], each: bool) -> BTreeMap<u64, usize> {
        let kinds = if each { (0..tensors.len()).collect() } else { kinds(tensors) };
        let (mut indexes, mut alike, mut largest) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (tensor, kind) in tensors.iter().zip(kinds) {
            let base = tensor.base_tensor_id.and_then(|base| indexes.get(&base).copied());
            let index = *alike.entry((base, kind)).or_insert_with(|| {
                self.nodes.push(ForestNode { tensor: tensor.clone(), base, ..ForestNode::default() });
                largest.push(f64::NEG_INFINITY);
                self.nodes.len() - 1
            });
            indexes.insert(tensor.id, index);
            let node = &mut self.nodes[index];
            node.count += 1;
            node.tensor_ids.push(tensor.id);
            node.samples += tensor.samples;
            node.tree_samples += tensor.samples;
            node.time_ns += tensor.time_ns.unwrap_or_default();
            if tensor.samples > largest[index] && tensor.stalled_at.is_some() {
                largest[index] = tensor.samples;
                node.tensor.stalled_at.clone_from(&tensor.stalled_at);
            }
        }
        indexes
    }

    fn relate(&mut self, relations: &[TensorRelation], indexes: &BTreeMap<u64, usize>) {
        let mut calls: BTreeMap<_, u64> = BTreeMap::new();
        for relation in relations {
            let (Some(&source), Some(&target)) =
                (indexes.get(&relation.source), indexes.get(&relation.target))
            else {
                continue;
            };
            let kind = match relation.kind.as_str() {
                "copy" => RelationKind::Copy,
                "in_place" => RelationKind::InPlace,
                _ => RelationKind::Op,
            };
            *calls.entry((source, target, kind, &relation.op, &relation.line)).or_default() += relation.calls;
        }
        self.edges = calls
            .into_iter()
            .map(|((source, target, kind, op, line), calls)| ForestEdge {
                source,
                target,
                kind,
                op: op.clone(),
                line: line.clone(),
                calls,
            })
            .collect();
    }

    /// All samples taken.
    pub(super) fn total(&self) -> f64 {
        let borne: f64 = self.nodes.iter().map(|node| node.samples).sum();
        borne + self.others.iter().map(|(_, samples)| samples).sum::<f64>()
    }
}

/// A group number for each tensor. Equal tensors with equal views share one, in any number.
fn kinds(tensors: &[ForestTensor]) -> Vec<usize> {
    let indexes: BTreeMap<u64, usize> =
        tensors.iter().enumerate().map(|(index, tensor)| (tensor.id, index)).collect();
    let mut views: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); tensors.len()];
    let mut known = BTreeMap::new();
    let mut kinds = vec![0; tensors.len()];
    // Views come after their bases.
    for (index, tensor) in tensors.iter().enumerate().rev() {
        let key = (
            &tensor.name,
            &tensor.shape,
            &tensor.op,
            &tensor.born_at,
            tensor.is_contiguous,
            std::mem::take(&mut views[index]),
        );
        let next = known.len();
        kinds[index] = *known.entry(key).or_insert(next);
        let base = tensor.base_tensor_id.and_then(|base| indexes.get(&base).copied());
        if let Some(base) = base.filter(|&base| base < index) {
            views[base].insert(kinds[index]);
        }
    }
    kinds
}
