//! Collectives of a recording: their arguments, by kernel, by op, or by the kernel's name.

use stallmap_schema::word::CollectiveKind;

use crate::trace::model::TraceModel;

/// The arguments of a collective.
#[derive(Clone, Debug)]
pub struct CollectiveCall {
    /// Its kind.
    pub kind: CollectiveKind,
    /// The source's name of it. None if only the kernel's name is known.
    pub name: Option<String>,
    /// Elements that the rank gives.
    pub in_elements: Option<u64>,
    /// Elements that the rank gets.
    pub out_elements: Option<u64>,
    /// The element type, as PyTorch names it.
    pub dtype: Option<String>,
    /// Bytes of an element.
    pub element_bytes: Option<u32>,
    /// The group of ranks.
    pub group: Option<String>,
    /// The source's description of the group.
    pub group_description: Option<String>,
    /// The ranks of the group, as the source lists them.
    pub group_ranks: Option<String>,
    /// Ranks of the group.
    pub group_size: Option<u32>,
    /// The source's number of the collective in its group.
    pub sequence: Option<i64>,
    /// The ranks that send and receive.
    pub peers: Option<(i64, i64)>,
    /// The collective that the launches of several ranks are.
    pub match_id: Option<u64>,
}

impl CollectiveCall {
    /// A collective of which nothing but its kind is known.
    pub fn from_kind(kind: CollectiveKind) -> Self {
        Self {
            kind,
            name: None,
            in_elements: None,
            out_elements: None,
            dtype: None,
            element_bytes: None,
            group: None,
            group_description: None,
            group_ranks: None,
            group_size: None,
            sequence: None,
            peers: None,
            match_id: None,
        }
    }
}

/// A part of the names of PyTorch's own kernels.
const OWN_KERNEL: &str = "at::native";
/// Ops around a launch call that are searched for arguments.
const MAX_OUTER_OPS: usize = 8;

/// Gives kernels that are collectives their arguments: those of the op around the launch call where the kernel has none.
/// Without any, the kernel's name says the kind. PyTorch's own kernels in a collective copy its data, and are none.
pub fn find_collectives(trace: &mut TraceModel) {
    let ops = &trace.ops;
    for kernel in &mut trace.kernels {
        let named = CollectiveKind::from_kernel(&kernel.name);
        if named.is_none() && kernel.name.contains(OWN_KERNEL) {
            kernel.collective = None;
            continue;
        }
        if kernel.collective.is_none() && named.is_some() {
            let mut outer =
                std::iter::successors(kernel.op, |op| ops.get(*op)?.parent.get()).take(MAX_OUTER_OPS);
            kernel.collective = outer.find_map(|op| ops.get(op)?.collective().cloned().map(Box::new));
        }
        if let Some(kind) = named {
            let call = kernel.collective.get_or_insert_with(|| Box::new(CollectiveCall::from_kind(kind)));
            // A call such as `coalesced` says less than the kernel.
            if call.kind == CollectiveKind::Other {
                call.kind = kind;
            }
        }
    }
}
