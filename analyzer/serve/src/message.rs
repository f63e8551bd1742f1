//! Messages of PostgreSQL's protocol 3.0: those of clients, read within their bounds, and the server's replies.

use std::borrow::Cow;

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};

/// A message that cannot be read.
#[derive(Debug)]
pub(crate) struct UnreadableMessage;

type ReadMessage<T> = Result<T, UnreadableMessage>;

/// The format of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ValueFormat {
    Text,
    Binary,
}

/// A message of a client that gave the password.
#[derive(Debug)]
pub(crate) enum ClientMessage {
    /// Statements as text, answered at once.
    Query(String),
    Parse {
        name: String,
        sql: String,
        types: Vec<u32>,
    },
    Bind(BindMessage),
    DescribeStatement(String),
    DescribePortal(String),
    /// A portal, and the most rows, or 0 for all.
    Execute {
        portal: String,
        most_rows: usize,
    },
    CloseStatement(String),
    ClosePortal(String),
    Flush,
    Sync,
    Terminate,
    /// A message that this server does not support.
    Other,
}

/// Values for a prepared statement.
#[derive(Debug)]
pub(crate) struct BindMessage {
    pub(crate) portal: String,
    pub(crate) statement: String,
    pub(crate) values: Vec<(ValueFormat, Option<Bytes>)>,
    pub(crate) results: Vec<ValueFormat>,
}

/// The first message of a connection.
#[derive(Debug, PartialEq)]
pub(crate) enum StartMessage {
    /// `SSLRequest`: the client wants encryption.
    Tls,
    /// `GSSENCRequest`: it wants encryption by GSSAPI.
    Gss,
    /// `CancelRequest`: ends a query of another connection.
    Cancel { process: u32, secret: u32 },
    /// A version's major and minor number. A user and options follow, which have no meaning here.
    Start { major: u16, minor: u16, options: Vec<String> },
}

impl StartMessage {
    pub(crate) fn read(body: Bytes) -> ReadMessage<Self> {
        let mut body = MessageBody(body);
        Ok(match body.u32()? {
            80_877_103 => Self::Tls,
            80_877_104 => Self::Gss,
            80_877_102 => Self::Cancel { process: body.u32()?, secret: body.u32()? },
            version => {
                let mut options = Vec::new();
                loop {
                    let name = body.text()?;
                    if name.is_empty() {
                        break;
                    }
                    drop(body.text()?);
                    options.extend(name.starts_with("_pq_.").then_some(name));
                }
                let [a, b, c, d] = version.to_be_bytes();
                Self::Start { major: u16::from_be_bytes([a, b]), minor: u16::from_be_bytes([c, d]), options }
            }
        })
    }
}

impl ClientMessage {
    pub(crate) fn read(kind: u8, body: Bytes) -> ReadMessage<Self> {
        let mut body = MessageBody(body);
        Ok(match kind {
            b'Q' => Self::Query(body.text()?),
            b'P' => {
                Self::Parse { name: body.text()?, sql: body.text()?, types: body.list(MessageBody::u32)? }
            }
            b'B' => Self::Bind(body.bind()?),
            b'D' => match (body.u8()?, body.text()?) {
                (b'S', name) => Self::DescribeStatement(name),
                (b'P', name) => Self::DescribePortal(name),
                _ => return Err(UnreadableMessage),
            },
            b'C' => match (body.u8()?, body.text()?) {
                (b'S', name) => Self::CloseStatement(name),
                (b'P', name) => Self::ClosePortal(name),
                _ => return Err(UnreadableMessage),
            },
            b'E' => Self::Execute { portal: body.text()?, most_rows: body.u32()? as usize },
            b'H' => Self::Flush,
            b'S' => Self::Sync,
            b'X' => Self::Terminate,
            _ => Self::Other,
        })
    }
}

/// The rest of a message.
pub(crate) struct MessageBody(pub(crate) Bytes);

impl MessageBody {
    fn u8(&mut self) -> ReadMessage<u8> {
        self.0.try_get_u8().map_err(|_| UnreadableMessage)
    }

    fn u16(&mut self) -> ReadMessage<u16> {
        self.0.try_get_u16().map_err(|_| UnreadableMessage)
    }

    pub(crate) fn u32(&mut self) -> ReadMessage<u32> {
        self.0.try_get_u32().map_err(|_| UnreadableMessage)
    }

    /// A text up to its zero byte.
    pub(crate) fn text(&mut self) -> ReadMessage<String> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(UnreadableMessage)?;
        let text = String::from_utf8(self.0.split_to(end).to_vec()).map_err(|_| UnreadableMessage)?;
        self.0.advance(1);
        Ok(text)
    }

    fn list<T>(&mut self, item: impl Fn(&mut Self) -> ReadMessage<T>) -> ReadMessage<Vec<T>> {
        (0..self.u16()?).map(|_| item(self)).collect()
    }

    fn format(&mut self) -> ReadMessage<ValueFormat> {
        match self.u16()? {
            0 => Ok(ValueFormat::Text),
            1 => Ok(ValueFormat::Binary),
            _ => Err(UnreadableMessage),
        }
    }

    /// A value behind its length. A length of -1 is a null.
    fn value(&mut self) -> ReadMessage<Option<Bytes>> {
        let length = self.u32()?;
        if length == u32::MAX {
            return Ok(None);
        }
        let length = length as usize;
        if length > self.0.len() { Err(UnreadableMessage) } else { Ok(Some(self.0.split_to(length))) }
    }

    fn bind(&mut self) -> ReadMessage<BindMessage> {
        let (portal, statement) = (self.text()?, self.text()?);
        let formats = self.list(Self::format)?;
        let values = self.list(Self::value)?;
        let format = |index| nth_format(&formats, index);
        let values = values.into_iter().enumerate().map(|(index, value)| (format(index), value)).collect();
        Ok(BindMessage { portal, statement, values, results: self.list(Self::format)? })
    }
}

