//! `stallmap serve`: captures for clients of PostgreSQL (`--postgres`), browsers (`--http`) and Arrow Flight SQL ([`flight`]),
//! read only. And `stallmap mcp`: the same for agents ([`mcp`]).
//!
//! ```text
//! socket ──> login (TLS, password) ──> connection (simple, prepared) ──> session ──> cells ──> socket
//!              └─ message, wire          └─ statement, catalog (psql's \d)
//! socket ──> web: gate (TLS, token) ──> page, rows ──> session ──> socket
//! ```
//!
//! [`wire`] bounds each message, [`server`] the connections, [`query`] the time of a query. Rows are streamed: a few batches
//! are in memory, and the network's speed is the query's.
//!
//! [`endpoint`], [`secret`], [`unknown`], [`folder`], [`threads`], [`work`] and [`failure`] are the parts that every server
//! needs.

mod catalog;
mod cell;
mod connection;
mod endpoint;
mod failure;
pub mod flight;
mod folder;
mod kind;
mod login;
pub mod mcp;
mod message;
mod parameter;
mod query;
mod scram;
mod secret;
mod server;
mod settings;
mod statement;
mod threads;
mod unknown;
pub mod web;
mod wire;
mod work;

use std::sync::Arc;

use stallmap_console::args::serve::ServeArgs;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::Outcome;
use stallmap_console::output;

use server::PostgresListener;
use settings::ServeSettings;
use threads::{network_thread, query_threads};

/// Serves until a signal ends the program.
pub fn run(context: &CommandContext, args: &ServeArgs) -> Outcome {
    if let Some(address) = &args.http {
        return web::run(context, args, address);
    }
    let settings = ServeSettings::from_args(args)?;
    let captures = folder::captures(&args.captures)?;
    let session = context.open(&captures)?;
    let queries = query_threads()?;
    network_thread()?.block_on(async {
        let (listener, address) = settings.endpoint.bound("--postgres").await?;
        output::print(&settings.welcome(address))?;
        Arc::new(PostgresListener::new(session, settings, queries.handle().clone())).listen(&listener).await
    })
}
