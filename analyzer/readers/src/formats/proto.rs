//! Protocol buffers: the fields of a message, with their positions in the file. A reader names the fields that it knows.

#[cfg(test)]
pub(crate) mod encoded;

/// Most bytes of a number.
const MAX_NUMBER_BYTES: usize = 10;

/// A message in a file.
#[derive(Clone, Copy, Debug)]
pub struct ProtoReader<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The position of the first one in the unpacked file.
    pub at: u64,
}

/// The value of a field.
#[derive(Clone, Copy, Debug)]
pub enum ProtoValue<'a> {
    /// An integer, an enum or a truth value.
    Number(u64),
    /// Eight bytes: a double, or an integer of fixed size.
    Eight(u64),
    /// Four bytes: a float, or an integer of fixed size.
    Four(u32),
    /// Bytes, a text or a message.
    Message(ProtoReader<'a>),
}

impl<'a> ProtoReader<'a> {
    /// A message at a position.
    pub fn new(bytes: &'a [u8], at: u64) -> Self {
        Self { bytes, at }
    }

    /// Its fields, the last one up to the end of the bytes: a file that ends in a message has its begin. Then an error follows.
    pub fn lenient(self) -> ProtoFields<'a> {
        ProtoFields { bytes: self.bytes, at: self.at, keeps_cut: true, cut_at: None }
    }

    /// Its bytes as a text. Bytes that are not UTF-8 become U+FFFD.
    pub fn text(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }

    /// Sizes in the first three fields. None if one of them is 0 or too large.
    pub fn extent(self) -> Result<Option<[u32; 3]>, String> {
        let mut sizes = [0; 3];
        for field in self {
            if let (number, ProtoValue::Number(value)) = field?
                && let Some(size) = (number as usize).checked_sub(1).and_then(|place| sizes.get_mut(place))
            {
                *size = u32::try_from(value).unwrap_or(0);
            }
        }
        Ok(Some(sizes).filter(|sizes| sizes.iter().all(|size| *size > 0)))
    }

    /// The last number in a field.
    pub fn number(self, field: u32) -> Result<Option<u64>, String> {
        let mut found = None;
        for part in self {
            match part? {
                (number, ProtoValue::Number(value)) if number == field => found = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }

    /// The last message in a field.
    pub fn message(self, field: u32) -> Result<Option<Self>, String> {
        let mut found = None;
        for part in self {
            match part? {
                (number, ProtoValue::Message(value)) if number == field => found = Some(value),
                _ => {}
            }
        }
        Ok(found)
    }
}

impl<'a> IntoIterator for ProtoReader<'a> {
    type Item = Result<(u32, ProtoValue<'a>), String>;
    type IntoIter = ProtoFields<'a>;

    fn into_iter(self) -> ProtoFields<'a> {
        ProtoFields { bytes: self.bytes, at: self.at, keeps_cut: false, cut_at: None }
    }
}

/// The fields of a message, in the order of the file. Nothing follows an error.
pub struct ProtoFields<'a> {
    bytes: &'a [u8],
    at: u64,
    /// True if a message that ends too early is given up to there.
    keeps_cut: bool,
    /// The end of the bytes in such a message.
    cut_at: Option<u64>,
}

impl<'a> ProtoFields<'a> {
    /// The position behind the last field.
    pub fn position(&self) -> u64 {
        self.at
    }

    /// The end of the bytes in a message that was given in part, before the error about it.
    pub fn cut(&self) -> Option<u64> {
        self.cut_at
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (first, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        self.at += count as u64;
        Some(first)
    }

    fn integer(&mut self) -> Result<u64, &'static str> {
        let mut value = 0_u64;
        for (place, byte) in self.bytes.iter().take(MAX_NUMBER_BYTES).enumerate() {
            value |= u64::from(byte & 0x7f).checked_shl(7 * u32::try_from(place).unwrap_or(9)).unwrap_or(0);
            if byte & 0x80 == 0 {
                self.take(place + 1);
                return Ok(value);
            }
        }
        Err("a number has no end")
    }

    fn field(&mut self) -> Result<(u32, ProtoValue<'a>), &'static str> {
        let key = self.integer()?;
        let number = u32::try_from(key >> 3).map_err(|_| "a field's number is too large")?;
        let cut = "a field ends behind its message";
        let value = match key & 7 {
            0 => ProtoValue::Number(self.integer()?),
            1 => {
                let bytes = self.take(8).and_then(|bytes| bytes.first_chunk()).ok_or(cut)?;
                ProtoValue::Eight(u64::from_le_bytes(*bytes))
            }
            2 => {
                let length = usize::try_from(self.integer()?).map_err(|_| cut)?;
                let at = self.at;
                let mut bytes = self.take(length);
                if bytes.is_none() && self.keeps_cut {
                    bytes = self.take(self.bytes.len());
                    self.cut_at = Some(self.at);
                }
                ProtoValue::Message(ProtoReader::new(bytes.ok_or(cut)?, at))
            }
            5 => {
                let bytes = self.take(4).and_then(|bytes| bytes.first_chunk()).ok_or(cut)?;
                ProtoValue::Four(u32::from_le_bytes(*bytes))
            }
            _ => return Err("a field has an unknown encoding"),
        };
        Ok((number, value))
    }
}

impl<'a> Iterator for ProtoFields<'a> {
    type Item = Result<(u32, ProtoValue<'a>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(at) = self.cut_at.take() {
            return Some(Err(format!("byte {at}: it ends in a message")));
        }
        if self.bytes.is_empty() {
            return None;
        }
        let at = self.at;
        let field = self.field().map_err(|reason| format!("byte {at}: {reason}"));
        if field.is_err() {
            self.bytes = &[];
        }
        Some(field)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(bytes: &[u8]) -> Vec<String> {
        ProtoReader::new(bytes, 100).into_iter().map(|field| format!("{field:?}")).collect()
    }

    #[test]
    fn fields_are_those_of_the_specification() {
        assert_eq!(fields(&[0x08, 0x96, 0x01]), ["Ok((1, Number(150)))"]);
        let message = ProtoReader::new(b"\x12\x07testing", 100).message(2).unwrap().unwrap();
        assert_eq!((message.text().as_str(), message.at), ("testing", 102));
        assert_eq!(ProtoReader::new(&[0x08, 1, 0x08, 2], 0).number(1).unwrap(), Some(2));
        let minus = [&[0x08][..], &[0xff; 9], &[1]].concat();
        assert_eq!(ProtoReader::new(&minus, 0).number(1).unwrap(), Some(u64::MAX));
        assert_eq!(
            fields(&[0x0d, 1, 0, 0, 0, 0x11, 2, 0, 0, 0, 0, 0, 0, 0]),
            ["Ok((1, Four(1)))", "Ok((2, Eight(2)))"]
        );
    }

    #[test]
    fn damaged_messages_end_with_their_position() {
        for (bytes, at) in [
            (&[0x08][..], 100),
            (&[0x08, 1, 0x12, 9, 1], 102),
            (&[0x08, 1, 0x0b], 102),
            (&[0xff; 20], 100),
            (&[0x09, 1], 100),
        ] {
            let found = fields(bytes);
            assert!(found.last().unwrap().starts_with(&format!("Err(\"byte {at}: ")), "{found:?}");
        }
        let cut: Vec<_> = ProtoReader::new(b"\x12\x07test", 100).lenient().collect();
        assert!(matches!(&cut[0], Ok((2, ProtoValue::Message(text))) if text.bytes == b"test"), "{cut:?}");
        assert_eq!(cut[1].as_ref().unwrap_err(), "byte 106: it ends in a message");
    }
}
