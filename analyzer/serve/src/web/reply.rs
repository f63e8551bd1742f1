//! Replies: a status, the headers that every reply has, and a body.

use serde_json::{Value, json};
use stallmap_console::exit::CommandFailure;
use stallmap_report::report::served::ServedPage;
use tonic::codegen::http::StatusCode;

use crate::failure::CodedFailure;
use crate::work::TOO_LONG;

/// The policy of everything that is no page.
const NO_PAGE: &str = "default-src 'none'";
/// No page of another site may show, read or load a reply, and no browser may store one.
const SAFE: &str = "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: same-origin\r\n\
                    Cross-Origin-Opener-Policy: same-origin\r\nCross-Origin-Resource-Policy: same-origin\r\n\
                    X-Frame-Options: DENY\r\nConnection: close\r\n";

/// A reply. Each ends its connection.
#[derive(Debug)]
pub(crate) struct WebReply {
    pub(crate) status: StatusCode,
    kind: &'static str,
    policy: String,
    /// Further headers, without text of clients or captures.
    headers: Vec<(&'static str, String)>,
    body: Vec<u8>,
}

impl WebReply {
    fn new(status: StatusCode, kind: &'static str, body: Vec<u8>) -> Self {
        Self { status, kind, policy: NO_PAGE.to_owned(), headers: Vec::new(), body }
    }

    /// A reply without a body.
    pub(crate) fn empty(status: StatusCode) -> Self {
        Self::new(status, "", Vec::new())
    }

    /// A line of text.
    pub(crate) fn text(status: StatusCode, text: &str) -> Self {
        Self::new(status, "text/plain;charset=utf-8", format!("{text}\n").into_bytes())
    }

    /// Data for the page's script.
    pub(crate) fn json(status: StatusCode, value: &Value) -> Self {
        Self::new(status, "application/json", value.to_string().into_bytes())
    }

    /// A page with its policy.
    pub(crate) fn page(status: StatusCode, page: &ServedPage) -> Self {
        let reply = Self::new(status, "text/html;charset=utf-8", page.text.clone().into_bytes());
        Self { policy: page.policy.clone(), ..reply }
    }

    /// A file whose bytes follow in chunks.
    pub(crate) fn file(kind: &'static str, name: &str) -> Self {
        let name = format!("attachment;filename=\"{name}\"");
        Self::new(StatusCode::OK, kind, Vec::new()).with("Content-Disposition", name)
    }

    /// Leads to another page of this server.
    pub(crate) fn to(path: &str) -> Self {
        Self::empty(StatusCode::SEE_OTHER).with("Location", path.to_owned())
    }

    /// An error of a statement, for the page's script.
    pub(crate) fn refusal(refusal: &CodedFailure) -> Self {
        let status = match refusal.state() {
            TOO_LONG => StatusCode::GATEWAY_TIMEOUT,
            "XX000" => StatusCode::INTERNAL_SERVER_ERROR,
            _ => StatusCode::BAD_REQUEST,
        };
        Self::failure(status, refusal.failure())
    }

    /// An error with its hint, for the page's script.
    pub(crate) fn failure(status: StatusCode, failure: &CommandFailure) -> Self {
        let value = json!({
            "error": failure.reason(), "excerpt": failure.excerpt_text(), "hint": failure.hint_text(),
        });
        Self::json(status, &value)
    }

    /// The same with another header.
    pub(crate) fn with(mut self, name: &'static str, value: String) -> Self {
        self.headers.push((name, value));
        self
    }

    /// The head, with the length of the body.
    pub(crate) fn bytes(mut self) -> Vec<u8> {
        let length = self.body.len().to_string();
        if self.status != StatusCode::NO_CONTENT {
            self.headers.push(("Content-Length", length));
        }
        let body = std::mem::take(&mut self.body);
        [self.head().into_bytes(), body].concat()
    }

    /// The head of a body in chunks. A body whose last chunk is missing is an error to every client.
    pub(crate) fn chunked(mut self) -> Vec<u8> {
        self.headers.push(("Transfer-Encoding", "chunked".to_owned()));
        self.head().into_bytes()
    }

    fn head(&self) -> String {
        let mut head = format!("HTTP/1.1 {}\r\n", self.status);
        let policy = ("Content-Security-Policy", format!("{}; frame-ancestors 'none'", self.policy));
        let kind = ("Content-Type", self.kind.to_owned());
        for (name, value) in [policy, kind].iter().chain(&self.headers).filter(|(_, value)| !value.is_empty())
        {
            // Values are of the server's making. A line break in one would begin another header.
            let value: String = value.chars().filter(|char| !char.is_control()).collect();
            head.extend([*name, ": ", &value, "\r\n"]);
        }
        head + SAFE + "\r\n"
    }
}

/// A chunk of a body. Empty data is no chunk, because an empty chunk is the end.
pub(crate) fn chunk(data: &[u8]) -> Vec<u8> {
    if data.is_empty() {
        return Vec::new();
    }
    [format!("{:x}\r\n", data.len()).as_bytes(), data, b"\r\n"].concat()
}

/// The end of a body in chunks.
pub(crate) const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_value_begins_a_header() {
        let reply = WebReply::to("/\r\nSet-Cookie: a=b").bytes();
        let text = String::from_utf8(reply).unwrap();
        assert!(text.starts_with("HTTP/1.1 303 See Other\r\n"), "{text}");
        assert!(text.contains("\r\nLocation: /Set-Cookie: a=b\r\n"), "{text}");
        assert!(text.ends_with("\r\n\r\n") && text.contains("\r\nContent-Length: 0\r\n"), "{text}");
    }

    #[test]
    fn chunks_have_their_lengths() {
        assert_eq!(chunk(b"0123456789abcdef"), b"10\r\n0123456789abcdef\r\n");
        assert!(chunk(b"").is_empty());
    }
}
