//! Values of parameters: from the wire to the type that the statement expects.

use arrow::datatypes::DataType;
use bytes::{Buf as _, Bytes};
use datafusion::common::ScalarValue;
use stallmap_console::exit::{CommandFailure, QUERY};

use crate::cell::{EPOCH_DAYS, EPOCH_MICROSECONDS};
use crate::failure::CodedFailure;
use crate::kind::{ColumnType, PostgresType};
use crate::message::ValueFormat;

/// The type of a parameter on the wire: the client's, else the statement's, else text.
pub(crate) fn kind(declared: u32, expected: Option<&DataType>) -> PostgresType {
    let expected = || expected.map(ColumnType::from_arrow).filter(|column| !column.is_array);
    PostgresType::of_id(declared)
        .or_else(|| expected().map(|column| column.kind))
        .unwrap_or(PostgresType::Text)
}

/// A value in the type that the statement expects, if it is known.
pub(crate) fn value(
    number: usize,
    kind: PostgresType,
    format: ValueFormat,
    bytes: Option<Bytes>,
    expected: Option<&DataType>,
) -> Result<ScalarValue, CodedFailure> {
    let own = match (kind, expected) {
        // PostgreSQL's client sends 2^63 and more as numeric, and texts carry every type.
        (PostgresType::Numeric | PostgresType::Text, Some(expected)) => expected.clone(),
        (PostgresType::Numeric, None) => DataType::Float64,
        (kind, _) => kind.data_type(),
    };
    let Some(bytes) = bytes else {
        return ScalarValue::try_from(expected.unwrap_or(&own)).map_err(|_| wrong(number, kind));
    };
    let read = match format {
        ValueFormat::Text => of_text(kind, &bytes, &own),
        ValueFormat::Binary if kind == PostgresType::Numeric => {
            numeric(bytes).and_then(|text| of_text(kind, text.as_bytes(), &own))
        }
        ValueFormat::Binary => of_binary(kind, bytes),
    };
    let read = read.ok_or_else(|| wrong(number, kind))?;
    match expected {
        Some(expected) if read.data_type() != *expected => {
            read.cast_to(expected).map_err(|_| wrong(number, kind))
        }
        _ => Ok(read),
    }
}

fn of_text(kind: PostgresType, bytes: &[u8], own: &DataType) -> Option<ScalarValue> {
    let text = str::from_utf8(bytes).ok()?;
    match kind {
        PostgresType::Bool => {
            let is = |words: [&str; 5]| words.iter().any(|word| text.eq_ignore_ascii_case(word));
            let known = is(["t", "true", "1", "on", "yes"]).then_some(true);
            known.or_else(|| is(["f", "false", "0", "off", "no"]).then_some(false)).map(ScalarValue::from)
        }
        PostgresType::Bytes => {
            let digits = text.strip_prefix("\\x")?.as_bytes();
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok();
            let bytes = digits.chunks(2).map(|pair| if pair.len() == 2 { byte(pair) } else { None });
            bytes.collect::<Option<Vec<u8>>>().map(|bytes| ScalarValue::Binary(Some(bytes)))
        }
        _ => ScalarValue::try_from_string(text.to_owned(), own).ok(),
    }
}

fn of_binary(kind: PostgresType, mut bytes: Bytes) -> Option<ScalarValue> {
    let value = match kind {
        PostgresType::Bool => ScalarValue::from(bytes.try_get_u8().ok()? != 0),
        PostgresType::Int2 => ScalarValue::from(bytes.try_get_i16().ok()?),
        PostgresType::Int4 => ScalarValue::from(bytes.try_get_i32().ok()?),
        PostgresType::Int8 => ScalarValue::from(bytes.try_get_i64().ok()?),
        PostgresType::Float4 => ScalarValue::from(bytes.try_get_f32().ok()?),
        PostgresType::Float8 => ScalarValue::from(bytes.try_get_f64().ok()?),
        PostgresType::Text => ScalarValue::from(str::from_utf8(&bytes.split_off(0)).ok()?),
        PostgresType::Bytes => ScalarValue::Binary(Some(bytes.split_off(0).to_vec())),
        PostgresType::Date => {
            let days = bytes.try_get_i32().ok()?.checked_add(EPOCH_DAYS)?;
            ScalarValue::Date32(Some(days))
        }
        PostgresType::Timestamp | PostgresType::TimestampTz => {
            let microseconds = bytes.try_get_i64().ok()?.checked_add(EPOCH_MICROSECONDS)?;
            let zone = (kind == PostgresType::TimestampTz).then(|| "+00:00".into());
            ScalarValue::TimestampMicrosecond(Some(microseconds), zone)
        }
        PostgresType::Numeric => return None,
    };
    bytes.is_empty().then_some(value)
}

