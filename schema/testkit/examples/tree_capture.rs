//! Writes the capture of `scripts/bench-tree`: `tree_capture OUT [LAUNCHES] [long]`. With `long`, names have 60 KB.

use stallmap_testkit::tree;

use std::path::Path;
use std::process::ExitCode;

const LAUNCHES: u64 = 6_500;

/// A name near the bound of names. Others differ from it in their last bytes, which costs comparisons most.
fn long(name: &str) -> String {
    format!("{name:x>60000}")
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(output) = arguments.first() else {
        eprintln!("usage: tree_capture OUT [LAUNCHES] [long]");
        return ExitCode::FAILURE;
    };
    let launches = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(LAUNCHES);
    let named: fn(&str) -> String =
        if arguments.get(2).is_some_and(|word| word == "long") { long } else { str::to_owned };
    match tree::write(Path::new(output), launches, named) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
