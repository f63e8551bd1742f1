//! Identifiers that are local to a run become unique in the capture.

use stallmap_schema::id::{AllocationId, KernelId, OpId, RunId, StorageId, TensorId};

use super::RunRows;

/// Bits of an identifier that stay the run's own.
const LOCAL_BITS: u32 = 40;

/// An identifier of a run as the capture has it.
fn global(run_id: RunId, local: u64) -> u64 {
    u64::from(run_id.0) << LOCAL_BITS | local & ((1 << LOCAL_BITS) - 1)
}

/// An identifier that can be made unique in the capture.
trait Local {
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
    pub(super) fn globalize(&mut self, run_id: RunId) {
        globalize! { self, run_id,
            run: [] run_id;
            options: [] run_id;
            devices: [] run_id;
            launches: [kernel_id, op_id] run_id;
            launch_runs: [kernel_id] run_id;
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
            losses: [kernel_id] run_id;
        }
    }
}
