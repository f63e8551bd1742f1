//! Protocol buffers on the wire: fields one after the other. Everything else is the caller's.

/// A field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WireValue<'a> {
    /// A number.
    Number(u64),
    /// Text, bytes, a message, or several numbers.
    Bytes(&'a [u8]),
    /// A number of fixed width, which nothing here reads.
    Fixed,
}

/// The fields of a message, in order. They end early where the bytes are not those of a message.
#[derive(Clone, Debug)]
pub struct WireFields<'a>(&'a [u8]);

impl<'a> WireFields<'a> {
    /// The fields of a message.
    pub fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    /// The first message of a field.
    pub fn message(message: &'a [u8], tag: u64) -> Option<&'a [u8]> {
        Self::new(message).find_map(|(found, value)| value.bytes().filter(|_| found == tag))
    }

    fn number(&mut self) -> Option<u64> {
        let (number, rest) = read_number(self.0)?;
        self.0 = rest;
        Some(number)
    }

    fn skip(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, WireValue<'a>)> {
        let key = self.number()?;
        let value = match key & 7 {
            0 => WireValue::Number(self.number()?),
            1 => self.skip(8).map(|_| WireValue::Fixed)?,
            2 => {
                let length = usize::try_from(self.number()?).ok()?;
                WireValue::Bytes(self.skip(length)?)
            }
            5 => self.skip(4).map(|_| WireValue::Fixed)?,
            _ => return None,
        };
        Some((key >> 3, value))
    }
}

impl<'a> Iterator for WireFields<'a> {
    type Item = (u64, WireValue<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        field
    }
}

impl<'a> WireValue<'a> {
    /// Its bytes, if it has any.
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            Self::Number(_) | Self::Fixed => None,
        }
    }

    /// Its text. Empty where it is not text.
    pub fn text(self) -> &'a str {
        self.bytes().and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
    }

    /// Its number. 0 where it is not one.
    pub fn number(self) -> u64 {
        match self {
            Self::Number(number) => number,
            Self::Bytes(_) | Self::Fixed => 0,
        }
    }

    /// Appends its numbers: a field may come packed, or once for each number.
    pub fn add_numbers(self, numbers: &mut Vec<u64>) {
        match self {
            Self::Number(number) => numbers.push(number),
            Self::Bytes(mut packed) => {
                while let Some((number, rest)) = read_number(packed) {
                    numbers.push(number);
                    packed = rest;
                }
            }
            Self::Fixed => {}
        }
    }
}

/// A number of variable length, and the bytes behind it.
pub fn read_number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for (index, byte) in bytes.iter().enumerate().take(10) {
        number |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(index + 1..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_in_order_and_end_where_the_bytes_do() {
        // 1: 300, 2: "ab", 3: packed 1 and 2, 4: fixed, then a length past the end.
        let bytes = [8, 0xac, 2, 18, 2, b'a', b'b', 26, 2, 1, 2, 37, 0, 0, 0, 0, 42, 9, 1];
        let fields: Vec<_> = WireFields::new(&bytes).collect();
        assert_eq!(fields.len(), 4, "{fields:?}");
        assert_eq!((fields[0].1.number(), fields[1].1.text()), (300, "ab"));
        let mut numbers = Vec::new();
        fields[0].1.add_numbers(&mut numbers);
        fields[2].1.add_numbers(&mut numbers);
        assert_eq!(numbers, [300, 1, 2]);
        assert_eq!(WireFields::message(&bytes, 2), Some(&b"ab"[..]));
    }

    #[test]
    fn a_number_that_never_ends_is_none() {
        assert_eq!(read_number(&[0x80; 11]), None);
        assert_eq!(read_number(&[]), None);
    }
}
