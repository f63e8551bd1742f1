//! `stallmap serve --postgres`: captures for clients of PostgreSQL, read only.
//!
//! ```text
//! socket ──> login (TLS, password) ──> connection (simple, prepared) ──> session ──> cells ──> socket
//!              └─ message, wire          └─ statement, catalog (psql's \d)
//! ```
//!
//! [`wire`] bounds each message, [`server`] the connections, [`query`] the time of a query. Rows are streamed: a few batches
//! are in memory, and the network's speed is the query's.

mod catalog;
mod cell;
mod connection;
mod failure;
mod folder;
mod kind;
mod login;
mod message;
mod parameter;
mod query;
mod scram;
mod server;
mod settings;
mod statement;
mod wire;

use std::sync::Arc;

use stallmap_console::args::serve::Serve;
use stallmap_console::context::{Context, STACK_BYTES, no_threads};
use stallmap_console::exit::{Failure, Outcome};
use stallmap_console::output;

use server::Server;
use settings::Settings;
use tokio::runtime::Builder;

/// Threads for queries. A query that computes for long occupies one for each core, and others go on.
const THREADS_PER_CORE: usize = 4;

/// Serves until a signal ends the program.
pub fn run(context: &Context, args: &Serve) -> Outcome {
    let settings = Settings::of(args)?;
    let captures = folder::captures(&args.captures)?;
    let session = context.open(&captures)?;
    // A query that computes for long occupies its runtime's threads. The network has its own.
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let queries = Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores * THREADS_PER_CORE)
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(no_threads)?;
    let network = Builder::new_current_thread().enable_all().build().map_err(no_threads)?;
    network.block_on(async {
        let address = settings.address;
        let bound = tokio::net::TcpListener::bind(address).await;
        let listener = bound.map_err(|error| {
            let failure = Failure::io(error, format!("listen on {address}"));
            failure.hint("choose another port, or 0 for a free one: --postgres 127.0.0.1:0".to_owned())
        })?;
        let address = listener.local_addr().map_err(|error| Failure::io(error, "read the port"))?;
        output::print(&settings.welcome(address))?;
        Arc::new(Server::new(session, settings, queries.handle().clone())).listen(&listener).await
    })
}
