//! CUPTI's activity records: the head of each record, which later versions of CUPTI extend only at its end.

use std::ffi::{c_char, c_void};

use super::CuptiCode;
use crate::cuda::DriverHandle;

/// (buffer, its bytes, most records in it or 0): CUPTI asks for a buffer.
pub type BufferRequested = extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
/// (context, stream, buffer, its bytes, bytes in use): CUPTI gives a buffer back.
pub type BufferCompleted = extern "C" fn(DriverHandle, u32, *mut u8, usize, usize);
/// The clock of all records, nanoseconds.
pub type ActivityClock = extern "C" fn() -> u64;

crate::functions! {
    /// Functions of `libcupti.so` for activity records.
    Activity from "CUPTI library (libcupti.so)" {
        /// (asks for buffers, gives them back)
        register_callbacks: cuptiActivityRegisterCallbacks(BufferRequested, BufferCompleted) -> CuptiCode;
        /// (clock): before any kind is enabled
        register_clock: cuptiActivityRegisterTimestampCallback(ActivityClock) -> CuptiCode;
        /// (kind)
        enable: cuptiActivityEnable(u32) -> CuptiCode;
        /// (kind)
        disable: cuptiActivityDisable(u32) -> CuptiCode;
        /// (1: buffers that are not full too)
        flush: cuptiActivityFlushAll(u32) -> CuptiCode;
        /// (milliseconds): CUPTI's own thread gives complete buffers back after so long
        flush_period: cuptiActivityFlushPeriod(u32) -> CuptiCode;
        /// (buffer, its bytes in use, record)
        next_record: cuptiActivityGetNextRecord(*mut u8, usize, *mut *const ActivityHead) -> CuptiCode;
        /// (context, stream, records dropped since the last call)
        dropped: cuptiActivityGetNumDroppedRecords(DriverHandle, u32, *mut usize) -> CuptiCode;
        /// (node, its number)
        graph_node_id: cuptiGetGraphNodeId(DriverHandle, *mut u64) -> CuptiCode;
    }
}

/// Kinds of records.
pub mod kind {
    /// A copy: [`super::ActivityMemcpy`].
    pub const MEMCPY: u32 = 1;
    /// A fill: [`super::ActivityMemset`].
    pub const MEMSET: u32 = 2;
    /// A kernel, while others run: [`super::ActivityKernel`].
    pub const CONCURRENT_KERNEL: u32 = 10;
    /// A copy between two devices: [`super::PeerCopy`].
    pub const MEMCPY2: u32 = 22;
    /// A wait: [`super::ActivitySynchronization`].
    pub const SYNCHRONIZATION: u32 = 38;
}

/// The start of every record.
#[repr(C)]
pub struct ActivityHead {
    /// One of [`kind`].
    pub kind: u32,
}

/// CUpti_ActivityKernel, of version 5 (CUDA 11) and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ActivityKernel {
    _kind: [u32; 4],
    /// Begin, 0 where it is not known.
    pub begin: u64,
    /// End, 0 where it is not known.
    pub end: u64,
    _completed: u64,
    /// CUDA's device ordinal.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    _shape: [u32; 10],
    /// The number of the launch call.
    pub correlation: u32,
    _grid: i64,
    /// The kernel's mangled name, which lives as long as CUPTI.
    pub name: *const c_char,
    _reserved: *mut c_void,
    _queued: [u64; 2],
    _launch: [u32; 2],
    /// The node of the executable graph, 0 for a launch of its own.
    pub graph_node: u64,
}

/// CUpti_ActivityMemcpy, of version 4 (CUDA 11) and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ActivityMemcpy {
    _kind: u32,
    /// CUpti_ActivityMemcpyKind.
    pub direction: u8,
    /// CUpti_ActivityMemoryKind of its source and destination, and flags.
    pub memory: [u8; 3],
    /// Bytes that it copies.
    pub bytes: u64,
    /// Begin, 0 where it is not known.
    pub begin: u64,
    /// End, 0 where it is not known.
    pub end: u64,
    /// CUDA's device ordinal.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// The number of the call.
    pub correlation: u32,
}

/// CUpti_ActivityMemcpyPtoP, of version 3 (CUDA 11) and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PeerCopy {
    _kind: [u32; 2],
    /// Bytes that it copies.
    pub bytes: u64,
    /// Begin, 0 where it is not known.
    pub begin: u64,
    /// End, 0 where it is not known.
    pub end: u64,
    /// CUDA's ordinal of the device that copies.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// CUDA's ordinal of the device that it reads.
    pub source_device: u32,
    _source_context: u32,
    /// CUDA's ordinal of the device that it writes.
    pub destination_device: u32,
    _destination_context: u32,
    /// The number of the call.
    pub correlation: u32,
}

/// CUpti_ActivityMemset, of version 3 (CUDA 11) and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ActivityMemset {
    _kind: [u32; 2],
    /// Bytes that it sets.
    pub bytes: u64,
    /// Begin, 0 where it is not known.
    pub begin: u64,
    /// End, 0 where it is not known.
    pub end: u64,
    /// CUDA's device ordinal.
    pub device: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream.
    pub stream: u32,
    /// The number of the call.
    pub correlation: u32,
}

/// CUpti_ActivitySynchronization.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ActivitySynchronization {
    _kind: u32,
    /// CUpti_ActivitySynchronizationType.
    pub what: u32,
    /// Begin, 0 where it is not known.
    pub begin: u64,
    /// End, 0 where it is not known.
    pub end: u64,
    /// The number of the call.
    pub correlation: u32,
    /// CUPTI's number of the context.
    pub context: u32,
    /// CUPTI's number of the stream, or [`NO_STREAM`].
    pub stream: u32,
}

/// CUPTI_SYNCHRONIZATION_INVALID_VALUE: no stream.
pub const NO_STREAM: u32 = u32::MAX;

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;
    use crate::cupti::types::{
        CUpti_ActivityKernel9, CUpti_ActivityMemcpy5, CUpti_ActivityMemcpyPtoP4, CUpti_ActivityMemset4,
        CUpti_ActivitySynchronization,
    };

    macro_rules! same {
        ($ours:ident as $theirs:ident: $($field:ident $name:ident),+) => {$(
            assert_eq!(offset_of!($ours, $field), offset_of!($theirs, $name), "{}.{}", stringify!($ours), stringify!($field));
        )+};
    }

    #[test]
    fn heads_are_those_of_the_header() {
        same!(ActivityKernel as CUpti_ActivityKernel9: begin start, end end, device deviceId, context contextId, stream streamId,
            correlation correlationId, name name, graph_node graphNodeId);
        same!(ActivityMemcpy as CUpti_ActivityMemcpy5: direction copyKind, bytes bytes, begin start, end end, device deviceId,
            context contextId, stream streamId, correlation correlationId);
        same!(PeerCopy as CUpti_ActivityMemcpyPtoP4: bytes bytes, begin start, end end, device deviceId,
            context contextId, stream streamId, source_device srcDeviceId, destination_device dstDeviceId,
            correlation correlationId);
        same!(ActivityMemset as CUpti_ActivityMemset4: bytes bytes, begin start, end end, device deviceId, context contextId,
            stream streamId, correlation correlationId);
        same!(ActivitySynchronization as CUpti_ActivitySynchronization: what type_, begin start, end end,
            correlation correlationId, context contextId, stream streamId);
    }
}
