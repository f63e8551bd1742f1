//! Inputs of ops: shapes, types and values. Numbers of regions.

use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::tables::tensor::{OpInput, OpMetric};
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, append_batches, op_id};

/// Writes them in the order of ops.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let with_inputs = writing.trace.ops.iter().enumerate();
    let with_inputs = with_inputs.filter_map(|(place, op)| Some((op_id(place), op.inputs()?)));
    let rows = with_inputs.flat_map(|(op_id, inputs)| {
        inputs.iter().map(move |input| OpInput {
            op_id,
            position: input.position,
            element: input.element,
            dtype: input.dtype.clone(),
            sizes: input.sizes.clone(),
            strides: input.strides.clone(),
            value: input.value.clone(),
        })
    });
    append_batches(writer, rows)?;
    let mut numbers: Vec<OpMetric> = writing
        .trace
        .region_numbers
        .iter()
        .map(|number| OpMetric {
            op_id: op_id(number.op),
            name: number.name.to_string(),
            value: number.value,
            unit: number.unit.map(str::to_owned),
        })
        .collect();
    numbers.sort_by(|a, b| (a.op_id, &a.name).cmp(&(b.op_id, &b.name)));
    numbers.dedup_by(|a, b| (a.op_id, &a.name) == (b.op_id, &b.name));
    writer.append_rows(numbers)
}
