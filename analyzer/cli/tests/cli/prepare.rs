//! The cache of code analyses: filled in advance, hit later, and always optional.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::command::{CommandFolder, command};

/// Output of a command with this cache, and its exit code.
fn run(place: &CommandFolder, cache: &Path, arguments: &[&str]) -> (String, Option<i32>) {
    let output = command(&place.path(".")).env("STALLMAP_CACHE", cache).args(arguments).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), output.status.code())
}

#[track_caller]
fn check_prepared(place: &CommandFolder, cache: &Path, analyzed: usize, found: usize) {
    let (text, code) = run(place, cache, &["prepare", "tiny.stallmap"]);
    assert_eq!(code, Some(0), "{text}");
    let expected = format!(
        "tiny.stallmap: 2 functions, 56 instructions (0 unknown), {analyzed} sections analyzed, \
         {found} found in the cache, "
    );
    assert!(text.starts_with(&expected), "{text}");
}

/// The files in a folder, and in those in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn what_was_prepared_is_found() {
    let (place, cache) = (CommandFolder::new(), "cache");
    let cache = place.path(cache);
    check_prepared(&place, &cache, 2, 0);
    check_prepared(&place, &cache, 0, 2);
    assert_eq!(files(&cache.join("code")).len(), 2);
    assert!(files(&cache.join("views")).len() > 20);
    for file in files(&cache) {
        fs::write(file, "damaged").unwrap();
    }
    check_prepared(&place, &cache, 2, 0);
    check_prepared(&place, &cache, 0, 2);
}

#[test]
fn answers_do_not_depend_on_the_cache() {
    let place = CommandFolder::new();
    let report = ["report", "tiny.stallmap"];
    let without = run(&place, Path::new("off"), &report);
    assert_eq!(without.1, Some(0), "{}", without.0);
    let cache = place.path("cache");
    assert_eq!(run(&place, &cache, &report), without);
    assert_eq!(files(&cache.join("code")).len(), 2, "a report fills it");
    assert_eq!(run(&place, &cache, &report), without);
    let file = place.file("file", "");
    assert_eq!(run(&place, &file, &report), without, "a folder that cannot be made is not needed");
}

#[test]
fn a_cache_that_keeps_nothing_is_an_error_of_preparing() {
    let place = CommandFolder::new();
    let (text, code) = run(&place, Path::new("off"), &["prepare", "tiny.stallmap"]);
    assert!(code == Some(2) && text.contains("the cache is disabled"), "{text}");
    let file = place.file("file", "");
    let (text, code) = run(&place, &file, &["prepare", "tiny.stallmap"]);
    assert!(code == Some(5) && text.contains("keep it in"), "{text}");
    let (text, code) = run(&place, &place.path("cache"), &["prepare", "missing.stallmap", "tiny.stallmap"]);
    assert!(code == Some(3) && text.contains("tiny.stallmap: 2 functions"), "{text}");
}

#[test]
fn rows_of_another_capture_are_not_found() {
    let place = CommandFolder::new();
    let bundled = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let [own, other, mixed] = ["own", "other", "mixed"].map(|cache| place.path(cache));
    for (name, capture) in
        [("own.stallmap", "inference_views"), ("other.stallmap", "inference_views_contiguous")]
    {
        fs::copy(bundled.join(capture).with_extension("stallmap"), place.path(name)).unwrap();
    }
    let expected = run(&place, &own, &["report", "own.stallmap"]);
    assert_ne!(run(&place, &other, &["report", "other.stallmap"]).0, expected.0);
    // Each file of this capture gets the content of the other's file of the same name.
    let of_name: BTreeMap<_, _> =
        files(&other).into_iter().map(|path| (path.file_name().unwrap().to_owned(), path)).collect();
    let mut replaced = 0;
    for path in files(&own) {
        let target = mixed.join(path.strip_prefix(&own).unwrap());
        let of_other = of_name.get(path.file_name().unwrap()).filter(|of_other| **of_other != path);
        replaced += usize::from(of_other.is_some());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(of_other.unwrap_or(&path), target).unwrap();
    }
    assert!(replaced > 20, "{replaced}");
    assert_eq!(run(&place, &mixed, &["report", "own.stallmap"]), expected);
}

#[test]
fn a_cache_that_others_can_write_is_not_used() {
    let place = CommandFolder::new();
    let cache = place.path("cache");
    let report = ["report", "tiny.stallmap"];
    let (expected, _) = run(&place, &cache, &report);
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let (text, code) = run(&place, &cache, &report);
    let warning = format!("warning: the cache `{}` is not used: other users can write it", cache.display());
    assert!(code == Some(0) && text.starts_with(&expected) && text.contains(&warning), "{text}");
    let (text, code) = run(&place, &cache, &["prepare", "tiny.stallmap"]);
    assert!(code == Some(5) && text.contains("is not used: other users can write it"), "{text}");
}

const FINDINGS: &str = "SELECT * FROM finding ORDER BY sentence, query";

/// Commands that read stored views, of captures that differ in one line of the program.
const COMMANDS: [&[&str]; 7] = [
    &["report", "contiguous.stallmap"],
    &["report", "views.stallmap", "--format", "json"],
    &["top", "findings", "views.stallmap", "--format", "csv"],
    &["tree", "views.stallmap", "--format", "csv"],
    &["diff", "views.stallmap", "contiguous.stallmap"],
    &["report", "views.stallmap", "--html", "page.html"],
    &["sql", "views.stallmap", "-c", FINDINGS, "--format", "json"],
];

#[test]
fn stored_rows_are_those_that_are_computed() {
    let place = CommandFolder::new();
    for (name, capture) in [("views", "inference_views"), ("contiguous", "inference_views_contiguous")] {
        let capture =
            Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../testdata/{capture}.stallmap"));
        fs::copy(capture, place.path(&format!("{name}.stallmap"))).unwrap();
    }
    let cache = place.path("cache");
    let computed = COMMANDS.map(|command| run(&place, Path::new("off"), command));
    assert!(computed.iter().all(|(_, code)| *code == Some(0)), "{computed:?}");
    let stored = || [files(&cache.join("views")), files(&cache.join("answers"))].concat();
    let check_answers = |when: &str| {
        for (command, computed) in COMMANDS.iter().zip(&computed) {
            assert_eq!(&run(&place, &cache, command), computed, "{when}: {command:?}");
        }
    };
    check_answers("while they are stored");
    let full = stored().len();
    check_answers("when they are stored");
    assert_eq!(stored().len(), full, "nothing is missing after the first time");
    // A file of another view, a damaged one, one that is cut, and one that is not there.
    for (index, file) in stored().iter().enumerate() {
        match index % 4 {
            0 => drop(fs::copy(&stored()[0], file).unwrap()),
            1 => fs::write(file, "damaged").unwrap(),
            2 => fs::write(file, &fs::read(file).unwrap()[..60]).unwrap(),
            _ => fs::remove_file(file).unwrap(),
        }
    }
    check_answers("when they are damaged");
    // Without the answers, the views are read and mended too.
    fs::remove_dir_all(cache.join("answers")).unwrap();
    check_answers("when the answers are gone");
    // A view that one other view reads is stored if that one is not done yet: a few files more or less.
    let mended = stored().len();
    assert!(mended.abs_diff(full) * 20 < full, "{mended} of {full} files");
    let (text, code) = run(&place, &cache, &["--recompute", "prepare", "views.stallmap"]);
    assert!(code == Some(0) && text.contains("0 found in the cache"), "{text}");
}
