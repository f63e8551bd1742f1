//! `collective_kind(name)`: the kind of a kernel that exchanges data between GPUs.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};
use stallmap_schema::word::CollectiveKind;

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "The kind of a collective, such as all_reduce, by the name of its kernel: of NCCL, RCCL, NVSHMEM, symmetric \
        memory, and the kernels of inference servers. Null for other kernels.";
    Documentation::builder(DocSection::default(), description, "collective_kind(name)")
        .with_argument("name", "The kernel's name, mangled or not.")
        .with_sql_example("SELECT name, collective_kind(name) FROM function")
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct KindOfCollective(Signature);

impl Default for KindOfCollective {
    fn default() -> Self {
        Self(Signature::exact(vec![DataType::Utf8], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for KindOfCollective {
    fn name(&self) -> &'static str {
        "collective_kind"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let names = arrays[0].as_string::<i32>().iter();
        let kinds: StringArray =
            names.map(|name| CollectiveKind::from_kernel(name?).map(CollectiveKind::word)).collect();
        Ok(ColumnarValue::Array(Arc::new(kinds)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}
