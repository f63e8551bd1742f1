//! `element_index(address, first_address, element_bytes, sizes, strides)`: the index of an element by its address.

use std::cmp::Reverse;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, AsArray, StringArray};
use arrow::datatypes::{DataType, UInt32Type, UInt64Type};
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, DocSection, Documentation, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::column_function::list_of;
use super::shape::numbers;

static DOC: LazyLock<Documentation> = LazyLock::new(|| {
    let description = "Index of the element that holds an address, such as [3, 0], by a tensor's strides. Addresses outside \
                       of the tensor have an index outside of its shape, as if it went on. Null where no element holds the \
                       address, and without elements.";
    let syntax = "element_index(address, first_address, element_bytes, sizes, strides)";
    Documentation::builder(DocSection::default(), description, syntax)
        .with_argument("address", "An address.")
        .with_argument("first_address", "Address of the first element.")
        .with_argument("element_bytes", "Bytes of an element.")
        .with_argument("sizes", "Elements in each dimension.")
        .with_argument("strides", "Elements between neighbours in each dimension.")
        .with_sql_example(
            "SELECT element_index(address + 8, address, element_bytes, sizes, strides) FROM tensor",
        )
        .build()
});

/// The function.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct ElementIndex(Signature);

impl Default for ElementIndex {
    fn default() -> Self {
        Self(Signature::user_defined(Volatility::Immutable))
    }
}

impl ScalarUDFImpl for ElementIndex {
    fn name(&self) -> &'static str {
        "element_index"
    }

    fn signature(&self) -> &Signature {
        &self.0
    }

    /// Sums of addresses and numbers have other types.
    fn coerce_types(&self, arguments: &[DataType]) -> Result<Vec<DataType>> {
        let list = list_of(DataType::Int64);
        let wanted = vec![DataType::UInt64, DataType::UInt64, DataType::UInt32, list.clone(), list];
        let fits = |(given, wanted): (&DataType, &DataType)| {
            given.is_null() || given.is_numeric() && wanted.is_numeric() || given == wanted
        };
        if arguments.len() != wanted.len() || !arguments.iter().zip(&wanted).all(fits) {
            return plan_err!("element_index takes three numbers and two lists");
        }
        Ok(wanted)
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let (address, first) =
            (arrays[0].as_primitive::<UInt64Type>(), arrays[1].as_primitive::<UInt64Type>());
        let element_bytes = arrays[2].as_primitive::<UInt32Type>();
        let (sizes, strides) = (arrays[3].as_list::<i32>(), arrays[4].as_list::<i32>());
        let index = |row: usize| {
            let is_known = address.is_valid(row) && first.is_valid(row) && element_bytes.is_valid(row);
            let bytes = i128::from(address.value(row)) - i128::from(first.value(row));
            let geometry = (numbers(sizes, row)?, numbers(strides, row)?);
            is_known.then(|| index_of(bytes, element_bytes.value(row), &geometry.0, &geometry.1)).flatten()
        };
        Ok(ColumnarValue::Array(Arc::new((0..address.len()).map(index).collect::<StringArray>())))
    }

    fn documentation(&self) -> Option<&Documentation> {
        Some(&DOC)
    }
}

/// The index of the element at a distance from the first. The largest stride comes first. Dimensions that do not move
/// have index 0.
fn index_of(bytes: i128, element_bytes: u32, sizes: &[i64], strides: &[i64]) -> Option<String> {
    if element_bytes == 0 || sizes.len() != strides.len() || sizes.contains(&0) {
        return None;
    }
    let mut rest = bytes.div_euclid(i128::from(element_bytes));
    let mut moving: Vec<usize> =
        (0..sizes.len()).filter(|&dimension| sizes[dimension] > 1 && strides[dimension] > 0).collect();
    moving.sort_by_key(|&dimension| Reverse((strides[dimension], sizes[dimension])));
    let mut index = vec![0; sizes.len()];
    for &dimension in &moving {
        let stride = i128::from(strides[dimension]);
        index[dimension] = rest.div_euclid(stride);
        rest -= index[dimension] * stride;
    }
    // A tensor of one element goes on in its last dimension.
    if moving.is_empty()
        && let Some(last) = index.last_mut()
    {
        *last = std::mem::take(&mut rest);
    }
    let texts: Vec<String> = index.iter().map(i128::to_string).collect();
    (rest == 0).then(|| format!("[{}]", texts.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(bytes: i128, sizes: &[i64], strides: &[i64], index: Option<&str>) {
        assert_eq!(index_of(bytes, 4, sizes, strides).as_deref(), index);
    }

    #[test]
    fn elements_are_found_by_strides() {
        check(4 * 17, &[4, 16], &[16, 1], Some("[1, 1]"));
        check(4 * 17 + 3, &[16, 4], &[1, 16], Some("[1, 1]"));
        check(4 * 128, &[32, 64], &[128, 1], Some("[1, 0]"));
        check(8, &[3, 5], &[2, 0], Some("[1, 0]"));
        check(4 * 7, &[2, 1, 3], &[5, 99, 1], Some("[1, 0, 2]"));
        check(0, &[], &[], Some("[]"));
    }

    #[test]
    fn elements_outside_have_an_index_outside() {
        check(4 * 1000, &[1000], &[1], Some("[1000]"));
        check(-4, &[10, 64], &[64, 1], Some("[-1, 63]"));
        check(4 * 64, &[32, 64], &[128, 1], Some("[0, 64]"));
        check(4, &[1], &[1], Some("[1]"));
    }

    #[test]
    fn holes_have_no_element() {
        check(4, &[3, 5], &[10, 2], None);
        check(4, &[0], &[1], None);
        assert_eq!(index_of(4, 0, &[3], &[1]), None);
    }
}
