//! A server that tests ask, and the requests of a browser that opened its address.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use super::client::{Reply, ask, request};
use crate::command::{Place, command};

/// The page of the small capture.
pub(crate) const PAGE: &str = "/capture/tiny";
/// The type of a statement.
pub(crate) const STATEMENT: (&str, &str) = ("Content-Type", "application/sql");

/// A running server, ended when dropped.
pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
    /// The address that it printed.
    pub(crate) link: String,
    /// The cookie of a browser that opened the address.
    pub(crate) cookie: String,
}

impl Server {
    pub(crate) fn new(place: &Place, arguments: &[&str]) -> Self {
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

    pub(crate) fn without_visit(place: &Place, arguments: &[&str]) -> Self {
        let mut child = command(&place.path(""))
            .args(["serve", "--http", "127.0.0.1:0"])
            .args(arguments)
            .env_remove("STALLMAP_PASSWORD")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        let address = lines.next().unwrap();
        let port = address.split_once("://127.0.0.1:").unwrap().1.split(' ').next().unwrap().parse().unwrap();
        let link = lines.next().unwrap().split_once(": ").unwrap().1.to_owned();
        Self { child, port, link, cookie: String::new() }
    }

    pub(crate) fn host(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// A request without the cookie.
    pub(crate) fn plain(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Reply {
        let host = self.host();
        ask(self.port, &request(method, path, &[&[("Host", host.as_str())], fields].concat(), ""))
    }

    /// The bytes of a request with the cookie.
    pub(crate) fn own(&self, method: &str, path: &str, fields: &[(&str, &str)], body: &str) -> Vec<u8> {
        let host = self.host();
        let own = [("Host", host.as_str()), ("Cookie", self.cookie.as_str())];
        request(method, path, &[&own[..], fields].concat(), body)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        ask(self.port, &self.own("GET", path, &[], ""))
    }

    /// Runs a statement as the page does.
    pub(crate) fn sql(&self, sql: &str) -> Reply {
        ask(self.port, &self.own("POST", &format!("{PAGE}/rows"), &[STATEMENT], sql))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
