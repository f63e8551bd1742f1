//! `kernel_label(name)`: a kernel's name that is short enough for a sentence.

mod label;
mod name;

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::{DataType, Int64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};

use self::label::{LabelDetail, label};

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "A short name of a kernel: without return type, namespaces, template arguments and parameters, \
        but with its functor and element type in brackets. Names of libraries such as nvjet stay complete. Different \
        kernels can have one label: see `kernel_name`.";
    Documentation::builder(DocSection::default(), description, "kernel_label(name[, detail])")
        .with_argument("name", "The source-level name.")
        .with_argument("detail", "0 [default], or 1 to add the numbers among the template arguments.")
        .with_sql_example("SELECT kernel_label(demangled_name) FROM function")
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct KernelLabel(Signature);

impl Default for KernelLabel {
    fn default() -> Self {
        let forms = [vec![DataType::Utf8], vec![DataType::Utf8, DataType::Int64]];
        Self(Signature::one_of(forms.map(TypeSignature::Exact).into(), Volatility::Immutable))
    }
}

impl ScalarUDFImpl for KernelLabel {
    fn name(&self) -> &'static str {
        "kernel_label"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let details = arrays.get(1).map(AsArray::as_primitive::<Int64Type>);
        let detail = |row| match details {
            Some(details) if details.value(row) > 0 => LabelDetail::Numbers,
            _ => LabelDetail::Least,
        };
        let names = arrays[0].as_string::<i32>().iter().enumerate();
        let labels: StringArray = names.map(|(row, name)| Some(label(name?, detail(row)))).collect();
        Ok(ColumnarValue::Array(Arc::new(labels)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}
