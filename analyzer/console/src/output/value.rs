//! Values of a query as text.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, StringArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, Float64Type, Schema, UInt64Type};
use arrow::error::ArrowError;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use super::number;
use super::shorten::printable;

/// Format of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NumberFormat {
    /// As the query gave them: they can be pasted into the next query.
    Exact,
    /// Grouped, rounded and with units, derived from the column's name.
    Report,
}

impl NumberFormat {
    const fn null(self) -> &'static str {
        match self {
            Self::Exact => "NULL",
            Self::Report => "-",
        }
    }
}

/// A column's name as text, without the unit, which each value has.
pub fn header(name: &str) -> String {
    let name = match ColumnQuantity::from_name(name) {
        ColumnQuantity::Bytes => name.strip_suffix("_bytes").unwrap_or(name),
        ColumnQuantity::Nanoseconds => name.strip_suffix("_ns").unwrap_or(name),
        ColumnQuantity::Share => name.strip_suffix("_share").unwrap_or(name),
        _ => name,
    };
    match name {
        "born_at" => "allocated at".to_owned(),
        "stalled_at" => "waited at".to_owned(),
        name => name.replace('_', " "),
    }
}

/// True for numbers, which are right-aligned.
pub fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

/// Ends of the names of columns that hold hashes.
const HASHES: [&str; 6] = ["function_id", "module_id", "frame_id", "hash", "hash_after", "crc"];

/// True if a column holds hashes: numbers of 64 bits, which JSON and spreadsheets round.
fn is_hash(name: &str, data_type: &DataType) -> bool {
    let ends = |end: &str| name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'));
    *data_type == DataType::UInt64 && HASHES.into_iter().any(ends)
}

/// The batch with hashes as text in hexadecimal, which SQL takes back: `function_id = '0x1a2b'`.
pub fn with_hex(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    let schema = batch.schema();
    let is_hash = |field: &Field| is_hash(field.name(), field.data_type());
    if !schema.fields().iter().any(|field| is_hash(field)) {
        return Ok(batch.clone());
    }
    let columns = schema.fields().iter().zip(batch.columns()).map(|(field, array)| {
        if !is_hash(field) {
            return (Arc::clone(field), Arc::clone(array));
        }
        let hashes = array.as_primitive::<UInt64Type>().iter();
        let text: StringArray = hashes.map(|hash| hash.map(|hash| format!("{hash:#x}"))).collect();
        (Arc::new(Field::new(field.name(), DataType::Utf8, true)), Arc::new(text) as ArrayRef)
    });
    let (fields, columns): (Vec<_>, Vec<_>) = columns.unzip();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns)
}

/// Every column of a batch as text, one vector a column.
pub fn columns(batch: &RecordBatch, look: NumberFormat) -> Result<Vec<Vec<String>>, ArrowError> {
    let schema = batch.schema();
    schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| column(field.name(), array.as_ref(), look))
        .collect()
}

/// Every row of a batch as exact texts, none for a null.
pub fn rows(batch: &RecordBatch) -> Result<Vec<Vec<Option<String>>>, ArrowError> {
    // A column of the type NULL has no list of nulls of its own.
    let nulls: Vec<_> = batch.columns().iter().map(Array::logical_nulls).collect();
    let mut rows: Vec<_> = (0..batch.num_rows()).map(|_| Vec::with_capacity(nulls.len())).collect();
    for (texts, nulls) in columns(batch, NumberFormat::Exact)?.into_iter().zip(nulls) {
        for (at, (row, text)) in rows.iter_mut().zip(texts).enumerate() {
            row.push(nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)).then_some(text));
        }
    }
    Ok(rows)
}

fn column(name: &str, array: &dyn Array, look: NumberFormat) -> Result<Vec<String>, ArrowError> {
    let quantity =
        if look == NumberFormat::Report { ColumnQuantity::from_name(name) } else { ColumnQuantity::Number };
    match array.data_type() {
        data_type if data_type.is_floating() || look == NumberFormat::Report && is_decimal(data_type) => {
            let array = cast(array, &DataType::Float64)?;
            // A zero's sign depends only on the order of additions. Adding zero removes it.
            let render = |value: f64| match look {
                NumberFormat::Exact => number::exact(value + 0.0),
                NumberFormat::Report => quantity.measured(value + 0.0),
            };
            Ok(array.as_primitive::<Float64Type>().iter().map(|value| text(value, look, render)).collect())
        }
        DataType::UInt64 | DataType::UInt32
            if quantity == ColumnQuantity::Address || is_hash(name, array.data_type()) =>
        {
            let array = cast(array, &DataType::UInt64)?;
            let render = |value| format!("{value:#x}");
            Ok(array.as_primitive::<UInt64Type>().iter().map(|value| text(value, look, render)).collect())
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            blobs(array, look)
        }
        data_type if look == NumberFormat::Report && data_type.is_integer() => {
            formatted(array, look)?.into_iter().map(|text| Ok(quantity.counted(text))).collect()
        }
        _ => formatted(array, look),
    }
}

/// Bytes of a blob that are shown completely.
const WHOLE_BLOB_BYTES: usize = 16;
/// Bytes of a long blob that are shown.
const BEGINNING_BYTES: usize = 8;

/// Bytes in hexadecimal digits. Long blobs by size and prefix.
fn blobs(array: &dyn Array, look: NumberFormat) -> Result<Vec<String>, ArrowError> {
    let array = cast(array, &DataType::LargeBinary)?;
    Ok(array.as_binary::<i64>().iter().map(|bytes| text(bytes, look, blob)).collect())
}

