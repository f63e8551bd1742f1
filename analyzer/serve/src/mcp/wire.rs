//! Messages on the wire: one JSON object per line, of bounded length.

use std::io::{self, BufRead, Read as _, Write};

use serde_json::{Value, json};

/// Most bytes of a line. A longer message is refused.
const MAX_BYTES: u64 = 1 << 20;

/// Codes of JSON-RPC.
pub(crate) const PARSE_ERROR: i64 = -32_700;
pub(crate) const INVALID_REQUEST: i64 = -32_600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32_601;
pub(crate) const INVALID_PARAMS: i64 = -32_602;

/// A line that was read.
#[derive(Debug, PartialEq)]
pub(crate) enum WireLine {
    /// A JSON value.
    Message(Value),
    /// No JSON, or too long: the reason.
    Broken(String),
    /// Only white space.
    Empty,
}

/// The next line. None at the end.
pub(crate) fn read(input: &mut impl BufRead) -> io::Result<Option<WireLine>> {
    let mut bytes = Vec::new();
    let count = input.by_ref().take(MAX_BYTES).read_until(b'\n', &mut bytes)?;
    if count == 0 {
        return Ok(None);
    }
    if bytes.last() != Some(&b'\n') && count as u64 == MAX_BYTES {
        skip_line(input)?;
        return Ok(Some(WireLine::Broken(format!("a message has more than {MAX_BYTES} bytes"))));
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Ok(Some(WireLine::Empty));
    }
    Ok(Some(match serde_json::from_slice(&bytes) {
        Ok(value) => WireLine::Message(value),
        Err(error) => WireLine::Broken(format!("the line is not JSON: {error}")),
    }))
}

/// Drops bytes up to the end of a line.
fn skip_line(input: &mut impl BufRead) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf()?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let length = end.map_or(bytes.len(), |end| end + 1);
        let is_end = end.is_some() || bytes.is_empty();
        input.consume(length);
        if is_end {
            return Ok(());
        }
    }
}

/// Writes a result.
pub(crate) fn reply(out: &mut dyn Write, id: &Value, result: &Value) -> io::Result<()> {
    send(out, &json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

/// Writes an error.
pub(crate) fn refuse(out: &mut dyn Write, id: &Value, code: i64, message: &str) -> io::Result<()> {
    send(out, &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } }))
}

fn send(out: &mut dyn Write, message: &Value) -> io::Result<()> {
    writeln!(out, "{message}")?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_bounded_and_the_next_one_is_read() {
        let mut long = vec![b'x'; 3 << 20];
        long.extend(b"\n{\"a\":1}\n\nno\n");
        let mut input = long.as_slice();
        let mut next = || read(&mut input).unwrap();
        assert!(matches!(next(), Some(WireLine::Broken(reason)) if reason.contains("more than")));
        assert_eq!(next(), Some(WireLine::Message(json!({ "a": 1 }))));
        assert_eq!(next(), Some(WireLine::Empty));
        assert!(matches!(next(), Some(WireLine::Broken(reason)) if reason.contains("not JSON")));
        assert_eq!(next(), None);
    }
}
