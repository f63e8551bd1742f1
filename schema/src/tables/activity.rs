//! The timeline: work of the GPUs with its measured times.

use crate::id::{KernelId, OpId, RunId};
use crate::word::{ActivityKind, CopyKind, SynchronizationKind};

crate::tables! {
    /// One piece of work of a GPU, with its measured begin and end, or one wait for such work. The program's own
    /// concurrency: rows of one stream do not overlap, rows of several streams may.
    GpuActivity "gpu_activity" key [run_id, activity_id] sort [run_id, activity_id] {
        /// The run.
        run_id: RunId => "run"."run_id",
        /// The work, numbered from 0 by its begin.
        activity_id: u64,
        /// Its kind.
        kind: ActivityKind,
        /// The launch of the program that it is. Null for everything but kernels, and for a kernel whose launch the run
        /// did not record or could not match.
        kernel_id: Option<KernelId> => "launch"."kernel_id",
        /// The kernel's name, mangled where the source has it so. Null where `kernel_id` is known, and for everything
        /// but kernels.
        kernel_name: Option<String>,
        /// CUDA's device ordinal. Null where the source does not say, as for waits.
        device_id: Option<i32>,
        /// CUDA stream. In recordings numbered from 0 in the order in which the run saw their work, over all devices. In
        /// imports the source's number of the stream on its device. Null where the work belongs to none.
        stream_id: Option<u32>,
        /// Begin, nanoseconds since the Unix epoch.
        begin_ns: i64,
        /// End. Null where it was not measured.
        end_ns: Option<i64>,
        /// Bytes that a copy or fill moves. Null for everything else.
        size_bytes: Option<u64>,
        /// The direction of a copy. Null for everything else.
        copy_kind: Option<CopyKind>,
        /// The other device of a copy between two. Null for everything else.
        peer_device_id: Option<i32>,
        /// The two sides of a wait. Null for everything but waits.
        synchronization: Option<SynchronizationKind>,
        /// The source's number of the call that asked for it, which all kernels of a graph launch share.
        correlation_id: Option<u64>,
        /// The innermost op or region around the call of a copy or fill. Null for everything else, and where it is not
        /// known: `launch` has the op of a kernel.
        op_id: Option<OpId> => "op"."op_id",
        /// Begin of the call of a copy or fill, nanoseconds since the Unix epoch. Null for everything else, and where it
        /// is not known: `launch_run` has the call of a kernel.
        call_begin_ns: Option<i64>,
        /// End of that call.
        call_end_ns: Option<i64>,
        /// Name of the call that asked for a kernel, a copy or a fill, such as `cudaLaunchKernelExC`. In imports, where the
        /// source has it.
        call_name: Option<String>,
        /// The memory of both sides of a copy in the words of the source, such as `Pageable -> Device`. Null where the source
        /// does not say.
        copy_memory: Option<String>,
    }
}