fn blob(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16).unwrap_or_default();
    let hex =
        |bytes: &[u8]| bytes.iter().flat_map(|byte| [byte >> 4, byte & 15].map(digit)).collect::<String>();
    match bytes.get(..BEGINNING_BYTES) {
        Some(beginning) if bytes.len() > WHOLE_BLOB_BYTES => {
            format!("{} bytes 0x{}…", bytes.len(), hex(beginning))
        }
        _ => hex(bytes),
    }
}

const fn is_decimal(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Decimal32(..)
            | DataType::Decimal64(..)
            | DataType::Decimal128(..)
            | DataType::Decimal256(..)
    )
}

fn formatted(array: &dyn Array, look: NumberFormat) -> Result<Vec<String>, ArrowError> {
    let options = FormatOptions::default().with_null(look.null()).with_display_error(true);
    let formatter = ArrayFormatter::try_new(array, &options)?;
    Ok((0..array.len()).map(|row| printable(&formatter.value(row).to_string())).collect())
}

fn text<T>(value: Option<T>, look: NumberFormat, render: impl Fn(T) -> String) -> String {
    value.map_or_else(|| look.null().to_owned(), render)
}

/// Unit of a column's numbers, by the convention that units end names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnQuantity {
    Share,
    Bytes,
    Nanoseconds,
    /// In hexadecimal, as in listings of code. Hashes are so in every look: see [`is_hash`].
    Address,
    Identity,
    Number,
}

impl ColumnQuantity {
    fn from_name(name: &str) -> Self {
        let ends = |suffix: &str| name.ends_with(suffix);
        match name {
            "share" => Self::Share,
            "bytes" => Self::Bytes,
            "pc" | "address" => Self::Address,
            _ if ends("_share") || ends("_rate") => Self::Share,
            _ if ends("_bytes") => Self::Bytes,
            _ if ends("_ns") => Self::Nanoseconds,
            _ if ends("_pc") || ends("_address") => Self::Address,
            _ if ends("_id") => Self::Identity,
            _ => Self::Number,
        }
    }

    fn measured(self, value: f64) -> String {
        match self {
            Self::Share => number::percent(value),
            Self::Bytes => number::bytes(value),
            Self::Nanoseconds => number::nanoseconds(value),
            Self::Address | Self::Identity | Self::Number => number::measured(value),
        }
    }

    fn counted(self, text: String) -> String {
        let Ok(value) = text.parse::<i128>() else { return text };
        match self {
            Self::Bytes | Self::Nanoseconds => self.measured(value as f64),
            Self::Identity => text,
            Self::Share | Self::Address | Self::Number => number::grouped(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{ArrayRef, BinaryArray, Float64Array, Int64Array, StringArray, UInt64Array};

    use super::*;

    #[track_caller]
    fn check(name: &str, array: ArrayRef, look: NumberFormat, expected: &[&str]) {
        let batch = RecordBatch::try_from_iter_with_nullable([(name, array, true)]).unwrap();
        assert_eq!(columns(&batch, look).unwrap(), [expected]);
    }

    #[test]
    fn exact_values_can_be_pasted() {
        check(
            "n",
            Arc::new(Int64Array::from(vec![Some(1_234_567), None])),
            NumberFormat::Exact,
            &["1234567", "NULL"],
        );
        check("x", Arc::new(Float64Array::from(vec![0.1 + 0.2])), NumberFormat::Exact, &["0.3"]);
        check("x", Arc::new(Float64Array::from(vec![-0.0])), NumberFormat::Exact, &["0"]);
    }

    #[test]
    fn names_tell_units_in_reports() {
        check(
            "samples",
            Arc::new(Int64Array::from(vec![Some(1_234_567), None])),
            NumberFormat::Report,
            &["1,234,567", "-"],
        );
        check("size_bytes", Arc::new(UInt64Array::from(vec![2048])), NumberFormat::Report, &["2 KiB"]);
        check("share", Arc::new(Float64Array::from(vec![0.5])), NumberFormat::Report, &["50.0 %"]);
        check("pc", Arc::new(UInt64Array::from(vec![0x110])), NumberFormat::Report, &["0x110"]);
        check(
            "tensor_id",
            Arc::new(UInt64Array::from(vec![1 << 40])),
            NumberFormat::Report,
            &["1099511627776"],
        );
    }

    #[test]
    fn hashes_can_be_pasted() {
        let hashes = || Arc::new(UInt64Array::from(vec![Some(0xabcd_ef01_2345_6789), None]));
        for name in ["function_id", "producer_function_id", "hash", "pystates_hash"] {
            check(name, hashes(), NumberFormat::Exact, &["0xabcdef0123456789", "NULL"]);
        }
        check("kernel_id", hashes(), NumberFormat::Exact, &["12379813738877118345", "NULL"]);
        let batch = RecordBatch::try_from_iter_with_nullable([("frame_id", hashes() as ArrayRef, true)]);
        let text = with_hex(&batch.unwrap()).unwrap();
        let expected = StringArray::from(vec![Some("0xabcdef0123456789"), None]);
        assert_eq!(text.column(0).as_string::<i32>(), &expected);
    }

    #[test]
    fn long_blobs_are_told_by_their_beginning() {
        let page: Vec<u8> = (0..=255).cycle().take(4096).collect();
        let blobs: Vec<Option<&[u8]>> = vec![Some(&page), Some(&page[10..26]), Some(&[]), None];
        let shown = ["4096 bytes 0x0001020304050607…", "0a0b0c0d0e0f10111213141516171819", "", "NULL"];
        check("bytes", Arc::new(BinaryArray::from(blobs)), NumberFormat::Exact, &shown);
    }

    #[test]
    fn text_is_never_obeyed_by_the_terminal() {
        check("name", Arc::new(StringArray::from(vec!["\u{1b}[2J"])), NumberFormat::Exact, &["␛[2J"]);
    }
}
