//! `kernel_label(name)`: a kernel's name that is short enough for a sentence.

mod label;
mod name;

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{Signature, TypeSignature, Volatility};

use self::label::{LabelDetail, label};
use super::column_function::{ColumnFunction, doc};

/// The function.
pub(super) fn function() -> ColumnFunction {
    let description = "A short name of a kernel: without return type, namespaces, template arguments and parameters, \
        but with its functor and element type in brackets. Names of libraries such as nvjet stay complete. Different \
        kernels can have one label: see `kernel_name`.";
    let forms = [vec![DataType::Utf8], vec![DataType::Utf8, DataType::Int64]];
    ColumnFunction {
        name: "kernel_label",
        signature: Signature::one_of(forms.map(TypeSignature::Exact).into(), Volatility::Immutable),
        returns: DataType::Utf8,
        doc: doc(description, "kernel_label(name[, detail])")
            .with_argument("name", "The source-level name.")
            .with_argument("detail", "0 [default], or 1 to add the numbers among the template arguments.")
            .with_sql_example("SELECT kernel_label(demangled_name) FROM function")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let details = columns.get(1).map(AsArray::as_primitive::<Int64Type>);
    let detail = |row| match details {
        Some(details) if details.value(row) > 0 => LabelDetail::Numbers,
        _ => LabelDetail::Least,
    };
    let names = columns[0].as_string::<i32>().iter().enumerate();
    let labels: StringArray = names.map(|(row, name)| Some(label(name?, detail(row)))).collect();
    Ok(Arc::new(labels))
}
