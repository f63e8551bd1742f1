//! The captures to serve: files, folders of files, URLs.

use std::path::Path;

use stallmap::location::CaptureLocation;
use stallmap_console::args::named::{NamedCapture, with_names};
use stallmap_console::exit::{CommandFailure, Outcome};

/// Most captures of a folder.
const MAX_CAPTURES: usize = 1_000;

/// The captures with names. A folder stands for the captures in it, and a capture's name is its file's.
///
/// # Errors
/// Fails if a folder cannot be read.
pub(crate) fn captures(given: &[NamedCapture]) -> Outcome<Vec<(Option<String>, CaptureLocation)>> {
    let mut captures: Vec<(Option<String>, CaptureLocation)> = Vec::new();
    for capture in given {
        let files = match &capture.name {
            None => files(&capture.path)?,
            Some(_) => Vec::new(),
        };
        if files.is_empty() {
            captures.push((capture.name.clone(), capture.path.clone()));
        }
        captures.extend(files.into_iter().map(|file| (None, file)));
    }
    Ok(with_names(&captures))
}

/// The captures in a folder by name. None for a file and for a capture that is a folder.
fn files(folder: &Path) -> Outcome<Vec<CaptureLocation>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let wrong = |error| CommandFailure::io(error, format!("read the folder `{}`", folder.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|ending| ending == "stallmap") && paths.len() < MAX_CAPTURES {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths.into_iter().map(CaptureLocation::from).collect())
}
