//! Every capture in `testdata` is whole, and its report begins with its coverage.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::Place;

#[test]
fn every_bundled_capture_passes() {
    let place = Place::new();
    for capture in captures(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata"))) {
        let path = capture.to_str().unwrap();
        let check = place.run(&["check", path]);
        assert_eq!(check.code, Some(0), "{path}: {}{}", check.stdout, check.stderr);
        let report = place.run(&["report", path]);
        assert_eq!(report.code, Some(0), "{path}: {}", report.stderr);
        assert!(report.stdout.starts_with("Coverage"), "{path}: {}", report.stdout);
    }
}

fn captures(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "stallmap") {
            found.push(path);
        } else if path.is_dir() {
            found.extend(captures(&path));
        }
    }
    found.sort();
    found
}
