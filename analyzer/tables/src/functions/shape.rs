//! `shape(sizes, strides)`: a tensor's shape as text.

use std::fmt::Write as _;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;

use super::column_function::{ColumnFunction, doc, exact, list_of};

/// The function.
pub(super) fn function() -> ColumnFunction {
    ColumnFunction {
        name: "shape",
        signature: exact([list_of(DataType::Int64), list_of(DataType::Int64)]),
        returns: DataType::Utf8,
        doc: doc("Sizes, such as 4x16, and strides if not contiguous.", "shape(sizes, strides)")
            .with_argument("sizes", "Elements in each dimension.")
            .with_argument("strides", "Elements between neighbours in each dimension.")
            .with_sql_example("SELECT shape(sizes, strides) FROM tensor")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (sizes, strides) = (columns[0].as_list::<i32>(), columns[1].as_list::<i32>());
    let shapes = (0..sizes.len()).map(|row| Some(shape(&numbers(sizes, row)?, &numbers(strides, row)?)));
    Ok(Arc::new(shapes.collect::<StringArray>()))
}

/// The numbers of a row. None if it is null.
pub(super) fn numbers(list: &ListArray, row: usize) -> Option<Vec<i64>> {
    list.is_valid(row).then(|| list.value(row).as_primitive::<Int64Type>().values().to_vec())
}

fn shape(sizes: &[i64], strides: &[i64]) -> String {
    if sizes.is_empty() {
        return "scalar".to_owned();
    }
    let mut text = joined(sizes, "x");
    let mut contiguous = 1_i64;
    let is_contiguous = sizes.iter().zip(strides).rev().all(|(&size, &stride)| {
        let follows = size == 1 || stride == contiguous;
        contiguous = contiguous.saturating_mul(size);
        follows
    });
    if !is_contiguous && !sizes.contains(&0) {
        // Writing to a string cannot fail.
        _ = write!(text, " strides {}", joined(strides, ","));
    }
    text
}

fn joined(numbers: &[i64], separator: &str) -> String {
    numbers.iter().map(i64::to_string).collect::<Vec<_>>().join(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strides_are_said_where_they_matter() {
        assert_eq!(shape(&[4, 16], &[16, 1]), "4x16");
        assert_eq!(shape(&[16, 4], &[1, 16]), "16x4 strides 1,16");
        assert_eq!(shape(&[4, 1, 2], &[2, 99, 1]), "4x1x2");
        assert_eq!(shape(&[3, 5], &[1, 0]), "3x5 strides 1,0");
        assert_eq!(shape(&[0, 5], &[9, 9]), "0x5");
        assert_eq!(shape(&[], &[]), "scalar");
    }
}
