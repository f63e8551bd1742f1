//! Protocol buffers: fields of a message, one after the other. The messages of a format are functions over it.

/// A message that grows field by field.
#[derive(Clone, Debug, Default)]
pub(crate) struct MessageBuilder(Vec<u8>);

impl MessageBuilder {
    /// An unsigned number, an enum or true.
    pub(crate) fn uint(mut self, field: u32, value: u64) -> Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// A signed number as `int64` has it: two's complement.
    pub(crate) fn int(self, field: u32, value: i64) -> Self {
        self.uint(field, u64::from_ne_bytes(value.to_ne_bytes()))
    }

    /// A double.
    pub(crate) fn double(mut self, field: u32, value: f64) -> Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// A text.
    pub(crate) fn text(mut self, field: u32, value: &str) -> Self {
        self.bytes(field, value.as_bytes());
        self
    }

    /// A message in the message.
    pub(crate) fn message(mut self, field: u32, value: &Self) -> Self {
        self.bytes(field, &value.0);
        self
    }

    /// Several messages in one field.
    pub(crate) fn messages(self, field: u32, values: impl IntoIterator<Item = Self>) -> Self {
        values.into_iter().fold(self, |message, value| message.message(field, &value))
    }

    /// Numbers in one packed field.
    pub(crate) fn packed(mut self, field: u32, values: impl IntoIterator<Item = u64>) -> Self {
        let mut list = Self::default();
        values.into_iter().for_each(|value| list.varint(value));
        self.bytes(field, &list.0);
        self
    }

    /// Changes the message if there is a value.
    pub(crate) fn with<T>(self, value: Option<T>, set: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => set(self, value),
            None => self,
        }
    }

    /// The encoded message.
    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }

    /// Appends a message to a list of messages in place.
    pub(crate) fn push(&mut self, field: u32, value: &Self) {
        self.bytes(field, &value.0);
    }

    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.key(field, 2);
        self.varint(value.len() as u64);
        self.0.extend(value);
    }

    fn key(&mut self, field: u32, kind: u64) {
        self.varint(u64::from(field) << 3 | kind);
    }

    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_the_bytes_of_the_specification() {
        assert_eq!(MessageBuilder::default().uint(1, 150).finish(), [0x08, 0x96, 0x01]);
        assert_eq!(MessageBuilder::default().text(2, "testing").finish(), b"\x12\x07testing");
        assert_eq!(
            MessageBuilder::default().packed(6, [3, 270, 86_942]).finish(),
            b"\x32\x06\x03\x8e\x02\x9e\xa7\x05"
        );
        assert_eq!(MessageBuilder::default().int(1, -2).finish().len(), 11);
        let inner = MessageBuilder::default().uint(1, 150);
        assert_eq!(MessageBuilder::default().message(3, &inner).finish(), [0x1a, 0x03, 0x08, 0x96, 0x01]);
        assert_eq!(MessageBuilder::default().double(1, 1.0).finish(), b"\x09\0\0\0\0\0\0\xf0\x3f");
        assert_eq!(MessageBuilder::default().uint(1000, 1).finish(), [0xc0, 0x3e, 0x01]);
    }
}
