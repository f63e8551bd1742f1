//! Identifiers that are unique in the capture: the run's number in the upper bits of the run's own.

use stallmap_schema::id::{AllocationId, KernelId, OpId, RunId, StorageId, TensorId};

use super::RunRows;

/// Bits of an identifier that stay the run's own.
const LOCAL_BITS: u32 = 40;
/// The last run whose identifiers can be made unique.
pub(crate) const LAST_RUN: RunId = RunId((1 << (u64::BITS - LOCAL_BITS)) - 1);

/// An identifier of a run as the capture has it.
pub(crate) fn global(run_id: RunId, local: u64) -> u64 {
    u64::from(run_id.0) << LOCAL_BITS | local & ((1 << LOCAL_BITS) - 1)
}

/// The run's own form of an identifier that is unique in the capture.
pub(crate) fn local(global: u64) -> u64 {
    global & ((1 << LOCAL_BITS) - 1)
}

/// A launch's ordinal in its run.
pub(crate) fn ordinal(kernel_id: KernelId) -> u64 {
    local(kernel_id.0)
}

/// An identifier that can be made unique in the capture.
pub(super) trait Local {
    fn globalize(&mut self, run_id: RunId);
}

macro_rules! local {
    ($($id:ident)+) => {$(
        impl Local for $id {
            fn globalize(&mut self, run_id: RunId) {
                self.0 = global(run_id, self.0);
            }
        }
    )+};
}

local! { KernelId OpId StorageId TensorId AllocationId }

impl<T: Local> Local for Option<T> {
    fn globalize(&mut self, run_id: RunId) {
        if let Some(id) = self {
            id.globalize(run_id);
        }
    }
}

macro_rules! globalize {
    ($self:ident, $run_id:ident, $($rows:ident: [$($column:ident),*] $($has_run:ident)?;)+) => {$(
        for row in &mut $self.$rows {
            $(row.$column.globalize($run_id);)*
            $(row.$has_run = $run_id;)?
        }
    )+};
}

impl RunRows {
    /// Gives every row the run's id, and every identifier its unique form. Hashes are the same everywhere.
    pub(crate) fn globalize(&mut self, run_id: RunId) {
        globalize! { self, run_id,
            run: [] run_id;
            options: [] run_id;
            devices: [] run_id;
            launches: [kernel_id, op_id] run_id;
            launch_runs: [kernel_id] run_id;
            graph_launches: [op_id] run_id;
            parameters: [kernel_id];
            states: [] run_id;
            ops: [op_id, parent_op_id, forward_op_id] run_id;
            op_ends: [op_id];
            storage_events: [storage_id, op_id];
            storages: [storage_id, op_id] run_id;
            tensors: [tensor_id, storage_id, base_tensor_id, op_id] run_id;
            tensor_names: [tensor_id];
            op_tensors: [op_id, tensor_id];
            allocation_events: [allocation_id];
            allocations: [allocation_id] run_id;
            copies: [op_id] run_id;
            fills: [op_id] run_id;
            bundles: [kernel_id] run_id;
            symbols: [kernel_id];
            losses: [kernel_id] run_id;
        }
        for symbol in &mut self.symbols {
            symbol.content_id = global(run_id, symbol.content_id);
        }
    }

    /// Gives every row of a replay the run's id. Its launches are those of the capture, and have their identifiers.
    pub(crate) fn name_run(&mut self, run_id: RunId) {
        globalize! { self, run_id,
            run: [] run_id;
            options: [] run_id;
            devices: [] run_id;
            launch_runs: [] run_id;
            replays: [] run_id;
            counters: [] run_id;
            losses: [] run_id;
        }
    }
}
