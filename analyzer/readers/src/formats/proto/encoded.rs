//! Messages for tests: fields in the order in which they are added.

/// A message while it is written.
#[derive(Clone, Debug, Default)]
pub(crate) struct EncodedMessage(pub(crate) Vec<u8>);

impl EncodedMessage {
    fn varint(mut self, mut value: u64) -> Self {
        while value >= 0x80 {
            self.0.push(value.to_le_bytes()[0] | 0x80);
            value >>= 7;
        }
        self.0.push(value.to_le_bytes()[0]);
        self
    }

    /// A field with a number.
    pub(crate) fn uint(self, field: u64, value: u64) -> Self {
        self.varint(field << 3).varint(value)
    }

    /// A field with a text.
    pub(crate) fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    /// A field with a message.
    pub(crate) fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }

    fn bytes(self, field: u64, bytes: &[u8]) -> Self {
        let mut message = self.varint(field << 3 | 2).varint(bytes.len() as u64);
        message.0.extend(bytes);
        message
    }
}
