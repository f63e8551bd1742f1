//! Every capture in `testdata` is complete, and its report begins with the verdict, and has coverage on demand.

use std::fs;
use std::path::{Path, PathBuf};

use crate::command::{CommandFolder, command};

#[test]
fn every_bundled_capture_passes() {
    let place = CommandFolder::new();
    for capture in captures(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata"))) {
        let path = capture.to_str().unwrap();
        let check = place.run(&["check", path]);
        assert_eq!(check.code, Some(0), "{path}: {}{}", check.stdout, check.stderr);
        let report = place.run(&["report", path]);
        assert_eq!(report.code, Some(0), "{path}: {}", report.stderr);
        let verdict = place.run(&[path]).stdout;
        assert!(report.stdout.starts_with(&verdict), "{path}: {}", report.stdout);
        assert!(!report.stdout.contains("\nCoverage of"), "{path}: {}", report.stdout);
        // Without samples, no section of tensors is empty.
        let has_samples = !verdict.contains("no stall samples");
        let has_tensors = report.stdout.contains("\nTensors by stall cost\n");
        assert_eq!(has_samples, has_tensors, "{path}: {}", report.stdout);
        for columns in ["80", "120"] {
            let mut command = command(&place.path(""));
            let report = command.env("COLUMNS", columns).args(["report", path]).output().unwrap();
            let report = String::from_utf8(report.stdout).unwrap();
            let lines = report.lines().count();
            assert!((20..=60).contains(&lines), "{path}: {lines} lines of {columns} columns: {report}");
        }
        let coverage = place.run(&["report", path, "--section", "coverage"]);
        assert!(coverage.expect_ok().stdout.starts_with("Coverage of"), "{path}: {}", coverage.stdout);
    }
}

const BLAME_TRUTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/blame_truth.stallmap");
const PIPELINE_TRUTH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/pipeline_truth.stallmap");
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

#[test]
fn a_loop_is_shown_with_the_load_behind_it() {
    let arguments = ["source", BLAME_TRUTH, "--kernel", "^carried$", "--top", "2", "--source-root", ROOT];
    CommandFolder::new().run(&arguments).check("source_of_a_loop");
}

#[test]
fn a_page_needs_nothing_and_its_links_lead_somewhere() {
    let place = CommandFolder::new();
    let arguments =
        ["source", BLAME_TRUTH, "--kernel", "tensor_maps", "--source-root", ROOT, "--html", "page.html"];
    let ran = place.run(&arguments);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), ""), "{}", ran.stderr);
    // The pattern of waits for memory is in the page.
    let page = fs::read_to_string(place.path("page.html")).unwrap().replace("url(#hatch)", "");
    for loaded in [
        "<script",
        "<link",
        "<img",
        "src=",
        "url(",
        "@import",
        "http://",
        "https://",
        " onclick=",
        " onload=",
        " onerror=",
    ] {
        let tags = page.split('<').filter_map(|tag| tag.split('>').next());
        let is_text = ["http://", "https://"].contains(&loaded);
        let found = tags.filter(|tag| format!("<{tag}").contains(loaded)).count();
        assert_eq!(if is_text { page.matches(loaded).count() } else { found }, 0, "{loaded}");
    }
    assert!(page.contains("default-src 'none'") && page.contains("prefers-color-scheme: dark"));
    let targets = page.split("href=\"#").skip(1).filter_map(|rest| rest.split('"').next());
    let missing: Vec<&str> = targets.filter(|target| !page.contains(&format!("id=\"{target}\""))).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(page.contains("UTMALDG") && page.contains("by its tensor map"));
}

pub(crate) fn captures(folder: &Path) -> Vec<PathBuf> {
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

#[test]
fn tensors_are_ranked_by_waits_for_shared_memory_that_they_filled() {
    let list = CommandFolder::new().run(&["top", "tensors", PIPELINE_TRUTH, "--shared", "--format", "csv"]);
    let rows = list.expect_ok().stdout.lines().skip(1).map(|row| row.split(',').nth(5).unwrap_or_default());
    // The rows of A and of near, the counters, the row of hot.
    assert_eq!(rows.collect::<Vec<_>>(), ["allocation 2", "allocation 3", "allocation 5", "allocation 4"]);
}
