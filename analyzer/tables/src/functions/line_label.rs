//! `line_label(line, forward_line)`: a Python line as reports show it.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;

use super::column_function::{ColumnFunction, doc, exact};

/// The function.
pub(super) fn function() -> ColumnFunction {
    let description = "The line to look at: in backward, the line whose gradient this is, with (grad). Else the line itself.";
    ColumnFunction {
        name: "line_label",
        signature: exact([DataType::Utf8View, DataType::Utf8View]),
        returns: DataType::Utf8View,
        doc: doc(description, "line_label(line, forward_line)")
            .with_argument("line", "The innermost line in the user's code.")
            .with_argument("forward_line", "In backward, the line whose gradient this is, else null.")
            .with_sql_example("SELECT kernel_id, line_label(line, forward_line) FROM launch_context")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let (lines, forward_lines) = (columns[0].as_string_view(), columns[1].as_string_view());
    let labels = lines.iter().zip(forward_lines).map(|(line, forward_line)| match forward_line {
        Some(line) => Some(Cow::Owned(format!("{line} (grad)"))),
        None => line.map(Cow::Borrowed),
    });
    Ok(Arc::new(labels.collect::<StringViewArray>()))
}
