//! Files that commands write: complete or not there, and never in the place of a capture.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use stallmap_schema::capture::unfinished;

use super::{STDOUT, print_data};
use crate::exit::{CommandFailure, IO, Outcome};

/// The first bytes of a capture.
const ZIP: [u8; 4] = *b"PK\x03\x04";

/// Writes a file, or standard output for `-`: the old content of a file stays until the new one is complete.
pub fn save(path: &Path, content: &[u8]) -> Outcome<()> {
    if path == Path::new(STDOUT) {
        return print_data(content);
    }
    let place = StagedFile::for_path(path)?;
    let fail = |error: io::Error| CommandFailure::io(error, format!("write `{}`", path.display()));
    fs::write(place.path(), content).map_err(fail)?;
    place.keep().map_err(fail)
}

/// The place of a file while it is written: next to the requested one, or the same for pipes and devices.
#[derive(Debug)]
pub struct StagedFile {
    wanted: PathBuf,
    /// The file to rename. It is removed where that does not happen.
    unfinished: Option<PathBuf>,
}

impl StagedFile {
    /// A place for a file. Refused where a capture is.
    pub fn for_path(path: &Path) -> Outcome<Self> {
        if is_capture(path) {
            let failure = CommandFailure::message(
                IO,
                format!("`{}` is a capture, or another ZIP file", path.display()),
            );
            return Err(failure.hint("choose another name or remove the file".to_owned()));
        }
        let unfinished = is_replaceable(path).then(|| {
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".{}.unfinished", std::process::id()));
            path.with_file_name(name)
        });
        if let Some(unfinished) = &unfinished {
            unfinished::begin(unfinished);
        }
        Ok(Self { wanted: path.to_owned(), unfinished })
    }

    /// The file to write.
    pub fn path(&self) -> &Path {
        self.unfinished.as_deref().unwrap_or(&self.wanted)
    }

    /// Puts the complete file into its place.
    pub fn keep(mut self) -> io::Result<()> {
        let Some(unfinished) = &self.unfinished else { return Ok(()) };
        fs::rename(unfinished, &self.wanted)?;
        unfinished::end(unfinished);
        self.unfinished = None;
        Ok(())
    }
}

impl Drop for StagedFile {
    fn drop(&mut self) {
        if let Some(unfinished) = &self.unfinished {
            // The file may never have been created. Nothing better can be done.
            drop(fs::remove_file(unfinished));
            unfinished::end(unfinished);
        }
    }
}

/// True if a rename may put a file there: pipes and devices are written in place.
fn is_replaceable(path: &Path) -> bool {
    path.metadata().map_or(true, |metadata| metadata.is_file())
}

fn is_capture(path: &Path) -> bool {
    let mut head = [0; ZIP.len()];
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    is_file && File::open(path).and_then(|mut file| file.read_exact(&mut head)).is_ok() && head == ZIP
}