/// A binary numeric as text: digits to the base 10,000, the first at a power of it.
fn numeric(mut bytes: Bytes) -> Option<String> {
    let count = usize::from(bytes.try_get_u16().ok()?);
    let weight = i32::from(bytes.try_get_i16().ok()?);
    let sign = bytes.try_get_u16().ok()?;
    let scale = usize::from(bytes.try_get_u16().ok()?);
    let digits: Option<Vec<u16>> = (0..count).map(|_| bytes.try_get_u16().ok()).collect();
    let digits = digits.filter(|digits| digits.iter().all(|digit| *digit < 10_000))?;
    let digit = |place: i32| {
        let index = usize::try_from(weight - place).ok();
        index.and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let mut text = match sign {
        0 => String::new(),
        0x4000 => "-".to_owned(),
        _ => return None,
    };
    // No number of a column is longer.
    if weight > 20 || scale > 80 {
        return None;
    }
    let groups = |places: &mut dyn Iterator<Item = i32>| {
        places.fold(String::new(), |text, place| format!("{text}{:04}", digit(place)))
    };
    let whole = groups(&mut (0..=weight).rev());
    text.push_str(match whole.trim_start_matches('0') {
        "" => "0",
        digits => digits,
    });
    if scale > 0 {
        let part = groups(&mut (-20..0).rev());
        text.push('.');
        text.push_str(part.get(..scale)?);
    }
    Some(text)
}

fn wrong(number: usize, kind: PostgresType) -> CodedFailure {
    let failure = CommandFailure::message(QUERY, format!("parameter ${number} is not a {}", kind.sql_name()));
    CodedFailure::new(
        "22P02",
        failure.hint("send it as text, or write a cast: CAST($1 AS BIGINT)".to_owned()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_numerics_are_exact() {
        let largest: &[u8] =
            &[0, 5, 0, 4, 0, 0, 0, 0, 0x07, 0x34, 0x1a, 0x58, 0x02, 0xe1, 0x03, 0xbb, 0x06, 0x4f];
        assert_eq!(numeric(Bytes::copy_from_slice(largest)).unwrap(), u64::MAX.to_string());
        let small: &[u8] = &[0, 2, 0xff, 0xff, 0x40, 0, 0, 5, 0, 12, 0x13, 0x88];
        assert_eq!(numeric(Bytes::copy_from_slice(small)).unwrap(), "-0.00125");
        assert_eq!(numeric(Bytes::from_static(&[0; 8])).unwrap(), "0");
        assert!(numeric(Bytes::copy_from_slice(&largest[..17])).is_none());
    }

    #[test]
    fn values_take_the_expected_type() {
        let value = |kind, text: &'static str, expected: DataType| {
            value(1, kind, ValueFormat::Text, Some(Bytes::from_static(text.as_bytes())), Some(&expected))
        };
        let unsigned = value(PostgresType::Numeric, "18446744073709551615", DataType::UInt64).unwrap();
        assert_eq!(unsigned, ScalarValue::from(u64::MAX));
        assert_eq!(value(PostgresType::Text, "7", DataType::UInt32).unwrap(), ScalarValue::from(7_u32));
        assert_eq!(value(PostgresType::Bool, "off", DataType::Boolean).unwrap(), ScalarValue::from(false));
        assert!(value(PostgresType::Int4, "seven", DataType::Int32).is_err());
        assert!(value(PostgresType::Bytes, "\\x0", DataType::Binary).is_err());
    }
}
