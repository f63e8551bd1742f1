//! `hex(address)`: addresses in hexadecimal.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::error::Result;

use super::column_function::{ColumnFunction, doc, exact};

/// The function.
pub(super) fn function() -> ColumnFunction {
    ColumnFunction {
        name: "hex",
        signature: exact([DataType::UInt64]),
        returns: DataType::Utf8,
        doc: doc("A number in hexadecimal, with 0x.", "hex(address)")
            .with_argument("address", "The number.")
            .with_sql_example("SELECT hex(address) FROM storage")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let numbers = columns[0].as_primitive::<UInt64Type>();
    let text: StringArray = numbers.iter().map(|number| Some(format!("{:#x}", number?))).collect();
    Ok(Arc::new(text))
}
