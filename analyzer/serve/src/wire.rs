//! Bytes of one connection: messages of bounded length in, a buffer out. Reading and writing can be cancelled.

use std::io::{Error, ErrorKind, Result};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

use crate::message::ServerMessage;

/// Most bytes of a message before the password was checked.
const MAX_BYTES_OF_A_STRANGER: usize = 16 << 10;
/// Most bytes of a message after that.
const MAX_BYTES: usize = 1 << 20;
/// Bytes of rows that wait for the network.
const FULL_BYTES: usize = 256 << 10;

/// A connection, plain or encrypted.
pub(crate) trait WirePipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> WirePipe for T {}

/// One connection.
pub(crate) struct ClientWire {
    pipe: Box<dyn WirePipe>,
    input: BytesMut,
    output: BytesMut,
    most_bytes: usize,
}

impl ClientWire {
    /// A connection of a peer that has not given the password.
    pub(crate) fn new(pipe: Box<dyn WirePipe>) -> Self {
        Self { pipe, input: BytesMut::new(), output: BytesMut::new(), most_bytes: MAX_BYTES_OF_A_STRANGER }
    }

    /// Admits long messages.
    pub(crate) fn trust(&mut self) {
        self.most_bytes = MAX_BYTES;
    }

    /// The next message with its type. None at the end of the connection.
    pub(crate) async fn message(&mut self) -> Result<Option<(u8, Bytes)>> {
        let Some(header) = self.peek(5).await? else { return Ok(None) };
        let (kind, length) = (header[0], length(&header[1..]));
        let Some(body) = self.take(1, length).await? else { return Ok(None) };
        Ok(Some((kind, body)))
    }

    /// The first message, which has no type.
    pub(crate) async fn first_message(&mut self) -> Result<Option<Bytes>> {
        let Some(header) = self.peek(4).await? else { return Ok(None) };
        self.take(0, length(&header)).await
    }

    /// The body of a message behind its type of `skip` bytes and its length, which counts itself.
    async fn take(&mut self, skip: usize, length: usize) -> Result<Option<Bytes>> {
        if length < 4 || length > self.most_bytes {
            let reason = format!("a message has {length} bytes, and {} are allowed", self.most_bytes);
            return Err(Error::new(ErrorKind::InvalidData, reason));
        }
        if self.peek(skip + length).await?.is_none() {
            return Ok(None);
        }
        let mut message = self.input.split_to(skip + length).freeze();
        message.advance(skip + 4);
        Ok(Some(message))
    }

    /// The next bytes, which stay in the buffer. None at the end of the connection.
    async fn peek(&mut self, count: usize) -> Result<Option<BytesMut>> {
        while self.input.len() < count {
            if self.pipe.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
        Ok(Some(BytesMut::from(&self.input[..count.min(5)])))
    }

    /// Waits until the peer closes the connection. What it sends in between is read later.
    pub(crate) async fn closed(&mut self) {
        while self.input.len() < self.most_bytes {
            match self.pipe.read_buf(&mut self.input).await {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
        std::future::pending::<()>().await;
    }

    /// Adds a message to the buffer.
    pub(crate) fn send(&mut self, reply: &ServerMessage<'_>) {
        reply.encode(&mut self.output);
    }

    /// The buffer, for rows.
    pub(crate) fn output(&mut self) -> &mut BytesMut {
        &mut self.output
    }

    /// True if the buffer must be written before more rows are added.
    pub(crate) fn is_full(&self) -> bool {
        self.output.len() >= FULL_BYTES
    }

    /// Writes the buffer. What was not written stays in it if this is cancelled.
    pub(crate) async fn flush(&mut self) -> Result<()> {
        while !self.output.is_empty() {
            if self.pipe.write_buf(&mut self.output).await? == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
        }
        self.pipe.flush().await
    }

    /// The connection, to be encrypted. Bytes that came too early are an attempt to smuggle them in.
    pub(crate) fn into_pipe(self) -> Result<Box<dyn WirePipe>> {
        let reason = "bytes before the encryption began";
        if self.input.is_empty() { Ok(self.pipe) } else { Err(Error::new(ErrorKind::InvalidData, reason)) }
    }
}

fn length(bytes: &[u8]) -> usize {
    let number = bytes.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    number as usize
}
