//! Blocks of a report: a header, then sources and results, each behind its length.

use crate::formats::input::REPORT;
use crate::formats::proto::{ProtoReader, ProtoValue};
use std::io::Read;

/// Most bytes of one message.
const MAX_MESSAGE_BYTES: u32 = 1 << 30;

/// A report as a stream of messages.
pub(super) struct MessageStream<R> {
    reader: R,
    /// The position in the unpacked file.
    at: u64,
}

/// A message with its position.
pub(super) struct OwnedMessage {
    bytes: Vec<u8>,
    at: u64,
}

impl OwnedMessage {
    /// The message.
    pub(super) fn message(&self) -> ProtoReader<'_> {
        ProtoReader::new(&self.bytes, self.at)
    }
}

/// The header of a block.
#[derive(Default)]
pub(super) struct BlockHeader<'a> {
    /// Messages with cubins and source files.
    pub(super) sources: u64,
    /// Messages with a kernel each.
    pub(super) results: u64,
    /// Messages with ranges, command lists and graphs.
    pub(super) others: u64,
    /// Bytes of all these messages with their lengths.
    pub(super) payload_bytes: u64,
    /// Facts about the session.
    pub(super) session: Option<ProtoReader<'a>>,
    /// Texts that messages name by number.
    pub(super) strings: Option<ProtoReader<'a>>,
    /// The process of the block.
    pub(super) process: Option<ProtoReader<'a>>,
}

impl<'a> BlockHeader<'a> {
    /// Reads a header.
    pub(super) fn read(message: ProtoReader<'a>) -> Result<Self, String> {
        let mut header = Self::default();
        for field in message {
            match field? {
                (1, ProtoValue::Number(count)) => header.sources = count,
                (2, ProtoValue::Number(count)) => header.results = count,
                (3, ProtoValue::Message(session)) => header.session = Some(session),
                (4, ProtoValue::Message(strings)) => header.strings = Some(strings),
                (5, ProtoValue::Number(bytes)) => header.payload_bytes = bytes,
                (6, ProtoValue::Message(process)) => header.process = Some(process),
                (7..=9, ProtoValue::Number(count)) => header.others = header.others.saturating_add(count),
                _ => {}
            }
        }
        Ok(header)
    }
}

impl<R: Read> MessageStream<R> {
    /// The messages behind the first four bytes of a report.
    pub(super) fn from_reader(reader: R) -> Result<Self, String> {
        let mut stream = Self { reader, at: 0 };
        let mut magic = Vec::new();
        stream.fill(&mut magic, 4)?;
        (magic == REPORT)
            .then_some(stream)
            .ok_or_else(|| "byte 0: it does not begin like a report".to_owned())
    }

    /// The next message. None at the end of the file.
    pub(super) fn next(&mut self) -> Result<Option<OwnedMessage>, String> {
        let mut length = Vec::new();
        let begin = self.at;
        self.fill(&mut length, 4)?;
        let Some(length) = length.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)) else {
            return if length.is_empty() {
                Ok(None)
            } else {
                Err(format!("byte {begin}: it ends in a length"))
            };
        };
        if length > MAX_MESSAGE_BYTES {
            return Err(format!("byte {begin}: a message has {length} bytes, more than {MAX_MESSAGE_BYTES}"));
        }
        let mut owned = OwnedMessage { bytes: Vec::new(), at: self.at };
        self.fill(&mut owned.bytes, u64::from(length))?;
        if (owned.bytes.len() as u64) < u64::from(length) {
            return Err(format!("byte {begin}: it ends in a message of {length} bytes"));
        }
        Ok(Some(owned))
    }

    /// The next message of a block, whose payload has some bytes left.
    pub(super) fn part(&mut self, left: &mut u64) -> Result<OwnedMessage, String> {
        let begin = self.at;
        let owned = self.next()?.ok_or_else(|| format!("byte {begin}: it ends in a block"))?;
        let bytes = self.at - begin;
        *left = left
            .checked_sub(bytes)
            .ok_or_else(|| format!("byte {begin}: a message ends behind its block"))?;
        Ok(owned)
    }

    /// Skips bytes.
    pub(super) fn skip(&mut self, bytes: u64) -> Result<(), String> {
        let count = std::io::copy(&mut (&mut self.reader).take(bytes), &mut std::io::sink());
        let count = count.map_err(|error| format!("byte {}: {error}", self.at))?;
        self.at += count;
        if count < bytes { Err(format!("byte {}: it ends in a block", self.at)) } else { Ok(()) }
    }

    /// Appends up to a number of bytes. Memory grows with the bytes that are there.
    fn fill(&mut self, buffer: &mut Vec<u8>, bytes: u64) -> Result<(), String> {
        let count = (&mut self.reader).take(bytes).read_to_end(buffer);
        let count = count.map_err(|error| format!("byte {}: {error}", self.at))?;
        self.at += count as u64;
        Ok(())
    }
}
