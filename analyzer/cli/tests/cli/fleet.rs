//! Many captures as one database: `sql --over`, with labels, choice of captures, and damage.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use stallmap_schema::capture::reader::CaptureReader;

use crate::command::{CommandFolder, command};
use crate::server::ObjectServer;

/// Standard output, standard error and exit code, without a cache.
pub(crate) fn run(place: &CommandFolder, arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = command(&place.path(".")).env("STALLMAP_CACHE", "off").args(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (text(output.stdout), text(output.stderr), output.status.code())
}

/// The rows of a statement over a folder, as CSV.
pub(crate) fn rows(place: &CommandFolder, sql: &str) -> String {
    let (rows, error, code) = run(place, &["sql", "--over", "runs", "--format", "csv", "-c", sql]);
    assert_eq!(code, Some(0), "{error}");
    rows
}

/// A folder `runs` with captures of several programs, one of them in a folder of its own.
pub(crate) fn place() -> CommandFolder {
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
    stallmap_write::pack::unpack(&reader, &folder).unwrap();
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
        (["--over", "empty"], "no capture is in `empty`"),
        (["--over", "https://host/runs"], "captures below this URL are not listed"),
    ] {
        fs::create_dir_all(place.path("empty")).unwrap();
        let (_, error, code) = run(&place, &[&["sql"], &arguments[..], &["-c", "SELECT 1"]].concat());
        assert!(code == Some(2) && error.contains(words) && error.contains("hint: "), "{code:?} {error}");
    }
}

/// Commands over a place that holds nothing to read fail alike: they would show no costs as if there were none.
#[test]
fn places_without_a_capture_that_can_be_read_are_errors() {
    let place = place();
    fs::create_dir_all(place.path("notes/inner")).unwrap();
    fs::write(place.path("notes/readme.txt"), "x").unwrap();
    fs::create_dir(place.path("torn")).unwrap();
    fs::write(place.path("torn/a.stallmap"), "x").unwrap();
    fs::write(place.path("x.json"), "{}").unwrap();
    for (name, code, words) in [
        ("notes", 2, "error: no capture is in `notes`\nhint: name folders or prefixes with .stallmap files"),
        (
            "runs/blam.stallmap",
            3,
            "error: open capture: No such file or directory (os error 2): `runs/blam.stallmap`\nhint: did you mean",
        ),
        ("none", 3, "error: open capture: No such file or directory (os error 2): `none`"),
        ("", 3, "error: open capture: No such file or directory (os error 2): ``"),
        ("torn", 3, "error: no capture can be read in `torn`\nhint: `stallmap check"),
        ("x.json", 3, "error: no capture can be read in `x.json`"),
    ] {
        for arguments in [
            &["sql", "--over", name, "-c", "SELECT 1"][..],
            &["report", "--over", name],
            &["top", "kernels", "--over", name],
            &["diff", "--over", name, "--base", "commit=a"],
            &["trend", name],
        ] {
            let (text, error, found) = run(&place, arguments);
            assert!(
                text.is_empty() && found == Some(code) && error.contains(words),
                "{arguments:?}: {found:?} {error}"
            );
        }
    }
    let (_, error, code) = run(&place, &["trend", "runs", "--label", "model=none"]);
    assert!(code == Some(2) && error.contains("no capture in `runs` has model=none\nhint: "), "{error}");
    fs::rename(place.path("torn/a.stallmap"), place.path("runs/torn.stallmap")).unwrap();
    let (text, error, _) = run(&place, &["top", "kernels", "--over", "runs", "-n", "1"]);
    assert!(
        text.contains("Costs in 3 captures\n") && error.contains("1 of 4 captures skipped"),
        "{text}{error}"
    );
}

