//! Work of the GPUs with its measured times.

use stallmap_readers::trace::model::{TraceActivity, TraceKernel};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::word::ActivityKind;
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, append_batches, op_id, run_id};

/// A piece of work: a launch, or something else.
enum ActivityPiece<'a> {
    Kernel(KernelId, &'a TraceKernel, (i64, i64)),
    Other(&'a TraceActivity),
}

impl ActivityPiece<'_> {
    fn begin_ns(&self) -> i64 {
        match self {
            Self::Kernel(_, _, (begin, _)) => *begin,
            Self::Other(work) => work.begin_ns,
        }
    }

    fn process(&self) -> usize {
        match self {
            Self::Kernel(_, kernel, _) => kernel.process,
            Self::Other(work) => work.process,
        }
    }
}

/// Writes all work in the order of time, run after run.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    append_batches(writer, rows(writing))
}

/// All work in the order of time, run after run.
pub(super) fn rows<'a>(writing: &'a RecordingWriter<'_>) -> impl Iterator<Item = GpuActivity> + 'a {
    let kernels = writing
        .launched()
        .filter_map(|(id, _, kernel)| Some(ActivityPiece::Kernel(id, kernel, kernel.time_ns?)));
    let mut pieces: Vec<ActivityPiece<'_>> =
        kernels.chain(writing.trace.works.iter().map(ActivityPiece::Other)).collect();
    pieces.sort_by_key(|piece| (piece.process(), piece.begin_ns()));
    let mut next = (usize::MAX, 0);
    pieces.into_iter().map(move |piece| {
        let number = if next.0 == piece.process() { next.1 } else { 0 };
        next = (piece.process(), number + 1);
        row(writing, number, &piece)
    })
}

fn row(writing: &RecordingWriter<'_>, activity_id: u64, piece: &ActivityPiece<'_>) -> GpuActivity {
    match piece {
        ActivityPiece::Kernel(id, kernel, (begin_ns, end_ns)) => GpuActivity {
            run_id: run_id(kernel.process),
            activity_id,
            kind: ActivityKind::Kernel,
            kernel_id: Some(*id),
            kernel_name: None,
            device_id: Some(kernel.device),
            stream_id: Some(writing.names.stream(kernel.process, kernel.device, kernel.stream)),
            begin_ns: *begin_ns,
            end_ns: Some(*end_ns),
            size_bytes: None,
            copy_kind: None,
            peer_device_id: None,
            synchronization: None,
            correlation_id: kernel.correlation,
            op_id: None,
            call_begin_ns: None,
            call_end_ns: None,
            call_name: kernel.call_name.as_deref().map(str::to_owned),
            copy_memory: None,
        },
        ActivityPiece::Other(work) => GpuActivity {
            run_id: run_id(work.process),
            activity_id,
            kind: work.kind,
            kernel_id: None,
            kernel_name: None,
            device_id: work.device,
            stream_id: work
                .stream
                .map(|stream| writing.names.stream(work.process, work.device.unwrap_or(-1), stream)),
            begin_ns: work.begin_ns,
            end_ns: work.end_ns,
            size_bytes: work.bytes,
            copy_kind: work.copy,
            peer_device_id: work.peer,
            synchronization: work.wait,
            correlation_id: work.correlation,
            op_id: work.op.filter(|_| is_moving(work)).map(op_id),
            call_begin_ns: work.call.filter(|_| is_moving(work)).map(|call| call.begin_ns),
            call_end_ns: work.call.filter(|_| is_moving(work)).map(|call| call.end_ns),
            call_name: work.call_name.as_deref().filter(|_| is_moving(work)).map(str::to_owned),
            copy_memory: work.memory.as_deref().map(str::to_owned),
        },
    }
}

/// True for copies and fills. The call of a wait is the wait.
fn is_moving(work: &TraceActivity) -> bool {
    work.kind != ActivityKind::Synchronization
}
