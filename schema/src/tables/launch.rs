//! Launches, with their shapes, runs and parameters.

use crate::cell::Blob;
use crate::id::{Address, FunctionId, KernelId, NativeStack, OpId, PystatesHash, RunId};
use crate::word::{CollectiveKind, Match};

crate::tables! {
    /// One launch of the program.
    Launch "launch" key [kernel_id] sort [kernel_id] {
        /// The launch, counted from 0 in the program's order. `function_id` is the kernel's code.
        kernel_id: KernelId,
        /// The run that defines it.
        run_id: RunId => "run"."run_id",
        /// The kernel's code.
        function_id: FunctionId => "function"."function_id",
        /// Position among all launches of the defining run, from 0. Lifetimes of storages are measured in it. The
        /// capture of a graph node takes a position that no launch has.
        ordinal: u64,
        /// The n-th launch, from 0, with the same (pystates_hash, op name, function, grid, block) in its thread.
        occurrence: u32,
        /// Blocks in x.
        grid_x: u32,
        /// Blocks in y.
        grid_y: u32,
        /// Blocks in z.
        grid_z: u32,
        /// Threads of a block in x.
        block_x: u32,
        /// Threads of a block in y.
        block_y: u32,
        /// Threads of a block in z.
        block_z: u32,
        /// Blocks of a cluster in x. Null where the kernel has no clusters.
        cluster_x: Option<u32>,
        /// Blocks of a cluster in y.
        cluster_y: Option<u32>,
        /// Blocks of a cluster in z.
        cluster_z: Option<u32>,
        /// Dynamic shared memory of a block. Null where the launch call was not seen.
        dynamic_shared_bytes: Option<u32>,
        /// Static shared memory of a block. Null where the driver did not report it.
        static_shared_bytes: Option<u32>,
        /// Local memory of a thread. Null where the driver did not report it.
        local_bytes: Option<u32>,
        /// Registers of a thread. Null where the driver did not report it.
        register_count: Option<u32>,
        /// CUDA's device ordinal.
        device_id: i32,
        /// The innermost op or region running on the launching thread.
        op_id: Option<OpId> => "op"."op_id",
        /// The Python stack of that op, or of the launch. Null where no Python stack is known.
        pystates_hash: Option<PystatesHash>,
        /// The executable graph that launched the kernel, numbered from 0 in the order of instantiation in its process.
        /// Null for every other launch.
        graph_id: Option<u64>,
        /// The n-th launch of that graph, from 0.
        graph_launch: Option<u32>,
        /// The kernel's node: its position among the kernel nodes of the graph, from 0.
        graph_node: Option<u32>,
        /// For a node of a graph, the `ordinal` that its capture took. `op_id`, `pystates_hash` and the storages that
        /// its addresses meet are those of that time. Null where the node was added without a capture, in programs that XLA
        /// compiled, and for every other launch.
        capture_ordinal: Option<u64>,
        /// An earlier launch of the same kind whose accesses stand for this one's: the same function, grid, block, shared
        /// memory, and parameters but for addresses. Addresses of this launch are those of its own parameters in the
        /// same places. Null where the launch's own accesses were recorded, or none are known.
        accesses_of: Option<KernelId> => "launch"."kernel_id",
        /// The native stack of the launch, which no op explains. Null where none was recorded: see `--native-stacks`.
        native_stack: Option<NativeStack>,
    }
    /// One launch of a CUDA graph.
    GraphLaunch "graph_launch" key [run_id, graph_id, graph_launch] sort [run_id, graph_id, graph_launch] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The executable graph, as in `launch.graph_id`.
        graph_id: u64,
        /// The n-th launch of that graph, from 0.
        graph_launch: u32,
        /// The `ordinal` of its first kernel. Those of its other kernels follow.
        ordinal: u64,
        /// Kernel nodes of the graph that were launched.
        kernel_count: u32,
        /// The launching thread, as in `launch_run.thread_id`.
        thread_id: u32,
        /// CUDA stream, as in `launch_run.stream_id`.
        stream_id: u32,
        /// Time at which the launch call began, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// Time at which the launch call ended.
        end_ns: Option<i64>,
        /// The innermost op or region running on the launching thread.
        op_id: Option<OpId> => "op"."op_id",
        /// The Python stack of that op, or of the launch call.
        pystates_hash: Option<PystatesHash>,
    }
    /// One launch as one run saw it.
    LaunchRun "launch_run" key [run_id, ordinal] sort [run_id, ordinal] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// Position among all launches of the run, from 0.
        ordinal: u64,
        /// The launch of the program.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The method that matched the two.
        matched: Match,
        /// The reason for no match. Null where there is a match.
        match_reason: Option<String>,
        /// The launching thread, numbered from 0 in the order in which the run saw them.
        thread_id: u32,
        /// CUDA stream, as in `gpu_activity`.
        stream_id: u32,
        /// CUPTI's correlation id, in sampling runs.
        correlation_id: Option<u64>,
        /// Time at which the launch call began, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// Time at which the launch call (under an instrument: the kernel too) ended.
        end_ns: Option<i64>,
        /// True if the run recorded this launch. Otherwise a loss row has the reason.
        recorded: bool,
        /// Warp requests in the capture. Null in sampling runs, and for replays whose accesses are not stored.
        request_count: Option<u64>,
        /// Lane accesses in those requests.
        lane_access_count: Option<u64>,
        /// Warp requests that the run saw but did not record (sampled out or dropped).
        lost_request_count: Option<u64>,
        /// Samples taken by the hardware in this launch, the dropped ones too. Null in access runs.
        sample_count: Option<u64>,
        /// Samples that are not in the capture: dropped by the hardware, of an unknown function, or of a replay that
        /// did not verify. Null where only the run's total is known.
        lost_sample_count: Option<u64>,
        /// GPU cycles between two samples of one multiprocessor in this launch. Null where it is the run's, and where no
        /// samples were taken.
        sampling_period_cycles: Option<u64>,
        /// True if several nodes of one graph launch share the samples, split among them. Null where the samples are
        /// the launch's own.
        samples_are_split: Option<bool>,
    }
    /// The arguments of one launch that is a collective, as an import has them.
    LaunchCollective "launch_collective" key [kernel_id] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// The kind, by the source's name of the collective, or by the kernel's name.
        kind: CollectiveKind,
        /// The source's name of the collective, such as allreduce. Null where only the kernel's name is known.
        call_name: Option<String>,
        /// Elements that the rank gives.
        in_element_count: Option<u64>,
        /// Elements that the rank gets.
        out_element_count: Option<u64>,
        /// Element type, PyTorch's name without the prefix, such as bfloat16.
        dtype: Option<String>,
        /// Bytes of an element. Null where the type is not known.
        element_bytes: Option<u32>,
        /// The group of ranks (communicator), as the source names it. Null where it is not known.
        group_name: Option<String>,
        /// The source's description of the group.
        group_description: Option<String>,
        /// The ranks of the group, as the source lists them.
        group_ranks: Option<String>,
        /// Ranks of the group.
        group_size: Option<u32>,
        /// The source's number of the collective in its group.
        sequence_number: Option<i64>,
        /// The collective: launches of several ranks with one number are one. Null where the launches of other ranks
        /// are not in the capture, or are not found.
        match_id: Option<u64>,
    }
    /// The raw parameter bytes of a launch.
    LaunchParameter "launch_parameter" key [kernel_id] sort [kernel_id] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Parameters as the kernel finds them in constant bank 0, from the first parameter on.
        bytes: Blob,
        /// Byte offset of each parameter. Empty where the launch passed one opaque buffer.
        offsets: Vec<u32>,
        /// Bytes of each parameter, parallel to `offsets`.
        sizes: Vec<u32>,
    }
    /// A tensor map (TMA descriptor) found in a launch's parameters: derived, not observed.
    TensorMap "tensor_map" key [kernel_id, parameter_offset] sort [kernel_id, parameter_offset] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Byte offset of the 128-byte descriptor in the launch's parameters.
        parameter_offset: u32,
        /// Base address of the tensor.
        address: Address,
        /// Elements in each dimension, innermost first.
        sizes: Vec<u64>,
        /// Bytes between neighbours in each dimension but the innermost.
        strides: Vec<u64>,
        /// Elements of the box that one copy moves, innermost first.
        box_sizes: Vec<u32>,
        /// Element type, CUtensorMapDataType's number. Null where the encoding is not known.
        element_type: Option<u32>,
        /// Bytes of an element. Null where the encoding is not known.
        element_bytes: Option<u32>,
    }
    /// A texture or surface whose handle a launch's parameters hold: derived, not observed.
    LaunchTexture "texture" key [kernel_id, parameter_offset, is_surface] sort [kernel_id, parameter_offset, is_surface] {
        /// The launch.
        kernel_id: KernelId => "launch"."kernel_id",
        /// Byte offset of the handle in the launch's parameters.
        parameter_offset: u32,
        /// True for a surface.
        is_surface: bool,
        /// The handle.
        handle: u64,
        /// First address of its memory. A CUDA array has none: that of its row of `device_allocation`, from 2^62.
        address: Address,
        /// Bytes of its memory, without levels after the first.
        size_bytes: u64,
        /// Texels in x.
        width: u64,
        /// Texels in y, 0 in one dimension.
        height: u64,
        /// Texels in z, or layers, 0 in two dimensions.
        depth: u64,
        /// Bytes from row to row. Null for a CUDA array, and in one dimension.
        pitch_bytes: Option<u64>,
        /// Type of a channel, CUarray_format's number.
        format: u32,
        /// Channels of a texel.
        channel_count: u32,
    }
}
