//! The address of a server: loopback, or anywhere with a certificate. Anything else is refused before a capture is opened.

use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stallmap_console::args::serve::ServeArgs;
use stallmap_console::exit::{CommandFailure, IO, Outcome, USAGE};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

/// An address to listen on, with its certificate.
pub(crate) struct ListenEndpoint {
    /// The address, as given.
    pub(crate) address: SocketAddr,
    /// TLS, if a certificate was given.
    pub(crate) tls: Option<TlsAcceptor>,
    /// True on loopback.
    pub(crate) is_local: bool,
}

impl ListenEndpoint {
    /// Checks the address and reads the certificate. Beyond loopback there must be one. Clients that negotiate a protocol
    /// within TLS (ALPN) must have one of these.
    ///
    /// # Errors
    /// Fails if the text is no address, the certificate cannot be read, or an address beyond loopback has none.
    pub(crate) fn from_text(text: &str, args: &ServeArgs, protocols: &[&str]) -> Outcome<Self> {
        let address = address(text)?;
        let tls = match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(acceptor(certificate, key, protocols)?),
            _ => None,
        };
        let is_local = address.ip().is_loopback();
        if !is_local && tls.is_none() {
            let message =
                format!("{address} is beyond loopback, and passwords and rows would be sent in the clear");
            let hint = "add --tls-cert CERT.pem --tls-key KEY.pem, or listen on 127.0.0.1 and forward the port with ssh -L";
            return Err(CommandFailure::message(USAGE, message).hint(hint.to_owned()));
        }
        Ok(Self { address, tls, is_local })
    }

    /// A listener with its address, which has a port even if 0 was asked for. The option is the one that names the address.
    ///
    /// # Errors
    /// Fails if the port is taken.
    pub(crate) async fn bound(&self, option: &str) -> Outcome<(TcpListener, SocketAddr)> {
        let given = self.address;
        let listener = TcpListener::bind(given).await.map_err(|error| {
            let failure = CommandFailure::io(error, format!("listen on {given}"));
            failure.hint(format!("choose another port, or 0 for a free one: {option} 127.0.0.1:0"))
        })?;
        let address = listener.local_addr().map_err(|error| CommandFailure::io(error, "read the port"))?;
        Ok((listener, address))
    }
}

/// The address of a text such as `127.0.0.1:5433` or `localhost:5433`.
fn address(text: &str) -> Outcome<SocketAddr> {
    let wrong = |reason: String| {
        CommandFailure::message(USAGE, format!("`{text}` is not an address: {reason}"))
            .hint("write a host and a port, such as 127.0.0.1:5433".to_owned())
    };
    let found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    // A name with an address beyond loopback counts as such.
    let found: Vec<SocketAddr> = found.collect();
    let outer = found.iter().find(|address| !address.ip().is_loopback());
    outer.or(found.first()).copied().ok_or_else(|| wrong("the host has none".to_owned()))
}

/// TLS with a certificate and its key.
fn acceptor(certificate: &Path, key: &Path, protocols: &[&str]) -> Outcome<TlsAcceptor> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        CommandFailure::message(IO, format!("read `{}`: {error}", path.display()))
            .hint("both files are in PEM form: CERTIFICATE, and PRIVATE KEY".to_owned())
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| wrong(certificate, &error))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| wrong(certificate, &error))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key_der);
    let mut config = config.map_err(|error| wrong(certificate, &error))?;
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    Ok(TlsAcceptor::from(Arc::new(config)))
}
