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
    let files = FORMATS.into_iter().filter_map(|(format, ending)| {
        let file = format!("out.{ending}");
        let ran = place.run(&["export", format, capture, "-o", &file]);
        // Without a measured duration there is no profile of operators.
        if format == "operator-profiler" && ran.code == Some(4) {
            return None;
        }
        ran.expect_ok();
        Some(place.path(&file))
    });
    let files: Vec<_> = files.collect();
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

/// Numbers of a statement's only row.
fn numbers(place: &CommandFolder, capture: &str, sql: &str) -> Vec<f64> {
    let ran = place.run(&["sql", capture, "-c", sql, "--format", "csv"]);
    let row = ran.expect_ok().stdout.lines().nth(1).unwrap();
    row.split(',').map(|cell| cell.parse().unwrap_or(0.0)).collect()
}

/// Exports a capture as Kineto's trace, and imports it.
fn kineto_again(place: &CommandFolder, capture: &str) -> String {
    let ran = place.run(&["export", "kineto", capture, "-o", "again.json.gz"]);
    ran.expect_ok();
    place.run(&["import", "again.json.gz", "-o", "again.stallmap"]).expect_ok();
    place.run(&["check", "again.stallmap"]).expect_ok();
    ran.stderr.clone()
}

#[test]
fn a_kineto_export_is_imported_as_the_same_program() {
    // The run that records ops is slower before its first launch than the timeline: the first step is left out.
    let steps = "SELECT count(*), sum(compute_ns) / sum(duration_ns), sum(copy_ns) / sum(duration_ns), \
                 sum(input_idle_ns + launch_idle_ns + wait_idle_ns) / sum(duration_ns) FROM \
                 (SELECT CAST(compute_ns AS DOUBLE) AS compute_ns, CAST(copy_ns AS DOUBLE) AS copy_ns, \
                 CAST(duration_ns AS DOUBLE) AS duration_ns, CAST(input_idle_ns AS DOUBLE) AS input_idle_ns, \
                 CAST(launch_idle_ns AS DOUBLE) AS launch_idle_ns, CAST(wait_idle_ns AS DOUBLE) AS wait_idle_ns \
                 FROM program_step WHERE program_step > 0)";
    let kernels = "SELECT count(DISTINCT l.kernel_id), count(DISTINCT CASE WHEN l.op_id IS NOT NULL THEN l.kernel_id END), \
                   sum(a.end_ns - a.begin_ns) FROM launch l JOIN gpu_activity a ON a.kernel_id = l.kernel_id";
    let processes =
        "SELECT count(DISTINCT r.process_id) FROM run r JOIN launch l ON l.run_id = r.reference_run_id";
    for name in ["pairs/input", "pairs/small_kernels", "time_truth", "step_truth"] {
        let place = CommandFolder::new();
        let capture = format!("{DATA}/{name}.stallmap");
        kineto_again(&place, &capture);
        let both =
            |sql: &str| [capture.as_str(), "again.stallmap"].map(|capture| numbers(&place, capture, sql));
        let [own, again] = both(steps);
        let is_equal = own.iter().zip(&again).all(|(own, again)| (own - again).abs() < 0.01);
        assert!(is_equal, "steps of {name}: {own:?}, again {again:?}");
        let [own, again] = both(kernels);
        assert_eq!(own, again, "kernels, those with an op and time of {name}");
        assert_eq!(numbers(&place, "again.stallmap", processes), [1.0], "processes of {name}");
    }
}

#[test]
fn kernels_without_a_timeline_have_estimated_times_which_are_no_measurements_again() {
    let place = CommandFolder::new();
    let capture = format!("{DATA}/transformer_step.stallmap");
    let messages = kineto_again(&place, &capture);
    assert!(
        messages.contains("note: 296 launches whose duration is no measurement in the program"),
        "{messages}"
    );
    let kernels = "SELECT count(*) FROM gpu_activity WHERE kind = 'kernel'";
    assert_eq!(numbers(&place, "again.stallmap", kernels), [0.0]);
    let launches = "SELECT count(*) FROM launch";
    assert_eq!(numbers(&place, &capture, launches), numbers(&place, "again.stallmap", launches));
    let ops = "SELECT count(*) FROM launch WHERE op_id IS NOT NULL";
    assert_eq!(numbers(&place, &capture, ops), numbers(&place, "again.stallmap", ops));
}

#[test]
fn an_export_without_content_is_refused() {
    let place = CommandFolder::new();
    let trace = format!("{DATA}/step_truth.stallmap");
    let samples = format!("{DATA}/transformer_step.stallmap");
    for (format, capture, lacks) in [
        ("memory-snapshot", trace, "no allocations"),
        ("operator-profiler", samples, "no kernels with a measured duration"),
    ] {
        let ran = place.run(&["export", format, &capture, "-o", "out"]);
        assert!(ran.expect_error(4).stderr.contains(lacks), "{}", ran.stderr);
        assert!(!place.path("out").exists());
    }
}

#[test]
fn a_dash_is_standard_output() {
    let place = CommandFolder::new();
    for (format, start) in [("folded", ""), ("speedscope", "{"), ("hatchet", "["), ("sarif", "{")] {
        place.run(&["export", format, "tiny.stallmap", "-o", "file"]).expect_ok();
        let ran = place.run(&["export", format, "tiny.stallmap", "-o", "-"]);
        let file = fs::read_to_string(place.path("file")).unwrap();
        assert!(file.starts_with(start) && ran.expect_ok().stdout == file, "{format}");
        assert!(!ran.stderr.contains("wrote") && !place.path("-").exists(), "{}", ran.stderr);
    }
}
