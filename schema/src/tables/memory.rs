//! Device memory: allocations of the driver, copies, and the accesses of kernels.

use crate::id::{
    Address, AllocationId, FunctionId, KernelId, NativeStack, OpId, Pc, PystatesHash, RunId, StorageId,
};
use crate::word::{AccessKind, CopyKind, LanePattern, Space};

crate::tables! {
    /// One allocation of the driver: half-open in both times.
    DeviceAllocation "device_allocation" key [allocation_id] sort [allocation_id] {
        /// The allocation.
        allocation_id: AllocationId,
        /// The run.
        run_id: RunId => "run"."run_id",
        /// CUDA's device ordinal, -1 where it is not known.
        device_id: i32,
        /// First address.
        address: Address,
        /// Bytes.
        size_bytes: u64,
        /// Time of allocation, nanoseconds since the Unix epoch.
        alloc_ns: i64,
        /// Time of the free. Null where it was never freed.
        free_ns: Option<i64>,
        /// Ordinal of the first launch that can use it.
        alloc_ordinal: u64,
        /// Ordinal of the first launch that cannot use it any more. Null where it was never freed.
        free_ordinal: Option<u64>,
        /// Visibility and kind flags as the instrument reports them.
        flags: u32,
        /// The innermost op or region running on the allocating thread.
        op_id: Option<OpId> => "op"."op_id",
        /// The Python stack of that op, or of the allocation. Null where no Python stack is known.
        pystates_hash: Option<PystatesHash>,
        /// True if the program mapped its pages itself, as expandable segments do: they may have other addresses too.
        /// Null if the source does not say.
        is_mapped: Option<bool>,
    }
    /// Bytes that the program asked for in an allocation of the framework, where the source has them next to those that
    /// the allocator gave.
    StorageRequest "storage_request" key [storage_id] sort [storage_id] {
        /// The allocation.
        storage_id: StorageId => "storage"."storage_id",
        /// Bytes, before the allocator rounded them.
        requested_bytes: u64,
    }
    /// One allocation of the framework that failed.
    AllocationFailure "allocation_failure" key [] sort [run_id, time_ns] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// CUDA's device ordinal.
        device_id: i32,
        /// Its time, nanoseconds since the Unix epoch.
        time_ns: i64,
        /// Ordinal of the first launch after it. In a run without launches, of the first allocation or free after it.
        ordinal: u64,
        /// Bytes of the allocation.
        requested_bytes: Option<u64>,
        /// Bytes that were free on the device.
        free_bytes: Option<u64>,
        /// The op or region that was running. It has the Python stack.
        op_id: Option<OpId> => "op"."op_id",
    }
    /// One copy.
    Memcpy "memcpy" key [] sort [run_id, begin_ns] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// Its direction.
        kind: CopyKind,
        /// Source address.
        source: Address,
        /// Destination address.
        destination: Address,
        /// Bytes that it copies.
        size_bytes: u64,
        /// CUDA stream, numbered as in launch_run.
        stream_id: u32,
        /// Ordinal of the first launch after it.
        ordinal: u64,
        /// Time of the call, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// The op running on the calling thread.
        op_id: Option<OpId> => "op"."op_id",
        /// Bytes of a row, in copies of rows with gaps between them. Null where bytes lie behind each other, and in copies of
        /// several layers.
        row_bytes: Option<u64>,
        /// Bytes from row to row in the source, where there are rows.
        source_pitch: Option<u64>,
        /// The same in the destination.
        destination_pitch: Option<u64>,
        /// The Python stack of that op, or of the call. Null where no Python stack is known.
        pystates_hash: Option<PystatesHash>,
        /// The native stack of the call, which no op explains. Null where none was recorded: see `--native-stacks`.
        native_stack: Option<NativeStack>,
    }
    /// One memset.
    Memset "memset" key [] sort [run_id, begin_ns] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// First address.
        address: Address,
        /// Bytes set, without the gaps of a pitched memset.
        size_bytes: u64,
        /// The element that is written.
        value: u32,
        /// Bytes of that element.
        element_bytes: u32,
        /// CUDA stream, numbered as in launch_run.
        stream_id: u32,
        /// Ordinal of the first launch after it.
        ordinal: u64,
        /// Time of the call, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// The op running on the calling thread.
        op_id: Option<OpId> => "op"."op_id",
    }
    /// One warp request: the accesses of a warp's active lanes by one instruction, exactly.
    ///
    /// The address of an active lane with null `offsets` is `address + stride_bytes * (lane - first)`, with
    /// `first` the lowest active lane, or the highest if the stride is negative. Otherwise it is
    /// `address + (offsets[k] << offset_shift)` for the k-th active lane, counted from the lowest.
    /// All rows of a launch are of one run: the program's, or if that recorded none, one that replayed the launch.
    MemoryAccess "memory_access" key [] sort [kernel_id, function_id, pc, block, warp, sequence] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction: the kernel, or a function that it called.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// Linear block index: x + grid_x * (y + grid_y * z).
        block: u64,
        /// Warp in the block: linear thread index / 32.
        warp: u16,
        /// Position among the launch's requests, from 0, in the order in which the GPU queued them,
        /// the program order within a warp. Rows share it if the lanes are too far apart for one, 4 GiB or more.
        sequence: u64,
        /// The kind of access.
        kind: AccessKind,
        /// The address space.
        space: Space,
        /// Bytes that each lane accesses.
        access_bytes: u8,
        /// Active lanes.
        lane_mask: u32,
        /// Lowest address that any lane accesses.
        address: Address,
        /// Bytes from `address` to past the last byte that any lane accesses.
        span_bytes: u64,
        /// Bytes from lane to lane. Null where lanes are irregular.
        stride_bytes: Option<i32>,
        /// Each active lane's distance from `address`, lowest lane first. Null where lanes are regular.
        offsets: Option<Vec<u32>>,
        /// Bits to shift `offsets` left by, 0 where lanes are regular.
        offset_shift: u8,
    }
    /// Accesses of one instruction of one launch to one block of memory, counted on the GPU: every request, exactly.
    ///
    /// `memory_access` may hold a part of these requests only. Requests whose lanes meet several blocks count in the
    /// row of each. `sectors`, `unique_bytes` and `ideal_sectors` are sums over requests, as in the view `pc_tensor`.
    AccessSummary "access_summary" key [] sort [kernel_id, function_id, pc, kind, space, address] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction: the kernel, or a function that it called.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// The kind of access.
        kind: AccessKind,
        /// The address space.
        space: Space,
        /// First address of the block of memory: a live storage, or a driver's allocation, or what of it lies between
        /// two storages. Null where the lanes met no known block.
        block_address: Option<Address>,
        /// Lowest address that any lane accesses.
        address: Address,
        /// Bytes from `address` to past the last byte that any lane accesses.
        span_bytes: u64,
        /// Warp requests with lanes in the block.
        request_count: u64,
        /// Warp requests among these whose lowest active lane is in another block: the launch's number of requests is
        /// the sum of all `request_count` less this.
        shared_request_count: u64,
        /// Lanes in the block.
        lane_count: u64,
        /// Sectors of 32 bytes that they touch, distinct in each request.
        sectors: u64,
        /// Bytes of the union of their accesses, in each request.
        unique_bytes: u64,
        /// The fewest sectors that hold those bytes.
        ideal_sectors: u64,
    }
    /// Requests of one instruction of one launch that have one shape, counted on the GPU.
    ///
    /// A launch with rows in `access_summary` has all its requests here too.
    AccessHistogram "access_histogram" key [] sort [kernel_id, function_id, pc, kind, space] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The function that holds the instruction: the kernel, or a function that it called.
        function_id: FunctionId => "function"."function_id",
        /// The instruction.
        pc: Pc,
        /// The kind of access.
        kind: AccessKind,
        /// The address space.
        space: Space,
        /// Bytes that each lane accesses.
        access_bytes: u8,
        /// The pattern of the active lanes.
        class: LanePattern,
        /// True if the lanes are adjacent but do not begin on a sector.
        is_misaligned: bool,
        /// Sectors of 32 bytes that each of the requests touches, each once.
        sectors: u32,
        /// Warp requests.
        request_count: u64,
        /// Their active lanes.
        lane_count: u64,
        /// Lines of 128 bytes that they touch, distinct in each request.
        line_count: u64,
        /// Bytes of the union of their accesses, in each request.
        unique_bytes: u64,
        /// The fewest sectors that hold those bytes.
        ideal_sectors: u64,
    }
}

impl MemoryAccess {
    /// The active lanes, lowest first, each with the address that it accesses.
    pub fn lanes(&self) -> impl Iterator<Item = (u8, Address)> {
        let mask = self.lane_mask;
        let stride = i64::from(self.stride_bytes.unwrap_or(0));
        // The lane at the lowest address, from which a regular row counts.
        let first =
            if stride < 0 { 31 - i64::from(mask.leading_zeros()) } else { i64::from(mask.trailing_zeros()) };
        let active = (0..32_u8).filter(move |lane| mask >> lane & 1 == 1);
        active.enumerate().map(move |(index, lane)| {
            let distance = match &self.offsets {
                Some(offsets) => u64::from(offsets.get(index).copied().unwrap_or(0)) << self.offset_shift,
                None => (stride * (i64::from(lane) - first)).cast_unsigned(),
            };
            (lane, Address(self.address.0.wrapping_add(distance)))
        })
    }
}
