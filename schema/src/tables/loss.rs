//! Losses: everything that was not recorded, counted.

use crate::id::{KernelId, RunId};
use crate::word::LossKind;

crate::tables! {
    /// Things of one kind that one run did not record, for one reason.
    Loss "loss" key [] sort [run_id, kind, reason] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The kind of thing that was lost.
        kind: LossKind,
        /// The reason, in a few words that group well.
        reason: String,
        /// Number of things lost.
        lost_count: u64,
        /// The launch concerned, where there is one.
        kernel_id: Option<KernelId> => "launch"."kernel_id",
        /// More about it: an error's text, a name.
        detail: Option<String>,
    }
}
