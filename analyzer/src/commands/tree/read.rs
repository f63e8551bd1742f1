//! Reads launches from the rows of the query.

use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type};

use super::cost::Cost;
use super::path::Launch;
use crate::commands::arrow_failure;
use crate::exit::{Failure, Outcome, QUERY};

/// The launches of the query's rows.
pub(super) fn launches(rows: &[RecordBatch]) -> Outcome<Vec<Launch>> {
    let mut launches = Vec::new();
    for batch in rows {
        let (frames, user_frames) = (lists(batch, "frames")?, lists(batch, "user_frames")?);
        let (forward_frames, ops) = (lists(batch, "forward_frames")?, lists(batch, "ops")?);
        let (module, phase, step) =
            (texts(batch, "module_path")?, texts(batch, "phase")?, texts(batch, "step")?);
        let kernel = texts(batch, "kernel")?;
        let (samples, memory) = (numbers(batch, "samples")?, numbers(batch, "memory_samples")?);
        let (time, timed) = (numbers(batch, "estimated_ns")?, texts(batch, "estimated_ns")?);
        for row in 0..batch.num_rows() {
            let text = |column: &LargeStringArray| column.is_valid(row).then(|| column.value(row).to_owned());
            launches.push(Launch {
                frames: names(&frames, row),
                user_frames: names(&user_frames, row),
                forward_frames: names(&forward_frames, row),
                module: text(&module)
                    .map(|path| path.split('.').map(str::to_owned).collect())
                    .unwrap_or_default(),
                phase: text(&phase),
                step: text(&step).map(|step| format!("step {step}")),
                ops: names(&ops, row),
                kernel: text(&kernel),
                cost: Cost {
                    samples: samples[row],
                    memory_samples: memory[row],
                    time_ns: time[row],
                    launches: 1.0,
                },
                lacks_time: samples[row] > 0.0 && timed.is_null(row),
            });
        }
    }
    Ok(launches)
}

/// A column as a type, whatever its encoding.
fn column(batch: &RecordBatch, name: &str, data_type: &DataType) -> Outcome<ArrayRef> {
    let found = batch.column_by_name(name);
    let found = found
        .ok_or_else(|| Failure::message(QUERY, format!("sql/tree/launches.sql has no column `{name}`")))?;
    cast(found, data_type).map_err(arrow_failure)
}

fn texts(batch: &RecordBatch, name: &str) -> Outcome<LargeStringArray> {
    Ok(column(batch, name, &DataType::LargeUtf8)?.as_string::<i64>().clone())
}

/// Numbers; what is not known adds nothing.
fn numbers(batch: &RecordBatch, name: &str) -> Outcome<Vec<f64>> {
    let array = column(batch, name, &DataType::Float64)?;
    Ok(array.as_primitive::<Float64Type>().iter().map(Option::unwrap_or_default).collect())
}

fn lists(batch: &RecordBatch, name: &str) -> Outcome<ArrayRef> {
    let item = Field::new_list_field(DataType::LargeUtf8, true);
    column(batch, name, &DataType::LargeList(item.into()))
}

/// One row's list of names.
fn names(lists: &ArrayRef, row: usize) -> Vec<String> {
    if lists.is_null(row) {
        return Vec::new();
    }
    let list = lists.as_list::<i64>().value(row);
    list.as_string::<i64>().iter().flatten().map(str::to_owned).collect()
}
