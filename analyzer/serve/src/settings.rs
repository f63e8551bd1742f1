//! The options of the server for PostgreSQL's clients: address, password, limits.

use std::net::SocketAddr;
use std::time::Duration;

use stallmap_console::args::serve::ServeArgs;
use stallmap_console::exit::Outcome;

use crate::endpoint::ListenEndpoint;
use crate::scram::ScramVerifier;
use crate::secret::{ServerSecret, random};

/// The options, checked.
pub(crate) struct ServeSettings {
    pub(crate) endpoint: ListenEndpoint,
    pub(crate) verifier: ScramVerifier,
    pub(crate) longest: Duration,
    pub(crate) connections: usize,
    secret: ServerSecret,
}

impl ServeSettings {
    /// Checks the options.
    pub(crate) fn from_args(args: &ServeArgs) -> Outcome<Self> {
        let endpoint = ListenEndpoint::from_text(args.postgres.as_deref().unwrap_or_default(), args, &[])?;
        let secret = ServerSecret::from_args(args)?;
        Ok(Self {
            endpoint,
            verifier: ScramVerifier::new(&secret.text, random()?),
            longest: Duration::from_secs(args.timeout),
            connections: args.connections,
            secret,
        })
    }

    /// The text that a user needs to connect.
    pub(crate) fn welcome(&self, address: SocketAddr) -> String {
        let password = self.secret.shown();
        let (host, port) = (address.ip(), address.port());
        let mode = if self.endpoint.tls.is_some() { " sslmode=require" } else { "" };
        format!(
            "listening on {address} with PostgreSQL's protocol, read only\n\
             password: {password}\n\
             connect with: psql \"host={host} port={port} user=stallmap dbname=stallmap{mode}\"\n"
        )
    }
}
