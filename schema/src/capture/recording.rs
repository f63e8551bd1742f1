//! Rows that only a recording in progress holds. Finishing turns them into the capture's tables.
//!
//! A recording's rows are those of [`mod@crate::tables`] with identifiers local to their run (`kernel_id` is the launch's
//! ordinal, ids count from 1), plus the rows here: events whose end is not known when their beginning must reach the
//! disk, and names that are resolved when all is known.

use crate::id::{
    Address, AllocationId, FunctionId, KernelId, ModuleId, NativeStack, OpId, Pc, PystatesHash, StorageId,
    TensorId,
};
use crate::word::{ActivityKind, CopyKind, LanePattern, LossKind, StorageOrigin, SynchronizationKind};

/// The reason of a loss that marks a launch whose function is a guess: several modules share its kernel's name.
pub const AMBIGUOUS_FUNCTION: &str = "function of the launch is ambiguous";

/// The reason of the loss that marks a run in which the recorder gave CUPTI to the program's own profiler. Launches after
/// that are not in the run.
pub const GAVE_WAY: &str = "the program's own profiler took CUPTI";

crate::tables! {
    /// Something about the run that became known after it began. Names: ended_ns, exit_code, driver_version,
    /// cuda_version, instrument_version, python_version, torch_version, sampling_period_cycles, clean_end.
    RunFact "run_fact" key [] sort [] {
        /// The column of `run` that it fills. `clean_end` marks a process that ended with everything written.
        name: String,
        /// Its value as text.
        value: String,
    }
    /// Losses of the run since it began, of one kind for one reason. The latest row of a (kind, reason) holds. Rows of
    /// `loss` in a recording are added to it.
    LossTotal "loss_total" key [] sort [] {
        /// The column `kind` of `loss`.
        kind: LossKind,
        /// The column `reason` of `loss`.
        reason: String,
        /// The column `lost_count` of `loss`, so far.
        total_count: u64,
        /// The column `detail` of `loss`.
        detail: Option<String>,
    }
    /// A texture or surface that the program made. The handle is its until another row has it.
    TextureEvent "texture_event" key [] sort [] {
        /// As in `texture`.
        handle: u64,
        /// As in `texture`.
        is_surface: bool,
        /// Ordinal of the next launch.
        ordinal: u64,
        /// As in `texture`.
        address: Address,
        /// As in `texture`.
        size_bytes: u64,
        /// As in `texture`.
        width: u64,
        /// As in `texture`.
        height: u64,
        /// As in `texture`.
        depth: u64,
        /// As in `texture`.
        pitch_bytes: Option<u64>,
        /// As in `texture`.
        format: u32,
        /// As in `texture`.
        channel_count: u32,
    }
    /// The end of an op, whose row was written with a null `end_ns` when it began.
    OpEnd "op_end" key [] sort [] {
        /// The op.
        op_id: OpId,
        /// Its end, nanoseconds since the Unix epoch.
        end_ns: i64,
    }
    /// An allocation or a free by the framework's allocator.
    StorageEvent "storage_event" key [] sort [] {
        /// The storage.
        storage_id: StorageId,
        /// True for the free. Only `storage_id`, `time_ns` and `ordinal` matter then.
        is_free: bool,
        /// CUDA's device ordinal.
        device_id: i32,
        /// First address.
        address: Address,
        /// Bytes.
        size_bytes: u64,
        /// Time of the event, nanoseconds since the Unix epoch.
        time_ns: i64,
        /// Ordinal of the next launch.
        ordinal: u64,
        /// The source that reported it first.
        origin: StorageOrigin,
        /// The op that was running.
        op_id: Option<OpId>,
    }
    /// A library or program whose code is in a native stack.
    NativeLibrary "native_library" key [library] sort [] {
        /// Its identity in the run.
        library: u64,
        /// Its file.
        path: String,
        /// Its build id, in hexadecimal.
        build_id: Option<String>,
        /// Content hash of its index of functions, in hexadecimal. Null where it has a build id, or no such index.
        index_hash: Option<String>,
    }
    /// One return address of a native stack, innermost first.
    NativeAddress "native_address" key [native_stack, depth] sort [] {
        /// The column `native_stack` of `launch` in the recording: a hash that is valid in the process.
        native_stack: NativeStack,
        /// 0 for the innermost.
        depth: u32,
        /// The library. Null for code of no file.
        library: Option<u64>,
        /// The column `call_offset` of `native_frame`.
        offset: u64,
    }
    /// The role of a tensor in the model, often learnt after its row was written. The latest row holds.
    TensorName "tensor_name" key [] sort [] {
        /// The tensor.
        tensor_id: TensorId,
        /// Dotted name: the column `name` of `tensor`; null where it has none.
        name: Option<String>,
        /// The column `role` of `tensor`.
        role: String,
    }
    /// Counts of the requests of one instruction of one launch to one block of memory: a row of `access_summary`.
    AccessCount "access_count" key [] sort [] {
        /// The launch.
        kernel_id: KernelId,
        /// The instruction's absolute address.
        pc_address: Address,
        /// The flags of its requests, as in [`super::request`].
        flags: u8,
        /// Their address space, as in [`super::request`].
        space: u8,
        /// As in `access_summary`.
        block_address: Option<Address>,
        /// As in `access_summary`.
        address: Address,
        /// As in `access_summary`.
        span_bytes: u64,
        /// As in `access_summary`.
        request_count: u64,
        /// As in `access_summary`.
        shared_request_count: u64,
        /// As in `access_summary`.
        lane_count: u64,
        /// As in `access_summary`.
        sectors: u64,
        /// As in `access_summary`.
        unique_bytes: u64,
        /// As in `access_summary`.
        ideal_sectors: u64,
    }
    /// Counts of the requests of one instruction of one launch that have one shape: a row of `access_histogram`.
    ShapeCount "shape_count" key [] sort [] {
        /// The launch.
        kernel_id: KernelId,
        /// The instruction's absolute address.
        pc_address: Address,
        /// The flags of its requests, as in [`super::request`].
        flags: u8,
        /// Their address space, as in [`super::request`].
        space: u8,
        /// As in `access_histogram`.
        access_bytes: u8,
        /// As in `access_histogram`.
        class: LanePattern,
        /// As in `access_histogram`.
        is_misaligned: bool,
        /// As in `access_histogram`.
        sectors: u32,
        /// As in `access_histogram`.
        request_count: u64,
        /// As in `access_histogram`.
        lane_count: u64,
        /// As in `access_histogram`.
        line_count: u64,
        /// As in `access_histogram`.
        unique_bytes: u64,
        /// As in `access_histogram`.
        ideal_sectors: u64,
    }
    /// An allocation or a free by the driver.
    AllocationEvent "allocation_event" key [] sort [] {
        /// The allocation.
        allocation_id: AllocationId,
        /// True for the free. Only `allocation_id`, `time_ns` and `ordinal` matter then.
        is_free: bool,
        /// CUDA's device ordinal.
        device_id: i32,
        /// First address.
        address: Address,
        /// Bytes.
        size_bytes: u64,
        /// Time of the event, nanoseconds since the Unix epoch.
        time_ns: i64,
        /// Ordinal of the next launch.
        ordinal: u64,
        /// Visibility and kind flags.
        flags: u32,
        /// As in `device_allocation`.
        op_id: Option<OpId>,
        /// As in `device_allocation`.
        pystates_hash: Option<PystatesHash>,
        /// As in `device_allocation`.
        is_mapped: Option<bool>,
    }
    /// The address range of a function's code in the process: turns the absolute pc of an access into (function, pc).
    CodeRange "code_range" key [] sort [] {
        /// The function.
        function_id: FunctionId,
        /// Its module.
        module_id: ModuleId,
        /// Its mangled name.
        name: String,
        /// True if the function is a kernel.
        is_kernel: bool,
        /// Address of its first instruction; 0 where the instrument does not say.
        address: Address,
        /// Bytes of code; 0 where the instrument does not say.
        code_bytes: u64,
        /// Ordinal of the first launch for which the range holds (a later row for the same addresses replaces it).
        ordinal: u64,
    }
    /// A sample record as CUPTI delivers it: one (launch, pc, reason).
    RawSample "raw_sample" key [] sort [] {
        /// CUPTI's correlation id, which `launch_run` holds too.
        correlation_id: u64,
        /// CUPTI's CRC of the cubin, which `module` holds too.
        cubin_crc: u64,
        /// Mangled name of the function.
        function_name: String,
        /// The instruction.
        pc: Pc,
        /// CUPTI's full name of the reason.
        stall_reason: String,
        /// Samples.
        samples: u64,
        /// Ordinal of the launch, where the correlation id is that of a call with several kernels. It holds then.
        ordinal: Option<u64>,
        /// The window of time in which they were taken, where CUPTI gives no launch: as in `sample_window`.
        window_id: Option<u32>,
    }
    /// A window of time between two reads of samples.
    SampleWindow "sample_window" key [] sort [] {
        /// Its number in the process, from 0.
        window_id: u32,
        /// CUDA's device ordinal.
        device_id: i32,
        /// Its beginning, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// Its end.
        end_ns: i64,
    }
    /// A CUPTI activity record: work of a GPU, or a wait.
    RawActivity "raw_activity" key [] sort [] {
        /// As in `gpu_activity`.
        kind: ActivityKind,
        /// CUPTI's correlation id, which `launch_run` holds too. All nodes of a graph launch share it.
        correlation_id: u64,
        /// CUPTI's number of the graph node in the executable graph. Null outside graphs.
        graph_node_id: Option<u64>,
        /// The kernel's name, as in `activity_name`. Null for everything but kernels.
        name_id: Option<u64>,
        /// As in `gpu_activity`.
        device_id: Option<i32>,
        /// CUPTI's number of the context.
        context_number: u32,
        /// CUPTI's number of the stream. Null where the work belongs to none.
        stream_number: Option<u32>,
        /// As in `gpu_activity`.
        begin_ns: i64,
        /// As in `gpu_activity`.
        end_ns: Option<i64>,
        /// As in `gpu_activity`.
        size_bytes: Option<u64>,
        /// As in `gpu_activity`.
        copy_kind: Option<CopyKind>,
        /// As in `gpu_activity`.
        peer_device_id: Option<i32>,
        /// As in `gpu_activity`.
        synchronization: Option<SynchronizationKind>,
        /// As in `gpu_activity`.
        copy_memory: Option<String>,
    }
    /// The name of a kernel in activity records.
    ActivityName "activity_name" key [] sort [] {
        /// Its number.
        name_id: u64,
        /// Mangled name.
        name: String,
    }
    /// The node of an executable graph that CUPTI gave a number.
    GraphNodeNumber "graph_node_number" key [] sort [] {
        /// CUPTI's number.
        graph_node_id: u64,
        /// The graph, as in `launch.graph_id`.
        graph_id: u64,
        /// The node, as in `launch.graph_node`.
        graph_node: u32,
    }
}
