//! Exports: files that other programs read, with totals that equal the samples.

use std::fs;
use std::process::Command;

use crate::command::CommandFolder;

const DATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const DECODE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/decode-export");

/// Formats of one file, with the endings that `decode-export` knows.
const FORMATS: [(&str, &str); 9] = [
    ("perfetto", "pftrace"),
    ("kineto", "trace.json.gz"),
    ("speedscope", "speedscope.json"),
    ("pprof", "pb.gz"),
    ("firefox", "firefox.json"),
    ("hatchet", "hatchet"),
    ("memory-snapshot", "pickle"),
    ("operator-profiler", "profile.json"),
    ("sarif", "sarif"),
];

/// Exports a capture in every format, and decodes the files by a program that knows nothing of stallmap.
fn decoded(capture: &str) -> String {
    let place = CommandFolder::new();
    let files = FORMATS.map(|(format, ending)| {
        let file = format!("out.{ending}");
        place.run(&["export", format, capture, "-o", &file]).expect_ok();
        place.path(&file)
    });
    let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let read = Command::new(python).arg(DECODE).args(files).output().unwrap();
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    String::from_utf8_lossy(&read.stdout).into_owned()
}

fn check(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_snapshot_path("../snapshots");
    settings.set_omit_expression(true);
    settings.bind(|| insta::assert_snapshot!(name, text));
}

/// The samples of a capture, by its own view.
fn samples(capture: &str) -> f64 {
    let place = CommandFolder::new();
    let ran = place.run(&["sql", capture, "-c", "SELECT sum(samples) AS n FROM sample", "--format", "csv"]);
    ran.expect_ok().stdout.lines().last().unwrap().parse().unwrap()
}

#[test]
fn every_format_is_read_by_another_program() {
    for (name, capture) in [
        ("export_small", "tiny.stallmap".to_owned()),
        ("export_views", format!("{DATA}/inference_views.stallmap")),
        ("export_replays", format!("{DATA}/blame_replays.stallmap")),
        ("export_timeline", format!("{DATA}/time_truth.stallmap")),
    ] {
        let text = decoded(&capture);
        let total = samples(&capture);
        for start in ["kineto", "perfetto", "pprof", "firefox", "speedscope samples", "hatchet"] {
            let at = text.find(start).unwrap();
            let rest = &text[at..];
            let found = rest
                .split(|char: char| !char.is_ascii_digit() && char != '.')
                .filter_map(|word| word.parse().ok());
            let has_total = found.take(60).any(|number: f64| (number - total).abs() < 1.0);
            assert!(has_total, "{start} of {name} has not all {total} samples:\n{text}");
        }
        check(name, &text);
    }
}

#[test]
fn every_number_is_a_query_that_runs() {
    let place = CommandFolder::new();
    for (format, _) in FORMATS {
        let queries = place.run(&["export", format, "tiny.stallmap", "--sql"]);
        queries.expect_ok();
        assert!(queries.stdout.contains("SELECT"), "{format}");
        place.file("queries.sql", &queries.stdout);
        place.run(&["sql", "tiny.stallmap", "-f", "queries.sql"]).expect_ok();
    }
}

#[test]
fn views_are_tables_with_descriptions() {
    let place = CommandFolder::new();
    place.run(&["export", "parquet", "tiny.stallmap", "views"]).expect_ok();
    let files = fs::read_dir(place.path("views")).unwrap().count();
    let queries = place.run(&["export", "parquet", "tiny.stallmap", "views", "--sql"]);
    assert_eq!(queries.expect_ok().stdout.matches("SELECT * FROM").count(), files);
    let bytes = fs::read(place.path("views/tensor_stall_cost.parquet")).unwrap();
    assert!(bytes.starts_with(b"PAR1"));
    place.run(&["export", "parquet", "tiny.stallmap", "views"]).expect_error(5);
}

#[test]
fn output_is_named_and_replaces_no_capture() {
    let place = CommandFolder::new();
    let missing = place.run(&["export", "pprof", "tiny.stallmap"]);
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    place.run(&["export", "pprof", "tiny.stallmap", "-o", "tiny.stallmap"]).expect_error(5);
    place.run(&["export", "pprof", "none.stallmap", "-o", "x.pb.gz"]).expect_error(3);
    assert!(!place.path("x.pb.gz").exists());
}

#[test]
fn equal_captures_give_equal_files() {
    let place = CommandFolder::new();
    for (format, ending) in FORMATS {
        let names = ["a", "b"].map(|name| format!("{name}.{ending}"));
        for name in &names {
            place.run(&["export", format, "tiny.stallmap", "-o", name]).expect_ok();
        }
        let [first, second] = names.map(|name| fs::read(place.path(&name)).unwrap());
        assert!(first == second, "{format} differs");
    }
}
