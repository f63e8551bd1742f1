//! Complete commands: output, messages on stderr, exit codes.
//!
//! `INSTA_UPDATE=always cargo test -p stallmap-cli --test cli` rewrites the snapshots. Read the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod absent;
mod answers;
mod bad_input;
mod changing;
mod command;
mod diff;
mod diff_work;
mod examples;
mod export;
mod filter;
mod first;
mod fleet;
mod flight;
mod forest;
mod hostile;
mod http;
mod import;
mod library;
mod mcp;
mod page;
mod postgres;
mod prepare;
mod python;
mod readme;
mod real;
mod remote;
mod sanitize;
mod server;
mod serving;
mod share;
mod snapshots;
mod terminal;
mod tree;
mod trend;
mod verdict;
#[cfg(target_os = "linux")]
mod wheel;

use stallmap_testkit::tiny;
use stallmap_testkit::tree as many;
