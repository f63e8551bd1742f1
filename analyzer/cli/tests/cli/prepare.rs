//! The cache of code analyses: filled in advance, hit later, and always optional.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{Place, command};

/// Output of a command with this cache, and its exit code.
fn run(place: &Place, cache: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(&place.path(".")).env("STALLMAP_CACHE", cache).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

#[track_caller]
fn check_prepared(place: &Place, cache: &Path, analyzed: usize, found: usize) {
    let (text, code) = run(place, cache, &["prepare", "tiny.stallmap"]);
    assert_eq!(code, Some(0), "{text}");
    let expected = format!(
        "tiny.stallmap: 2 functions, 56 instructions (0 unknown), {analyzed} sections analyzed, \
         {found} found in the cache, "
    );
    assert!(text.starts_with(&expected), "{text}");
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_was_prepared_is_found() {
    let (place, cache) = (Place::new(), "cache");
    let cache = place.path(cache);
    check_prepared(&place, &cache, 2, 0);
    check_prepared(&place, &cache, 0, 2);
    assert_eq!(files(&cache).len(), 2);
    for file in files(&cache) {
        fs::write(file, "damaged").unwrap();
    }
    check_prepared(&place, &cache, 2, 0);
    check_prepared(&place, &cache, 0, 2);
}

#[test]
fn answers_do_not_depend_on_the_cache() {
    let place = Place::new();
    let report = ["report", "tiny.stallmap"];
    let without = run(&place, Path::new("off"), &report);
    assert_eq!(without.1, Some(0), "{}", without.0);
    let cache = place.path("cache");
    assert_eq!(run(&place, &cache, &report), without);
    assert_eq!(files(&cache).len(), 2, "a report fills it");
    assert_eq!(run(&place, &cache, &report), without);
    let file = place.file("file", "");
    assert_eq!(run(&place, &file, &report), without, "a folder that cannot be made is not needed");
}

#[test]
fn a_cache_that_keeps_nothing_is_an_error_of_preparing() {
    let place = Place::new();
    let (text, code) = run(&place, Path::new("off"), &["prepare", "tiny.stallmap"]);
    assert!(code == Some(2) && text.contains("the cache is disabled"), "{text}");
    let file = place.file("file", "");
    let (text, code) = run(&place, &file, &["prepare", "tiny.stallmap"]);
    assert!(code == Some(5) && text.contains("keep it in"), "{text}");
    let (text, code) = run(&place, &place.path("cache"), &["prepare", "missing.stallmap", "tiny.stallmap"]);
    assert!(code == Some(3) && text.contains("tiny.stallmap: 2 functions"), "{text}");
}
