//! The forest as rows for programs: the shown tensors, and unattributed rows.

use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::error::ArrowError;

use super::prune::ForestPicture;

/// One row per node, then one for its hidden views, for other tensors, and for each unattributed label.
struct ForestRow<'a> {
    index: Option<usize>,
    name: String,
    base: Option<usize>,
    samples: f64,
    tree_samples: f64,
    picture: &'a ForestPicture,
}

/// The rows. `self_samples` of all add up to the samples.
pub fn batch(picture: &ForestPicture) -> Result<RecordBatch, ArrowError> {
    let rows = rows(picture);
    let node = |row: &ForestRow<'_>| row.index.and_then(|index| picture.nodes.get(index));
    let text = |of: &dyn Fn(&ForestRow<'_>) -> Option<String>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let id = |of: &dyn Fn(&ForestRow<'_>) -> Option<u64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<UInt64Array>())
    };
    let flag = |of: &dyn Fn(&ForestRow<'_>) -> Option<bool>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<BooleanArray>())
    };
    let number = |of: &dyn Fn(&ForestRow<'_>) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<Float64Array>())
    };
    let first = |index: usize| picture.nodes.get(index).map(|node| node.tensor.id);
    RecordBatch::try_from_iter_with_nullable([
        ("tensor_id", id(&|row| row.index.and_then(first)), true),
        ("base_tensor_id", id(&|row| row.base.and_then(first)), true),
        ("tensor", text(&|row| Some(row.name.clone())), true),
        ("tensors", id(&|row| u64::try_from(node(row)?.count).ok()), true),
        ("type", text(&|row| node(row)?.tensor.shape.clone()), true),
        ("op", text(&|row| node(row)?.tensor.op.clone()), true),
        ("born_at", text(&|row| node(row)?.tensor.born_at.clone()), true),
        ("stalled_at", text(&|row| node(row)?.tensor.stalled_at.clone()), true),
        ("is_contiguous", flag(&|row| node(row)?.tensor.is_contiguous), true),
        ("is_blamed", flag(&|row| row.index.and_then(|index| row.picture.blamed.get(index).copied())), true),
        ("samples", number(&|row| Some(row.tree_samples)), true),
        ("self_samples", number(&|row| Some(row.samples)), true),
        ("share", number(&|row| Some(picture.share(row.tree_samples))), true),
        ("time_ns", number(&|row| Some(node(row)?.time_ns)), true),
    ])
}

fn rows(picture: &ForestPicture) -> Vec<ForestRow<'_>> {
    let mut rows = Vec::new();
    let rest = |name: String, base: Option<usize>, samples: f64| ForestRow {
        index: None,
        name,
        base,
        samples,
        tree_samples: samples,
        picture,
    };
    for (index, node) in picture.nodes.iter().enumerate() {
        rows.push(ForestRow {
            index: Some(index),
            name: node.tensor.name.clone(),
            base: node.base,
            samples: node.samples,
            tree_samples: node.tree_samples,
            picture,
        });
        let (views, samples) = picture.hidden_views[index];
        if views > 0 {
            rows.push(rest(format!("({views} other views)"), Some(index), samples));
        }
    }
    let (tensors, samples) = picture.hidden;
    if tensors > 0 {
        rows.push(rest(format!("other ({tensors})"), None, samples));
    }
    rows.extend(picture.others.iter().map(|(reason, samples)| rest(reason.clone(), None, *samples)));
    rows
}
