//! Writes the capture of `scripts/bench-tree`: `tree_capture OUT [LAUNCHES]`.

use stallmap_testkit::tree;

use std::path::Path;
use std::process::ExitCode;

const LAUNCHES: u64 = 6_500;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(output) = arguments.first() else {
        eprintln!("usage: tree_capture OUT [LAUNCHES]");
        return ExitCode::FAILURE;
    };
    let launches = arguments.get(1).and_then(|count| count.parse().ok()).unwrap_or(LAUNCHES);
    match tree::write(Path::new(output), launches, str::to_owned) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
