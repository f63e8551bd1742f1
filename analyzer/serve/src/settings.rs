//! The server's options: address, password, certificate, limits. What is unsafe is refused before anything is opened.

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use stallmap_console::args::serve::Serve;
use stallmap_console::exit::{Failure, IO, Outcome, USAGE};
use tokio_rustls::TlsAcceptor;

use crate::scram::Verifier;

/// The variable that holds a password.
const VARIABLE: &str = "STALLMAP_PASSWORD";

/// The options, checked.
pub(crate) struct Settings {
    pub(crate) address: SocketAddr,
    pub(crate) verifier: Verifier,
    pub(crate) tls: Option<TlsAcceptor>,
    /// True if connections without encryption are refused.
    pub(crate) must_encrypt: bool,
    pub(crate) longest: Duration,
    pub(crate) connections: usize,
    /// The password, if the server made it.
    own_password: Option<String>,
}

/// An address to listen on, with its certificate.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) tls: Option<TlsAcceptor>,
    pub(crate) is_local: bool,
}

impl Endpoint {
    /// Checks the address and reads the certificate. Beyond loopback there must be one.
    pub(crate) fn of(text: &str, args: &Serve) -> Outcome<Self> {
        let address = address(text)?;
        let tls = match (&args.tls_cert, &args.tls_key) {
            (Some(certificate), Some(key)) => Some(acceptor(certificate, key)?),
            _ => None,
        };
        let is_local = address.ip().is_loopback();
        if !is_local && tls.is_none() {
            let message =
                format!("{address} is beyond loopback, and passwords and rows would be sent in the clear");
            let hint = "add --tls-cert CERT.pem --tls-key KEY.pem, or listen on 127.0.0.1 and forward the port with ssh -L";
            return Err(Failure::message(USAGE, message).hint(hint.to_owned()));
        }
        Ok(Self { address, tls, is_local })
    }
}

impl Settings {
    /// Checks the options.
    pub(crate) fn of(args: &Serve) -> Outcome<Self> {
        let Endpoint { address, tls, is_local } =
            Endpoint::of(args.postgres.as_deref().unwrap_or_default(), args)?;
        let given = password(args.password_file.as_deref())?;
        let own_password = if given.is_some() { None } else { Some(random_password()?) };
        let password = given.as_deref().or(own_password.as_deref()).unwrap_or_default();
        Ok(Self {
            address,
            verifier: Verifier::new(password, random()?),
            tls,
            must_encrypt: !is_local,
            longest: Duration::from_secs(args.timeout),
            connections: args.connections,
            own_password,
        })
    }

    /// The text that a user needs to connect.
    pub(crate) fn welcome(&self, address: SocketAddr) -> String {
        let password = self.own_password.as_deref().unwrap_or("as given");
        let (host, port) = (address.ip(), address.port());
        let mode = if self.tls.is_some() { " sslmode=require" } else { "" };
        format!(
            "listening on {address} with PostgreSQL's protocol, read only\n\
             password: {password}\n\
             connect with: psql \"host={host} port={port} user=stallmap dbname=stallmap{mode}\"\n"
        )
    }
}

/// The address of a text such as `127.0.0.1:5433` or `localhost:5433`.
fn address(text: &str) -> Outcome<SocketAddr> {
    let wrong = |reason: String| {
        Failure::message(USAGE, format!("`{text}` is not an address: {reason}"))
            .hint("write a host and a port, such as 127.0.0.1:5433".to_owned())
    };
    let found = text.to_socket_addrs().map_err(|error| wrong(error.to_string()))?;
    // A name with an address beyond loopback counts as such.
    let found: Vec<SocketAddr> = found.collect();
    let outer = found.iter().find(|address| !address.ip().is_loopback());
    outer.or(found.first()).copied().ok_or_else(|| wrong("the host has none".to_owned()))
}

/// The password of a file or of the environment. None if neither is there.
pub(crate) fn password(file: Option<&Path>) -> Outcome<Option<String>> {
    let (text, place) = match file {
        Some(path) => {
            let read = fs::read_to_string(path);
            let text = read
                .map_err(|error| Failure::io(error, format!("read the password in `{}`", path.display())))?;
            (text.lines().next().unwrap_or_default().to_owned(), format!("`{}`", path.display()))
        }
        None => match std::env::var(VARIABLE) {
            Ok(text) => (text, VARIABLE.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(Failure::message(USAGE, format!("{VARIABLE}: {error}"))),
        },
    };
    if text.len() < 8 {
        let message = format!("the password of {place} has fewer than 8 characters");
        return Err(
            Failure::message(USAGE, message).hint("without one, the server prints a random one".to_owned())
        );
    }
    Ok(Some(text))
}

/// 128 random bits as text.
pub(crate) fn random_password() -> Outcome<String> {
    let bytes: [u8; 16] = random()?;
    Ok(bytes.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")))
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Outcome<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Failure::message(IO, "the system has no random numbers"))?;
    Ok(bytes)
}

/// TLS with a certificate and its key.
fn acceptor(certificate: &Path, key: &Path) -> Outcome<TlsAcceptor> {
    let wrong = |path: &Path, error: &dyn std::fmt::Display| {
        Failure::message(IO, format!("read `{}`: {error}", path.display()))
            .hint("both files are in PEM form: CERTIFICATE, and PRIVATE KEY".to_owned())
    };
    let chain = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain: Vec<_> = chain.map_err(|error| wrong(certificate, &error))?;
    let key_der = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| wrong(certificate, &error))?;
    let config = builder.with_no_client_auth().with_single_cert(chain, key_der);
    Ok(TlsAcceptor::from(Arc::new(config.map_err(|error| wrong(certificate, &error))?)))
}
