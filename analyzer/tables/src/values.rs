//! The table of values that accesses read and write.

use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

use crate::derived::OpenWord;

stallmap_schema::tables! {
    /// Values that one warp request of a bundled launch (`stallmap-record --replay`) reads or writes in one target: numbers in
    /// the element type of the tensor.
    ///
    /// A value is known where memory before or after the launch decides it, and `unknown_reason` says why others are not.
    /// Launches without a bundle have no rows. Memory after a launch is held with `--replay-values`, and where a later
    /// bundle reads it.
    AccessValue "access_value" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Linear block index.
        block: u64,
        /// Warp in the block.
        warp: u16,
        /// Position among the launch's requests.
        sequence: u64,
        /// Kind of access: read, write, atomic.
        kind: OpenWord,
        /// The storage.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The driver's allocation, outside any storage.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Element type of the tensor. A complex number is two elements. Null without a tensor.
        dtype: Option<OpenWord>,
        /// The lanes.
        lane_mask: u32,
        /// Elements whose value is known.
        value_count: u32,
        /// The ones that are not a number.
        nan_count: u32,
        /// Infinite ones.
        infinite_count: u32,
        /// Zeros.
        zero_count: u32,
        /// The smallest finite value. Null without any.
        min_value: Option<f64>,
        /// The largest finite value.
        max_value: Option<f64>,
        /// The value at the lowest address. Null if it is not known.
        first_value: Option<f64>,
        /// The value at the highest address.
        last_value: Option<f64>,
        /// Known values, lane by lane. Integers beyond 2^53 are rounded.
        element_values: Vec<f64>,
        /// Elements, or lanes without an element type, whose value is not known.
        unknown_count: u32,
        /// Reason of the first of them: no element type, part of an element, atomic, not in the bundle, not recorded (memory after
        /// the launch), overwritten (by a later store), written meanwhile (by another warp), written unseen (by an instruction that
        /// is not observed), redacted.
        unknown_reason: Option<OpenWord>,
    }
}
