//! Reads tensors, relations and unattributed labels from the rows of the queries.

use stallmap_console::rows;

rows! {
/// A tensor from the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ForestTensor {
    /// Its id.
    pub(super) id: u64 as "tensor_id",
    /// The tensor that it is a view of.
    pub(super) base_tensor_id: Option<u64>,
    /// Its name.
    pub(super) name: String as "tensor",
    /// Element type and shape.
    pub(super) shape: Option<String> as "type",
    /// The op that created it.
    pub(super) op: Option<String>,
    /// The line that created it.
    pub(super) born_at: Option<String>,
    /// The line that waited most for it.
    pub(super) stalled_at: Option<String>,
    /// True if its elements lie in the order of its dimensions.
    pub(super) is_contiguous: Option<bool>,
    /// Samples attributed to it.
    pub(super) samples: f64,
    /// Estimated time, nanoseconds.
    pub(super) time_ns: Option<f64>,
}

/// A relation between two tensors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TensorRelation {
    /// The tensor that was read.
    pub(super) source: u64 as "source_tensor_id",
    /// The tensor that was created or written.
    pub(super) target: u64 as "target_tensor_id",
    /// copy, `in_place` or op.
    pub(super) kind: String,
    /// The op.
    pub(super) op: Option<String>,
    /// The line that called it.
    pub(super) line: Option<String>,
    /// Calls.
    pub(super) calls: u64,
}

/// Unattributed samples with their labels.
pub(super) struct UnattributedSamples {
    pub(super) remainder: String,
    pub(super) samples: f64,
}
}
