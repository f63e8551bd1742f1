//! `lane_count(mask)`: the number of lanes in a mask.

use std::sync::{Arc, LazyLock};

use arrow::array::{AsArray, UInt32Array};
use arrow::datatypes::{DataType, UInt32Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    Documentation::builder(DocSection::default(), "The number of lanes in a mask.", "lane_count(mask)")
        .with_argument("mask", "One bit per lane.")
        .with_sql_example("SELECT sum(lane_count(lane_mask)) FROM memory_access")
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct LaneCount(Signature);

impl Default for LaneCount {
    fn default() -> Self {
        Self(Signature::exact(vec![DataType::UInt32], Volatility::Immutable))
    }
}

impl ScalarUDFImpl for LaneCount {
    fn name(&self) -> &'static str {
        "lane_count"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::UInt32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let counts: UInt32Array = arrays[0].as_primitive::<UInt32Type>().unary(u32::count_ones);
        Ok(ColumnarValue::Array(Arc::new(counts)))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}
