//! Texts of UTF-16 as UTF-8: shells of Windows write them.

use std::io::{self, BufReader, Read};

/// A reader that turns UTF-16 into UTF-8. Units without a partner become replacement characters.
pub(super) struct Utf16Reader<R> {
    reader: BufReader<R>,
    is_little: bool,
    /// The first unit of a pair.
    high: Option<u16>,
    /// Bytes that are still to be given, from a place on.
    ready: Vec<u8>,
    next: usize,
}

impl<R: Read> Utf16Reader<R> {
    pub(super) fn new(reader: R, is_little: bool) -> Self {
        Self { reader: BufReader::new(reader), is_little, high: None, ready: Vec::new(), next: 0 }
    }

    fn unit(&mut self) -> io::Result<Option<u16>> {
        let mut bytes = [0; 2];
        if super::read_start(&mut self.reader, &mut bytes)? < bytes.len() {
            return Ok(None);
        }
        Ok(Some(if self.is_little { u16::from_le_bytes(bytes) } else { u16::from_be_bytes(bytes) }))
    }

    /// Fills the bytes that are ready.
    fn fill(&mut self, count: usize) -> io::Result<()> {
        (self.ready, self.next) = (Vec::new(), 0);
        while self.ready.len() < count {
            let Some(unit) = self.unit()? else { break };
            if (0xd800..0xdc00).contains(&unit) && self.high.is_none() {
                self.high = Some(unit);
                continue;
            }
            let units = self.high.take().into_iter().chain([unit]);
            for character in char::decode_utf16(units) {
                let character = character.unwrap_or(char::REPLACEMENT_CHARACTER);
                // The mark at the begin.
                if character != '\u{feff}' {
                    self.ready.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
            }
        }
        Ok(())
    }
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.next == self.ready.len() {
            self.fill(buffer.len().min(64 << 10))?;
        }
        let count = (&self.ready[self.next..]).read(buffer)?;
        self.next += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_survive() {
        let text = "\u{feff}\"a\" \u{e9} \u{1f600}";
        for is_little in [true, false] {
            let bytes = |unit: u16| if is_little { unit.to_le_bytes() } else { unit.to_be_bytes() };
            let bytes: Vec<u8> = text.encode_utf16().flat_map(bytes).collect();
            let mut found = String::new();
            Utf16Reader::new(bytes.as_slice(), is_little).read_to_string(&mut found).unwrap();
            assert_eq!(found, "\"a\" \u{e9} \u{1f600}");
        }
    }
}
