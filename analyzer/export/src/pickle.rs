//! Pickles of protocol 2: builtins only. Nothing in them runs when they are loaded.

use serde_json::Value;

/// A pickle of a value.
pub(crate) fn pickled(value: &Value) -> Vec<u8> {
    let mut bytes = vec![0x80, 2];
    append(&mut bytes, value);
    bytes.push(b'.');
    bytes
}

fn append(bytes: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => bytes.push(b'N'),
        Value::Bool(true) => bytes.push(0x88),
        Value::Bool(false) => bytes.push(0x89),
        Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(number), _) => long(bytes, number.into()),
            (None, Some(number)) => long(bytes, number.into()),
            (None, None) => {
                bytes.push(b'G');
                bytes.extend(number.as_f64().unwrap_or(f64::NAN).to_be_bytes());
            }
        },
        Value::String(value) => text(bytes, value),
        Value::Array(values) => {
            bytes.extend(b"](");
            for value in values {
                append(bytes, value);
            }
            bytes.push(b'e');
        }
        Value::Object(fields) => {
            bytes.extend(b"}(");
            for (key, value) in fields {
                text(bytes, key);
                append(bytes, value);
            }
            bytes.push(b'u');
        }
    }
}

/// An integer of any size: its shortest two's complement, little endian.
fn long(bytes: &mut Vec<u8>, value: i128) {
    let mut digits = value.to_le_bytes().to_vec();
    while let [.., before, last] = digits.as_slice() {
        let is_sign = (*last == 0 && *before < 0x80) || (*last == 0xff && *before >= 0x80);
        if !is_sign {
            break;
        }
        digits.pop();
    }
    bytes.push(0x8a);
    bytes.push(digits.len().to_le_bytes()[0]);
    bytes.extend(digits);
}

fn text(bytes: &mut Vec<u8>, value: &str) {
    // Lengths have 32 bits. Texts of a capture are far shorter.
    let length = u32::try_from(value.len()).unwrap_or(0);
    bytes.push(b'X');
    bytes.extend(length.to_le_bytes());
    bytes.extend(value.as_bytes().iter().take(length as usize));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_have_the_opcodes_of_protocol_2() {
        assert_eq!(pickled(&json!(null)), b"\x80\x02N.");
        assert_eq!(pickled(&json!([true, "a"])), b"\x80\x02](\x88X\x01\0\0\0ae.");
        assert_eq!(pickled(&json!({ "a": 1 })), b"\x80\x02}(X\x01\0\0\0a\x8a\x01\x01u.");
        assert_eq!(pickled(&json!(255)), b"\x80\x02\x8a\x02\xff\0.");
        assert_eq!(pickled(&json!(-128)), b"\x80\x02\x8a\x01\x80.");
        assert_eq!(pickled(&json!(u64::MAX)), b"\x80\x02\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0.");
    }
}
