//! Files of a recording's folder. Anyone may have put them there.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;

/// Most bytes of a file that describes a recording.
pub(crate) const MAX_BYTES: u64 = 64 << 20;

/// The content of a file of up to `most` bytes. Pipes, devices and links are errors: a pipe does not even open before
/// something writes into it.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let wrong = |text: String| io::Error::new(io::ErrorKind::InvalidData, text);
    let facts = fs::symlink_metadata(path)?;
    if !facts.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    if facts.len() > most {
        return Err(wrong(format!("it has {} bytes, and the bound is {most}", facts.len())));
    }
    let mut bytes = Vec::new();
    // It may grow.
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}
