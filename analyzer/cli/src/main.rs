//! `stallmap`: which tensor, line and kernel was the GPU waiting for.
//!
//! Parses the command line, runs the command, reports errors. Results come from the library `stallmap`. All output of a
//! command goes through [`output`].

mod commands;
mod shell;

use std::process::ExitCode;

use clap::Parser;
use stallmap_console::{args, output};

/// Planning a query is mostly allocating: the system's allocator takes a third more time over it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    match commands::run(args::Cli::parse_from(args::order::in_order(std::env::args_os().collect()))) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::message(&failure);
            failure.exit_code()
        }
    }
}
