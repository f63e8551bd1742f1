//! `lane_count(mask)`: the number of lanes in a mask.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::error::Result;

use super::column_function::{ColumnFunction, doc, exact};

/// The function.
pub(super) fn function() -> ColumnFunction {
    ColumnFunction {
        name: "lane_count",
        signature: exact([DataType::UInt32]),
        returns: DataType::UInt32,
        doc: doc("The number of lanes in a mask.", "lane_count(mask)")
            .with_argument("mask", "One bit per lane.")
            .with_sql_example("SELECT sum(lane_count(lane_mask)) FROM memory_access")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let counts: UInt32Array = columns[0].as_primitive::<UInt32Type>().unary(u32::count_ones);
    Ok(Arc::new(counts))
}
