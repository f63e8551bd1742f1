//! DataFusion's functions whose results grow with a number in the statement, with a bound.
//!
//! DataFusion reserves memory for rows that operators keep, not for results of functions: `repeat('x', 1000000000)` of
//! three rows takes gigabytes, whatever `--memory` allows. Here a result's size is known before it is computed.

use arrow::array::{Array as _, AsArray as _};
use arrow::compute::cast;
use arrow::compute::kernels::length::length;
use arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature,
};

/// Most bytes of the results of a batch.
const MOST_BYTES: u64 = 256 << 20;
/// Bytes of a number or character.
const PIECE_BYTES: u64 = 8;

/// The functions, as DataFusion calls them.
pub const NAMES: [&str; 8] =
    ["repeat", "lpad", "rpad", "replace", "array_repeat", "array_resize", "range", "generate_series"];

/// A function that refuses to make a result beyond the bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Bounded(ScalarUDF);

/// The function with a bound.
pub fn bounded(function: &ScalarUDF) -> ScalarUDF {
    ScalarUDF::from(Bounded(function.clone()))
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.0.inner().return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.0.inner().return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.0.inner().coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.0.inner().simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.0.inner().documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { args.number_rows };
        if size(self.name(), &args.args, rows)? > MOST_BYTES {
            let (name, most) = (self.name(), MOST_BYTES >> 20);
            let reason =
                format!("`{name}` makes more than {most} MiB at once: shorten it, or select fewer rows");
            return Err(DataFusionError::Execution(reason));
        }
        self.0.inner().invoke_with_args(args)
    }
}

/// The most bytes that a function makes of its arguments.
fn size(name: &str, args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let numbers = |place: usize| args.get(place).map_or(Ok(Each::One(0)), numbers);
    let lengths = |place: usize| args.get(place).map_or(Ok(Each::One(0)), lengths);
    let sum = |of: &dyn Fn(usize) -> u64| (0..rows).fold(0_u64, |sum, row| sum.saturating_add(of(row)));
    Ok(match name {
        "repeat" => {
            let (texts, counts) = (lengths(0)?, numbers(1)?);
            sum(&|row| natural(texts.at(row)).saturating_mul(natural(counts.at(row))))
        }
        "replace" => {
            // Each character is found, and one place more.
            let (texts, from, to) = (lengths(0)?, lengths(1)?, lengths(2)?);
            let found = |row| natural(texts.at(row)) / natural(from.at(row)).max(1) + 1;
            sum(&|row| found(row).saturating_mul(natural(to.at(row)).saturating_sub(natural(from.at(row)))))
        }
        "array_repeat" => {
            let (bytes, counts) = (bytes(args.first(), rows), numbers(1)?);
            sum(&|row| bytes.saturating_mul(natural(counts.at(row))))
        }
        "range" | "generate_series" => match args {
            // Dates and times: steps are intervals.
            [first, ..] if !first.data_type().is_integer() => 0,
            _ => {
                let (from, to) =
                    if args.len() > 1 { (numbers(0)?, numbers(1)?) } else { (Each::One(0), numbers(0)?) };
                let steps = if args.len() > 2 { numbers(2)? } else { Each::One(1) };
                let count = |row| to.at(row).abs_diff(from.at(row)) / steps.at(row).unsigned_abs().max(1);
                sum(&|row| PIECE_BYTES.saturating_mul(count(row)))
            }
        },
        // Characters, or elements.
        _ => {
            let counts = numbers(1)?;
            sum(&|row| PIECE_BYTES.saturating_mul(natural(counts.at(row))))
        }
    })
}

/// A number of each row.
enum Each {
    One(i64),
    Rows(Vec<i64>),
}

impl Each {
    fn at(&self, row: usize) -> i64 {
        match self {
            Self::One(number) => *number,
            Self::Rows(numbers) => numbers.get(row).copied().unwrap_or(0),
        }
    }

    fn of(
        value: &ColumnarValue,
        convert: impl Fn(&dyn arrow::array::Array) -> Result<Vec<i64>>,
    ) -> Result<Self> {
        Ok(match value {
            ColumnarValue::Scalar(one) => {
                Self::One(convert(one.to_array()?.as_ref())?.first().copied().unwrap_or(0))
            }
            ColumnarValue::Array(array) => Self::Rows(convert(array.as_ref())?),
        })
    }
}

fn natural(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

/// Numbers, 0 where there is none.
fn numbers(value: &ColumnarValue) -> Result<Each> {
    if !value.data_type().is_integer() {
        return Ok(Each::One(0));
    }
    Each::of(value, |array| {
        let numbers = cast(array, &DataType::Int64)?;
        Ok(numbers.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
    })
}

/// Bytes of texts, 0 where there is none.
fn lengths(value: &ColumnarValue) -> Result<Each> {
    Each::of(value, |array| {
        if !matches!(array.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View) {
            return Ok(vec![0; array.len()]);
        }
        let lengths = cast(&length(array)?, &DataType::Int64)?;
        Ok(lengths.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
    })
}

/// Bytes of an element, on average.
fn bytes(value: Option<&ColumnarValue>, rows: usize) -> u64 {
    match value {
        Some(ColumnarValue::Scalar(one)) => (one.size() as u64).max(PIECE_BYTES),
        Some(ColumnarValue::Array(array)) => {
            (array.get_array_memory_size() as u64 / (rows as u64).max(1)).max(PIECE_BYTES)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, Int64Array, StringArray};
    use datafusion::common::ScalarValue;

    use super::*;

    fn text(text: &str) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(text))
    }

    fn number(number: i64) -> ColumnarValue {
        ColumnarValue::Scalar(ScalarValue::from(number))
    }

    #[test]
    fn sizes_are_those_of_results() {
        let size = |name, args: &[ColumnarValue]| size(name, args, 1).unwrap();
        assert_eq!(size("repeat", &[text("abc"), number(1000)]), 3000);
        assert_eq!(size("repeat", &[text("abc"), number(-1)]), 0);
        assert_eq!(size("lpad", &[text("abc"), number(1000)]), 8000);
        assert_eq!(size("replace", &[text("aaaa"), text("a"), text("bbb")]), 10);
        assert_eq!(size("range", &[number(1), number(101), number(5)]), 160);
        assert_eq!(size("generate_series", &[number(50)]), 400);
        assert_eq!(size("range", &[number(i64::MIN), number(i64::MAX)]), u64::MAX);
        assert_eq!(size("array_resize", &[number(0), number(100)]), 800);
    }

    #[test]
    fn rows_add_up() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("abc")]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), Some(10), None]));
        let args = [ColumnarValue::Array(texts), ColumnarValue::Array(counts)];
        assert_eq!(size("repeat", &args, 3).unwrap(), 20);
    }
}
