//! Reads launches from the rows of the query.

use arrow::array::{Array, ArrayRef, AsArray, LargeStringArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type};

use super::chance::{Chance, Chances};
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
        let chances = chances(batch)?;
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
                    chances: chances.get(row).copied().unwrap_or_default(),
                },
                lacks_time: samples[row] > 0.0 && timed.is_null(row),
            });
        }
    }
    Ok(launches)
}

/// Variances of each row's numbers. Empty if the query does not return them.
fn chances(batch: &RecordBatch) -> Outcome<Vec<Chances>> {
    if batch.column_by_name("samples_variance").is_none() {
        return Ok(Vec::new());
    }
    let of = |name: &str, value: &str| -> Outcome<Vec<Chance>> {
        let values = numbers(batch, value)?;
        let variances = numbers(batch, &format!("{name}_variance"))?;
        let freedoms = numbers(batch, &format!("{name}_freedom"))?;
        let pearsons = numbers(batch, &format!("{name}_pearson"))?;
        let rows = values.into_iter().zip(variances).zip(freedoms.into_iter().zip(pearsons));
        let chance = |((value, variance), (freedom, pearson)): ((f64, f64), (f64, f64))| Chance {
            variance,
            // Exact values have no variation.
            squares: if variance > 0.0 { value * value } else { 0.0 },
            freedom,
            pearson,
        };
        Ok(rows.map(chance).collect())
    };
    let (samples, memory) = (of("samples", "samples")?, of("memory", "memory_samples")?);
    let rows = samples.into_iter().zip(memory).zip(of("time", "estimated_ns")?);
    Ok(rows.map(|((samples, memory), time)| Chances { samples, memory, time }).collect())
}

/// A column as a type, in any encoding.
fn column(batch: &RecordBatch, name: &str, data_type: &DataType) -> Outcome<ArrayRef> {
    let found = batch.column_by_name(name);
    let found = found
        .ok_or_else(|| Failure::message(QUERY, format!("the query of launches has no column `{name}`")))?;
    cast(found, data_type).map_err(arrow_failure)
}

fn texts(batch: &RecordBatch, name: &str) -> Outcome<LargeStringArray> {
    Ok(column(batch, name, &DataType::LargeUtf8)?.as_string::<i64>().clone())
}

/// Numbers. Unknown ones count as zero.
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
