//! The tables that the engine derives, declared like those that a capture holds.

use std::sync::Arc;

use arrow::array::{Array, StringDictionaryBuilder};
use arrow::datatypes::{DataType, UInt8Type};
use stallmap_schema::cell::{Cell, read_text, word_type};
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

/// A word of an open vocabulary: those of later releases are passed on as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
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
