//! `stallmap`: which tensor, line and kernel was the GPU waiting for.
//!
//! Parses the command line, runs the command, reports errors. Results come from the library `stallmap`. All output of a
//! command goes through [`output`].

mod commands;
mod interrupt;
mod shell;

use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::CompleteEnv;
use stallmap_console::{args, output};
use stallmap_schema::contained::is_contained;

/// Planning a query is mostly allocating: the system's allocator takes a third more time over it. It asks for no huge pages:
/// a report takes a quarter more memory with them, and no less time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    say_defects();
    CompleteEnv::with_factory(args::CliArgs::command).var(commands::completions::VARIABLE).complete();
    let cli = commands::unknown::parsed(args::order::in_order(std::env::args_os().collect()));
    output::paint::choose(cli.color);
    output::widen(cli.wide);
    interrupt::watch(cli.command.as_ref());
    match commands::run(cli) {
        Ok(code) => ExitCode::from(code),
        Err(failure) => {
            output::message(&failure);
            failure.exit_code()
        }
    }
}

/// Prints a panic only if a developer asks for it. A reader's panic on a damaged capture becomes an error, which says it.
fn say_defects() {
    let is_asked = std::env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0");
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if is_asked && !is_contained() {
            print(panic);
        }
    }));
}

#[cfg(test)]
mod tests {
    /// The system lists each part of the memory with its flags. `hg` is one that asks for huge pages.
    #[cfg(target_os = "linux")]
    #[test]
    fn memory_is_not_asked_for_in_huge_pages() {
        let memory = vec![1_u8; 64 << 20];
        let parts = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let flags: Vec<&str> = parts.lines().filter_map(|line| line.strip_prefix("VmFlags:")).collect();
        assert!(!flags.is_empty() && memory.iter().all(|byte| *byte == 1));
        assert!(flags.iter().all(|flags| !flags.split(' ').any(|flag| flag == "hg")), "{flags:?}");
    }
}
