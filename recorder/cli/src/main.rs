//! `stallmap-record`: records a program's GPU memory accesses and stalls into a capture.

mod args;
mod bundles;
mod child;
mod doctor;
mod durations;
mod exit;
mod finishing;
mod folder;
mod hot;
mod injection;
mod labels;
mod memory;
mod merge;
mod message;
mod own_profiler;
mod passes;
mod prepared;
mod probe;
mod process_tree;
mod process_watch;
mod python;
mod record;
mod recover;
mod replay;
mod sandbox;

use std::process::ExitCode;

use clap::Parser as _;

fn main() -> ExitCode {
    // A reader's panic on damaged bytes becomes an error or a counted loss, which says what the panic would print.
    let is_shown = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        memory::end_without(panic);
        if is_shown {
            shown(panic);
        }
    }));
    std::panic::catch_unwind(begin).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        exit::RecorderFailure::not_written(anyhow::anyhow!("internal error: {text}")).report()
    })
}

fn begin() -> ExitCode {
    match args::RecorderArgs::try_parse() {
        Ok(arguments) => run(arguments).unwrap_or_else(|failure| failure.report()),
        Err(error) => exit::usage(&error),
    }
}

fn run(arguments: args::RecorderArgs) -> Result<ExitCode, exit::RecorderFailure> {
    match arguments.command {
        None => record::record(&arguments.record),
        Some(args::RecorderCommand::Recover(options)) => recover::recover(&options),
        Some(args::RecorderCommand::Merge(options)) => merge::merge(&options),
        Some(args::RecorderCommand::Replay(options)) => replay::replay(&options),
        Some(args::RecorderCommand::ReplayWorker(options)) => Ok(replay::work(&options)),
        Some(args::RecorderCommand::Doctor(options)) => doctor::doctor(&options),
        Some(args::RecorderCommand::Probe(options)) => Ok(probe::probe(&options)),
    }
}
