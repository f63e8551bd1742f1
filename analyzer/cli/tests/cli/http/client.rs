//! A small HTTP client, written from its documentation. It shares no code with the server.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A reply.
#[derive(Debug)]
pub(crate) struct HttpReply {
    pub(crate) status: u16,
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// False if the body ended before its end.
    pub(crate) is_whole: bool,
}

impl HttpReply {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.body).unwrap()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

pub(crate) fn connect(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

/// An HTTP request with its fields and body.
pub(crate) fn request(method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\n");
    for (name, value) in fields {
        text.extend([name, ": ", value, "\r\n"]);
    }
    if !body.is_empty() {
        text.extend(["Content-Length: ", &body.len().to_string(), "\r\n"]);
    }
    (text + "\r\n" + body).into_bytes()
}

/// Sends an HTTP request, and reads its reply up to the end of the connection.
pub(crate) fn ask(port: u16, request: &[u8]) -> HttpReply {
    let mut stream = connect(port);
    stream.write_all(request).unwrap();
    read(stream)
}

/// The same, encrypted.
pub(crate) fn ask_encrypted(port: u16, certificate: CertificateDer<'static>, request: &[u8]) -> HttpReply {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_root_certificates(roots).with_no_client_auth();
    let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
    let mut stream = StreamOwned::new(tls, connect(port));
    stream.write_all(request).unwrap();
    read(stream)
}

fn read(mut stream: impl Read) -> HttpReply {
    let mut bytes = Vec::new();
    // An aborted connection has no end.
    let is_ended = stream.read_to_end(&mut bytes).is_ok();
    parsed(&bytes, is_ended)
}

fn parsed(bytes: &[u8], is_ended: bool) -> HttpReply {
    let at = bytes.windows(4).position(|end| end == b"\r\n\r\n").unwrap();
    let head = str::from_utf8(&bytes[..at]).unwrap();
    let mut lines = head.split("\r\n");
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let fields = lines.map(|line| line.split_once(": ").unwrap());
    let fields: Vec<_> = fields.map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned())).collect();
    let raw = &bytes[at + 4..];
    let is_chunked = fields.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked");
    let (body, is_whole) = if is_chunked { unchunked(raw) } else { (raw.to_vec(), is_ended) };
    let length = fields.iter().find(|(name, _)| name == "content-length").map(|(_, length)| length);
    assert!(length.is_none_or(|length| *length == body.len().to_string()), "{length:?} {}", body.len());
    HttpReply { status, fields, body, is_whole }
}

/// The data of chunks, and true if the last one is there.
fn unchunked(mut raw: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = raw.windows(2).position(|end| end == b"\r\n") {
        let length = usize::from_str_radix(str::from_utf8(&raw[..end]).unwrap(), 16).unwrap();
        let Some(rest) = raw.get(end + 2..) else { break };
        if length == 0 {
            return (body, rest == b"\r\n");
        }
        let Some(data) = rest.get(..length) else { break };
        body.extend(data);
        raw = rest.get(length + 2..).unwrap_or_default();
    }
    (body, false)
}
