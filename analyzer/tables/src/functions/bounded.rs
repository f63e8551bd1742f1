//! DataFusion's functions of texts and lists, with a bound on their results.
//!
//! DataFusion reserves memory for rows that operators keep, not for results of functions: `repeat('x', 1000000000)` of
//! three rows takes gigabytes, whatever `--memory` allows. Here the size of a result is known, or estimated from the
//! arguments, before it is computed. Where the estimate is large, some rows at a time are computed and counted. So is the
//! work of functions that compare two arguments: nothing interrupts a call.

use arrow::array::{Array as _, ArrayRef, AsArray as _};
use arrow::compute::kernels::length::length;
use arrow::compute::{cast, concat};
use arrow::datatypes::{
    DataType, FieldRef, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ExpressionPlacement, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature,
};

use crate::functions::memory::QueryMemory;
use crate::functions::patterns::{is_short_pattern, pattern_parts};
use crate::planning::bounds::ending;

/// Most bytes of the results of a batch.
pub(crate) const MAX_BYTES: u64 = 256 << 20;
/// Bytes of results that are computed at once, by their estimate.
const AT_ONCE_BYTES: u64 = 32 << 20;
/// Bytes of a number or character.
const PIECE_BYTES: u64 = 8;

/// Most pairs of bytes or elements that are compared in a row, and about the most in a call.
const MAX_COMPARISONS: u64 = 1 << 30;
/// Comparisons of a byte with a character of a pattern.
const PATTERN_WORK: u64 = 8;
/// Bytes of text whose search takes as long as to read their row's own pattern.
const PATTERN_BYTES: u64 = 32 << 10;

/// Bytes of results before which memory is checked.
const LARGE_BYTES: u64 = 64 << 20;
/// The same for a result of constants.
const LARGE_CONSTANT_BYTES: u64 = 4 << 10;

/// The functions whose results grow with a number in the statement. Their size is known.
const KNOWN: [&str; 8] =
    ["repeat", "lpad", "rpad", "replace", "array_repeat", "array_resize", "range", "generate_series"];
/// Functions that compare each piece of their first argument with each of the second.
const COMPARING: [&str; 7] =
    ["levenshtein", "strpos", "btrim", "ltrim", "rtrim", "array_has_all", "array_has_any"];
/// Functions whose second argument is a pattern for the first. The operators have the names of [`PatternFunction`].
///
/// [`PatternFunction`]: crate::functions::patterns::PatternFunction
const MATCHING: [&str; 13] = [
    "regexp_count",
    "regexp_instr",
    "regexp_like",
    "regexp_match",
    "regexp_replace",
    "LIKE",
    "ILIKE",
    "NOT LIKE",
    "NOT ILIKE",
    "~",
    "~*",
    "!~",
    "!~*",
];
/// Functions that hold pieces of their arguments apart, and how many times the memory of the arguments that takes.
const APART: [(&str, u64); 9] = [
    ("array_any_value", 4),
    ("array_distance", 4),
    ("array_distinct", 16),
    ("array_except", 16),
    ("array_intersect", 16),
    ("array_union", 16),
    ("array_to_string", 8),
    ("map", 16),
    ("string_to_array", 16),
];
/// The functions that repeat one argument for each piece of another, and the arguments.
const PRODUCTS: [(&str, usize, usize); 2] = [("regexp_replace", 0, 2), ("array_to_string", 0, 1)];

/// DataFusion's functions of texts and lists, each with a bound.
pub fn functions(memory: QueryMemory) -> Vec<ScalarUDF> {
    use datafusion::functions::{encoding, regex, string, unicode};
    let texts = [string::functions(), unicode::functions(), regex::functions(), encoding::functions()];
    let lists = datafusion::functions_nested::all_default_nested_functions();
    let all = texts.into_iter().flatten().chain(lists);
    all.filter(|function| !function.short_circuits()).map(|function| bounded(&function, memory)).collect()
}

/// A function that refuses to make a result beyond the bound.
#[derive(Debug, PartialEq, Eq, Hash)]
struct BoundedFunction {
    function: ScalarUDF,
    memory: QueryMemory,
}

/// The function with a bound.
pub(crate) fn bounded(function: &ScalarUDF, memory: QueryMemory) -> ScalarUDF {
    ScalarUDF::from(BoundedFunction { function: function.clone(), memory })
}

impl ScalarUDFImpl for BoundedFunction {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn aliases(&self) -> &[String] {
        self.function.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.function.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.function.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.function.inner().return_type(types)
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        self.function.inner().with_updated_config(config).map(|function| bounded(&function, self.memory))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.function.inner().return_field_from_args(args)
    }

