//! `stallmap serve`: captures for clients of PostgreSQL (`--postgres`) and browsers (`--http`), read only.
//!
//! ```text
//! socket ──> login (TLS, password) ──> connection (simple, prepared) ──> session ──> cells ──> socket
//!              └─ message, wire          └─ statement, catalog (psql's \d)
//! socket ──> web: gate (TLS, token) ──> page, rows ──> session ──> socket
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
pub mod web;
mod wire;

use std::net::SocketAddr;
use std::sync::Arc;

use stallmap_console::args::serve::Serve;
use stallmap_console::context::{Context, STACK_BYTES, no_threads};
use stallmap_console::exit::{Failure, Outcome};
use stallmap_console::output;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

use server::Server;
use settings::Settings;

/// Threads for queries. A query that computes for long occupies one for each core, and others go on.
const THREADS_PER_CORE: usize = 4;

/// Serves until a signal ends the program.
pub fn run(context: &Context, args: &Serve) -> Outcome {
    if let Some(address) = &args.http {
        return web::run(context, args, address);
    }
    let settings = Settings::of(args)?;
    let captures = folder::captures(&args.captures)?;
    let session = context.open(&captures)?;
    let queries = query_threads()?;
    network_thread()?.block_on(async {
        let (listener, address) = bound(settings.address, "--postgres").await?;
        output::print(&settings.welcome(address))?;
        Arc::new(Server::new(session, settings, queries.handle().clone())).listen(&listener).await
    })
}

/// Threads for queries. A query that computes for long occupies them. The network has its own.
fn query_threads() -> Outcome<Runtime> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Builder::new_multi_thread()
        .enable_all()
        .worker_threads(cores * THREADS_PER_CORE)
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(no_threads)
}

fn network_thread() -> Outcome<Runtime> {
    Builder::new_current_thread().enable_all().build().map_err(no_threads)
}

/// A listener with its address, which has a port even if 0 was asked for.
async fn bound(address: SocketAddr, option: &str) -> Outcome<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let failure = Failure::io(error, format!("listen on {address}"));
        failure.hint(format!("choose another port, or 0 for a free one: {option} 127.0.0.1:0"))
    })?;
    let address = listener.local_addr().map_err(|error| Failure::io(error, "read the port"))?;
    Ok((listener, address))
}
