//! Chains of rows of one table. Views have a bound, because a drawing nests them. The ops around an op end at one.

use std::collections::BTreeMap;
use std::iter::repeat_n;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::UInt64Type;

use super::{CaptureRule, ViolationList};

use crate::table::{TableDef, TableRow as _};
use crate::tables::tensor::{Op, Tensor};

/// Most views between a tensor and the one that owns its memory. PyTorch's views name that one.
const MAX_VIEWS: u32 = 1 << 10;

/// Most ops within others whose parents are followed: 512 MiB of numbers.
const MAX_PARENTS: usize = 1 << 25;

/// A tensor, and the one that it is a view of.
const COLUMNS: [&str; 2] = ["tensor_id", "base_tensor_id"];

/// Columns of a table that [`crate::check::check_keys`] reads next to those of its key and order.
pub fn chained(table: &TableDef) -> &'static [&'static str] {
    if table.name == Tensor::TABLE.name { &COLUMNS } else { &[] }
}

/// Bases of tensors, batch by batch.
#[derive(Default)]
pub(super) struct TensorBases(BTreeMap<u64, u64>);

impl TensorBases {
    /// Takes the rows of a table that has chains.
    pub(super) fn add(&mut self, table: &TableDef, batch: &RecordBatch) {
        if chained(table).is_empty() {
            return;
        }
        let [tensors, bases] = COLUMNS.map(|name| {
            batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>())
        });
        if let Some((tensors, bases)) = tensors.zip(bases) {
            self.0.extend(tensors.iter().zip(bases).filter_map(|(tensor, base)| tensor.zip(base)));
        }
    }

    /// The first violation. A circle has no depth: where it is entered again, it begins.
    pub(super) fn violation(&self) -> Option<String> {
        let mut depths = BTreeMap::new();
        for &first in self.0.keys() {
            let (mut path, mut next) = (Vec::new(), Some(first));
            let mut depth = 0;
            while let Some(tensor) = next {
                if let Some(known) = depths.get(&tensor) {
                    depth = known + 1;
                    break;
                }
                depths.insert(tensor, 0);
                path.push(tensor);
                next = self.0.get(&tensor).copied();
            }
            while let Some(tensor) = path.pop() {
                depths.insert(tensor, depth);
                if depth > MAX_VIEWS {
                    return Some(format!(
                        "tensor {tensor} is more than {MAX_VIEWS} views deep, which is the bound"
                    ));
                }
                depth += 1;
            }
        }
        None
    }
}

/// Ops within others, each with the op around it, batch by batch.
#[derive(Default)]
pub(super) struct OpParents {
    parents: Vec<(u64, u64)>,
    is_incomplete: bool,
}

impl OpParents {
    /// Takes the rows of the table of ops.
    pub(super) fn add(&mut self, table: &TableDef, batch: &RecordBatch) {
        if table.name != Op::TABLE.name {
            return;
        }
        let [ops, parents] = ["op_id", "parent_op_id"].map(|name| {
            batch.column_by_name(name).and_then(|column| column.as_primitive_opt::<UInt64Type>())
        });
        if let Some((ops, parents)) = ops.zip(parents) {
            let left = MAX_PARENTS - self.parents.len();
            let within = ops.iter().zip(parents).filter_map(|(op, parent)| op.zip(parent));
            self.parents.extend(within.take(left));
            self.is_incomplete |= self.parents.len() == MAX_PARENTS;
        }
    }

    /// Lists the first circle.
    pub(super) fn list(mut self, found: &mut ViolationList) {
        if self.is_incomplete {
            found.add(CaptureRule::Unchecked, || {
                format!("the ops around {MAX_PARENTS} ops, and those around more of them")
            });
        } else if let Some(op) = self.circle() {
            found.add(CaptureRule::Reference, || format!("op {op} is within itself"));
        }
    }

    /// An op that is within itself.
    fn circle(&mut self) -> Option<u64> {
        self.parents.sort_unstable();
        let parents = &self.parents;
        let index = |op: u64| parents.binary_search_by_key(&op, |(op, _)| *op).ok();
        // The op from which each was first met: one that is met again on the same way closes a circle.
        let mut met: Vec<usize> = repeat_n(usize::MAX, parents.len()).collect();
        for first in 0..parents.len() {
            let mut next = Some(first);
            while let Some(at) = next.filter(|at| met[*at] == usize::MAX) {
                met[at] = first;
                next = index(parents[at].1);
            }
            if let Some(at) = next.filter(|at| met[*at] == first) {
                return Some(parents[at].0);
            }
        }
        None
    }
}
