//! A request's head, read within bounds. `httparse` reads the syntax.

use tonic::codegen::http::StatusCode;

/// Most header fields.
const MAX_FIELDS: usize = 64;

/// The head of a request.
#[derive(Debug, Default)]
pub(crate) struct HttpRequest {
    pub(crate) method: String,
    /// The path, without the query behind `?`.
    pub(crate) path: String,
    /// The query, still encoded. Empty without one.
    pub(crate) query: String,
    /// Bytes of the body that follows.
    pub(crate) body_bytes: usize,
    fields: Vec<(String, String)>,
}

impl HttpRequest {
    /// Reads a complete head.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, StatusCode> {
        let mut fields = std::array::from_fn::<_, MAX_FIELDS, _>(|_| httparse::EMPTY_HEADER);
        let mut head = httparse::Request::new(&mut fields);
        match head.parse(bytes) {
            Ok(httparse::Status::Complete(_)) => {}
            Err(httparse::Error::TooManyHeaders) => return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE),
            Ok(httparse::Status::Partial) | Err(_) => return Err(StatusCode::BAD_REQUEST),
        }
        let target = head.path.unwrap_or_default();
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: head.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            query: query.to_owned(),
            ..Self::default()
        };
        for field in head.headers.iter() {
            let value = str::from_utf8(field.value).map_err(|_| StatusCode::BAD_REQUEST)?;
            request.fields.push((field.name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        request.body_bytes = request.length()?;
        let is_whole = path.starts_with('/') && head.version == Some(1);
        if is_whole { Ok(request) } else { Err(StatusCode::BAD_REQUEST) }
    }

    /// The length of the body. Bodies of other forms are refused.
    fn length(&self) -> Result<usize, StatusCode> {
        if self.field("transfer-encoding").is_some() {
            return Err(StatusCode::LENGTH_REQUIRED);
        }
        if self.fields.iter().filter(|(name, _)| name == "content-length").count() > 1 {
            return Err(StatusCode::BAD_REQUEST);
        }
        let length = self.field("content-length").unwrap_or("0");
        let is_plain = length.bytes().all(|byte| byte.is_ascii_digit());
        length.parse().ok().filter(|_| is_plain).ok_or(StatusCode::BAD_REQUEST)
    }

    /// A field by its name in lower case. None if it is there several times.
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(field, _)| field == name);
        let first = found.next();
        if found.next().is_some() { None } else { first.map(|(_, value)| value.as_str()) }
    }

    /// The value of a cookie.
    pub(crate) fn cookie(&self, name: &str) -> Option<&str> {
        let fields = self.fields.iter().filter(|(field, _)| field == "cookie");
        let mut cookies = fields.flat_map(|(_, value)| value.split(';'));
        cookies.find_map(|cookie| cookie.trim().strip_prefix(name)?.strip_prefix('='))
    }
}

/// The value of a parameter in a query or in a form. None if it is missing or no text.
pub(crate) fn parameter(encoded: &str, name: &str) -> Option<String> {
    let mut parts = encoded.split('&').filter_map(|part| part.split_once('='));
    decoded(parts.find(|(found, _)| *found == name)?.1)
}

/// A text whose bytes may be written as `%41`, and its spaces as `+`.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let (digits, after) = rest.split_at_checked(2)?;
                rest = after;
                let digit = |at: usize| {
                    char::from(digits[at]).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
                };
                digit(0)? << 4 | digit(1)?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(head: &str) -> Result<HttpRequest, StatusCode> {
        HttpRequest::read(head.as_bytes())
    }

    #[test]
    fn a_head_has_its_parts() {
        let head = "POST /a/b?sql=SELECT+1%3B&x=%c3%a9 HTTP/1.1\r\nHost: h:1\r\nCookie: a=1; b=2\r\nCookie: c=3\r\n\
                    Content-Length: 7\r\n\r\n";
        let request = read(head).unwrap();
        assert_eq!((request.method.as_str(), request.path.as_str(), request.body_bytes), ("POST", "/a/b", 7));
        assert_eq!(parameter(&request.query, "sql").as_deref(), Some("SELECT 1;"));
        assert_eq!(parameter(&request.query, "x").as_deref(), Some("é"));
        assert_eq!(parameter(&request.query, "y"), None);
        assert_eq!(
            (request.cookie("b"), request.cookie("c"), request.cookie("d")),
            (Some("2"), Some("3"), None)
        );
    }

    #[test]
    fn doubtful_heads_are_refused() {
        for (head, status) in [
            ("GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", StatusCode::BAD_REQUEST),
            ("GET / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", StatusCode::BAD_REQUEST),
            ("GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n", StatusCode::BAD_REQUEST),
            ("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", StatusCode::LENGTH_REQUIRED),
            ("GET http://other/ HTTP/1.1\r\n\r\n", StatusCode::BAD_REQUEST),
            ("GET / HTTP/1.0\r\n\r\n", StatusCode::BAD_REQUEST),
            ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", StatusCode::BAD_REQUEST),
            ("\x16\x03\x01", StatusCode::BAD_REQUEST),
        ] {
            assert_eq!(read(head).unwrap_err(), status, "{head}");
        }
        assert_eq!(decoded("%4"), None);
        assert_eq!(decoded("%zz"), None);
        assert_eq!(decoded("%ff"), None);
    }

    #[test]
    fn a_field_that_is_there_twice_has_no_value() {
        let request = read("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").unwrap();
        assert_eq!(request.field("host"), None);
    }
}
