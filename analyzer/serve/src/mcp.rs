//! `stallmap mcp`: seven tools over open captures, for agents. JSON-RPC 2.0, one message per line.
//!
//! ```text
//! stdin ──> wire (bounded lines) ──> server (methods) ──> tools ──> desk (sessions) ──> answer (caps) ──> stdout
//! ```
//!
//! Everything is read only. Texts of a capture are values of JSON, never parts of a tool's description.

mod answer;
mod arguments;
mod catalog;
mod desk;
mod server;
mod tools;
mod wire;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use stallmap_console::args::mcp::McpArgs;
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{OK, Outcome};
use stallmap_console::output::{self, written};

use crate::threads::{network_thread, query_threads};
use desk::CaptureDesk;
use server::McpServer;

/// Serves until standard input ends.
pub fn run(context: &CommandContext, args: &McpArgs) -> Outcome {
    let desk = CaptureDesk::open(context, &args.captures)?;
    let mut out = output::data();
    let (waiting, queries) = (network_thread()?, query_threads()?);
    let longest = Duration::from_secs(args.timeout);
    let server = McpServer { desk: Arc::new(desk), waiting, queries, longest };
    let ended = server.serve(io::stdin().lock(), &mut out);
    // A call that is over may compute still.
    server.queries.shutdown_background();
    written(ended).map(|()| OK)
}
