//! Bytes of one connection: one request within its bounds, and its reply.

use std::io::{ErrorKind, Result as IoResult};

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf, split};
use tonic::codegen::http::StatusCode;

use super::request::HttpRequest;
use crate::wire::WirePipe;

/// Most bytes of a head. Addresses of files have a statement in them.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Bytes behind an HTTP request that are read to see the end of the connection.
const MAX_REST_BYTES: usize = 64 << 10;
const END: &[u8] = b"\r\n\r\n";

/// One connection.
pub(crate) struct WebChannel {
    reader: ReadHalf<Box<dyn WirePipe>>,
    writer: WriteHalf<Box<dyn WirePipe>>,
    input: BytesMut,
}

impl WebChannel {
    pub(crate) fn new(pipe: Box<dyn WirePipe>) -> Self {
        let (reader, writer) = split(pipe);
        Self { reader, writer, input: BytesMut::new() }
    }

    /// The head of the request. None at the end of the connection.
    pub(crate) async fn head(&mut self) -> IoResult<Option<Result<HttpRequest, StatusCode>>> {
        let mut searched = 0;
        loop {
            let found = self.input[searched..].windows(END.len()).position(|bytes| bytes == END);
            if let Some(at) = found {
                let head = self.input.split_to(searched + at + END.len());
                let is_short = head.len() <= MAX_HEAD_BYTES;
                return Ok(Some(if is_short {
                    HttpRequest::read(&head)
                } else {
                    Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)
                }));
            }
            if self.input.len() > MAX_HEAD_BYTES {
                return Ok(Some(Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE)));
            }
            searched = self.input.len().saturating_sub(END.len() - 1);
            if self.reader.read_buf(&mut self.input).await? == 0 {
                return Ok(None);
            }
        }
    }

    /// The body of a request as text.
    pub(crate) async fn body(
        &mut self,
        request: &HttpRequest,
        most_bytes: usize,
    ) -> IoResult<Result<String, StatusCode>> {
        if request.body_bytes > most_bytes {
            return Ok(Err(StatusCode::PAYLOAD_TOO_LARGE));
        }
        while self.input.len() < request.body_bytes {
            if self.reader.read_buf(&mut self.input).await? == 0 {
                return Err(ErrorKind::UnexpectedEof.into());
            }
        }
        let body = self.input.split_to(request.body_bytes);
        Ok(String::from_utf8(body.to_vec()).map_err(|_| StatusCode::BAD_REQUEST))
    }

    /// Waits until the peer closes the connection. What it sends behind its request has no effect.
    pub(crate) async fn closed(&mut self) {
        let mut rest = BytesMut::new();
        let mut left = MAX_REST_BYTES;
        loop {
            rest.clear();
            match self.reader.read_buf(&mut rest).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => left = left.saturating_sub(bytes),
            }
            if left == 0 {
                return;
            }
        }
    }

    /// Writes bytes.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> IoResult<()> {
        self.writer.write_all(bytes).await?;
        self.writer.flush().await
    }

    /// Says that nothing follows, and reads what still comes: a connection that is closed with unread bytes would lose
    /// the end of the reply.
    pub(crate) async fn end(mut self) -> IoResult<()> {
        self.writer.shutdown().await?;
        self.closed().await;
        Ok(())
    }
}
