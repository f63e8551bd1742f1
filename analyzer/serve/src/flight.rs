//! `stallmap serve --flight`: captures for clients of Arrow Flight SQL (ADBC, pyarrow), read only.
//!
//! ```text
//! socket ──> server (TLS) ──> connection (idle time) ──> gate (token) ──> service ─┬─> queries ──> session
//!                                                                                  └─> catalog, keys, info
//! ```
//!
//! A ticket holds its statement and the values of its parameters, so the server remembers nothing between two calls.
//! Rows are streamed: a few batches are in memory. [`connection`] bounds idle time,
//! [`queries`] the time and number of queries.

mod catalog;
mod columns;
mod connection;
mod gate;
mod handle;
mod info;
mod keys;
mod queries;
mod server;
mod service;
mod status;

use std::net::SocketAddr;
use std::time::Duration;

use crate::endpoint::ListenEndpoint;
use crate::folder;
use crate::secret::ServerSecret;
use crate::threads::{network_thread, query_threads};
use stallmap_console::args::serve::ServeArgs;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::Outcome;
use stallmap_console::output;

use gate::FlightGate;
use queries::FlightQueries;
use service::SessionService;

/// The protocol within TLS: HTTP/2.
const PROTOCOL: &str = "h2";

/// Serves until a signal ends the program.
///
/// # Errors
/// Fails if an option is wrong, a capture cannot be opened, or the port is taken.
pub fn run(context: &CommandContext, args: &ServeArgs) -> Outcome {
    let endpoint = ListenEndpoint::from_text(args.flight.as_deref().unwrap_or_default(), args, &[PROTOCOL])?;
    let secret = ServerSecret::from_args(args)?;
    let session = context.open(&folder::captures(&args.captures)?)?;
    let threads = query_threads()?;
    let longest = Duration::from_secs(args.timeout);
    network_thread()?.block_on(async {
        let (listener, address) = endpoint.bound("--flight").await?;
        let gate = FlightGate::new(&secret, longest, args.connections)?;
        let queries = FlightQueries::new(session, threads.handle().clone(), longest, args.connections);
        let service = SessionService::new(queries, gate.bearer().to_owned());
        output::print(&welcome(address, endpoint.tls.is_some(), &secret))?;
        server::serve(listener, endpoint.tls, gate, service).await
    })
}

/// The text that a user needs to connect.
fn welcome(address: SocketAddr, is_encrypted: bool, secret: &ServerSecret) -> String {
    let scheme = if is_encrypted { "grpc+tls" } else { "grpc" };
    let (host, port) = (address.ip(), address.port());
    let known = if host.is_unspecified() { format!("localhost:{port}") } else { address.to_string() };
    let site = format!("{scheme}://{known}");
    format!(
        "listening on {scheme}://{address} with Arrow Flight SQL, read only\n\
         token: {}\n\
         connect with: adbc_driver_flightsql.dbapi.connect(\"{site}\", \
         db_kwargs={{\"username\": \"stallmap\", \"password\": \"TOKEN\"}})\n",
        secret.shown()
    )
}