/// The format of a value: none given is text, and one given holds for all.
pub(crate) fn nth_format(formats: &[ValueFormat], index: usize) -> ValueFormat {
    match formats {
        [] => ValueFormat::Text,
        [all] => *all,
        each => each.get(index).copied().unwrap_or(ValueFormat::Text),
    }
}

/// A column of an answer.
#[derive(Debug)]
pub(crate) struct AnswerField<'a> {
    pub(crate) name: &'a str,
    pub(crate) type_id: u32,
    /// Bytes of a value, or -1.
    pub(crate) size: i16,
    pub(crate) format: ValueFormat,
}

/// A message of the server. Rows are written by [`crate::cell`].
#[derive(Debug)]
pub(crate) enum ServerMessage<'a> {
    /// A step of the login: its code and its data.
    Login(u32, &'a [u8]),
    /// A setting that clients read.
    Setting(&'a str, &'a str),
    /// The numbers that `CancelRequest` repeats.
    Key {
        process: u32,
        secret: u32,
    },
    /// The newest minor version, and options that are unknown.
    Version(u32, &'a [String]),
    Parsed,
    Bound,
    Closed,
    /// Rows are left.
    Suspended,
    NoData,
    Empty,
    Parameters(&'a [u32]),
    Columns(&'a [AnswerField<'a>]),
    /// The end of a statement's answer, with its tag.
    Done(Cow<'a, str>),
    /// An error: codes of fields and their texts.
    Error(&'a [(u8, &'a str)]),
    /// The state of the transaction: `I`, `T` or `E`.
    Ready(u8),
}

impl ServerMessage<'_> {
    /// Writes the message: its type, its length, its parts.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        out.put_u8(self.kind());
        out.put_u32(0);
        self.body(out);
        close(out, start + 1);
    }

    fn kind(&self) -> u8 {
        match self {
            Self::Login(..) => b'R',
            Self::Setting(..) => b'S',
            Self::Key { .. } => b'K',
            Self::Version(..) => b'v',
            Self::Parsed => b'1',
            Self::Bound => b'2',
            Self::Closed => b'3',
            Self::Suspended => b's',
            Self::NoData => b'n',
            Self::Empty => b'I',
            Self::Parameters(_) => b't',
            Self::Columns(_) => b'T',
            Self::Done(_) => b'C',
            Self::Error(_) => b'E',
            Self::Ready(_) => b'Z',
        }
    }

    fn body(&self, out: &mut BytesMut) {
        match self {
            Self::Login(code, data) => {
                out.put_u32(*code);
                out.put_slice(data);
            }
            Self::Setting(name, value) => [name, value].iter().for_each(|text| put_text(out, text)),
            Self::Key { process, secret } => [*process, *secret].iter().for_each(|part| out.put_u32(*part)),
            Self::Version(minor, options) => {
                out.put_u32(*minor);
                out.put_u32(u32::try_from(options.len()).unwrap_or(u32::MAX));
                options.iter().for_each(|option| put_text(out, option));
            }
            Self::Parsed | Self::Bound | Self::Closed | Self::Suspended | Self::NoData | Self::Empty => {}
            Self::Parameters(types) => {
                put_count(out, types.len());
                types.iter().for_each(|type_id| out.put_u32(*type_id));
            }
            Self::Columns(fields) => {
                put_count(out, fields.len());
                fields.iter().for_each(|field| put_field(out, field));
            }
            Self::Done(tag) => put_text(out, tag),
            Self::Error(fields) => {
                for (code, text) in *fields {
                    out.put_u8(*code);
                    put_text(out, text);
                }
                out.put_u8(0);
            }
            Self::Ready(state) => out.put_u8(*state),
        }
    }
}

fn put_field(out: &mut BytesMut, field: &AnswerField<'_>) {
    put_text(out, field.name);
    // No table and no number of a column in it.
    out.put_u32(0);
    out.put_u16(0);
    out.put_u32(field.type_id);
    out.put_i16(field.size);
    out.put_i32(-1);
    out.put_u16(u16::from(field.format == ValueFormat::Binary));
}

/// A count of 16 bits. More columns than that are refused earlier.
pub(crate) fn put_count(out: &mut BytesMut, count: usize) {
    out.put_u16(u16::try_from(count).unwrap_or(u16::MAX));
}

/// A text with its zero byte. Zero bytes within it would end it.
fn put_text(out: &mut BytesMut, text: &str) {
    out.extend(text.bytes().filter(|byte| *byte != 0));
    out.put_u8(0);
}

/// Writes the length of what was added since a place of 4 bytes, with these.
pub(crate) fn close(out: &mut BytesMut, at: usize) {
    let length = u32::try_from(out.len() - at).unwrap_or(u32::MAX);
    out[at..at + 4].copy_from_slice(&length.to_be_bytes());
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
