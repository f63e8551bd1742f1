//! Rows on the wire: each value as PostgreSQL writes it, as text or binary.

use std::fmt::Write as _;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes::{
    Date32Type, Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType,
};
use arrow::error::ArrowError;
use bytes::{BufMut as _, BytesMut};

use crate::kind::{ColumnType, PostgresType};
use crate::message::{ValueFormat, close, put_count};

/// Days and microseconds from 1970 to 2000, where PostgreSQL's dates begin.
pub(crate) const EPOCH_DAYS: i32 = 10_957;
pub(crate) const EPOCH_MICROSECONDS: i64 = 946_684_800_000_000;

/// The columns of a batch, ready to be written.
pub(crate) struct BatchCells {
    columns: Vec<(PostgresType, bool, ValueFormat, ArrayRef)>,
}

impl BatchCells {
    /// The columns in the types that were announced.
    pub(crate) fn for_batch(
        batch: &RecordBatch,
        types: &[(ColumnType, ValueFormat)],
    ) -> Result<Self, ArrowError> {
        let columns = batch.columns().iter().zip(types).map(|(array, (column, format))| {
            Ok((column.kind, column.is_array, *format, column.prepared(array)?))
        });
        Ok(Self { columns: columns.collect::<Result<_, ArrowError>>()? })
    }

    /// Writes one row.
    pub(crate) fn put(&self, row: usize, out: &mut BytesMut) {
        out.put_u8(b'D');
        let start = out.len();
        out.put_u32(0);
        put_count(out, self.columns.len());
        for (kind, is_array, format, array) in &self.columns {
            if array.is_null(row) {
                out.put_i32(-1);
                continue;
            }
            let at = out.len();
            out.put_u32(0);
            match (is_array, format) {
                (false, ValueFormat::Text) => put_text(*kind, array, row, out),
                (false, ValueFormat::Binary) => put_binary(*kind, array, row, out),
                (true, ValueFormat::Text) => put_text_array(*kind, &array.as_list::<i32>().value(row), out),
                (true, ValueFormat::Binary) => {
                    put_binary_array(*kind, &array.as_list::<i32>().value(row), out);
                }
            }
            close_value(out, at);
        }
        close(out, start);
    }
}

