//! Reads tensors, relations and unattributed labels from the rows of the queries.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, LargeStringArray, RecordBatch};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Float64Type, UInt64Type};

use crate::commands::arrow_failure;
use crate::exit::{Failure, Outcome, QUERY};

/// A tensor from the query.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Tensor {
    /// Its id.
    pub(super) id: u64,
    /// The tensor that it is a view of.
    pub(super) base_tensor_id: Option<u64>,
    /// Its name.
    pub(super) name: String,
    /// Element type and shape.
    pub(super) shape: Option<String>,
    /// The op that created it.
    pub(super) op: Option<String>,
    /// The line that created it.
    pub(super) born_at: Option<String>,
    /// The line that waited most for it.
    pub(super) stalled_at: Option<String>,
    /// True if its elements lie in the order of its dimensions.
    pub(super) is_contiguous: bool,
    /// Samples attributed to it.
    pub(super) samples: f64,
    /// Estimated time, nanoseconds. 0 if unknown.
    pub(super) time_ns: f64,
}

/// A relation between two tensors.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Relation {
    /// The tensor that was read.
    pub(super) source: u64,
    /// The tensor that was created or written.
    pub(super) target: u64,
    /// copy, `in_place` or op.
    pub(super) kind: String,
    /// The op.
    pub(super) op: Option<String>,
    /// The line that called it.
    pub(super) line: Option<String>,
    /// Calls.
    pub(super) calls: u64,
}

/// The tensors, bases before their views.
pub(super) fn tensors(rows: &[RecordBatch]) -> Outcome<Vec<Tensor>> {
    let mut tensors = Vec::new();
    for batch in rows {
        let (ids, bases) = (ids(batch, "tensor_id")?, optional_ids(batch, "base_tensor_id")?);
        let (name, shape, op) = (texts(batch, "tensor")?, texts(batch, "type")?, texts(batch, "op")?);
        let (born_at, stalled_at) = (texts(batch, "born_at")?, texts(batch, "stalled_at")?);
        let contiguous = flags(batch, "is_contiguous")?;
        let (samples, time) = (numbers(batch, "samples")?, numbers(batch, "estimated_ns")?);
        for row in 0..batch.num_rows() {
            tensors.push(Tensor {
                id: ids[row],
                base_tensor_id: bases[row],
                name: text(&name, row).unwrap_or_default(),
                shape: text(&shape, row),
                op: text(&op, row),
                born_at: text(&born_at, row),
                stalled_at: text(&stalled_at, row),
                is_contiguous: contiguous.is_valid(row) && contiguous.value(row),
                samples: samples[row],
                time_ns: time[row],
            });
        }
    }
    Ok(tensors)
}

/// The relations.
pub(super) fn relations(rows: &[RecordBatch]) -> Outcome<Vec<Relation>> {
    let mut relations = Vec::new();
    for batch in rows {
        let (source, target) = (ids(batch, "source_tensor_id")?, ids(batch, "target_tensor_id")?);
        let (kind, op, line) = (texts(batch, "kind")?, texts(batch, "op")?, texts(batch, "line")?);
        let calls = ids(batch, "calls")?;
        for row in 0..batch.num_rows() {
            relations.push(Relation {
                source: source[row],
                target: target[row],
                kind: text(&kind, row).unwrap_or_default(),
                op: text(&op, row),
                line: text(&line, row),
                calls: calls[row],
            });
        }
    }
    Ok(relations)
}

/// Unattributed samples with their labels.
pub(super) fn others(rows: &[RecordBatch]) -> Outcome<Vec<(String, f64)>> {
    let mut others = Vec::new();
    for batch in rows {
        let (remainder, samples) = (texts(batch, "remainder")?, numbers(batch, "samples")?);
        others.extend(
            (0..batch.num_rows()).map(|row| (text(&remainder, row).unwrap_or_default(), samples[row])),
        );
    }
    Ok(others)
}

/// A column as a type, in any encoding.
fn column(batch: &RecordBatch, name: &str, data_type: &DataType) -> Outcome<ArrayRef> {
    let found = batch.column_by_name(name);
    let found = found
        .ok_or_else(|| Failure::message(QUERY, format!("a query of sql/draw has no column `{name}`")))?;
    cast(found, data_type).map_err(arrow_failure)
}

fn optional_ids(batch: &RecordBatch, name: &str) -> Outcome<Vec<Option<u64>>> {
    Ok(column(batch, name, &DataType::UInt64)?.as_primitive::<UInt64Type>().iter().collect())
}

fn ids(batch: &RecordBatch, name: &str) -> Outcome<Vec<u64>> {
    Ok(optional_ids(batch, name)?.into_iter().map(Option::unwrap_or_default).collect())
}

/// Numbers. Unknown ones count as zero.
fn numbers(batch: &RecordBatch, name: &str) -> Outcome<Vec<f64>> {
    let array = column(batch, name, &DataType::Float64)?;
    Ok(array.as_primitive::<Float64Type>().iter().map(Option::unwrap_or_default).collect())
}

fn flags(batch: &RecordBatch, name: &str) -> Outcome<BooleanArray> {
    Ok(column(batch, name, &DataType::Boolean)?.as_boolean().clone())
}

fn texts(batch: &RecordBatch, name: &str) -> Outcome<LargeStringArray> {
    Ok(column(batch, name, &DataType::LargeUtf8)?.as_string::<i64>().clone())
}

fn text(column: &LargeStringArray, row: usize) -> Option<String> {
    column.is_valid(row).then(|| column.value(row).to_owned())
}
