//! A server that tests ask, and the requests of a browser that opened its address.

use super::client::{HttpReply, ask, request};
use crate::command::CommandFolder;
use crate::serving::ServeProcess;

/// The page of the small capture.
pub(crate) const PAGE: &str = "/capture/tiny";
/// The type of a statement.
pub(crate) const STATEMENT: (&str, &str) = ("Content-Type", "application/sql");

/// A running server.
pub(crate) struct HttpServer {
    _serving: ServeProcess,
    pub(crate) port: u16,
    /// The address that it printed.
    pub(crate) link: String,
    /// The cookie of a browser that opened the address.
    pub(crate) cookie: String,
}

impl HttpServer {
    pub(crate) fn new(place: &CommandFolder, arguments: &[&str]) -> Self {
        let mut server = Self::without_visit(place, arguments);
        let token = server.link.split_once("?token=").unwrap().1.to_owned();
        let reply = server.plain("GET", &format!("/?token={token}"), &[]);
        assert_eq!((reply.status, reply.field("location")), (303, Some("/")));
        let cookie = reply.field("set-cookie").unwrap();
        assert!(cookie.ends_with("; Path=/; HttpOnly;SameSite=Strict"), "{cookie}");
        cookie.split(';').next().unwrap().clone_into(&mut server.cookie);
        assert!(server.cookie.starts_with(&format!("stallmap_{}=", server.port)) && !cookie.contains(&token));
        server
    }

    pub(crate) fn without_visit(place: &CommandFolder, arguments: &[&str]) -> Self {
        let (serving, [address, link]) = ServeProcess::start(place, "--http", arguments);
        let port = address.split_once("://127.0.0.1:").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        let link = link.split_once(": ").unwrap().1.to_owned();
        Self { _serving: serving, port, link, cookie: String::new() }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// An HTTP request without the cookie.
    pub(crate) fn plain(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> HttpReply {
        let host = self.host();
        ask(self.port, &request(method, path, &[&[("Host", host.as_str())], fields].concat(), ""))
    }

    /// The bytes of an HTTP request with the cookie.
    pub(crate) fn own(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
        let host = self.host();
        let own = [("Host", host.as_str()), ("Cookie", self.cookie.as_str())];
        request(method, path, &[&own[..], fields].concat(), body)
    }

    pub(crate) fn get(&self, path: &str) -> HttpReply {
        ask(self.port, &self.own("GET", path, &[], ""))
    }

    /// Runs a statement as the page does.
    pub(crate) fn sql(&self, sql: &str) -> HttpReply {
        ask(self.port, &self.own("POST", &format!("{PAGE}/rows"), &[STATEMENT], sql))
    }
}