/// Writes the length of a value, which does not count itself.
fn close_value(out: &mut BytesMut, at: usize) {
    let length = u32::try_from(out.len() - at - 4).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

fn put_text(kind: PostgresType, array: &ArrayRef, row: usize, out: &mut BytesMut) {
    match kind {
        PostgresType::Bool => out.put_u8(if array.as_boolean().value(row) { b't' } else { b'f' }),
        PostgresType::Int2 => write(out, array.as_primitive::<Int16Type>().value(row)),
        PostgresType::Int4 => write(out, array.as_primitive::<Int32Type>().value(row)),
        PostgresType::Int8 => write(out, array.as_primitive::<Int64Type>().value(row)),
        PostgresType::Float4 => write_float(out, array.as_primitive::<Float32Type>().value(row)),
        PostgresType::Float8 => write_float(out, array.as_primitive::<Float64Type>().value(row)),
        PostgresType::Numeric | PostgresType::Text => {
            out.put_slice(array.as_string::<i32>().value(row).as_bytes());
        }
        PostgresType::Bytes => {
            out.put_slice(b"\\x");
            array
                .as_binary::<i32>()
                .value(row)
                .iter()
                .for_each(|byte| write(out, format_args!("{byte:02x}")));
        }
        PostgresType::Date => {
            let date = array.as_primitive::<Date32Type>().value_as_date(row);
            if let Some(date) = date {
                write(out, date);
            }
        }
        PostgresType::Timestamp | PostgresType::TimestampTz => {
            let time = array.as_primitive::<TimestampMicrosecondType>().value_as_datetime(row);
            if let Some(time) = time {
                write(out, time);
            }
            if kind == PostgresType::TimestampTz {
                out.put_slice(b"+00");
            }
        }
    }
}

fn write(out: &mut BytesMut, value: impl std::fmt::Display) {
    let _a_buffer_grows = write!(out, "{value}");
}

fn write_float<T: Into<f64> + std::fmt::Debug + Copy>(out: &mut BytesMut, value: T) {
    let wide: f64 = value.into();
    if wide.is_infinite() {
        out.put_slice(if wide > 0.0 { b"Infinity" } else { b"-Infinity" });
    } else {
        write(out, format_args!("{value:?}"));
    }
}

fn put_binary(kind: PostgresType, array: &ArrayRef, row: usize, out: &mut BytesMut) {
    match kind {
        PostgresType::Bool => out.put_u8(u8::from(array.as_boolean().value(row))),
        PostgresType::Int2 => out.put_i16(array.as_primitive::<Int16Type>().value(row)),
        PostgresType::Int4 => out.put_i32(array.as_primitive::<Int32Type>().value(row)),
        PostgresType::Int8 => out.put_i64(array.as_primitive::<Int64Type>().value(row)),
        PostgresType::Float4 => out.put_f32(array.as_primitive::<Float32Type>().value(row)),
        PostgresType::Float8 => out.put_f64(array.as_primitive::<Float64Type>().value(row)),
        PostgresType::Numeric => put_numeric(array.as_string::<i32>().value(row), out),
        PostgresType::Text => out.put_slice(array.as_string::<i32>().value(row).as_bytes()),
        PostgresType::Bytes => out.put_slice(array.as_binary::<i32>().value(row)),
        PostgresType::Date => {
            out.put_i32(array.as_primitive::<Date32Type>().value(row).saturating_sub(EPOCH_DAYS));
        }
        PostgresType::Timestamp | PostgresType::TimestampTz => {
            let microseconds = array.as_primitive::<TimestampMicrosecondType>().value(row);
            out.put_i64(microseconds.saturating_sub(EPOCH_MICROSECONDS));
        }
    }
}

/// Digits to the base 10,000, aligned at the point.
fn put_numeric(text: &str, out: &mut BytesMut) {
    let (sign, text) = text.strip_prefix('-').map_or((0, text), |rest| (0x4000, rest));
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let padded =
        format!("{:0>1$}{2:0<3$}", whole, whole.len().div_ceil(4) * 4, part, part.len().div_ceil(4) * 4);
    let digit = |four: &[u8]| four.iter().fold(0, |sum, byte| sum * 10 + u16::from(byte.wrapping_sub(b'0')));
    let mut digits: Vec<u16> = padded.as_bytes().chunks(4).map(digit).collect();
    let leading = digits.iter().take_while(|digit| **digit == 0).count();
    let place = |count: usize| i16::try_from(count).unwrap_or(i16::MAX);
    let weight = place(whole.len().div_ceil(4)) - 1 - place(leading);
    digits.drain(..leading);
    while digits.last() == Some(&0) {
        digits.pop();
    }
    put_count(out, digits.len());
    out.put_i16(if digits.is_empty() { 0 } else { weight });
    out.put_u16(sign);
    put_count(out, part.len());
    for digit in digits {
        out.put_u16(digit);
    }
}

/// `{1,NULL,"text"}`
fn put_text_array(kind: PostgresType, items: &ArrayRef, out: &mut BytesMut) {
    out.put_u8(b'{');
    for row in 0..items.len() {
        if row > 0 {
            out.put_u8(b',');
        }
        if items.is_null(row) {
            out.put_slice(b"NULL");
            continue;
        }
        let mut item = BytesMut::new();
        put_text(kind, items, row, &mut item);
        if matches!(
            kind,
            PostgresType::Text | PostgresType::Bytes | PostgresType::Timestamp | PostgresType::TimestampTz
        ) {
            put_quoted(&item, out);
        } else {
            out.put_slice(&item);
        }
    }
    out.put_u8(b'}');
}

fn put_quoted(item: &[u8], out: &mut BytesMut) {
    out.put_u8(b'"');
    for byte in item {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

/// Dimensions, a mark for nulls, the type, the length and the first index, then the items.
fn put_binary_array(kind: PostgresType, items: &ArrayRef, out: &mut BytesMut) {
    out.put_u32(u32::from(!items.is_empty()));
    out.put_u32(u32::from(items.null_count() > 0));
    out.put_u32(kind.type_id());
    if items.is_empty() {
        return;
    }
    out.put_u32(u32::try_from(items.len()).unwrap_or(u32::MAX));
    out.put_u32(1);
    for row in 0..items.len() {
        if items.is_null(row) {
            out.put_i32(-1);
            continue;
        }
        let at = out.len();
        out.put_u32(0);
        put_binary(kind, items, row, out);
        close_value(out, at);
    }
}

#[cfg(test)]
#[path = "cell_tests.rs"]
mod tests;
