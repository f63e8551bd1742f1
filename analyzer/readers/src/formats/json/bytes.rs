//! Bytes of a stream with a bounded look-ahead. A stream that fails in the middle ends there, and keeps the reason.

use std::io::{self, ErrorKind, Read};

/// Bytes that are held at a time.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes that can be seen ahead of the next one.
pub(super) const LOOK_AHEAD_BYTES: usize = 4 << 10;

/// A stream of bytes.
pub(super) struct ByteStream<R> {
    reader: R,
    buffer: Vec<u8>,
    /// The next byte in the buffer, and the end of the bytes there.
    next: usize,
    end: usize,
    /// Position of the buffer in the stream.
    offset: u64,
    is_over: bool,
    /// The reason why the stream ended before its end.
    failure: Option<String>,
}

impl<R: Read> ByteStream<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), next: 0, end: 0, offset: 0, is_over: false, failure: None }
    }

    /// Position of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.offset + self.next as u64
    }

    /// The reason why the stream ended before its end.
    pub(super) fn failure(&self) -> Option<&str> {
        self.failure.as_deref()
    }

    /// The next byte, which stays. None at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.ahead(1)?.first().copied())
    }

    /// The next byte.
    pub(super) fn take(&mut self) -> io::Result<Option<u8>> {
        let byte = self.peek()?;
        self.skip(usize::from(byte.is_some()));
        Ok(byte)
    }

    /// Moves behind bytes that were seen.
    pub(super) fn skip(&mut self, count: usize) {
        self.next = (self.next + count).min(self.end);
    }

    /// Moves to the first byte that is not a space.
    pub(super) fn skip_spaces(&mut self) -> io::Result<()> {
        loop {
            let seen = self.ahead(1)?;
            let spaces = seen.iter().take_while(|byte| is_space(**byte)).count();
            let is_all = spaces == seen.len() && spaces > 0;
            self.skip(spaces);
            if !is_all {
                return Ok(());
            }
        }
    }

    /// The bytes that are held: a number of them, or fewer at the end of the stream.
    pub(super) fn ahead(&mut self, count: usize) -> io::Result<&[u8]> {
        if self.end - self.next < count {
            self.fill(count.min(LOOK_AHEAD_BYTES))?;
        }
        Ok(self.buffer.get(self.next..self.end).unwrap_or_default())
    }

    fn fill(&mut self, count: usize) -> io::Result<()> {
        // Some files have a document per line, most of them short.
        let bytes = match self.buffer.len() {
            0 => LOOK_AHEAD_BYTES,
            held if self.end == held => BUFFER_BYTES,
            held => held,
        };
        self.buffer.resize(bytes, 0);
        self.buffer.copy_within(self.next..self.end, 0);
        self.offset += self.next as u64;
        (self.next, self.end) = (0, self.end - self.next);
        while self.end < count && !self.is_over {
            let room = self.buffer.get_mut(self.end..).unwrap_or_default();
            match self.reader.read(room) {
                Ok(0) => self.is_over = true,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // A bound of stallmap's.
                Err(error) if error.kind() == ErrorKind::InvalidData => return Err(error),
                Err(error) => {
                    self.failure = Some(error.to_string());
                    self.is_over = true;
                }
            }
        }
        Ok(())
    }
}

/// True for the spaces of JSON.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spaces_are_skipped_in_one_buffer_and_a_failure_is_the_end() {
        struct FailingReader;
        impl Read for FailingReader {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("broken"))
            }
        }
        let blanks = io::repeat(b' ').take(1 << 20);
        let mut bytes = ByteStream::new(blanks.chain(&b"x"[..]).chain(FailingReader));
        bytes.skip_spaces().unwrap();
        assert_eq!((bytes.position(), bytes.buffer.len()), (1 << 20, BUFFER_BYTES));
        assert_eq!((bytes.take().unwrap(), bytes.take().unwrap()), (Some(b'x'), None));
        assert_eq!(bytes.failure(), Some("broken"));
    }
}
