//! Messages of Protocol Buffers, field by field.

/// A number as a varint: seven bits a byte, the lowest first.
#[must_use]
pub fn number(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value.to_le_bytes()[0] | 0x80);
        value >>= 7;
    }
    bytes.push(value.to_le_bytes()[0]);
    bytes
}

/// A field with bytes: a text, a message, or packed numbers.
#[must_use]
pub fn field(tag: u64, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    [number(tag << 3 | 2), number(content.len() as u64), content.to_vec()].concat()
}

/// A field with a number.
#[must_use]
pub fn value(tag: u64, content: u64) -> Vec<u8> {
    [number(tag << 3), number(content)].concat()
}
