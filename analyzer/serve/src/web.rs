//! `stallmap serve --http`: the pages of captures with a box for SQL, for browsers, read only.
//!
//! ```text
//! socket ──> channel (bounds, one request) ──> gate (Host, Origin, token, cookie) ──> routes ─┬─> hall: pages, made once
//!                                                                                             └─> rows: JSON, files
//! ```
//!
//! A page and its script come from `stallmap_report`. Texts of captures are never HTML: they are escaped in pages, and answers
//! to the script are JSON.

mod channel;
mod gate;
mod hall;
mod host;
mod names;
mod reply;
mod request;
mod routes;
mod rows;
mod running;
mod text;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use stallmap::location::CaptureLocation;
use stallmap_console::args::named::{NamedCapture, free_name};
use stallmap_console::args::serve::ServeArgs;
use stallmap_console::args::verdict::OpenArgs;
use stallmap_console::args::{CliArgs, StallmapCommand};
use stallmap_console::context::CommandContext;
use stallmap_console::exit::{CommandFailure, Outcome, USAGE};
use stallmap_console::output;
use stallmap_console::output::html::HtmlPage;
use stallmap_report::open::{private, show};

use crate::endpoint::ListenEndpoint;
use crate::folder;
use crate::secret::ServerSecret;
use crate::threads::{network_thread, query_threads};
use gate::WebGate;
use hall::ServedCaptures;
use host::WebHost;

/// Serves until a signal ends the program.
pub(crate) fn run(context: &CommandContext, args: &ServeArgs, address: &str) -> Outcome {
    let endpoint = ListenEndpoint::from_text(address, args, &[])?;
    serve(context, args, endpoint, &ServerSecret::from_args(args)?, false)
}

/// `stallmap open --serve`: serves one capture on a free port of this machine, and shows its page in the browser.
///
/// # Errors
/// Fails if the capture cannot be opened, and if no port is free.
pub fn open(context: &CommandContext, args: &OpenArgs) -> Outcome {
    let capture = NamedCapture { name: None, path: args.capture.clone() };
    let serving = ServeArgs { captures: vec![capture], root: args.root.clone(), ..defaults()? };
    let endpoint = ListenEndpoint::from_text("127.0.0.1:0", &serving, &[])?;
    serve(context, &serving, endpoint, &ServerSecret::random()?, true)
}

/// The options of `stallmap serve` that were not given.
fn defaults() -> Outcome<ServeArgs> {
    let words = ["stallmap", "serve", "--http", "127.0.0.1:0", "NAME.stallmap"];
    match <CliArgs as clap::Parser>::try_parse_from(words).map(|cli| cli.command) {
        Ok(Some(StallmapCommand::Serve(args))) => Ok(args),
        _ => Err(CommandFailure::message(USAGE, "the options of `stallmap serve` have no defaults")),
    }
}

fn serve(
    context: &CommandContext,
    args: &ServeArgs,
    endpoint: ListenEndpoint,
    secret: &ServerSecret,
    is_shown: bool,
) -> Outcome {
    let mut captures = folder::captures(&args.captures)?;
    for (name, path) in &mut captures {
        // The address of a page has the name of its capture.
        name.get_or_insert_with(|| free_name::<CaptureLocation>(path, &[]));
    }
    let session = context.open(&captures)?;
    let queries = query_threads()?;
    network_thread()?.block_on(async {
        let (listener, address) = endpoint.bound("--http").await?;
        let site = site(address, endpoint.tls.is_some());
        let query = if secret.is_given { String::new() } else { format!("?token={}", secret.text) };
        let link = format!("{site}/{query}");
        let hall = ServedCaptures::new(&session, &captures, args.root.clone(), queries.handle().clone());
        output::print(&welcome(&site, &link, secret.is_given))?;
        if is_shown {
            present(&link)?;
        }
        let gate = WebGate::new(&secret.text, address, endpoint.tls.is_some(), endpoint.is_local)?;
        let longest = Duration::from_secs(args.timeout);
        Arc::new(WebHost::new(hall, gate, endpoint.tls, longest, args.connections)).listen(&listener).await
    })
}

/// The begin of all addresses of the server.
fn site(address: SocketAddr, is_encrypted: bool) -> String {
    let scheme = if is_encrypted { "https" } else { "http" };
    if address.ip().is_unspecified() {
        return format!("{scheme}://localhost:{}", address.port());
    }
    format!("{scheme}://{address}")
}

/// The text that a user needs to open the pages.
fn welcome(site: &str, link: &str, is_given: bool) -> String {
    let action = if is_given { "open, and enter the password" } else { "open" };
    format!("listening on {site} for browsers, read only\n{action}: {link}\n")
}

/// Shows the page in the browser. Other users see command lines, so the token is in a file that only this user can read.
fn present(link: &str) -> Outcome<()> {
    let mut html = HtmlPage::default();
    html.markup(
        "<!doctype html>\n<meta charset=\"utf-8\">\n<meta name=\"referrer\" content=\"no-referrer\">\n",
    );
    html.markup("<meta http-equiv=\"refresh\" content=\"0;url=")
        .text(link)
        .markup("\">\n<title>stallmap</title>\n");
    let path: PathBuf = private("stallmap".as_ref(), &html.finish())?;
    // A browser that starts may run for as long as the server.
    std::thread::spawn(move || {
        if !show(&path) {
            output::note("no program opened the page: open the address in a browser");
        }
    });
    Ok(())
}
