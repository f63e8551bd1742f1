//! A small client of PostgreSQL's protocol, written from its documentation. It shares no code with the server.

use std::io::{Error, Read, Result as IoResult, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::{digest, hmac, pbkdf2};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A row: bytes of each value, or none for a null.
pub(crate) type RowValues = Vec<Option<Vec<u8>>>;

/// An error of the server.
#[derive(Debug, Default)]
pub(crate) struct ServerRefusal {
    pub(crate) severity: String,
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

/// A part of a prepared statement's rows.
#[derive(Debug)]
pub(crate) struct PortalRows {
    pub(crate) rows: Vec<RowValues>,
    pub(crate) is_suspended: bool,
}

trait ClientStream: Read + Write {}
impl<T: Read + Write> ClientStream for T {}

/// One connection.
pub(crate) struct PostgresTestClient {
    stream: Box<dyn ClientStream>,
    /// The state of the transaction.
    pub(crate) state: u8,
    /// Process and secret, to cancel.
    pub(crate) key: (u32, u32),
}

fn open(port: u16) -> TcpStream {
    let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    stream
}

impl PostgresTestClient {
    pub(crate) fn connect(port: u16, password: &str) -> Result<Self, ServerRefusal> {
        Self::over(Box::new(open(port)), password)
    }

    pub(crate) fn encrypted(
        port: u16,
        password: &str,
        certificate: CertificateDer<'static>,
    ) -> Result<Self, ServerRefusal> {
        let mut stream = open(port);
        stream.write_all(b"\0\0\0\x08\x04\xd2\x16\x2f").unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, *b"S");
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_root_certificates(roots).with_no_client_auth();
        let tls = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        Self::over(Box::new(StreamOwned::new(tls, stream)), password)
    }

    fn over(stream: Box<dyn ClientStream>, password: &str) -> Result<Self, ServerRefusal> {
        let mut client = Self { stream, state: 0, key: (0, 0) };
        let start = b"\0\x03\0\0user\0somebody\0database\0stallmap\0\0";
        client.write(&[&u32::try_from(start.len() + 4).unwrap().to_be_bytes()[..], start].concat());
        client.log_in(password)?;
        client.until_ready(|client, kind, body| {
            if kind == b'K' {
                client.key = (number(&body[..4]), number(&body[4..]));
            }
        })?;
        Ok(client)
    }

    fn log_in(&mut self, password: &str) -> Result<(), ServerRefusal> {
        let mechanisms = self.login_step(10)?;
        assert_eq!(mechanisms, b"SCRAM-SHA-256\0\0");
        let bare = "n=,r=rOprNGfwEbeRWgbNEkqO";
        let first = format!("n,,{bare}");
        let length = u32::try_from(first.len()).unwrap().to_be_bytes();
        self.send(b'p', &[b"SCRAM-SHA-256\0", &length[..], first.as_bytes()].concat());
        let challenge = String::from_utf8(self.login_step(11)?).unwrap();
        let part = |key: &str| challenge.split(',').find_map(|part| part.strip_prefix(key)).unwrap();
        let (nonce, salt, rounds) =
            (part("r="), BASE64.decode(part("s=")).unwrap(), part("i=").parse().unwrap());
        assert!(nonce.len() > 40 && nonce.starts_with("rOprNGfwEbeRWgbNEkqO"));
        let mut salted = [0; 32];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA256, rounds, &salt, password.as_bytes(), &mut salted);
        let sign = |key: &[u8], text: &[u8]| hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text);
        let client_key = sign(&salted, b"Client Key");
        let stored = digest::digest(&digest::SHA256, client_key.as_ref());
        let unproven = format!("c=biws,r={nonce}");
        let message = format!("{bare},{challenge},{unproven}");
        let signature = sign(stored.as_ref(), message.as_bytes());
        let proof: Vec<u8> = client_key.as_ref().iter().zip(signature.as_ref()).map(|(a, b)| a ^ b).collect();
        self.send(b'p', format!("{unproven},p={}", BASE64.encode(proof)).as_bytes());
        let server = sign(sign(&salted, b"Server Key").as_ref(), message.as_bytes());
        assert_eq!(self.login_step(12)?, format!("v={}", BASE64.encode(server)).into_bytes());
        assert!(self.login_step(0)?.is_empty());
        Ok(())
    }

    fn login_step(&mut self, code: u32) -> Result<Vec<u8>, ServerRefusal> {
        let (kind, body) = self.receive().unwrap();
        if kind == b'E' {
            return Err(refused(&body));
        }
        assert_eq!((kind, number(&body[..4])), (b'R', code));
        Ok(body[4..].to_vec())
    }

    /// Rows of statements in a text.
    pub(crate) fn query(&mut self, sql: &str) -> Result<Vec<RowValues>, ServerRefusal> {
        self.send_query(sql);
        let mut rows = Vec::new();
        self.until_ready(|_, kind, body| {
            if kind == b'D' {
                rows.push(values(body));
            }
        })?;
        Ok(rows)
    }

    /// The number of rows of a statement, which are read one by one.
    pub(crate) fn count(&mut self, sql: &str) -> Result<usize, ServerRefusal> {
        self.send_query(sql);
        let mut count = 0;
        self.until_ready(|_, kind, _| count += usize::from(kind == b'D'))?;
        Ok(count)
    }

    pub(crate) fn send_query(&mut self, sql: &str) {
        self.send(b'Q', &[sql.as_bytes(), b"\0"].concat());
    }

    /// Prepares a statement. Returns the types of its parameters and the names of its columns.
    pub(crate) fn prepare(
        &mut self,
        name: &str,
        sql: &str,
    ) -> Result<(Vec<u32>, Vec<String>), ServerRefusal> {
        self.send(b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        self.send(b'D', format!("S{name}\0").as_bytes());
        self.send(b'S', b"");
        let (mut types, mut names) = (Vec::new(), Vec::new());
        self.until_ready(|_, kind, body| match kind {
            b't' => types.extend(body[2..].chunks(4).map(number)),
            b'T' => {
                let mut rest = &body[2..];
                while let Some(end) = rest.iter().position(|byte| *byte == 0) {
                    names.push(String::from_utf8(rest[..end].to_vec()).unwrap());
                    rest = &rest[end + 19..];
                }
            }
            _ => {}
        })?;
        Ok((types, names))
    }

    /// Runs a prepared statement with values as text.
    pub(crate) fn run(
        &mut self,
        name: &str,
        values_as_text: &[&str],
        is_binary: bool,
        most_rows: u32,
    ) -> Result<PortalRows, ServerRefusal> {
        let mut bind = format!("\0{name}\0\0\0").into_bytes();
        bind.extend(u16::try_from(values_as_text.len()).unwrap().to_be_bytes());
        for value in values_as_text {
            bind.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
            bind.extend(value.as_bytes());
        }
        bind.extend([0, 1, 0, u8::from(is_binary)]);
        self.send(b'B', &bind);
        self.send(b'E', &[&b"\0"[..], &most_rows.to_be_bytes()].concat());
        self.send(b'S', b"");
        let mut part = PortalRows { rows: Vec::new(), is_suspended: false };
        self.until_ready(|_, kind, body| match kind {
            b'D' => part.rows.push(values(body)),
            b's' => part.is_suspended = true,
            _ => {}
        })?;
        Ok(part)
    }

    /// Binds a prepared statement to a value, as portals that all stay.
    pub(crate) fn bind(&mut self, portals: usize, name: &str, value: &str) -> Result<(), ServerRefusal> {
        for portal in 0..portals {
            let mut bind = format!("p{portal}\0{name}\0\0\0\0\x01").into_bytes();
            bind.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
            bind.extend(value.as_bytes());
            bind.extend([0, 0]);
            self.send(b'B', &bind);
        }
        self.send(b'S', b"");
        self.until_ready(|_, _, _| {})
    }

    /// Asks the server to cancel a query of another connection.
    pub(crate) fn cancel(port: u16, (process, secret): (u32, u32)) {
        let mut stream = open(port);
        let parts = [16, 80_877_102, process, secret].map(u32::to_be_bytes);
        stream.write_all(&parts.concat()).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }

    /// Sends bytes to a connection that is new, and waits for its end.
    pub(crate) fn throw(port: u16, bytes: &[u8]) {
        let mut stream = open(port);
        stream.write_all(bytes).unwrap();
        // The server may have closed it already.
        drop(stream.shutdown(Shutdown::Write));
        drop(stream.read_to_end(&mut Vec::new()));
    }

    /// True if the server ends the connection.
    pub(crate) fn is_ended(&mut self) -> bool {
        while let Ok((kind, _)) = self.receive() {
            if kind == b'Z' {
                return false;
            }
        }
        true
    }

    /// Reads messages until the server is ready. An error is the result.
    fn until_ready(&mut self, mut handle: impl FnMut(&mut Self, u8, &[u8])) -> Result<(), ServerRefusal> {
        let mut result = Ok(());
        loop {
            let (kind, body) = self.receive().unwrap();
            match kind {
                b'E' => result = Err(refused(&body)),
                b'Z' => {
                    self.state = body[0];
                    return result;
                }
                _ => handle(self, kind, &body),
            }
        }
    }

    fn receive(&mut self) -> IoResult<(u8, Vec<u8>)> {
        let mut header = [0; 5];
        self.stream.read_exact(&mut header)?;
        let length = number(&header[1..]) as usize;
        let mut body = vec![0; length.checked_sub(4).ok_or_else(|| Error::other("a length below 4"))?];
        self.stream.read_exact(&mut body)?;
        Ok((header[0], body))
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        self.write(&[&[kind][..], &length, body].concat());
    }

    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
        self.stream.flush().unwrap();
    }
}

fn number(bytes: &[u8]) -> u32 {
    u32::from_be_bytes(bytes.try_into().unwrap())
}

fn values(body: &[u8]) -> RowValues {
    let mut rest = &body[2..];
    let mut values = Vec::new();
    while !rest.is_empty() {
        let length = number(&rest[..4]);
        rest = &rest[4..];
        if length == u32::MAX {
            values.push(None);
            continue;
        }
        let (value, left) = rest.split_at(length as usize);
        values.push(Some(value.to_vec()));
        rest = left;
    }
    values
}

fn refused(body: &[u8]) -> ServerRefusal {
    let mut refused = ServerRefusal::default();
    for field in body.split(|byte| *byte == 0).filter(|field| !field.is_empty()) {
        let text = String::from_utf8(field[1..].to_vec()).unwrap();
        match field[0] {
            b'S' => refused.severity = text,
            b'C' => refused.code = text,
            b'M' => refused.message = text,
            b'H' => refused.hint = Some(text),
            _ => {}
        }
    }
    refused
}
