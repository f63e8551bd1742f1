//! The tables of wrong accesses that the engine derives.

use stallmap_schema::id::{Address, AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

use crate::derived::OpenWord;

stallmap_schema::tables! {
    /// Accesses of one instruction of one launch outside of the memory that they may access, in one way.
    ///
    /// Only where the capture proves it: memory that no instrument saw has no rows, and nodes of graphs have none.
    AddressFault "address_fault" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access.
        kind: OpenWord,
        /// Memory space.
        space: OpenWord,
        /// outside every allocation, outside every tensor (in an allocation that a framework divides), outside the view
        /// (in the storage of a tensor that the kernel was given), in other memory (behind that of the pointer from which the
        /// address is computed), after free, misaligned (at an address that its bytes do not divide).
        defect: OpenWord,
        /// The storage that was meant: the parameter nearest to the address points to it. After free, the freed one.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor that was meant.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The driver's allocation that was meant, outside any storage.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Wrong accesses, by lanes.
        lane_count: u64,
        /// Warp requests with such lanes.
        request_count: u64,
        /// The lowest wrong byte.
        address: Address,
        /// The block of the request that accesses it.
        block: u64,
        /// The warp.
        warp: u16,
        /// Its lanes with wrong accesses.
        lane_mask: u32,
    }
    /// Reads of bytes that nothing wrote since their memory was allocated, by one instruction of one launch.
    ///
    /// Launches whose accesses are not all in the capture may have written them: see the view `uninitialized_read`.
    UnwrittenRead "unwritten_read" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access: read, atomic.
        kind: OpenWord,
        /// The storage.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The driver's allocation, outside any storage.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Warp requests with such bytes.
        request_count: u64,
        /// Such bytes, in each request.
        byte_count: u64,
        /// The lowest of them.
        address: Address,
        /// The block of the request that reads it.
        block: u64,
        /// The warp.
        warp: u16,
        /// The request's lanes.
        lane_mask: u32,
    }
    /// Bytes of device memory that two blocks of one launch access, by two instructions or one, of which the first writes.
    ///
    /// Blocks may be ordered: see the view `block_race`.
    BlockConflict "block_conflict" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction that writes.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access: write, atomic.
        kind: OpenWord,
        /// The function that holds the other instruction.
        other_function_id: FunctionId => "function"."function_id",
        /// The other instruction.
        other_pc: Pc,
        /// Its kind of access.
        other_kind: OpenWord,
        /// The storage.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The driver's allocation, outside any storage.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Bytes that both instructions access.
        byte_count: u64,
        /// One of them.
        address: Address,
        /// The block that writes it.
        block: u64,
        /// Its warp.
        warp: u16,
        /// The lanes of its request.
        lane_mask: u32,
        /// The other block.
        other_block: u64,
        /// Its warp.
        other_warp: u16,
        /// The lanes of its request.
        other_lane_mask: u32,
        /// Sampled part of all sectors: 1 if the count is exact.
        sector_rate: f64,
    }
    /// Bytes of shared memory that two warps of a block access, by two instructions or one, of which the first writes, with
    /// no barrier of the block between. Or two lanes of a warp, by two instructions, where the lanes do not meet between. Only kernels with
    /// rows in `barrier_step` are judged, and lanes in blocks 0 to 7.
    SharedConflict "shared_conflict" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction that writes.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access: write, atomic.
        kind: OpenWord,
        /// The function that holds the other instruction.
        other_function_id: FunctionId => "function"."function_id",
        /// The other instruction.
        other_pc: Pc,
        /// Its kind of access.
        other_kind: OpenWord,
        /// Bytes that both instructions access, in all blocks.
        byte_count: u64,
        /// One of them, from the start of shared memory.
        address: Address,
        /// The block.
        block: u64,
        /// The warp that writes it.
        warp: u16,
        /// The lanes of its request.
        lane_mask: u32,
        /// The other warp. The same for two lanes of it.
        other_warp: u16,
        /// The lanes of its request.
        other_lane_mask: u32,
        /// Barriers that both warps have passed.
        barrier_count: u32,
        /// Sampled part of all sectors: 1 if the count is exact.
        sector_rate: f64,
    }
}
