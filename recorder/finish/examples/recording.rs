//! Writes a recording as a recorder leaves it that was ended: `recording FOLDER`. For `scripts/campaign`.

#![expect(dead_code, clippy::unwrap_used, reason = "the recording of the tests")]

use std::path::Path;

#[path = "../tests/all/recording.rs"]
mod recording;

fn main() -> Result<(), &'static str> {
    let folder = std::env::args().nth(1).ok_or("usage: recording FOLDER")?;
    recording::write(Path::new(&folder));
    Ok(())
}
