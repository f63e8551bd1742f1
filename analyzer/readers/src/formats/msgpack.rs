//! MessagePack as JSON, for formats that tools write in both.

use std::io::{self, Read};

use crate::error::{ReadError, ReadResult};
use rmp::Marker;
use rmp::decode::{RmpRead, read_marker};
use struson::writer::{JsonNumberError, JsonStreamWriter, JsonWriter};

use crate::formats::input::ImportInput;

/// Most bytes of an unpacked file: its JSON is held in memory.
const MAX_BYTES: u64 = 1 << 30;
/// Most bytes of one text, as in JSON.
const MAX_TEXT_BYTES: u32 = 1 << 20;
/// Most levels of arrays and maps.
const MAX_LEVELS: usize = 1024;

/// An array or a map with values that are still to be read.
enum OpenContainer {
    Array(u32),
    Map(u32),
}

/// A value, with the content of a text or a number of members.
enum MsgpackValue {
    Null,
    Truth(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    Array(u32),
    Map(u32),
}

/// The one value of a file as JSON. Numbers that JSON lacks are null.
///
/// # Errors
///
/// A value that JSON lacks, one that is beyond the bounds, or the end of the file.
pub fn to_json(input: &ImportInput) -> ReadResult<Vec<u8>> {
    let mut reader = io::BufReader::new(input.open()?.take(MAX_BYTES));
    let mut text = Vec::new();
    translate(&mut reader, &mut text).map_err(|error| {
        ReadError::message(format!("`{}` is not complete MessagePack: {error}", input.path.display()))
            .hint("the tool may not have finished it: write it again".to_owned())
    })?;
    Ok(text)
}

fn translate(reader: &mut impl Read, text: &mut Vec<u8>) -> io::Result<()> {
    let mut json = JsonStreamWriter::new(text);
    let mut open: Vec<OpenContainer> = Vec::new();
    loop {
        match next(reader)? {
            MsgpackValue::Null => json.null_value()?,
            MsgpackValue::Truth(value) => json.bool_value(value)?,
            MsgpackValue::Signed(value) => json.number_value(value)?,
            MsgpackValue::Unsigned(value) => json.number_value(value)?,
            MsgpackValue::Float(value) => float(&mut json, value)?,
            MsgpackValue::Text(value) => json.string_value(&value)?,
            MsgpackValue::Array(count) => {
                json.begin_array()?;
                open.push(OpenContainer::Array(count));
            }
            MsgpackValue::Map(count) => {
                json.begin_object()?;
                open.push(OpenContainer::Map(count));
            }
        }
        if open.len() > MAX_LEVELS {
            return Err(wrong("it has too many levels"));
        }
        loop {
            match open.last_mut() {
                None => return json.finish_document().map(drop),
                Some(OpenContainer::Array(0)) => json.end_array()?,
                Some(OpenContainer::Map(0)) => json.end_object()?,
                Some(OpenContainer::Array(left)) => {
                    *left -= 1;
                    break;
                }
                Some(OpenContainer::Map(left)) => {
                    *left -= 1;
                    let MsgpackValue::Text(key) = next(reader)? else {
                        return Err(wrong("a key is not a text"));
                    };
                    json.name(&key)?;
                    break;
                }
            }
            open.pop();
        }
    }
}

fn float(json: &mut impl JsonWriter, value: f64) -> io::Result<()> {
    match json.fp_number_value(value) {
        Err(JsonNumberError::InvalidNumber(_)) => json.null_value(),
        Err(JsonNumberError::IoError(error)) => Err(error),
        Ok(()) => Ok(()),
    }
}

/// Reads a value without its members.
fn next(reader: &mut impl Read) -> io::Result<MsgpackValue> {
    let marker = read_marker(reader).map_err(|error| error.0)?;
    let data =
        |error: rmp::decode::ValueReadError| io::Error::new(io::ErrorKind::UnexpectedEof, error.to_string());
    Ok(match marker {
        Marker::Null => MsgpackValue::Null,
        Marker::True => MsgpackValue::Truth(true),
        Marker::False => MsgpackValue::Truth(false),
        Marker::FixPos(value) => MsgpackValue::Unsigned(value.into()),
        Marker::FixNeg(value) => MsgpackValue::Signed(value.into()),
        Marker::U8 => MsgpackValue::Unsigned(reader.read_data_u8().map_err(data)?.into()),
        Marker::U16 => MsgpackValue::Unsigned(reader.read_data_u16().map_err(data)?.into()),
        Marker::U32 => MsgpackValue::Unsigned(reader.read_data_u32().map_err(data)?.into()),
        Marker::U64 => MsgpackValue::Unsigned(reader.read_data_u64().map_err(data)?),
        Marker::I8 => MsgpackValue::Signed(reader.read_data_i8().map_err(data)?.into()),
        Marker::I16 => MsgpackValue::Signed(reader.read_data_i16().map_err(data)?.into()),
        Marker::I32 => MsgpackValue::Signed(reader.read_data_i32().map_err(data)?.into()),
        Marker::I64 => MsgpackValue::Signed(reader.read_data_i64().map_err(data)?),
        Marker::F32 => MsgpackValue::Float(reader.read_data_f32().map_err(data)?.into()),
        Marker::F64 => MsgpackValue::Float(reader.read_data_f64().map_err(data)?),
        Marker::FixStr(length) => text(reader, length.into())?,
        Marker::Str8 => {
            let length = reader.read_data_u8().map_err(data)?;
            text(reader, length.into())?
        }
        Marker::Str16 => {
            let length = reader.read_data_u16().map_err(data)?;
            text(reader, length.into())?
        }
        Marker::Str32 => {
            let length = reader.read_data_u32().map_err(data)?;
            text(reader, length)?
        }
        Marker::FixArray(count) => MsgpackValue::Array(count.into()),
        Marker::Array16 => MsgpackValue::Array(reader.read_data_u16().map_err(data)?.into()),
        Marker::Array32 => MsgpackValue::Array(reader.read_data_u32().map_err(data)?),
        Marker::FixMap(count) => MsgpackValue::Map(count.into()),
        Marker::Map16 => MsgpackValue::Map(reader.read_data_u16().map_err(data)?.into()),
        Marker::Map32 => MsgpackValue::Map(reader.read_data_u32().map_err(data)?),
        _ => return Err(wrong("it has binary values or extensions")),
    })
}

fn text(reader: &mut impl Read, length: u32) -> io::Result<MsgpackValue> {
    if length > MAX_TEXT_BYTES {
        return Err(wrong("a text has more than 1 MiB"));
    }
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| wrong("a text is too long"))?];
    reader.read_exact(&mut bytes)?;
    Ok(MsgpackValue::Text(String::from_utf8_lossy(&bytes).into_owned()))
}

fn wrong(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(bytes: &[u8]) -> io::Result<String> {
        let mut text = Vec::new();
        translate(&mut &*bytes, &mut text)?;
        Ok(String::from_utf8(text).unwrap())
    }

    #[test]
    fn values_are_translated() {
        assert_eq!(json(b"\x93\x01\xe0\xc0").unwrap(), "[1,-32,null]");
        assert_eq!(json(b"\x82\xa1a\x90\xa1b\x91\xcb\x3f\xf8\0\0\0\0\0\0").unwrap(), r#"{"a":[],"b":[1.5]}"#);
        assert_eq!(json(b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff").unwrap(), u64::MAX.to_string());
        assert_eq!(json(b"\xcb\x7f\xf8\0\0\0\0\0\0").unwrap(), "null");
    }

    #[test]
    fn everything_else_is_an_error() {
        for bytes in [
            &b"\x92\x01"[..],
            b"\x81\x01\x01",
            b"\xc4\x01x",
            b"\xdb\xff\xff\xff\xff",
            b"\xdd\xff\xff\xff\xff",
            b"",
        ] {
            assert!(json(bytes).is_err(), "{bytes:?}");
        }
        assert!(json(&[0x91; 5000]).is_err());
    }
}
