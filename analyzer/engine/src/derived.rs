//! The tables that the engine derives, declared like those that a capture holds.

use std::sync::Arc;

use arrow::array::{Array, StringDictionaryBuilder};
use arrow::datatypes::{DataType, UInt8Type};
use stallmap_schema::cell::{Cell, read_text, word_type};
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

/// A word of an open vocabulary: those of later releases are passed on as they are.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Word(pub Arc<str>);

impl Cell for Word {
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
    /// The lanes of one warp request that belong to one target: a request that touches two tensors is two rows.
    ///
    /// Streamed from `memory_access` in its order; filters on its columns reach the capture's row groups.
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
        /// What the instruction does.
        kind: Word,
        /// Where.
        space: Word,
        /// What the lanes belong to: tensor, storage (in it, but in no view of it), outside any tensor (in an
        /// allocation of the driver), unknown address, not global.
        target: Word,
        /// The storage, where it is known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, where there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of lanes outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// The lanes.
        lane_mask: u32,
        /// How many they are.
        lane_count: u32,
        /// Distinct sectors of 32 bytes that they touch.
        sectors: u32,
        /// Bytes of the union of what they touch.
        unique_bytes: u32,
    }
    /// One warp request with its shape: what it touches, how its lanes lie, how shared memory serves it.
    ///
    /// Streamed from `memory_access` in its order; filters on its columns reach the capture's row groups. Only the
    /// columns that are asked for are computed. The order of requests is the program's within a warp; between warps
    /// it is that of the run under the instrument. Instructions that no patch point covers have no requests here.
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
        /// What the instruction does.
        kind: Word,
        /// Where.
        space: Word,
        /// Bytes that each lane accesses.
        access_bytes: u8,
        /// Active lanes, one bit each.
        lane_mask: u32,
        /// How many they are.
        lane_count: u32,
        /// Lowest address.
        address: u64,
        /// Distinct sectors of 32 bytes that the lanes touch.
        sectors: u32,
        /// Distinct lines of 128 bytes that they touch.
        line_count: u32,
        /// Bytes of the union of what they touch.
        unique_bytes: u32,
        /// The fewest sectors that could hold those bytes.
        ideal_sectors: u32,
        /// How the lanes lie: broadcast (all at one address, or one lane alone), unit (side by side, up or down),
        /// strided (at equal distances), tiled (few distances from lane to lane, at most one for each four lanes),
        /// gather.
        class: Word,
        /// Bytes from lane to lane, where these distances are equal.
        lane_stride_bytes: Option<i64>,
        /// Whether the class is unit and the lowest address is not that of a sector.
        is_misaligned: bool,
        /// Of shared memory, times that its 32 banks are asked: the sum over passes of the most distinct words of 4
        /// bytes in one bank.
        wavefronts: Option<u32>,
        /// Of shared memory, the least wavefronts for this width: up to 4 bytes one pass, 8 bytes one for each half of
        /// the warp that has active lanes, 16 bytes one for each quarter.
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
    /// A part of what the view `pc_tensor` holds: an instruction whose accesses lie in several row groups can have
    /// several rows for one target. Ask `pc_tensor` instead.
    PcTensorPart "pc_tensor_part" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// What the instruction does.
        kind: Word,
        /// Where.
        space: Word,
        /// What the lanes belong to, as in `access_tensor`.
        target: Word,
        /// The storage, where it is known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, where there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of lanes outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// Warp requests with lanes that belong to the target.
        request_count: u64,
        /// Those lanes.
        lane_count: u64,
        /// Sectors that they touch, distinct in each request.
        sectors: u64,
        /// Bytes of the union of what they touch, in each request.
        unique_bytes: u64,
        /// The fewest sectors that could have held those bytes, summed over requests.
        ideal_sectors: u64,
    }
    /// What one launch accessed of one cell of a tensor's picture, by one kind of access.
    ///
    /// A tensor's two largest dimensions are rows and columns of at most 64 cells, the one that stands first in its
    /// sizes as rows; all others are summed. A single dimension is written line after line into a square. Elements
    /// are found by the tensor's strides, so that transposed and sliced views are drawn as they are. Accesses belong to
    /// the tensor that `access_tensor` says. Ask `tensor_cell` instead; filters on tensor_id and kernel_id make this
    /// fast.
    LaunchCellPart "launch_cell_part" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// What the instructions do.
        kind: Word,
        /// The tensor.
        tensor_id: TensorId => "tensor"."tensor_id",
        /// The cell's row, from 0; null for holes: bytes accessed between the tensor's elements, where the same request
        /// accesses elements.
        cell_row: Option<u32>,
        /// Its column.
        cell_column: Option<u32>,
        /// Rows of the picture.
        row_count: u32,
        /// Columns of the picture.
        column_count: u32,
        /// The dimension along which rows follow each other; null where it is a folded dimension, or none.
        row_dimension: Option<u32>,
        /// The dimension along which columns follow each other.
        column_dimension: Option<u32>,
        /// Elements along the rows' direction.
        row_extent: u64,
        /// Elements along a row.
        column_extent: u64,
        /// Elements accessed, each time and by each lane.
        touches: u64,
        /// Warp requests that access the cell.
        requests: u64,
        /// Sectors of 32 bytes that they touch in it, distinct in each request.
        sectors: u64,
        /// Distinct blocks of the launch that access it.
        blocks: u64,
        /// Distinct warps.
        warps: u64,
        /// The part of the blocks that `blocks` and `warps` are counted from and scaled by: 1 where they are exact.
        block_rate: f64,
    }
    /// What one instruction of one launch accessed of one cell of a tensor's picture; see `launch_cell_part`.
    PcCellPart "pc_cell_part" key [] sort [kernel_id, function_id, pc] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// What it does.
        kind: Word,
        /// The tensor.
        tensor_id: TensorId => "tensor"."tensor_id",
        /// The cell's row, from 0; null for holes.
        cell_row: Option<u32>,
        /// Its column.
        cell_column: Option<u32>,
        /// Elements accessed, each time and by each lane.
        touches: u64,
        /// Warp requests that access the cell.
        requests: u64,
        /// Sectors of 32 bytes that they touch in it, distinct in each request.
        sectors: u64,
    }
    /// What the launches of a capture touched of one target: a tensor, a storage, an allocation outside any tensor.
    ///
    /// Counts are of lanes that belong to it, as in `access_tensor`; a storage's row counts those of all its tensors.
    /// Bytes are of its elements whoever accessed them, through this tensor or another view of the storage. The order
    /// of launches is theirs; of requests in a launch, the one in which the GPU queued them under the instrument.
    /// Filters on tensor_id make this fast.
    TargetTouch "target_touch" key [] sort [] {
        /// tensor, storage, outside any tensor, unknown address; as in `access_tensor`.
        target: Word,
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
        /// The least part of a launch's blocks that `blocks` and `warps` are scaled from: 1 where they are exact.
        block_rate: f64,
        /// Bytes that any launch read or wrote. Of storages with elements of less than 4 bytes in such pieces, else in
        /// pieces of 4.
        touched_bytes: Option<u64>,
        /// Bytes read.
        read_bytes: Option<u64>,
        /// Bytes written.
        written_bytes: Option<u64>,
        /// Bytes written that a launch had read before any launch wrote them.
        read_before_written_bytes: Option<u64>,
        /// Bytes read before any launch wrote them that no recorded copy or fill had written either.
        uninitialized_bytes: Option<u64>,
        /// Bytes that no launch read after a launch wrote them last.
        written_never_read_bytes: Option<u64>,
        /// Those of them that no recorded copy read since either.
        unused_bytes: Option<u64>,
        /// The part of memory that bytes are counted in and scaled from: 1 where they are exact.
        byte_rate: f64,
    }
    /// How many sectors one block of a launch touches, by one kind of access.
    ///
    /// Distinct sectors of 32 bytes of device memory. Ask `block_sharing` for sums.
    BlockFootprint "block_footprint" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// What the instructions do.
        kind: Word,
        /// Linear block index.
        block: u64,
        /// Distinct sectors.
        sectors: u64,
        /// The part of all sectors that they are counted from and scaled by: 1 where they are exact.
        sector_rate: f64,
    }
    /// How many sectors of device memory a number of blocks of one launch touch, by one kind of access.
    SectorSharing "sector_sharing" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// What the instructions do.
        kind: Word,
        /// The number of blocks.
        block_count: u64,
        /// Sectors of 32 bytes that exactly so many blocks touch.
        sectors: u64,
        /// The part of all sectors that they are counted from and scaled by: 1 where they are exact.
        sector_rate: f64,
    }
    /// Touches of one launch by their reuse distance: how many distinct other units were touched since the last touch of
    /// the same one.
    ///
    /// Loads, stores and atomics of device memory, each unit once a request, in the order in which the GPU queued the
    /// requests under the instrument: the program's within a warp, not what happens between warps otherwise. Up to 33
    /// million touches of sectors a launch are exact; of more, those of a sample of the lines count, as `line_rate`
    /// says. Ask `reuse` for hit shares.
    ReuseDistance "reuse_distance" key [] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Whose requests follow each other: block (each block alone, as a cache of its multiprocessor would see it
        /// alone), launch (all together, as a model of what L2 sees).
        stream: Word,
        /// Bytes of a unit: 32, a sector, or 128, a line.
        unit_bytes: u64,
        /// cold (the first touch of a unit), reused, unknown (nothing of the launch is in the sample).
        reuse: Word,
        /// The least distance of these touches: 0 or a power of two.
        distance_from: Option<u64>,
        /// Distances are below this: twice as much, 1 after 0.
        distance_to: Option<u64>,
        /// Touches.
        touches: u64,
        /// Their mean distance.
        mean_distance: Option<f64>,
        /// The part of all lines that is looked at; distances and touches are scaled by it. 1 where they are exact.
        line_rate: f64,
    }
    /// Loads of one instruction of one launch, and how many of them are redundant, in four scopes.
    ///
    /// A load, of one lane, is redundant in a scope where all its bytes were loaded in that scope by an earlier request
    /// of the launch, and no request of the launch has stored to them since. Requests are in the order in which the GPU
    /// queued them under the instrument. Up to 8 million lane accesses a launch are exact; of more, a sample of the
    /// sectors is looked at. Ask `redundant_load` for a row a scope.
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
        /// Those that the same thread had loaded; null where none of the instruction's is in the sample.
        thread_loads: Option<u64>,
        /// Those that the warp had loaded.
        warp_loads: Option<u64>,
        /// Those that the block had loaded.
        block_loads: Option<u64>,
        /// Those that the grid had loaded.
        grid_loads: Option<u64>,
        /// The part of all sectors that is looked at: 1 where the counts are exact.
        sector_rate: f64,
    }
    /// What one tensor map of a launch covers: derived from its geometry, not observed.
    ///
    /// Its elements, taken evenly, belong where an access to them would.
    TensorMapTensor "tensor_map_tensor" key [] sort [kernel_id, parameter_offset] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Where the tensor map is among the launch's parameters, as in `tensor_map`.
        parameter_offset: u32,
        /// What its elements belong to, as in `access_tensor`.
        target: Word,
        /// The storage, where it is known.
        storage_id: Option<StorageId> => "storage"."storage_id",
        /// The tensor, where there is one.
        tensor_id: Option<TensorId> => "tensor"."tensor_id",
        /// The allocation, of elements outside any tensor.
        allocation_id: Option<AllocationId> => "device_allocation"."allocation_id",
        /// The target's part of the elements: sums to 1 over a tensor map.
        share: f64,
    }
}
