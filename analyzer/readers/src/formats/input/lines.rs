//! Texts whose records are bounded.

use std::io::{self, Read};

use super::too_large;

/// Bytes of a record: a line, without line breaks in quotes.
const MAX_RECORD_BYTES: usize = 16 << 20;

/// A reader of CSV that fails inside of a long record.
pub(super) struct CsvReader<R> {
    reader: R,
    is_quoted: bool,
    length: usize,
}

impl<R> CsvReader<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, is_quoted: false, length: 0 }
    }
}

impl<R: Read> Read for CsvReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.reader.read(buffer)?;
        for byte in &buffer[..count] {
            self.length += 1;
            match byte {
                b'"' => self.is_quoted = !self.is_quoted,
                b'\n' if !self.is_quoted => self.length = 0,
                _ => {}
            }
        }
        if self.length > MAX_RECORD_BYTES {
            return Err(too_large("a line has more than 16 MiB"));
        }
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_records_end() {
        let read = |text: &[u8], times| {
            let mut lines = CsvReader::new(io::Cursor::new(text.repeat(times)));
            io::copy(&mut lines, &mut io::sink())
        };
        assert!(read(b"\"a\",\"b\"\n", 4 << 20).is_ok());
        assert!(read(b"\"a\",\"b\" ", 4 << 20).is_err());
        // A quote without a partner.
        assert!(read(&[b"\"".as_slice(), &b"\n".repeat(17 << 20)].concat(), 1).is_err());
    }
}
