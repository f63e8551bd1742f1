//! Admission: requests of this server's own pages, by a browser that showed the token once.
//!
//! A page of another site can make a browser send requests. It cannot choose `Host`, `Origin` and `Sec-Fetch-Site`, and the
//! browser does not send it the cookie.

use std::net::SocketAddr;

use ring::hmac;
use stallmap_console::exit::Outcome;
use stallmap_console::output::html::HtmlPage;
use stallmap_report::report::served::plain;
use tonic::codegen::http::StatusCode;

use super::reply::WebReply;
use super::request::{HttpRequest, parameter};
use crate::secret::{ServerSecret, random};

/// The path of the form for the token.
const LOGIN: &str = "/login";

/// The rules of admission.
pub(crate) struct WebGate {
    key: hmac::Key,
    token: hmac::Tag,
    session: hmac::Tag,
    /// The value of the cookie.
    secret: String,
    /// Its name. Servers on one host share cookies, whatever their ports.
    cookie: String,
    /// The hosts that browsers may name. None for any: beyond loopback the certificate has the names.
    hosts: Option<Vec<String>>,
    scheme: &'static str,
}

/// The result for a request.
pub(crate) enum AdmissionResult {
    /// It comes from a page of this server.
    Admitted,
    /// It has no cookie. The reply is a form for the token.
    Unknown(WebReply),
    /// It shows a token, in the address.
    Shown(String),
    /// It shows a token, in the form of its body.
    Form,
    /// It comes from elsewhere.
    Refused(WebReply),
}

impl WebGate {
    pub(crate) fn new(token: &str, address: SocketAddr, is_encrypted: bool, is_local: bool) -> Outcome<Self> {
        let bytes: [u8; 32] = random()?;
        let key = hmac::Key::new(hmac::HMAC_SHA256, &bytes);
        let port = address.port();
        let names = [
            address.to_string(),
            format!("localhost:{port}"),
            format!("127.0.0.1:{port}"),
            format!("[::1]:{port}"),
        ];
        let secret = ServerSecret::random()?.text;
        Ok(Self {
            token: hmac::sign(&key, token.as_bytes()),
            session: hmac::sign(&key, secret.as_bytes()),
            key,
            secret,
            cookie: format!("stallmap_{port}"),
            hosts: is_local.then(|| hosts(&names, is_encrypted)),
            scheme: if is_encrypted { "https" } else { "http" },
        })
    }

    /// Decides about a request.
    pub(crate) fn entry(&self, request: &HttpRequest) -> AdmissionResult {
        let host = request.field("host").unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() || self.hosts.as_ref().is_some_and(|hosts| !hosts.contains(&host)) {
            return AdmissionResult::Refused(WebReply::text(
                StatusCode::MISDIRECTED_REQUEST,
                "this server has another name: open the address that it printed",
            ));
        }
        let own = format!("{}://{host}", self.scheme);
        let is_foreign = request.field("origin").is_some_and(|origin| !origin.eq_ignore_ascii_case(&own));
        if is_foreign || !is_own(request) {
            return AdmissionResult::Refused(WebReply::text(
                StatusCode::FORBIDDEN,
                "the request comes from a page of another site",
            ));
        }
        if let Some(token) = parameter(&request.query, "token").filter(|_| request.method == "GET") {
            return AdmissionResult::Shown(token);
        }
        if request.path == LOGIN && request.method == "POST" {
            return AdmissionResult::Form;
        }
        match request.cookie(&self.cookie).map(|secret| self.is(secret, &self.session)) {
            Some(true) => AdmissionResult::Admitted,
            _ => AdmissionResult::Unknown(form(StatusCode::UNAUTHORIZED, None)),
        }
    }

    /// The reply to a token: the page, with a cookie, if it is the right one.
    pub(crate) fn shown(&self, request: &HttpRequest, token: &str) -> Option<WebReply> {
        if !self.is(token, &self.token) {
            return None;
        }
        // Browsers read a second slash as the begin of a host.
        let is_host = request.path.get(1..).is_some_and(|rest| rest.starts_with(['/', '\\']));
        let path = if request.path == LOGIN || is_host { "/" } else { &request.path };
        let secure = if self.scheme == "https" { "; Secure" } else { "" };
        let cookie = format!("{}={}; Path=/; HttpOnly;SameSite=Strict{secure}", self.cookie, self.secret);
        let site = request.field("sec-fetch-site");
        let reply = if site.is_some_and(|site| site.ends_with("-site")) {
            // The browser would follow a redirect for the page that had the link, without the cookie.
            onward(path)
        } else {
            WebReply::to(path)
        };
        Some(reply.with("Set-Cookie", cookie))
    }