    fn is_strict(&self) -> bool {
        self.function.inner().is_strict()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        self.function.inner().coerce_types(types)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // A rule would join constants without a bound, or make an operator that has none.
        let constants = args.iter().filter_map(|arg| arg.as_literal()).map(|value| value.size() as u64);
        let is_long =
            constants.fold(0, u64::saturating_add).saturating_mul(args.len() as u64) > AT_ONCE_BYTES;
        let is_matching = MATCHING.contains(&self.name()) && !args.get(1).is_some_and(is_short_pattern);
        if is_long || is_matching {
            return Ok(ExprSimplifyResult::Original(args));
        }
        // Some become a call of themselves with other arguments.
        Ok(match self.function.inner().simplify(args, info)? {
            ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)) if call.func.name() == self.name() => {
                let func = bounded(&call.func, self.memory).into();
                ExprSimplifyResult::Simplified(Expr::ScalarFunction(ScalarFunction { func, args: call.args }))
            }
            other => other,
        })
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.function.inner().output_ordering(inputs)
    }

    fn preserves_lex_ordering(&self, inputs: &[ExprProperties]) -> Result<bool> {
        self.function.inner().preserves_lex_ordering(inputs)
    }

    fn placement(&self, args: &[ExpressionPlacement]) -> ExpressionPlacement {
        self.function.inner().placement(args)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.inner().documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let are_constant = args.args.iter().all(|value| matches!(value, ColumnarValue::Scalar(_)));
        let rows = if are_constant { 1 } else { args.number_rows };
        let work = CallWork::from_call(self.name(), &args.args, rows)?;
        if work.row > MAX_COMPARISONS {
            let kind = if self.name().starts_with("array") { "lists" } else { "texts" };
            let reason = format!("`{}` of long {kind}: shorten them", self.name());
            return Err(DataFusionError::Execution(reason));
        }
        let is_known = KNOWN.contains(&self.name());
        let is_of_fixed_size = args.return_type().is_primitive() || *args.return_type() == DataType::Boolean;
        let is_apart = APART.iter().any(|(name, _)| *name == self.name());
        let expected = if is_known {
            size(self.name(), &args.args, rows)?
        } else if is_of_fixed_size && !is_apart {
            0
        } else {
            estimate(self.name(), &args.args, rows)?
        };
        if expected > MAX_BYTES && (is_known || rows <= 1) {
            return Err(self.refusal());
        }
        // Constants stay in the plan, and a statement has room for many.
        if expected > if are_constant { LARGE_CONSTANT_BYTES } else { LARGE_BYTES } {
            // An estimate can be of more rows than are computed at once.
            self.memory.check(self.name(), expected.min(MAX_BYTES))?;
        }
        let pieces = (expected / AT_ONCE_BYTES).max(work.all / MAX_COMPARISONS);
        if is_known || rows <= 1 || pieces == 0 {
            return self.function.inner().invoke_with_args(args);
        }
        let pieces = usize::try_from(pieces).unwrap_or(usize::MAX).saturating_add(1);
        self.in_pieces(&args, rows.div_ceil(pieces.min(rows)))
    }
}

