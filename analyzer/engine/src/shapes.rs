//! Requests with their shapes, one row each: the rows of `access_shape`.

use std::sync::Arc;

use crate::memory::patterns::LaneDistances;
use arrow::array::{ArrayRef, BooleanArray, Int64Array, RecordBatch, RecordBatchOptions, UInt32Array};
use arrow::datatypes::SchemaRef;
use datafusion::error::Result;
use stallmap_schema::cell::ColumnCell;

use super::access::AccessBatch;
use super::index::wrong;
use super::request::{SECTOR_BYTES, WarpRequest};
use super::rows::{small_numbers, words};
use super::shape::{AccessedShape, BankCost};

/// Turns batches of `memory_access` into batches of `access_shape`.
#[derive(Debug)]
pub(super) struct AccessShapeRows {
    schema: SchemaRef,
    wants_shape: bool,
    wants_banks: bool,
}

const OF_SHAPE: [&str; 8] = [
    "lane_count",
    "sectors",
    "line_count",
    "unique_bytes",
    "ideal_sectors",
    "class",
    "lane_stride_bytes",
    "is_misaligned",
];
const OF_BANKS: [&str; 3] = ["wavefronts", "passes", "bank_conflicts"];

impl AccessShapeRows {
    pub(super) fn new(schema: SchemaRef) -> Self {
        let wants = |names: &[&str]| names.iter().any(|name| schema.field_with_name(name).is_ok());
        Self { wants_shape: wants(&OF_SHAPE), wants_banks: wants(&OF_BANKS), schema }
    }

    /// The rows of a batch.
    pub(super) fn convert(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let accesses = AccessBatch::new(batch)?;
        let rows = 0..batch.num_rows();
        let shapes: Vec<AccessedShape> = if self.wants_shape {
            let mut patterns = LaneDistances::default();
            rows.clone().map(|row| patterns.shape(&accesses.request(row))).collect()
        } else {
            Vec::new()
        };
        let banks: Vec<Option<BankCost>> = if self.wants_banks {
            let banked = |row| accesses.is_shared(row).then(|| accesses.request(row).banked());
            rows.clone().map(banked).collect()
        } else {
            Vec::new()
        };
        let columns: Result<Vec<ArrayRef>> = self
            .schema
            .fields()
            .iter()
            .map(|field| match (field.name().as_str(), batch.column_by_name(field.name())) {
                (_, Some(column)) => Ok(Arc::clone(column)),
                (name, _) if OF_SHAPE.contains(&name) => Ok(of_shape(name, &shapes)),
                (name, _) if OF_BANKS.contains(&name) => Ok(of_banks(name, &banks)),
                ("lanes", _) => Ok(lists(&accesses, batch.num_rows(), |(lane, _)| lane)),
                ("addresses", _) => Ok(lists(&accesses, batch.num_rows(), |(_, address)| address)),
                (name, _) => Err(wrong(name)),
            })
            .collect();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        Ok(RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns?, &options)?)
    }
}

fn of_shape(name: &str, shapes: &[AccessedShape]) -> ArrayRef {
    let small = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    match name {
        "lane_count" => small_numbers(shapes.iter().map(|shape| shape.lanes)),
        "sectors" => small_numbers(shapes.iter().map(|shape| small(shape.sectors))),
        "line_count" => small_numbers(shapes.iter().map(|shape| small(shape.lines))),
        "unique_bytes" => small_numbers(shapes.iter().map(|shape| small(shape.unique_bytes))),
        "ideal_sectors" => {
            small_numbers(shapes.iter().map(|shape| small(shape.unique_bytes.div_ceil(SECTOR_BYTES))))
        }
        "class" => words(shapes.iter().map(|shape| shape.class.word())),
        "is_misaligned" => {
            Arc::new(shapes.iter().map(|shape| Some(shape.is_misaligned)).collect::<BooleanArray>())
        }
        _ => Arc::new(shapes.iter().map(|shape| shape.stride_bytes).collect::<Int64Array>()),
    }
}

fn of_banks(name: &str, banks: &[Option<BankCost>]) -> ArrayRef {
    let value = |banked: BankCost| match name {
        "wavefronts" => banked.wavefronts,
        "passes" => banked.passes,
        _ => banked.wavefronts.saturating_sub(banked.passes),
    };
    Arc::new(banks.iter().map(|banked| banked.map(value)).collect::<UInt32Array>())
}

/// One list per request, with a value of each active lane, lowest lane first.
fn lists<T>(accesses: &AccessBatch<'_>, rows: usize, value: impl Fn((u32, u64)) -> T) -> ArrayRef
where
    Vec<T>: ColumnCell,
{
    let mut builder = <Vec<T> as ColumnCell>::Builder::default();
    for row in 0..rows {
        let request: WarpRequest<'_> = accesses.request(row);
        request.addresses().map(&value).collect::<Vec<T>>().append(&mut builder);
    }
    arrow::array::ArrayBuilder::finish(&mut builder)
}
