//! Memory accesses in the order of their table.

use stallmap_readers::trace::model::TraceAccess;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::{Address, FunctionId, KernelId, Pc};
use stallmap_schema::tables::memory::MemoryAccess;
use stallmap_write::CaptureWriter;

use super::RecordingWriter;

/// Writes all accesses.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let ids = writing.ids();
    let launch = |access: &TraceAccess| {
        let kernel = writing.trace.kernels.get(access.kernel)?;
        Some((*ids.get(&access.kernel)?, writing.names.function(kernel)))
    };
    let launched = writing.trace.accesses.iter().filter_map(|access| Some((launch(access)?, access)));
    let mut all: Vec<((KernelId, FunctionId), &TraceAccess)> = launched.collect();
    all.sort_by_key(|(launch, access)| (*launch, access.pc, access.block, access.warp, access.sequence));
    writer.append_rows(all.into_iter().map(|((kernel_id, function_id), access)| MemoryAccess {
        kernel_id,
        function_id,
        pc: Pc(access.pc),
        block: access.block,
        warp: access.warp,
        sequence: access.sequence,
        kind: access.kind,
        space: access.space,
        access_bytes: access.bytes,
        lane_mask: access.lane_mask,
        address: Address(access.address),
        span_bytes: access.span_bytes,
        stride_bytes: access.stride_bytes,
        offsets: access.offsets.as_deref().map(<[u32]>::to_vec),
        offset_shift: access.offset_shift,
    }))
}
