//! Writes a capture with the work of another many times: `repeat_capture IN OUT TIMES [WITH_ACCESSES]`.

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_testkit::repeat::{self, RepeatShape};

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let times = arguments.get(2).and_then(|times| times.parse().ok());
    let (Some(input), Some(output), Some(all)) = (arguments.first(), arguments.get(1), times) else {
        eprintln!("usage: repeat_capture IN OUT TIMES [WITH_ACCESSES]");
        return ExitCode::FAILURE;
    };
    let with_accesses = arguments.get(3).and_then(|times| times.parse().ok()).unwrap_or(1);
    let written = CaptureReader::open(Path::new(input))
        .and_then(|reader| repeat::write(&reader, Path::new(output), RepeatShape { all, with_accesses }));
    match written {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
