//! The captures in folders and below prefixes of buckets, by name.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use stallmap::location::CaptureLocation;
use stallmap_schema::capture::entry;
use stallmap_schema::capture::error::CaptureError;

use crate::{FleetError, FoundCapture};

/// Maximum captures of a fleet.
pub const MAX_CAPTURES: usize = 100_000;
/// Maximum folders within folders.
const MAX_DEPTH: usize = 16;
/// Extension of captures in a folder. A capture that is named may have any.
const ENDING: &str = "stallmap";

/// The captures in places, sorted by name within each place. A capture in two places counts once.
pub(crate) fn captures(places: &[CaptureLocation]) -> Result<Vec<FoundCapture>, FleetError> {
    let mut found = Vec::new();
    for place in places {
        let is_prefix = place.is_remote() && place.extension().is_none_or(|ending| ending != ENDING);
        if is_prefix {
            list_prefix(place, places.len() == 1, &mut found)?;
            continue;
        }
        if !place.is_remote() {
            // A damaged capture is skipped. A name that was typed wrong is an error.
            let metadata = fs::symlink_metadata(place);
            metadata.map_err(|source| {
                FleetError::Capture(CaptureError::Io {
                    action: "open capture",
                    path: place.to_path_buf(),
                    source,
                })
            })?;
        }
        if place.is_remote() || !place.is_dir() || is_unpacked(place) {
            let name = place.display().to_string();
            found.push(FoundCapture { location: place.clone(), version: version(place), name });
        } else {
            // Folders may hold captures of one name.
            let root: &Path = if places.len() == 1 { place } else { Path::new("") };
            list(root, place, 0, &mut found)?;
        }
    }
    let mut seen = BTreeSet::new();
    found.retain(|capture| seen.insert(identity(capture, places.len())));
    match found.len() {
        0 => Err(FleetError::Empty { places: places.iter().map(|place| place.to_path_buf()).collect() }),
        count if count > MAX_CAPTURES => Err(FleetError::TooMany),
        _ => Ok(found),
    }
}

/// A capture in two places has one identity: its file without links and steps. Within one place, names differ.
fn identity(capture: &FoundCapture, places: usize) -> PathBuf {
    let location = &capture.location;
    let file = if places > 1 && !location.is_remote() { location.canonicalize().ok() } else { None };
    file.unwrap_or_else(|| location.to_path_buf())
}

/// Adds the captures below a folder, by name. Links to folders are not followed: they may lead in circles.
fn list(root: &Path, folder: &Path, depth: usize, found: &mut Vec<FoundCapture>) -> Result<(), FleetError> {
    let wrong = |source| FleetError::Folder { path: folder.to_owned(), source };
    let mut entries = fs::read_dir(folder).map_err(wrong)?.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        let is_folder = entry.file_type().map_err(wrong)?.is_dir();
        let is_file = !is_folder && path.extension().is_some_and(|ending| ending == ENDING);
        if is_hidden(&path) {
            continue;
        }
        if is_file || is_folder && is_unpacked(&path) {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            found.push(FoundCapture { version: version(&path), location: path.into(), name });
        } else if is_folder && depth < MAX_DEPTH {
            list(root, &path, depth + 1, found)?;
        }
        if found.len() > MAX_CAPTURES {
            return Err(FleetError::TooMany);
        }
    }
    Ok(())
}

/// Adds the captures below a prefix of a bucket, by name.
fn list_prefix(
    prefix: &CaptureLocation,
    is_only: bool,
    found: &mut Vec<FoundCapture>,
) -> Result<(), FleetError> {
    let Some(listed) = prefix.listed() else {
        return Err(FleetError::Prefix { path: prefix.to_path_buf() });
    };
    let is_hidden = |name: &str| name.split('/').any(|part| part.starts_with('.'));
    for (location, object) in listed.map_err(FleetError::Capture)? {
        let is_file = Path::new(&object.name).extension().is_some_and(|ending| ending == ENDING);
        if !is_file || is_hidden(&object.name) {
            continue;
        }
        let name = if is_only { object.name } else { location.display().to_string() };
        let version = Some(format!("{} {}", object.size_bytes, object.version));
        found.push(FoundCapture { location, version, name });
        if found.len() > MAX_CAPTURES {
            return Err(FleetError::TooMany);
        }
    }
    Ok(())
}

/// The version of a capture's content, without reading it: size and time of its last change. None elsewhere than in files.
fn version(path: &Path) -> Option<String> {
    let manifest = path.join(entry::MANIFEST);
    let metadata = path.metadata().ok()?;
    let metadata = if metadata.is_dir() { manifest.metadata().ok()? } else { metadata };
    Some(format!("{} {}.{:09} {}", metadata.len(), metadata.mtime(), metadata.mtime_nsec(), metadata.ino()))
}

/// True for a folder that is a capture.
fn is_unpacked(folder: &Path) -> bool {
    folder.join(entry::MANIFEST).is_file()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_files_and_folders_below_a_folder() {
        let root = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        };
        file("b.stallmap");
        file("a/one.stallmap");
        file("a/unpacked/manifest.json");
        file("a/unpacked/inner.stallmap");
        file("notes.txt");
        file(".hidden/c.stallmap");
        let found = captures(&[root.path().into()]).unwrap();
        let names: Vec<&str> = found.iter().map(|capture| capture.name.as_str()).collect();
        assert_eq!(names, ["a/one.stallmap", "a/unpacked", "b.stallmap"]);
        let twice = [root.path().into(), root.path().join("a").as_path().into()];
        let found = captures(&twice).unwrap();
        assert!(found.len() == 3 && found[0].name.ends_with("/a/one.stallmap"), "{found:?}");
        let again = [root.path().into(), root.path().join("a/..").as_path().into()];
        assert_eq!(captures(&again).unwrap().len(), 3);
        let absent = captures(&[root.path().join("none").as_path().into()]);
        assert!(matches!(absent, Err(FleetError::Capture(_))), "{absent:?}");
        assert!(matches!(captures(&["https://host/runs".into()]), Err(FleetError::Prefix { .. })));
        fs::remove_file(root.path().join("b.stallmap")).unwrap();
        fs::remove_dir_all(root.path().join("a")).unwrap();
        assert!(matches!(captures(&[root.path().into()]), Err(FleetError::Empty { .. })));
    }
}