/// Names of a fleet are those of its tables and views: no table of one capture hides behind them.
#[test]
fn names_of_a_fleet_are_documented_and_no_other_is_there() {
    let place = place();
    let ask = |sql: &str| run(&place, &["sql", "--over", "runs", "--format", "csv", "-c", sql]);
    for (sql, words) in [
        ("SELECT * FROM lunch", "no table or view `lunch`"),
        ("SELECT * FROM lunch", "hint: did you mean `launch`?"),
        ("SELECT * FROM capture.launch", "no schema is named `capture`"),
        ("SELECT * FROM every.launch", "hint: write the table's name alone"),
    ] {
        let (text, error, code) = ask(sql);
        assert!(text.is_empty() && code == Some(4) && error.contains(words), "{sql}: {error}");
    }
    assert_eq!(ask("SELECT count(*) AS n FROM fleet.launch").0, ask("SELECT count(*) AS n FROM launch").0);
    let counted = ask("SELECT count(*) AS n FROM launch").0.lines().nth(1).unwrap().to_owned();
    let tables = ask(".tables").0;
    let row = |name: &str| {
        let rows = tables.lines().map(|line| line.split_whitespace().take(3).collect::<Vec<_>>());
        rows.filter(|row| row.first() == Some(&name)).flatten().skip(1).collect::<Vec<_>>().join(" ")
    };
    assert_eq!((row("launch"), row("fleet")), (format!("{counted} -"), "3 -".to_owned()), "{tables}");
    assert!(ask(".views").0.lines().any(|line| line.starts_with("fleet") && line.contains(" trend_point ")));
    let doc = ask(".doc trend_point").0;
    assert!(
        doc.starts_with("trend_point (view of sql/fleet)") && doc.contains("Its label `commit`."),
        "{doc}"
    );
    let doc = ask(".doc kernel_cost").0;
    assert!(doc.contains("All its labels as text") && doc.contains("(view of sql/views/"), "{doc}");
    let views = ask("CREATE VIEW hot AS SELECT capture FROM launch;\n.schema hot").0;
    assert!(views.contains("capture"), "{views}");
    // In one capture, they are pointed to.
    let (_, error, _) = run(&place, &["sql", "runs/blame.stallmap", "-c", "SELECT * FROM trend"]);
    assert!(error.contains("hint: `trend` is over many captures: stallmap sql --over FOLDER"), "{error}");
    let (_, error, code) = run(&place, &["info", "runs/blame.stallmap", "trend_point"]);
    assert!(code == Some(2) && error.contains("hint: `trend_point` is over many captures"), "{error}");
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
    assert_eq!(run(&place, &["label", name]), (String::new(), "no labels\n".to_owned(), Some(0)));
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

/// The output of a command with a cache and with variables, which must succeed.
fn run_with(place: &CommandFolder, arguments: &[&str], variables: &[(&str, &str)]) -> (String, String) {
    let output = command(&place.path(".")).args(arguments).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    let (text, error) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{error}");
    (text, error)
}

#[test]
fn the_catalog_is_a_cache_of_what_captures_hold() {
    let place = place();
    let cache = place.path("cache");
    let ask = || {
        let sql = "SELECT capture, gpu, bytes, skipped IS NULL AS is_read FROM fleet";
        let arguments = ["sql", "--over", "runs", "--format", "csv", "-c", sql];
        run_with(&place, &arguments, &[("STALLMAP_CACHE", cache.to_str().unwrap())]).0
    };
    let first = ask();
    assert!(first.contains("nightly/time.stallmap,NVIDIA H100 80GB HBM3,"), "{first}");
    // Other bytes with the same size and time: only the catalog knows the answer.
    let path = place.path("runs/blame.stallmap");
    let metadata = path.metadata().unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    let bytes = vec![7; usize::try_from(metadata.len()).unwrap()];
    (&file).write_all(&bytes).unwrap();
    file.set_modified(metadata.modified().unwrap()).unwrap();
    assert_eq!(ask(), first);
    // A capture that changed is read again, and so are all without the file.
    file.set_modified(metadata.modified().unwrap() + std::time::Duration::from_secs(1)).unwrap();
    assert!(ask().contains("blame.stallmap,,0,false"));
    fs::remove_dir_all(cache.join("fleets")).unwrap();
    assert!(ask().contains("blame.stallmap,,0,false"));
}

#[test]
fn captures_without_the_tables_or_the_functions_of_a_query_stay_closed() {
    let place = place();
    let opened = |sql: &str| {
        let plan = rows(&place, &format!("EXPLAIN {sql}"));
        plan.split("captures=").nth(1).unwrap_or("0").chars().next().unwrap().to_digit(10).unwrap()
    };
    // No capture holds experiments, and one holds no samples.
    let has_samples = "SELECT count(DISTINCT capture) AS n FROM pc_sample";
    let held: u32 = rows(&place, has_samples).lines().nth(1).unwrap().parse().unwrap();
    assert_eq!(opened("SELECT * FROM pc_sample"), held);
    assert_eq!(opened("SELECT * FROM redirect_launch"), 0);
    let function =
        rows(&place, "SELECT function_id FROM kernel_cost WHERE capture = 'blame.stallmap' LIMIT 1");
    let function = function.lines().nth(1).unwrap();
    for sql in [
        format!("SELECT samples FROM kernel_cost WHERE function_id = {function}"),
        format!("SELECT count(*) AS n FROM launch WHERE function_id IN ({function}, 7)"),
        "SELECT sum(samples) AS n FROM kernel_cost WHERE kernel LIKE 'shared_chain%'".to_owned(),
    ] {
        let alone = run(&place, &["sql", "runs/blame.stallmap", "--format", "csv", "-c", &sql]);
        assert_eq!(rows(&place, &sql), alone.0, "{sql}");
        assert!(opened(&sql) <= 1, "{sql}");
    }
    // Rows without a kernel are of any capture.
    assert_eq!(opened("SELECT * FROM launch WHERE function_id IS NULL"), 3);
}

#[test]
fn a_prefix_of_a_bucket_is_a_fleet() {
    let place = place();
    let mut objects = BTreeMap::from([("runs/notes.txt".to_owned(), b"x".to_vec())]);
    for name in ["blame.stallmap", "nightly/views.stallmap", "nightly/time.stallmap"] {
        objects.insert(format!("runs/{name}"), fs::read(place.path("runs").join(name)).unwrap());
    }
    objects.insert("other/blame.stallmap".to_owned(), objects["runs/blame.stallmap"].clone());
    let server = ObjectServer::start_bucket(objects);
    let (root, cache) = (server.root(), place.path("cache"));
    let variables = [("AWS_ENDPOINT_URL", root.as_str()), ("STALLMAP_CACHE", cache.to_str().unwrap())];
    for sql in [
        "SELECT capture, sum(samples) AS samples FROM pc_sample GROUP BY 1 ORDER BY 1",
        "SELECT capture, gpu, rank, host FROM fleet ORDER BY 1",
        "SELECT capture, kernel, samples FROM kernel_cost ORDER BY 1, 2, 3",
    ] {
        let arguments = ["sql", "--over", "s3://bucket/runs", "--format", "csv", "-c", sql];
        let (remote, message) = run_with(&place, &arguments, &variables);
        assert_eq!(remote, rows(&place, sql), "{message}");
        assert!(message.contains("lists and captures"), "{message}");
    }
    // With the catalog, captures that are not asked for cost no request.
    let before = server.requests();
    let sql = "SELECT count(*) AS n FROM launch WHERE capture = 'blame.stallmap'";
    let arguments = ["sql", "--over", "s3://bucket/runs/", "--format", "csv", "-c", sql];
    run_with(&place, &arguments, &variables);
    let first = server.requests() - before;
    run_with(&place, &arguments, &variables);
    let second = server.requests() - before - first;
    let heads = server.heads();
    assert!(second < first && second <= 4, "{first} then {second} requests");
    assert!(heads.iter().rev().take(second).all(|head| !head.contains("nightly")), "{heads:?}");
}

/// The statements of the book for DuckDB, over exported rows.
#[test]
fn other_engines_give_the_same_answers() {
    let python = std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or_else(|| "python3".into());
    let has_engine = Command::new(&python).args(["-c", "import duckdb"]).output();
    if !has_engine.is_ok_and(|output| output.status.success()) {
        let line = b"skipped 1 test: no DuckDB: set STALLMAP_TEST_PYTHON to a Python that has it\n";
        // Past the test harness, which hides the output of tests that pass.
        std::io::stderr().write_all(line).unwrap();
        return;
    }
    let place = CommandFolder::new();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/ask-elsewhere");
    let output = Command::new(&python)
        .arg(script)
        .arg(place.path("asked"))
        .args(["--stallmap", env!("CARGO_BIN_EXE_stallmap"), "--require", "duckdb"])
        .env("STALLMAP_CACHE", "off")
        .output()
        .unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.starts_with("4 questions: duckdb"), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
}
