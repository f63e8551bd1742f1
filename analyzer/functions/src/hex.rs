//! `hex(address)`: addresses in hexadecimal.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, StringArray};
use arrow::datatypes::{DataType, UInt64Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(DocSection::default(), "A number in hexadecimal, with 0x.", "hex(address)")
        .with_argument("address", "The number.")
        .with_sql_example("SELECT hex(address) FROM storage")
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct HexFunction(Signature);

impl Default for HexFunction {
    fn default() -> Self {
        Self(Signature::exact(vec![DataType::UInt64], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for HexFunction {
    fn name(&self) -> &'static str {
        "hex"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let numbers = arrays[0].as_primitive::<UInt64Type>();
        let text: StringArray = numbers.iter().map(|number| Some(format!("{:#x}", number?))).collect();
        Ok(ColumnarValue::Array(Arc::new(text)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}