impl BoundedFunction {
    /// The results of so many rows at a time, together.
    fn in_pieces(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ColumnarValue> {
        let (mut results, mut bytes): (Vec<ArrayRef>, u64) = (Vec::new(), 0);
        for first in (0..args.number_rows).step_by(rows) {
            ending::check()?;
            let count = rows.min(args.number_rows - first);
            let piece = |value: &ColumnarValue| match value {
                ColumnarValue::Array(array) => ColumnarValue::Array(array.slice(first, count)),
                ColumnarValue::Scalar(one) => ColumnarValue::Scalar(one.clone()),
            };
            let piece = ScalarFunctionArgs {
                args: args.args.iter().map(piece).collect(),
                arg_fields: args.arg_fields.clone(),
                number_rows: count,
                return_field: FieldRef::clone(&args.return_field),
                config_options: args.config_options.clone(),
            };
            if count == 1 && estimate(self.name(), &piece.args, 1)? > MAX_BYTES {
                return Err(self.refusal());
            }
            let result = self.function.inner().invoke_with_args(piece)?.into_array(count)?;
            bytes = bytes.saturating_add(result.to_data().get_slice_memory_size()? as u64);
            if bytes > MAX_BYTES {
                return Err(self.refusal());
            }
            results.push(result);
        }
        let results: Vec<_> = results.iter().map(AsRef::as_ref).collect();
        Ok(ColumnarValue::Array(concat(&results)?))
    }

    fn refusal(&self) -> DataFusionError {
        let (name, most) = (self.name(), MAX_BYTES >> 20);
        let reason = format!("`{name}` makes more than {most} MiB at once: shorten it, or select fewer rows");
        DataFusionError::Execution(reason)
    }
}

/// Pairs that a call compares.
#[derive(Clone, Copy, Default)]
struct CallWork {
    all: u64,
    /// Most of a row.
    row: u64,
}

impl CallWork {
    fn from_call(name: &str, args: &[ColumnarValue], rows: usize) -> Result<Self> {
        let [first, second, ..] = args else { return Ok(Self::default()) };
        let (others, own_bytes) = if COMPARING.contains(&name) {
            (lengths(second)?, 0)
        } else if MATCHING.contains(&name) {
            let own_bytes = if matches!(second, ColumnarValue::Array(_)) { PATTERN_BYTES } else { 0 };
            (weights(second)?, own_bytes)
        } else {
            return Ok(Self::default());
        };
        let firsts = lengths(first)?;
        let pairs =
            |row| natural(firsts.at(row)).saturating_add(own_bytes).saturating_mul(natural(others.at(row)));
        let add = |sum: Self, row| {
            let pairs = pairs(row);
            Self { all: sum.all.saturating_add(pairs), row: sum.row.max(pairs) }
        };
        Ok((0..rows).fold(Self::default(), add))
    }
}

/// About the most bytes that a function makes of texts and lists: theirs, or of each piece of one the other.
fn estimate(name: &str, args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let all = |value: &ColumnarValue| -> Result<u64> {
        Ok(match value {
            ColumnarValue::Scalar(one) => (one.size() as u64).saturating_mul(rows as u64),
            ColumnarValue::Array(array) => array.to_data().get_slice_memory_size()? as u64,
        })
    };
    let sum = args
        .iter()
        .try_fold(0_u64, |sum, value| Ok::<_, DataFusionError>(sum.saturating_add(all(value)?)))?;
    // The separator stands between all others.
    let separators = args.len().saturating_sub(3) as u64;
    let sum = match args.first() {
        Some(separator) if name == "concat_ws" => {
            sum.saturating_add(all(separator)?.saturating_mul(separators))
        }
        _ => sum,
    };
    let sum =
        APART.iter().find(|(apart, _)| *apart == name).map_or(sum, |(_, times)| sum.saturating_mul(*times));
    let product = PRODUCTS.iter().find(|(product, ..)| *product == name);
    let Some((repeats, each)) = product.and_then(|(_, of, each)| Some((args.get(*of)?, args.get(*each)?)))
    else {
        return Ok(sum);
    };
    let longest = match lengths(each)? {
        RowNumbers::One(bytes) => natural(bytes),
        RowNumbers::Rows(bytes) => bytes.into_iter().map(natural).max().unwrap_or(0),
    };
    Ok(sum.saturating_add(all(repeats)?.saturating_add(rows as u64).saturating_mul(longest)))
}

/// The most bytes that a function makes of its arguments.
fn size(name: &str, args: &[ColumnarValue], rows: usize) -> Result<u64> {
    let numbers = |index: usize| args.get(index).map_or(Ok(RowNumbers::One(0)), numbers);
    let lengths = |index: usize| args.get(index).map_or(Ok(RowNumbers::One(0)), lengths);
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
            [first, last, step] if !first.data_type().is_integer() => {
                let (first, last, steps) = (times(first)?, times(last)?, steps(step)?);
                let count = |row| last.at(row).abs_diff(first.at(row)) / steps.at(row).unsigned_abs().max(1);
                sum(&|row| PIECE_BYTES.saturating_mul(count(row)))
            }
            _ => {
                let (from, to) = if args.len() > 1 {
                    (numbers(0)?, numbers(1)?)
                } else {
                    (RowNumbers::One(0), numbers(0)?)
                };
                let steps = if args.len() > 2 { numbers(2)? } else { RowNumbers::One(1) };
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
enum RowNumbers {
    One(i64),
    Rows(Vec<i64>),
}

impl RowNumbers {
    fn at(&self, row: usize) -> i64 {
        match self {
            Self::One(number) => *number,
            Self::Rows(numbers) => numbers.get(row).copied().unwrap_or(0),
        }
    }

    fn from_value(
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
fn numbers(value: &ColumnarValue) -> Result<RowNumbers> {
    if !value.data_type().is_integer() {
        return Ok(RowNumbers::One(0));
    }
    RowNumbers::from_value(value, |array| {
        let numbers = cast(array, &DataType::Int64)?;
        Ok(numbers.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
    })
}

/// Microseconds of dates and times. Where there is none, 0.
fn times(value: &ColumnarValue) -> Result<RowNumbers> {
    RowNumbers::from_value(value, |array| {
        let times = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
        let times = times.as_primitive::<TimestampMicrosecondType>();
        Ok(times.iter().map(Option::unwrap_or_default).collect())
    })
}

/// Microseconds of steps, with the shortest months.
fn steps(value: &ColumnarValue) -> Result<RowNumbers> {
    const DAY: i64 = 86_400_000_000;
    RowNumbers::from_value(value, |array| {
        let steps = cast(array, &DataType::Interval(IntervalUnit::MonthDayNano))?;
        let steps = steps.as_primitive::<IntervalMonthDayNanoType>().iter().map(Option::unwrap_or_default);
        let microseconds = |step: IntervalMonthDayNano| {
            let days = i64::from(step.months).saturating_mul(28).saturating_add(step.days.into());
            days.saturating_mul(DAY).saturating_add(step.nanoseconds / 1000)
        };
        Ok(steps.map(microseconds).collect())
    })
}

/// Bytes of texts, and elements of lists. 0 where there is none.
fn lengths(value: &ColumnarValue) -> Result<RowNumbers> {
    RowNumbers::from_value(value, |array| {
        if let DataType::Dictionary(_, values) = array.data_type() {
            return lengths_of(&cast(array, values)?);
        }
        lengths_of(array)
    })
}

fn lengths_of(array: &dyn arrow::array::Array) -> Result<Vec<i64>> {
    use DataType::{FixedSizeList, LargeList, LargeUtf8, List, Utf8, Utf8View};
    let has_length =
        matches!(array.data_type(), Utf8 | LargeUtf8 | Utf8View | List(_) | LargeList(_) | FixedSizeList(..));
    if !has_length {
        return Ok(vec![0; array.len()]);
    }
    let lengths = cast(&length(array)?, &DataType::Int64)?;
    Ok(lengths.as_primitive::<Int64Type>().iter().map(Option::unwrap_or_default).collect())
}

/// The work of patterns for each byte of a text, 0 where there is none.
fn weights(value: &ColumnarValue) -> Result<RowNumbers> {
    RowNumbers::from_value(value, |array| {
        let texts = cast(array, &DataType::LargeUtf8)?;
        let weight = |text: Option<&str>| {
            i64::try_from(PATTERN_WORK.saturating_mul(pattern_parts(text.unwrap_or_default())))
        };
        Ok(texts.as_string::<i64>().iter().map(|text| weight(text).unwrap_or(i64::MAX)).collect())
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
        let day = |day| ColumnarValue::Scalar(ScalarValue::Date32(Some(day)));
        let month = ColumnarValue::Scalar(ScalarValue::new_interval_ym(0, 1));
        assert_eq!(size("range", &[day(0), day(280), month]), 80);
        assert_eq!(size("array_resize", &[number(0), number(100)]), 800);
    }

    #[test]
    fn every_function_of_texts_and_lists_has_a_bound() {
        let functions = functions(QueryMemory::default());
        for name in KNOWN
            .iter()
            .chain(PRODUCTS.iter().map(|(name, ..)| name))
            .chain(APART.iter().map(|(name, _)| name))
            .chain(&["concat", "encode", "flatten"])
        {
            assert!(functions.iter().any(|known| known.name() == *name), "{name}");
        }
    }

    #[test]
    fn products_are_estimated() {
        let estimate = |name, args: &[ColumnarValue]| estimate(name, args, 1).unwrap();
        let args = [text(&"a".repeat(1000)), text("a"), text(&"b".repeat(1000))];
        assert!(estimate("regexp_replace", &args) > 1_000_000);
        assert!(estimate("concat", &args) < 3_000);
        let words = [text(&"-".repeat(1000)), text("a"), text("b"), text("c"), text("d")];
        assert!(estimate("concat_ws", &words) > 3_000);
    }

    #[test]
    fn rows_add_up() {
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("ab"), None, Some("abc")]));
        let counts: ArrayRef = Arc::new(Int64Array::from(vec![Some(10), Some(10), None]));
        let args = [ColumnarValue::Array(texts), ColumnarValue::Array(counts)];
        assert_eq!(size("repeat", &args, 3).unwrap(), 20);
    }
}
