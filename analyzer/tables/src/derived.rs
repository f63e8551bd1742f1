//! The tables that the engine derives, declared like those of a capture.

use std::sync::Arc;

use arrow::array::{Array, StringDictionaryBuilder};
use arrow::datatypes::{DataType, UInt8Type};
use stallmap_schema::cell::{ColumnCell, read_text, word_type};
use stallmap_schema::id::{Address, AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

/// The accesses of a capture, and the tables that have no rows without them.
pub const OF_ACCESSES: [&str; 19] = [
    "memory_access",
    "access_tensor",
    "access_shape",
    "pc_tensor_part",
    "launch_cell_part",
    "pc_cell_part",
    "target_touch",
    "block_footprint",
    "sector_sharing",
    "reuse_distance",
    "instruction_reuse",
    "load_redundancy",
    "access_class",
    "instruction_stride",
    "address_fault",
    "unwritten_read",
    "block_conflict",
    "shared_conflict",
    "access_value",
];

/// A value of an open enum: values of later releases pass through unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct OpenWord(pub Arc<str>);

impl ColumnCell for OpenWord {
    type Builder = StringDictionaryBuilder<UInt8Type>;
    const NULLABLE: bool = false;
    fn data_type() -> DataType {
        word_type()
    }
    fn append(self, builder: &mut Self::Builder) {
        builder.append_value(self.0);
    }
    fn append_null(builder: &mut Self::Builder) {
        builder.append_null();
    }
    fn read(array: &dyn Array, row: usize) -> Option<Self> {
        read_text(array, row).map(|word| Self(word.into()))
    }
}

stallmap_schema::tables! {
    /// The lanes of one warp request that access one target. A warp request that accesses two tensors has two rows.
    ///
    /// Streamed from `memory_access` in its order. Filters on its columns reach the capture's row groups.
    AccessTensor "access_tensor" key [] sort [kernel_id, function_id, pc, block, warp, sequence] {
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
        /// Kind of access.
        kind: OpenWord,
        /// Memory space.
        space: OpenWord,
        /// Target of the lanes: tensor, storage (in it, but in none of its views), outside any tensor (in a driver
        /// allocation), unknown address, not global.
        target: OpenWord,
        /// The storage, if known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, if there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of lanes outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// The lanes.
        lane_mask: u32,
        /// Number of them.
        lane_count: u32,
        /// Distinct sectors of 32 bytes that they touch.
        sectors: u32,
        /// Bytes of the union of what they touch.
        unique_bytes: u32,
    }
    /// One warp request with its shape: touched memory, lane pattern, and cost in shared memory.
    ///
    /// Streamed from `memory_access` in its order. Filters on its columns reach the capture's row groups. Only
    /// requested columns are computed. The order of requests is the program's within a warp. Between warps it is
    /// that of the run under the instrument. Instructions without a patch point have no requests here.
    AccessShape "access_shape" key [] sort [kernel_id, function_id, pc, block, warp, sequence] {
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
        /// Kind of access.
        kind: OpenWord,
        /// Memory space.
        space: OpenWord,
        /// Bytes that each lane accesses.
        access_bytes: u8,
        /// Active lanes, one bit each.
        lane_mask: u32,
        /// Number of them.
        lane_count: u32,
        /// Lowest address.
        address: u64,
        /// Distinct sectors of 32 bytes that the lanes touch.
        sectors: u32,
        /// Distinct lines of 128 bytes that they touch.
        line_count: u32,
        /// Bytes of the union of what they touch.
        unique_bytes: u32,
        /// The fewest sectors that hold those bytes.
        ideal_sectors: u32,
        /// Lane pattern: broadcast (all at one address, or a single lane), unit (adjacent, ascending or descending),
        /// strided (at equal distances), tiled (few distances from lane to lane, up to one per four lanes), gather.
        /// Lanes are adjacent, or at equal distances, by their numbers or by the order of the active ones.
        class: OpenWord,
        /// Bytes from lane to lane, if these distances are equal.
        lane_stride_bytes: Option<i64>,
        /// True if the class is unit and the lowest address is not aligned to a sector.
        is_misaligned: bool,
        /// For shared memory, wavefronts of its 32 banks: the sum over passes of the maximum of distinct 4-byte words
        /// in one bank.
        wavefronts: Option<u32>,
        /// For shared memory, the minimum of wavefronts for this width: up to 4 bytes one pass, 8 bytes one per half
        /// warp with active lanes, 16 bytes one per quarter.
        passes: Option<u32>,
        /// Wavefronts beyond the passes.
        bank_conflicts: Option<u32>,
        /// The active lanes' numbers, lowest first, as a list: `unnest` gives rows.
        lanes: Vec<u32>,
        /// Their addresses, in the same order.
        addresses: Vec<u64>,
    }
    /// One run of accesses by one instruction of one launch to one target, summed.
    ///
    /// A part of the view `pc_tensor`: an instruction whose accesses lie in several row groups can have several rows
    /// for one target. Prefer `pc_tensor`.
    PcTensorPart "pc_tensor_part" key [] sort [kernel_id, function_id, pc] {
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
        /// Target of the lanes, as in `access_tensor`.
        target: OpenWord,
        /// observed (this launch's accesses), model launch (those of an earlier launch of its kind, at the addresses of
        /// this one's parameters: `launch.accesses_of`).
        evidence: OpenWord,
        /// The storage, if known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, if there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of lanes outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Warp requests with lanes that belong to the target.
        request_count: u64,
        /// Lanes of the request in the target.
        lane_count: u64,
        /// Sectors that they touch, distinct in each request.
        sectors: u64,
        /// Bytes of the union of what they touch, in each request.
        unique_bytes: u64,
        /// The fewest sectors that hold those bytes, summed over requests.
        ideal_sectors: u64,
    }
    /// Accesses of one launch to one bin of a tensor's heat map, by one kind of access.
    ///
    /// A tensor's two largest dimensions are rows and columns of up to 64 bins, the first in its sizes as rows. All
    /// others are summed. A single dimension is wrapped line by line into a square. Elements are located by the
    /// tensor's strides, so transposed and sliced views are drawn by their shape. Accesses belong to the tensor as in
    /// `access_tensor`. Prefer `tensor_cell`. Filters on tensor_id and kernel_id make this fast.
    LaunchCellPart "launch_cell_part" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Kind of access of the instructions.
        kind: OpenWord,
        /// The tensor.
        tensor_id: TensorId => "tensor"."tensor_id",
        /// The bin's row, from 0. Null for holes: bytes accessed between the tensor's elements, by requests that also
        /// access elements.
        cell_row: Option<u32>,
        /// Its column.
        cell_column: Option<u32>,
        /// Rows of the heat map.
        row_count: u32,
        /// Columns of the heat map.
        column_count: u32,
        /// The dimension along the rows. Null for a wrapped dimension, or none.
        row_dimension: Option<u32>,
        /// The dimension along the columns.
        column_dimension: Option<u32>,
        /// Elements along the rows' direction.
        row_extent: u64,
        /// Elements along a row.
        column_extent: u64,
        /// Elements accessed, each time and by each lane.
        touches: u64,
        /// Warp requests that access the bin.
        requests: u64,
        /// Sectors of 32 bytes that they touch in it, distinct in each request.
        sectors: u64,
        /// Distinct blocks of the launch that access it.
        blocks: u64,
        /// Distinct warps.
        warps: u64,
        /// Sampled part of the blocks, from which `blocks` and `warps` are scaled: 1 if they are exact.
        block_rate: f64,
    }
    /// Accesses of one instruction of one launch to one bin of a tensor's heat map. See `launch_cell_part`.
    PcCellPart "pc_cell_part" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access.
        kind: OpenWord,
        /// The tensor.
        tensor_id: TensorId => "tensor"."tensor_id",
        /// The bin's row, from 0. Null for holes.
        cell_row: Option<u32>,
        /// Its column.
        cell_column: Option<u32>,
        /// Elements accessed, each time and by each lane.
        touches: u64,
        /// Warp requests that access the bin.
        requests: u64,
        /// Sectors of 32 bytes that they touch in it, distinct in each request.
        sectors: u64,
    }
    /// Accesses of all launches of a capture to one target: a tensor, a storage, an allocation outside any tensor.
    ///
    /// Counts are of lanes that belong to it, as in `access_tensor`. A storage's row counts those of all its tensors.
    /// Bytes are those of its elements, accessed through this tensor or another view of the storage. Launches are in
    /// program order. Requests in a launch are in the order in which the GPU queued them under the instrument. Filters
    /// on tensor_id make this fast.
    TargetTouch "target_touch" key [] sort [] {
        /// tensor, storage, outside any tensor, unknown address, as in `access_tensor`.
        target: OpenWord,
        /// The storage.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Bytes of the tensor's elements, of the storage, of the allocation.
        size_bytes: Option<u64>,
        /// Launches that access it.
        launches: u64,
        /// Loads, by lanes.
        reads: u64,
        /// Stores, by lanes.
        writes: u64,
        /// Atomics, by lanes.
        atomics: u64,
        /// Warp requests.
        requests: u64,
        /// Sectors of 32 bytes, distinct in each request.
        sectors: u64,
        /// Blocks that access it, summed over launches.
        blocks: u64,
        /// Warps that access it, summed over launches.
        warps: u64,
        /// The smallest sampled part of a launch's blocks, from which `blocks` and `warps` are scaled: 1 if they are
        /// exact.
        block_rate: f64,
        /// Bytes that any launch read or wrote. The resolution is 4 bytes, or smaller for storages with smaller
        /// elements.
        touched_bytes: Option<u64>,
        /// Bytes read.
        read_bytes: Option<u64>,
        /// Bytes written.
        written_bytes: Option<u64>,
        /// Bytes written that a launch had read before any launch wrote them.
        read_before_written_bytes: Option<u64>,
        /// Bytes read before any launch wrote them that no recorded memcpy or memset had written either.
        uninitialized_bytes: Option<u64>,
        /// Bytes that no launch read after a launch wrote them last.
        written_never_read_bytes: Option<u64>,
        /// Bytes among these that no recorded memcpy read since either.
        unused_bytes: Option<u64>,
        /// Sampled part of memory, from which bytes are scaled: 1 if they are exact.
        byte_rate: f64,
    }
    /// Sectors that one block of a launch touches, by one kind of access.
    ///
    /// Distinct sectors of 32 bytes of device memory. Ask `block_sharing` for sums.
    BlockFootprint "block_footprint" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Kind of access of the instructions.
        kind: OpenWord,
        /// Linear block index.
        block: u64,
        /// Distinct sectors.
        sectors: u64,
        /// Sampled part of all sectors, from which they are scaled: 1 if they are exact.
        sector_rate: f64,
    }
    /// Sectors of device memory by the number of blocks of one launch that touch them, by one kind of access.
    SectorSharing "sector_sharing" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Kind of access of the instructions.
        kind: OpenWord,
        /// The number of blocks.
        block_count: u64,
        /// Sectors of 32 bytes that exactly this number of blocks touches.
        sectors: u64,
        /// Sampled part of all sectors, from which they are scaled: 1 if they are exact.
        sector_rate: f64,
    }
    /// Touches of one launch by their reuse distance: the number of distinct other units touched since the last
    /// touch of the same unit.
    ///
    /// Loads, stores and atomics of device memory, each unit once per request, in the order in which the GPU queued the
    /// requests under the instrument: the program's order within a warp, but not necessarily between warps. Up to 33
    /// million sector touches per launch are exact. Beyond that, a sample of the lines counts, given by `line_rate`.
    /// Prefer `reuse` for hit rates.
    ReuseDistance "reuse_distance" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Stream of consecutive requests: block (each block alone, as seen by a cache of its multiprocessor alone),
        /// launch (all together, as a model of L2).
        stream: OpenWord,
        /// Bytes of a unit: 32, a sector, or 128, a line.
        unit_bytes: u64,
        /// cold (the first touch of a unit), reused, unknown (the sample contains nothing of the launch).
        reuse: OpenWord,
        /// The minimum distance of these touches: 0 or a power of two.
        distance_from: Option<u64>,
        /// Distances are below this: twice as much, 1 after 0.
        distance_to: Option<u64>,
        /// Touches.
        touches: u64,
        /// Their mean distance.
        mean_distance: Option<f64>,
        /// Sampled part of all lines, from which distances and touches are scaled: 1 if they are exact.
        line_rate: f64,
    }
    /// Touches of sectors by one instruction of one launch, by their reuse distance as in `reuse_distance`.
    ///
    /// Blocks are dealt to the multiprocessors of the largest GPU in turn, as the GPU does with the first of a launch.
    /// Loads, stores and atomics of device memory count. Prefer `request_level` for the level that serves them.
    InstructionReuse "instruction_reuse" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// All its warp requests.
        requests: u64,
        /// Lines of 128 bytes that they touch, distinct in each request.
        lines: u64,
        /// Stream of consecutive requests: multiprocessor (its blocks, as a model of L1), launch (as a model of L2).
        stream: OpenWord,
        /// cold (the first touch of a sector), reused.
        reuse: OpenWord,
        /// The minimum distance of these touches in sectors: 0 or a power of two.
        distance_from: Option<u64>,
        /// Distances are below this: twice as much, 1 after 0.
        distance_to: Option<u64>,
        /// Touches.
        touches: u64,
        /// Sampled part of all lines, from which distances and touches are scaled: 1 if they are exact. Where the sample
        /// has no line of an instruction that touches up to 64 lines, touches are exact, and distances are those of even
        /// touches.
        line_rate: f64,
    }
    /// Loads of one instruction of one launch, and the number of redundant ones, in four scopes.
    ///
    /// A load, of one lane, is redundant in a scope if an earlier request of the launch loaded all its bytes in that
    /// scope, and no request of the launch has stored to them since. Requests are in the order in which the GPU queued
    /// them under the instrument. Up to 8 million lane accesses per launch are exact. Beyond that, a sample of the
    /// sectors counts, with up to 2 million lane accesses. Prefer `redundant_load` for one row per scope.
    LoadRedundancy "load_redundancy" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Loads of device memory, by lanes.
        loads: u64,
        /// Their bytes.
        load_bytes: u64,
        /// Loads that the same thread had loaded. Null if the sample has none of the instruction's loads.
        thread_loads: Option<u64>,
        /// Loads that the warp had loaded.
        warp_loads: Option<u64>,
        /// Loads that the block had loaded.
        block_loads: Option<u64>,
        /// Loads that the grid had loaded.
        grid_loads: Option<u64>,
        /// Sampled part of all sectors: 1 if the counts are exact.
        sector_rate: f64,
    }
    /// Warp requests of one instruction of one launch, by class: the sums of their shapes in `access_shape`.
    ///
    /// Counts are of the rows that the capture holds. Prefer `request_pattern`, which also has requests that the GPU counted.
    AccessClass "access_class" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Kind of access: read, write, atomic, prefetch.
        kind: OpenWord,
        /// Memory space: global, global_async, shared, local.
        space: OpenWord,
        /// Class of the requests, as in `access_shape`.
        class: OpenWord,
        /// Bytes that each lane accesses, the maximum.
        access_bytes: u8,
        /// Warp requests.
        request_count: u64,
        /// Lane accesses.
        lane_count: u64,
        /// Sectors touched, distinct in each request.
        sectors: u64,
        /// Lines of 128 bytes touched, alike.
        line_count: u64,
        /// Bytes of the union, in each request.
        unique_bytes: u64,
        /// The fewest sectors that hold them.
        ideal_sectors: u64,
        /// Requests of unit stride that do not begin on a sector.
        misaligned_count: u64,
    }
    /// The most frequent distance from lane to lane of one instruction of one launch, over its warp requests.
    ///
    /// Strides differ by their bytes, the bytes of an access, or the offset of the lowest address in a stride. Among several
    /// that are as frequent, the shortest counts. Prefer `access_stride`.
    InstructionStride "instruction_stride" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Bytes from lane to lane, up or down. Null if lanes are irregular.
        stride_bytes: Option<i32>,
        /// Bytes that a lane accesses by this stride.
        access_bytes: u8,
        /// The offset of its addresses in the stride. Null without a stride, or if it is 0.
        stride_offset: Option<u64>,
        /// All warp requests of the instruction.
        request_count: u64,
        /// Requests of unit stride that do not begin on a sector.
        misaligned_count: u64,
    }
    /// Memory that a word of eight bytes among a launch's parameters points to, or that of the texture or surface whose handle
    /// it is: derived from its value, not observed.
    PointerTensor "pointer_tensor" key [] sort [kernel_id, parameter_offset] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Offset of the word among the launch's parameters, bytes.
        parameter_offset: u32,
        /// The word, or the first address of the texture's memory, as in `texture`.
        address: Address,
        /// Target of an access to its address, as in `access_tensor`. Words that point to no known memory have no row.
        target: OpenWord,
        /// The storage, if known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, if there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
    }
    /// Range of one tensor map of a launch: derived from its geometry, not observed.
    ///
    /// Its elements, sampled evenly, belong to the target of an access to them.
    TensorMapTensor "tensor_map_tensor" key [] sort [kernel_id, parameter_offset] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Offset of the tensor map among the launch's parameters, as in `tensor_map`.
        parameter_offset: u32,
        /// Target of its elements, as in `access_tensor`.
        target: OpenWord,
        /// The storage, if known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, if there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of elements outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// The target's part of the elements: sums to 1 over a tensor map.
        share: f64,
    }
}
