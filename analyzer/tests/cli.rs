//! Complete commands: output, messages on stderr, exit codes.
//!
//! `INSTA_UPDATE=always cargo test -p stallmap --test cli` rewrites the snapshots. Read the difference.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

#[path = "cli/absent.rs"]
mod absent;
#[path = "cli/bad_input.rs"]
mod bad_input;
#[path = "cli/command.rs"]
mod command;
#[path = "cli/diff.rs"]
mod diff;
#[path = "cli/examples.rs"]
mod examples;
#[path = "cli/forest.rs"]
mod forest;
#[path = "cli/library.rs"]
mod library;
#[path = "../../schema/examples/tree_capture/tree.rs"]
mod many;
#[path = "cli/page.rs"]
mod page;
#[path = "cli/prepare.rs"]
mod prepare;
#[path = "cli/readme.rs"]
mod readme;
#[path = "cli/real.rs"]
mod real;
#[path = "cli/remote.rs"]
mod remote;
#[path = "cli/server.rs"]
mod server;
#[path = "cli/share.rs"]
mod share;
#[path = "cli/snapshots.rs"]
mod snapshots;
#[path = "cli/terminal.rs"]
mod terminal;
#[path = "../../schema/examples/tiny_capture/tiny.rs"]
mod tiny;
#[path = "cli/tree.rs"]
mod tree;