    /// Compares a secret in constant time.
    fn is(&self, text: &str, tag: &hmac::Tag) -> bool {
        hmac::verify(&self.key, text.as_bytes(), tag.as_ref()).is_ok()
    }
}

/// The hosts of addresses. Browsers leave the port out where it is the scheme's own.
fn hosts(names: &[String], is_encrypted: bool) -> Vec<String> {
    let port = if is_encrypted { ":443" } else { ":80" };
    let short = names.iter().filter_map(|name| name.strip_suffix(port)).map(str::to_owned);
    names.iter().cloned().chain(short).collect()
}

/// True for requests that no other site made. Other sites may have links to pages, which they cannot read.
fn is_own(request: &HttpRequest) -> bool {
    let is_visit = request.method == "GET" && request.field("sec-fetch-mode") == Some("navigate");
    let is_page = request.path.matches('/').count() < 3;
    let site = request.field("sec-fetch-site");
    site.is_none_or(|site| ["same-origin", "none"].contains(&site)) || is_visit && is_page
}

/// A page that leads on.
fn onward(path: &str) -> WebReply {
    let mut html = HtmlPage::default();
    html.markup("<p><a href=\"").text(path).markup("\">Open the page</a></p>\n");
    WebReply::page(StatusCode::OK, &plain("stallmap", &html)).with("Refresh", format!("0;url={path}"))
}

/// A form for the token or password.
pub(crate) fn form(status: StatusCode, complaint: Option<&'static str>) -> WebReply {
    let mut html = HtmlPage::default();
    if let Some(complaint) = complaint {
        html.markup("<p class=\"lossy\" role=\"alert\">").text(complaint).markup("</p>\n");
    }
    html.markup(
        "<p>Open the address that <code>stallmap serve</code> printed, or enter its token or password.</p>\n",
    );
    html.markup("<form class=\"tools\" method=\"post\" action=\"/login\"><label for=\"token\">Token or password</label>");
    html.markup(
        "<input id=\"token\" name=\"token\" type=\"password\" autocomplete=\"off\" required autofocus>",
    );
    html.markup("<button type=\"submit\">open</button></form>\n");
    WebReply::page(status, &plain("stallmap", &html))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(gate: &WebGate, fields: &str) -> AdmissionResult {
        let head = format!("GET /capture/a HTTP/1.1\r\n{fields}\r\n");
        gate.entry(&HttpRequest::read(head.as_bytes()).unwrap())
    }

    #[test]
    fn only_own_pages_pass() {
        let gate = WebGate::new("token", "127.0.0.1:80".parse().unwrap(), false, true).unwrap();
        let cookie = format!("Cookie: x=y;stallmap_80={}\r\n", gate.secret);
        let passes =
            |fields: &str| matches!(entry(&gate, &format!("{cookie}{fields}")), AdmissionResult::Admitted);
        assert!(passes("Host: 127.0.0.1:80\r\n") && passes("Host: LOCALHOST:80\r\n"));
        assert!(passes(
            "Host: localhost:80\r\nOrigin: http://localhost:80\r\nSec-Fetch-Site: same-origin\r\n"
        ));
        assert!(passes("Host: localhost:80\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\n"));
        assert!(passes("Host: localhost\r\nOrigin: http://localhost\r\n"));
        for fields in [
            "",
            "Host: evil.example:80\r\n",
            "Host: 127.0.0.1:81\r\n",
            "Host: 127.0.0.1:80\r\nHost: 127.0.0.1:80\r\n",
            "Host: 127.0.0.1:80\r\nOrigin: http://localhost:80\r\n",
            "Host: 127.0.0.1:80\r\nOrigin: null\r\n",
            "Host: 127.0.0.1:80\r\nOrigin: https://127.0.0.1:80\r\n",
            "Host: 127.0.0.1:80\r\nSec-Fetch-Site: same-site\r\n",
        ] {
            assert!(!passes(fields), "{fields}");
        }
        assert!(matches!(
            entry(&gate, "Host: localhost:80\r\nCookie: stallmap_80=x\r\n"),
            AdmissionResult::Unknown(_)
        ));
    }
}
