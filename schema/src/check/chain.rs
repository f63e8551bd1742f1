//! Depth of views: a drawing nests them, and what it nests has a bound.

use std::collections::BTreeMap;

use arrow::array::{AsArray as _, RecordBatch};
use arrow::datatypes::UInt64Type;

use crate::table::{TableDef, TableRow as _};
use crate::tables::tensor::Tensor;

/// Most views between a tensor and the one that owns its memory. PyTorch's views name that one.
const MAX_VIEWS: u32 = 1 << 10;

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
