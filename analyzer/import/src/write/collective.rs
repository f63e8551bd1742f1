//! Launches that are collectives, with their arguments.

use stallmap_readers::trace::model::CollectiveCall;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::launch::LaunchCollective;
use stallmap_write::CaptureWriter;

use super::RecordingWriter;

/// Writes them in the order of launches.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let launched = writing.launched();
    writer.append_rows(launched.filter_map(|(id, _, kernel)| Some(row(id, kernel.collective.as_deref()?))))
}

fn row(kernel_id: KernelId, call: &CollectiveCall) -> LaunchCollective {
    LaunchCollective {
        kernel_id,
        kind: call.kind,
        call_name: call.name.clone(),
        in_element_count: call.in_elements,
        out_element_count: call.out_elements,
        dtype: call.dtype.clone(),
        element_bytes: call.element_bytes,
        group_name: call.group.clone(),
        group_description: call.group_description.clone(),
        group_ranks: call.group_ranks.clone(),
        group_size: call.group_size,
        sequence_number: call.sequence,
        match_id: call.match_id,
    }
}
