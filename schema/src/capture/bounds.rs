//! Bounds on the values of a capture: no program reaches them, and whatever reads a capture can rely on them.
//!
//! A capture of a few KiB can hold texts of gigabytes and shapes of a million dimensions, because it is compressed.
//! Everything that reads rows applies these bounds, and names table, row, column and bound in an error.

use arrow::array::{Array, ArrowPrimitiveType, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Float64Type, Int32Type, Int64Type, UInt32Type, UInt64Type};

use crate::table::TableRow as _;
use crate::tables;
use crate::tables::launch::TensorMap;
use crate::tables::python::PythonState;
use crate::tables::run::{Run, RunOption};
use crate::tables::tensor::{OpInput, Tensor};

/// Most bytes of a text: names of C++ templates are the longest.
pub const TEXT_BYTES: usize = 64 << 10;
/// Most bytes of a text that is not a name: the arguments of a program, an error.
pub const LONG_TEXT_BYTES: usize = 4 << 20;
/// Most values of a list.
pub const LIST_VALUES: usize = 64 << 10;
/// Most dimensions of a tensor. PyTorch has up to 64.
pub const DIMENSIONS: usize = 64;
/// Most frames of a Python stack.
pub const STACK_FRAMES: u32 = 8 << 10;
/// Most parts of the path of a module: a Python stack has several frames for each.
pub const PATH_PARTS: usize = 1 << 10;

/// Most of an amount, such as bytes. A double holds each exactly, and sums of 2048 do not overflow.
pub const AMOUNT: u64 = 1 << 53;
/// The most that a time is away from 0: the difference of two does not overflow.
pub const FAR: i64 = 1 << 62;

/// An error for the first value of a batch beyond its bound. `first_row` is the row of the table with which the batch
/// begins.
pub fn check(table: &str, batch: &RecordBatch, first_row: u64) -> Result<(), String> {
    for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
        check_column(table, field.name(), array.as_ref(), first_row)?;
    }
    Ok(())
}

/// The same for one column.
pub fn check_column(table: &str, column: &str, array: &dyn Array, first_row: u64) -> Result<(), String> {
    let Some((row, problem)) = beyond(table, column, array) else { return Ok(()) };
    let row = first_row.saturating_add(row as u64);
    Err(format!("row {row} of `{table}`: `{column}` has {problem}"))
}

/// The first row beyond a bound, and how.
fn beyond(table: &str, column: &str, array: &dyn Array) -> Option<(usize, String)> {
    let text = text_bytes(table, column);
    let bytes = |found: (usize, usize)| (found.0, format!("{} bytes, and the bound is {text}", found.1));
    match array.data_type() {
        DataType::Utf8 => {
            let texts = array.as_string::<i32>();
            let long = longer(texts.iter().map(|text| text.map(str::len)), text).map(bytes);
            long.or_else(|| deep_path(table, column, texts.iter()))
        }
        DataType::Utf8View => {
            let texts = array.as_string_view();
            let long = longer(texts.iter().map(|text| text.map(str::len)), text).map(bytes);
            long.or_else(|| deep_path(table, column, texts.iter()))
        }
        DataType::Binary => {
            longer(array.as_binary::<i32>().iter().map(|b| b.map(<[u8]>::len)), text).map(bytes)
        }
        DataType::BinaryView => {
            longer(array.as_binary_view().iter().map(|b| b.map(<[u8]>::len)), text).map(bytes)
        }
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary().values();
            let (_, problem) = beyond(table, column, values.as_ref())?;
            Some((0, problem))
        }
        DataType::List(_) => {
            let (lists, most) = (array.as_list::<i32>(), list_values(table));
            let lengths = (0..lists.len()).map(|row| usize::try_from(lists.value_length(row)).ok());
            let (row, length) = longer(lengths, most)?;
            Some((row, format!("{length} values, and the bound is {most}")))
        }
        DataType::UInt32 if (table, column) == (PythonState::TABLE.name, "depth") => {
            let depths = array.as_primitive::<UInt32Type>().iter();
            let (row, depth) = depths.enumerate().find(|(_, depth)| *depth >= Some(STACK_FRAMES))?;
            Some((row, format!("the value {}, and the bound is {STACK_FRAMES}", depth.unwrap_or(0))))
        }
        _ if tables::by_name(table).is_some() => beyond_number(column, array),
        _ => None,
    }
}

/// The first number that no computation has to expect.
fn beyond_number(column: &str, array: &dyn Array) -> Option<(usize, String)> {
    match array.data_type() {
        DataType::UInt64 if is_amount(column) => {
            // A period divides.
            let least = u64::from(column == "sampling_period_cycles");
            outside::<UInt64Type>(array, |value| value > AMOUNT || value < least, "2^53, or 1 of a period")
        }
        DataType::Int64 => {
            outside::<Int64Type>(array, |value| value.unsigned_abs() > FAR.unsigned_abs(), "2^62 from 0")
        }
        // Its negative overflows.
        DataType::Int32 => outside::<Int32Type>(array, |value| value == i32::MIN, "-2147483647"),
        DataType::Float64 => outside::<Float64Type>(array, |value| !value.is_finite(), "a finite number"),
        _ => None,
    }
}

/// True for a number that is added up, by its name. Others are addresses, ids and hashes.
pub fn is_amount(column: &str) -> bool {
    let endings = ["_bytes", "_count", "_cycles", "_ns", "ordinal", "sectors"];
    column.starts_with("samples") || endings.iter().any(|ending| column.ends_with(ending))
}

fn outside<T: ArrowPrimitiveType<Native: std::fmt::Display>>(
    array: &dyn Array,
    is_outside: impl Fn(T::Native) -> bool,
    bound: &str,
) -> Option<(usize, String)> {
    let values = array.as_primitive::<T>();
    // Without a branch for each value this takes a tenth of the time. What nulls hide is looked at below.
    if !values.values().iter().fold(false, |any, value| any | is_outside(*value)) {
        return None;
    }
    let row = (0..values.len()).find(|row| values.is_valid(*row) && is_outside(values.value(*row)))?;
    Some((row, format!("the value {}, and the bound is {bound}", values.value(row))))
}

fn longer(lengths: impl Iterator<Item = Option<usize>>, most: usize) -> Option<(usize, usize)> {
    lengths.enumerate().find_map(|(row, length)| Some((row, length.filter(|length| *length > most)?)))
}

fn deep_path<'a>(
    table: &str,
    column: &str,
    mut texts: impl Iterator<Item = Option<&'a str>>,
) -> Option<(usize, String)> {
    if (table, column) != ("op", "module_path") {
        return None;
    }
    let parts = |text: Option<&str>| text.map_or(0, |text| text.bytes().filter(|byte| *byte == b'.').count());
    let row = texts.position(|text| parts(text) >= PATH_PARTS)?;
    Some((row, format!("more than {PATH_PARTS} parts, which is the bound")))
}

fn text_bytes(table: &str, column: &str) -> usize {
    let is_name = match column {
        "arguments" => table != Run::TABLE.name,
        "value" => table != RunOption::TABLE.name,
        "detail" | "match_reason" | "refusal" | "attributes" | "bytes" => false,
        _ => tables::by_name(table).is_some(),
    };
    if is_name { TEXT_BYTES } else { LONG_TEXT_BYTES }
}

/// Most values of a list of a table.
pub(super) fn list_values(table: &str) -> usize {
    if [Tensor::TABLE.name, OpInput::TABLE.name, TensorMap::TABLE.name].contains(&table) {
        DIMENSIONS
    } else {
        LIST_VALUES
    }
}
