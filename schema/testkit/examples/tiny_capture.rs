//! Writes a small capture, made by hand, at a path: `cargo run -p stallmap-testkit --example tiny_capture -- OUT`.
//!
//! A path that ends with `/` gives a folder, any other a file.

use stallmap_testkit::tiny;

use std::path::PathBuf;
use std::process::ExitCode;

use stallmap_write::CaptureForm;

fn main() -> ExitCode {
    let Some(output) = std::env::args().nth(1) else {
        eprintln!("error: no output path given");
        return ExitCode::from(2);
    };
    let form = if output.ends_with('/') { CaptureForm::Folder } else { CaptureForm::File };
    match tiny::write(&PathBuf::from(output), form) {
        Ok(_) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
