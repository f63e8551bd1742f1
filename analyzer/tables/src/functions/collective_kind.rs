//! `collective_kind(name)`: the kind of a kernel that exchanges data between GPUs.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use stallmap_schema::word::CollectiveKind;

use super::column_function::{ColumnFunction, doc, exact};

/// The function.
pub(super) fn function() -> ColumnFunction {
    let description = "The kind of a collective, such as all_reduce, by the name of its kernel: of NCCL, RCCL, NVSHMEM, symmetric \
        memory, and the kernels of inference servers. Null for other kernels.";
    ColumnFunction {
        name: "collective_kind",
        signature: exact([DataType::Utf8]),
        returns: DataType::Utf8,
        doc: doc(description, "collective_kind(name)")
            .with_argument("name", "The kernel's name, mangled or not.")
            .with_sql_example("SELECT name, collective_kind(name) FROM function")
            .build(),
        compute,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "other functions of columns can fail")]
fn compute(columns: &[ArrayRef]) -> Result<ArrayRef> {
    let names = columns[0].as_string::<i32>().iter();
    let kinds: StringArray =
        names.map(|name| CollectiveKind::from_kernel(name?).map(CollectiveKind::word)).collect();
    Ok(Arc::new(kinds))
}
