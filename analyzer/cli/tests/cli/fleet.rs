//! Many captures as one database: `sql --over`, with labels, choice of captures, and damage.

use std::fs;
use std::path::Path;

use stallmap_schema::capture::reader::CaptureReader;

use crate::command::{CommandFolder, command};

/// Standard output, standard error and exit code, without a cache.
fn run(place: &CommandFolder, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = command(&place.path(".")).env("STALLMAP_CACHE", "off").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// The rows of a statement over a folder, as CSV.
fn rows(place: &CommandFolder, sql: &str) -> String {
    let (rows, error, code) = run(place, &["sql", "--over", "runs", "--format", "csv", "-c", sql]);
    assert_eq!(code, Some(0), "{error}");
    rows
}

/// A folder `runs` with captures of several programs, one of them in a folder of its own.
fn place() -> CommandFolder {
    let place = CommandFolder::new();
    fs::create_dir_all(place.path("runs/nightly")).unwrap();
    for (bundled, name) in [
        ("blame_truth", "blame.stallmap"),
        ("inference_views", "nightly/views.stallmap"),
        ("time_truth", "nightly/time.stallmap"),
    ] {
        let bundled = format!("{}/../../testdata/{bundled}.stallmap", env!("CARGO_MANIFEST_DIR"));
        fs::copy(bundled, place.path("runs").join(name)).unwrap();
    }
    place
}

#[test]
fn each_table_and_view_has_the_rows_of_all_captures() {
    let place = place();
    let names = ["blame.stallmap", "nightly/time.stallmap", "nightly/views.stallmap"];
    for (table, value) in
        [("pc_sample", "samples"), ("kernel_cost", "samples"), ("object_cost", "samples"), ("launch", "1")]
    {
        let sum = format!("SELECT sum({value}) AS total, count(*) AS n FROM {table}");
        let alone = names.map(|name| {
            let path = format!("runs/{name}");
            let rows = run(&place, &["sql", &path, "--format", "csv", "-c", &sum]).0;
            format!("{name},{}", rows.lines().nth(1).unwrap())
        });
        let sql = format!(
            "SELECT capture, sum({value}) AS total, count(*) AS n FROM {table} GROUP BY 1 ORDER BY 1"
        );
        let all = rows(&place, &sql);
        assert_eq!(all.lines().skip(1).collect::<Vec<_>>(), alone, "{table}");
    }
    let all = rows(
        &place,
        "SELECT capture, host, gpu, rank IS NULL AS alone, skipped IS NULL AS is_read FROM fleet",
    );
    let expected = "capture,host,gpu,alone,is_read\n\
        blame.stallmap,h200,NVIDIA H200,true,true\n\
        nightly/time.stallmap,vm,NVIDIA H100 80GB HBM3,true,true\n\
        nightly/views.stallmap,h200,NVIDIA H200,true,true\n";
    assert_eq!(all, expected);
    // Columns of the table come first, and sentences are those of each capture.
    assert!(rows(&place, "SELECT host, rank FROM run").contains("h200"));
    let findings = rows(&place, "SELECT capture, count(sentence) AS n FROM finding GROUP BY 1 ORDER BY 1");
    assert!(findings.lines().count() > 1, "{findings}");
    let views = rows(
        &place,
        "CREATE VIEW hot AS SELECT capture, kernel FROM kernel_cost WHERE samples > 1000; SELECT count(DISTINCT capture) AS n FROM hot",
    );
    assert!(views.ends_with("n\n3\n"), "{views}");
}

#[test]
fn labels_choose_captures_before_their_tables_are_read() {
    let place = place();
    let (text, error, code) = run(&place, &["label", "runs/blame.stallmap", "model=gpt2", "commit=1f3a"]);
    assert_eq!((text.as_str(), code), ("commit=1f3a\nmodel=gpt2\n", Some(0)), "{error}");
    let sql = "SELECT capture, commit, labels, count(*) AS n FROM launch WHERE label(labels, 'model') = 'gpt2' GROUP BY 1, 2, 3";
    let expected = "capture,commit,labels,n\nblame.stallmap,1f3a,\"commit=1f3a, model=gpt2\",13\n";
    assert_eq!(rows(&place, sql), expected);
    let plan =
        rows(&place, "EXPLAIN SELECT kernel FROM kernel_cost WHERE commit = '1f3a' AND samples > 3 LIMIT 2");
    assert!(plan.contains("FleetExec: table=kernel_cost, captures=1\n"), "{plan}");
    assert_eq!(rows(&place, "SELECT count(*) AS n FROM launch WHERE capture LIKE 'none%'"), "n\n0\n");
    // A table that cannot be read is not opened where its capture is not chosen.
    damage_table(&place, "runs/nightly/time.stallmap", "pc_sample");
    let (sum, error, _) = run(
        &place,
        &["sql", "--over", "runs", "-c", "SELECT sum(samples) FROM pc_sample WHERE commit = '1f3a'"],
    );
    assert!(sum.contains("27976") && error.is_empty(), "{sum}{error}");
}

/// Unpacks a capture in its place, and overwrites the bytes of one of its tables.
fn damage_table(place: &CommandFolder, name: &str, table: &str) {
    let reader = CaptureReader::open(&place.path(name)).unwrap();
    let folder = place.path("unpacked");
    stallmap_write::pack::unpack_opened(&reader, &folder).unwrap();
    fs::remove_file(place.path(name)).unwrap();
    fs::rename(folder, place.path(name)).unwrap();
    let path = place.path(name).join("tables").join(format!("{table}.parquet"));
    let length = fs::metadata(&path).unwrap().len();
    fs::write(path, vec![7; usize::try_from(length).unwrap()]).unwrap();
}

#[test]
fn damaged_captures_are_named_counted_and_skipped() {
    let place = place();
    let whole = fs::read(place.path("runs/blame.stallmap")).unwrap();
    fs::write(place.path("runs/cut.stallmap"), &whole[..whole.len() / 2]).unwrap();
    damage_table(&place, "runs/nightly/time.stallmap", "pc_sample");
    let sql = "SELECT capture, sum(samples) AS n FROM pc_sample GROUP BY 1 ORDER BY 1";
    let (text, error, code) = run(&place, &["sql", "--over", "runs", "--format", "csv", "-c", sql]);
    assert_eq!(
        (text.as_str(), code),
        ("capture,n\nblame.stallmap,27976\nnightly/views.stallmap,5823\n", Some(0)),
        "{error}"
    );
    for part in [
        "warning: skipped `cut.stallmap`: capture is truncated",
        "warning: skipped `nightly/time.stallmap`: ",
        "2 of 4 captures skipped: the rows are those of the rest\n",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let skipped = rows(&place, "SELECT capture FROM fleet WHERE skipped IS NOT NULL");
    assert_eq!(skipped, "capture\ncut.stallmap\n");
    // An error of the query is not damage.
    let (_, error, code) = run(
        &place,
        &[
            "sql",
            "--over",
            "runs",
            "-c",
            "SELECT samples / 0 FROM launch_sample WHERE 1 / (samples - samples) > 0",
        ],
    );
    assert!(code == Some(0) || !error.contains("skipped `blame"), "{error}");
    for (arguments, words) in [
        (["--over", "empty"], "no captures found"),
        (["--over", "s3://bucket/runs"], "captures below a URL are not listed"),
    ] {
        fs::create_dir_all(place.path("empty")).unwrap();
        let (_, error, code) = run(&place, &[&["sql"], &arguments[..], &["-c", "SELECT 1"]].concat());
        assert!(code == Some(2) && error.contains(words) && error.contains("hint: "), "{code:?} {error}");
    }
}

#[test]
fn stored_rows_give_the_same_answers() {
    let place = place();
    let sql = "SELECT capture, kernel, samples, memory_samples, time_ns FROM kernel_cost ORDER BY 1, 2, 3";
    let before = rows(&place, sql);
    for name in ["runs/blame.stallmap", "runs/nightly/views.stallmap"] {
        let (_, error, code) = run(&place, &["prepare", "--in-place", name]);
        assert_eq!(code, Some(0), "{error}");
    }
    assert_eq!(rows(&place, sql), before);
}

#[test]
fn labels_are_set_shown_and_removed_and_change_no_id() {
    let place = place();
    let name = "runs/blame.stallmap";
    let id = |name: &str| run(&place, &["id", name]).0.lines().skip(1).collect::<Vec<_>>().join("\n");
    let before = (id(name), fs::read(place.path(name)).unwrap());
    assert_eq!(run(&place, &["label", name]), (String::new(), String::new(), Some(0)));
    assert_eq!(run(&place, &["label", name, "model=gpt2", "run=7"]).0, "model=gpt2\nrun=7\n");
    assert_eq!(id(name), before.0);
    assert_eq!(run(&place, &["check", name]).2, Some(0));
    assert_eq!(run(&place, &["label", name, "run="]).0, "model=gpt2\n");
    for wrong in ["model", "Model=x", "a=1,2"] {
        let (_, error, code) = run(&place, &["label", name, wrong]);
        assert!(code == Some(2) && error.contains("label") | error.contains("KEY=VALUE"), "{error}");
    }
    // Copies and parts keep labels, a redacted capture has none.
    assert_eq!(run(&place, &["pack", name, "copy.stallmap"]).2, Some(0));
    assert_eq!(run(&place, &["pack", name, "part.stallmap", "--without", "accesses"]).2, Some(0));
    assert_eq!(run(&place, &["unpack", name, "folder"]).2, Some(0));
    for copy in ["copy.stallmap", "part.stallmap", "folder"] {
        assert_eq!(run(&place, &["label", copy]).0, "model=gpt2\n", "{copy}");
    }
    assert_eq!(run(&place, &["label", "folder", "model=bert"]).0, "model=bert\n");
    assert_eq!(run(&place, &["check", "folder"]).2, Some(0));
    assert_eq!(run(&place, &["redact", name, "redacted.stallmap"]).2, Some(0));
    assert_eq!(run(&place, &["label", "redacted.stallmap"]).0, "");
    assert_eq!(run(&place, &["label", name, "model="]).0, "");
    assert!(fs::read(place.path(name)).unwrap() == before.1, "the same file as before");
    assert!(Path::new(&place.path(name)).is_file());
}
