//! The captures to serve: files, folders of files, URLs.

use std::path::Path;

use stallmap::location::Location;
use stallmap_console::args::NamedCapture;
use stallmap_console::exit::{Failure, Outcome};

/// Most captures of a folder.
const MOST_CAPTURES: usize = 1_000;

/// The captures with names. A folder stands for the captures in it, and a capture's name is its file's.
pub(crate) fn captures(given: &[NamedCapture]) -> Outcome<Vec<(Option<String>, Location)>> {
    let mut captures: Vec<(Option<String>, Location)> = Vec::new();
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
    if captures.len() > 1 {
        for index in 0..captures.len() {
            if captures[index].0.is_none() {
                let name = free_name(&captures[index].1, &captures);
                captures[index].0 = Some(name);
            }
        }
    }
    Ok(captures)
}

/// The captures in a folder by name. None for a file and for a capture that is a folder.
fn files(folder: &Path) -> Outcome<Vec<Location>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let wrong = |error| Failure::io(error, format!("read the folder `{}`", folder.display()));
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.extension().is_some_and(|ending| ending == "stallmap") && paths.len() < MOST_CAPTURES {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths.into_iter().map(Location::from).collect())
}

/// A name for SQL from a file's name: letters, digits and _.
fn free_name(path: &Path, taken: &[(Option<String>, Location)]) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().to_ascii_lowercase()).unwrap_or_default();
    let plain = |char: char| if char.is_ascii_alphanumeric() { char } else { '_' };
    let mut name: String = stem.chars().map(plain).collect();
    if !name.starts_with(|char: char| char.is_ascii_lowercase()) || name == "every" {
        name.insert_str(0, "capture_");
    }
    let is_taken = |name: &str| taken.iter().any(|(other, _)| other.as_deref() == Some(name));
    let numbered = (2..).map(|number| format!("{name}_{number}"));
    std::iter::once(name.clone()).chain(numbered).find(|name| !is_taken(name)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_files() {
        let given = ["a/Step-1.stallmap", "x=b.stallmap", "b/step-1.stallmap", "7.stallmap"];
        let given = given.map(|text| text.parse().unwrap());
        let names: Vec<_> = captures(&given).unwrap().into_iter().map(|(name, _)| name.unwrap()).collect();
        assert_eq!(names, ["step_1", "x", "step_1_2", "capture_7"]);
        assert_eq!(captures(&given[..1]).unwrap()[0].0, None);
    }
}
