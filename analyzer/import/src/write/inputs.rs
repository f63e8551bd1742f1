//! Inputs of ops: shapes, types and values.

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::tables::tensor::OpInput;
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, op_id};

/// Writes them in the order of ops.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let with_inputs = writing.trace.ops.iter().enumerate();
    let with_inputs = with_inputs.filter_map(|(place, op)| Some((op_id(place), op.inputs()?)));
    writer.append_rows(with_inputs.flat_map(|(op_id, inputs)| {
        inputs.iter().map(move |input| OpInput {
            op_id,
            position: input.position,
            element: input.element,
            dtype: input.dtype.clone(),
            sizes: input.sizes.clone(),
            strides: input.strides.clone(),
            value: input.value.clone(),
        })
    }))
}
