//! Columns of batches, by name and type.

use arrow::array::{ArrowPrimitiveType, AsArray as _, PrimitiveArray, RecordBatch};
use datafusion::error::{DataFusionError, Result};

/// A column of numbers. An error if it is missing or of another type.
pub fn column<'a, T: ArrowPrimitiveType>(
    batch: &'a RecordBatch,
    name: &str,
) -> Result<&'a PrimitiveArray<T>> {
    batch.column_by_name(name).and_then(|array| array.as_primitive_opt::<T>()).ok_or_else(|| wrong(name))
}

/// The error for a column that differs from the schema.
pub fn wrong(name: &str) -> DataFusionError {
    DataFusionError::Execution(format!("column `{name}` is missing or of another type than declared"))
}
