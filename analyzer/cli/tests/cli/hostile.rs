//! Untrusted captures and interrupted outputs: the text that a user sees, and the files that stay.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::Address;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::memory::{DeviceAllocation, MemoryAccess};
use stallmap_schema::tables::tensor::{Op, Storage, Tensor};
use stallmap_schema::text::steers;
use stallmap_write::{CaptureForm, CaptureWriter};

use crate::command::{CommandFolder, CommandRun, command};
use crate::serving::{ENDLESS, RECURSIVE, doubled};

/// Characters that a terminal obeys: a title, hidden text, the other direction, C1, a return.
const STEERING: &str = "\x1b]0;title\x07\x1b[8m\u{202e}gnp\u{2066}\u{9b}2J\rX\x7f";

#[track_caller]
fn steers_nothing(ran: &CommandRun, what: &str) {
    for text in [&ran.stdout, &ran.stderr] {
        let found = text.chars().find(|char| steers(*char) && !matches!(char, '\n' | '\t'));
        assert_eq!(found, None, "{what}: {text:?}");
    }
}

/// The small capture with the rows of one table changed.
fn changed<R: TableRow>(place: &CommandFolder, name: &str, change: impl FnOnce(&mut Vec<R>)) {
    let reader = CaptureReader::open(&place.path("tiny.stallmap")).unwrap();
    let mut writer = CaptureWriter::create(&place.path(name), CaptureForm::File).unwrap();
    for table in reader.tables().iter().filter(|table| table.name != R::TABLE.name) {
        writer.take_table(&reader, table).unwrap();
    }
    for file in &reader.manifest().files {
        writer.add_file(&file.path, &reader.entry(&file.path).unwrap()).unwrap();
    }
    let mut rows = reader.read_rows::<R>().unwrap();
    change(&mut rows);
    writer.append_rows(rows).unwrap();
    writer.finish().unwrap();
}

/// The small capture as a folder with another manifest.
fn with_manifest(place: &CommandFolder, change: impl FnOnce(&mut serde_json::Value)) {
    place.run(&["unpack", "tiny.stallmap", "folder"]).expect_ok();
    let path = place.path("folder/manifest.json");
    let mut manifest = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut manifest);
    fs::write(path, manifest.to_string()).unwrap();
}

#[test]
fn a_damaged_page_is_an_error_of_its_table() {
    let place = CommandFolder::new();
    place.run(&["unpack", "tiny.stallmap", "folder"]).expect_ok();
    let path = place.path("folder/tables/memory_access.parquet");
    let sound = fs::read(&path).unwrap();
    let mut errors = 0;
    for at in (4..sound.len() / 2).step_by(sound.len() / 60) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x55;
        fs::write(&path, damaged).unwrap();
        let ran = place.run(&["sql", "folder", "-c", "SELECT * FROM memory_access"]);
        if ran.code != Some(0) {
            assert!(ran.expect_error(3).stderr.contains("table `memory_access` "), "{at}: {}", ran.stderr);
            errors += 1;
        }
    }
    assert!(errors > 10, "{errors}");
    // A condition that the scan computes is no damage.
    let ran = place.run(&[
        "sql",
        "tiny.stallmap",
        "-c",
        "SELECT * FROM memory_access WHERE 1 / (address - address) > 0",
    ]);
    assert!(ran.expect_error(4).stderr.contains("division by zero"), "{}", ran.stderr);
}

/// No program has memory there, and a fault or a damaged capture can name it.
#[test]
fn addresses_of_more_than_63_bits_are_no_error() {
    let place = CommandFolder::new();
    let faults = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sanitize/torch.stallmap");
    fs::copy(faults, place.path("tiny.stallmap")).unwrap();
    let wild = Address(u64::MAX - 7);
    changed::<MemoryAccess>(&place, "access.stallmap", |rows| rows[0].address = wild);
    changed::<Storage>(&place, "storage.stallmap", |rows| rows[0].address = wild);
    changed::<DeviceAllocation>(&place, "allocation.stallmap", |rows| rows[0].address = wild);
    changed::<Tensor>(&place, "tensor.stallmap", |rows| rows[0].address = wild);
    for name in ["access", "storage", "allocation", "tensor"] {
        let name = format!("{name}.stallmap");
        for arguments in [&[&*name][..], &["top", "findings", &name], &["report", &name]] {
            place.run(arguments).expect_ok();
        }
    }
}

#[test]
fn a_result_beyond_a_bound_is_refused() {
    let place = CommandFolder::new();
    let run = |sql: &str| place.run(&["sql", "tiny.stallmap", "--format", "csv", "-c", sql]);
    for call in [
        "repeat('x', 1000000000)",
        "repeat(name, 1000000000)",
        "lpad('x', 1000000000)",
        "rpad(name, 1000000000)",
        "replace(repeat('a', 1000000), 'a', repeat('b', 1000000))",
        "array_repeat('x', 1000000000)",
        "list_repeat(1, 1000000000)",
        "array_resize([1], 1000000000)",
        "range(1, 1000000000)",
        "generate_series(1, 1000000000)",
        "concat(repeat('x', 90000000), repeat(name, 20000000))",
        "concat_ws(repeat('x', 90000000), name, repeat('y', 90000000), repeat('z', 90000000))",
        "regexp_replace(repeat('a', 1000000), 'a', repeat(name, 1000), 'g')",
        "array_to_string(range(1, 1000000), repeat(name, 1000))",
        "make_array(repeat('x', 90000000), repeat('y', 90000000), repeat(name, 20000000))",
    ] {
        let ran = run(&format!("SELECT {call} FROM op"));
        let text = &ran.expect_error(4).stderr;
        assert!(text.contains(" makes more than 256 MiB at once: "), "{call}: {text}");
    }
    // Rows add up, and results within the bound are those of all rows.
    let ran = run("SELECT sum(length(concat(t, t, value))) FROM \
         (SELECT value, repeat('x', 20000) AS t FROM generate_series(1, 10000))");
    assert!(ran.expect_error(4).stderr.contains(" makes more than 256 MiB at once: "), "{}", ran.stderr);
    let ran = run("SELECT sum(length(concat(t, value))), count(DISTINCT concat(t, value)) FROM \
                   (SELECT value, repeat('x', 8000) AS t FROM generate_series(1, 9000))");
    assert_eq!(ran.expect_ok().stdout.lines().nth(1).unwrap(), "72034893,9000");
    let calls = "repeat('x', 3), lpad('x', 3), replace('aba', 'a', 'cc'), range(3), array_repeat(1, 2)";
    let ran = run(&format!("SELECT {calls}"));
    let row = ran.expect_ok().stdout.lines().nth(1).unwrap().to_owned();
    assert_eq!(row, r#"xxx,  x,ccbcc,"[0, 1, 2]","[1, 1]""#);
}

#[test]
fn a_statement_ends_at_its_time_and_leaves_no_file() {
    let place = CommandFolder::new();
    for sql in [ENDLESS, RECURSIVE, &doubled()] {
        let begin = Instant::now();
        let ran = place.run(&["sql", "tiny.stallmap", "--timeout", "1", "-o", "out.csv", "-c", sql]);
        let text = &ran.expect_error(4).stderr;
        assert!(text.contains("the statement ran longer than 1 s") && text.contains("--timeout"), "{text}");
        assert!(begin.elapsed() < Duration::from_secs(10), "{sql}");
    }
    let left = fs::read_dir(place.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    let left: Vec<_> = left.filter(|name| name.to_string_lossy().contains("out.csv")).collect();
    assert!(left.is_empty(), "{left:?}");
    let ran =
        place.run(&["sql", "tiny.stallmap", "--timeout", "60", "--format", "csv", "-c", "SELECT 1 AS n"]);
    assert_eq!(ran.expect_ok().stdout, "n\n1\n");
}

#[test]
fn names_of_a_capture_do_not_steer() {
    let place = CommandFolder::new();
    changed::<Op>(&place, "bad.stallmap", |rows| {
        for row in rows {
            row.name = format!("{}{STEERING}", row.name);
            row.module_path = Some(STEERING.to_owned());
        }
    });
    let commands: [&[&str]; 8] = [
        &["report"],
        &["top", "tensors"],
        &["tree", "--by", "op,module"],
        &["forest"],
        &["info"],
        &["check"],
        &["diff", "tiny.stallmap"],
        &["sql", "-c", "SELECT name, CAST(name AS INT) FROM op"],
    ];
    for words in commands {
        let arguments: Vec<&str> =
            words[..1].iter().chain(&["bad.stallmap"]).chain(&words[1..]).copied().collect();
        let ran = place.run(&arguments);
        assert!(!ran.stdout.is_empty() || !ran.stderr.is_empty());
        steers_nothing(&ran, words[0]);
    }
    let shown = place.run(&["sql", "bad.stallmap", "-c", &format!("SELECT 1 AS \"{STEERING}\"")]);
    steers_nothing(shown.expect_ok(), "the name of a column");
}

#[test]
fn data_for_programs_is_exact() {
    let place = CommandFolder::new();
    changed::<Op>(&place, "bad.stallmap", |rows| rows[0].name = STEERING.replace('\r', ""));
    let sql = ["sql", "bad.stallmap", "-c", "SELECT name FROM op ORDER BY op_id LIMIT 1", "--format", "csv"];
    let ran = place.run(&sql);
    assert_eq!(ran.expect_ok().stdout, format!("name\n{}\n", STEERING.replace('\r', "")));
}

#[test]
fn a_name_of_a_file_begins_no_line() {
    let place = CommandFolder::new();
    let name = "a\nother.stallmap: ok\n.stallmap";
    fs::copy(place.path("tiny.stallmap"), place.path(name)).unwrap();
    let bad = "b\nother.stallmap: ok\n.stallmap";
    place.file(bad, "text");
    let folder = place.path("c\nother.stallmap: ok\n");
    fs::create_dir(&folder).unwrap();
    for arguments in [
        &["check", name, bad][..],
        &["check", "--library", folder.to_str().unwrap()],
        &["info", name],
        &["id", name],
        &["id", name, "tiny.stallmap"],
        &["report", name],
        &["report", name, "--html", "d\nother.stallmap: ok\n.html"],
        &["top", "tensors", name],
        &["tree", name],
        &["why", name, "1"],
        &["diff", name, "tiny.stallmap"],
        &["diff", name, "tiny.stallmap", "--format", "markdown"],
        &["sql", name, "-c", "SELECT 1"],
        &["pack", name, "e\nother.stallmap: ok\n.stallmap"],
        &["redact", name, "f\nother.stallmap: ok\n.stallmap"],
        &["unpack", name, "g\nother.stallmap: ok\n"],
        &[name],
        &[bad],
    ] {
        let ran = place.run(arguments);
        let mut lines = ran.stdout.lines().chain(ran.stderr.lines());
        assert!(
            !lines.any(|line| line.starts_with("other.stallmap: ok")),
            "{arguments:?}: {}{}",
            ran.stdout,
            ran.stderr
        );
    }
    let ran = place.run(&["check", name]);
    assert_eq!(ran.expect_ok().stdout, "a␊other.stallmap: ok␊.stallmap: ok\n");
}

#[test]
fn a_manifest_does_not_steer() {
    let place = CommandFolder::new();
    with_manifest(&place, |manifest| {
        for field in ["writer", "hash_algorithm", "capture_id"] {
            manifest[field] = STEERING.into();
        }
    });
    for arguments in [&["info", "folder"][..], &["id", "folder"], &["check", "folder"]] {
        steers_nothing(&place.run(arguments), arguments[0]);
    }
    let newer = CommandFolder::new();
    with_manifest(&newer, |manifest| {
        manifest["format"]["major"] = 9.into();
        manifest["writer"] = STEERING.into();
    });
    for command in ["info", "id", "check", "report", "redact"] {
        let output: &[&str] = if command == "redact" { &["out"] } else { &[] };
        let ran = newer.run(&[&[command, "folder"], output].concat());
        steers_nothing(ran.expect_error(3), command);
    }
}

#[test]
fn a_damaged_table_is_named_with_its_row_and_bound() {
    let place = CommandFolder::new();
    changed::<Tensor>(&place, "bad.stallmap", |rows| rows[2].strides = vec![1; 1_000]);
    let expected = "row 2 of `tensor`: `strides` has 1000 values, and the bound is 64";
    for arguments in [
        &["report", "bad.stallmap"][..],
        &["sql", "bad.stallmap", "-c", "SELECT strides FROM tensor"],
        &["sql", "bad.stallmap", "-c", "SELECT strides AS other, range(0, tensor_id) FROM tensor"],
    ] {
        let ran = place.run(arguments);
        assert!(ran.expect_error(3).stderr.contains(expected), "{}", ran.stderr);
    }
    let ran = place.run(&["check", "bad.stallmap"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains(expected), "{}", ran.stdout);
}

#[test]
fn what_a_statement_computes_has_no_bound_of_a_table() {
    let place = CommandFolder::new();
    changed::<Tensor>(&place, "good.stallmap", |_| {});
    for (columns, expected) in [
        ("*, unnest(range(0, 100000)) AS value", 99_999),
        ("*, length(repeat('x', 100000 + run_id)) AS value", 100_001),
        ("repeat('x', 100000 + run_id), CAST(run_id AS INT) AS value", 1),
        ("range(0, 100000 + run_id), CAST(run_id AS INT) AS value", 1),
        ("run_id * 1e308 * 1e308, CAST(run_id AS INT) AS value", 1),
    ] {
        let sql = format!("SELECT max(value) AS n FROM (SELECT {columns} FROM run) WHERE value < 1000000");
        let ran = place.run(&["sql", "good.stallmap", "--json", "-c", &sql]);
        let rows: serde_json::Value = serde_json::from_str(&ran.expect_ok().stdout).unwrap();
        assert!(rows[0]["n"].as_u64() >= Some(expected), "{sql}: {rows}");
    }
    let sql = "SELECT *, repeat('x', 70000) AS text, run_id * 1e308 * 1e308 AS far FROM run";
    place.run(&["sql", "good.stallmap", "--json", "-c", sql]).expect_ok();
}

#[test]
fn repeated_keys_are_refused_before_a_query() {
    let place = CommandFolder::new();
    changed::<Tensor>(&place, "bad.stallmap", |rows| {
        let row = rows[0].clone();
        rows.splice(0..0, vec![row; 300]);
    });
    let ran = place.run(&["report", "bad.stallmap"]);
    let expected =
        "error: table `tensor` cannot be read: two rows of table `tensor` have one key (tensor_id)";
    assert!(ran.expect_error(3).stderr.starts_with(expected), "{}", ran.stderr);
}

#[test]
fn no_output_takes_the_place_of_a_capture() {
    let place = CommandFolder::new();
    let before = fs::read(place.path("tiny.stallmap")).unwrap();
    let commands: [&[&str]; 4] = [
        &["report", "tiny.stallmap", "--html", "tiny.stallmap"],
        &["forest", "tiny.stallmap", "--svg", "tiny.stallmap"],
        &["source", "tiny.stallmap", "--html", "tiny.stallmap"],
        &["sql", "tiny.stallmap", "-c", "SELECT 1", "--format", "csv", "-o", "tiny.stallmap"],
    ];
    for command in commands {
        let ran = place.run(command);
        assert!(ran.expect_error(5).stderr.contains("is a capture"), "{}", ran.stderr);
        assert_eq!(fs::read(place.path("tiny.stallmap")).unwrap(), before, "{command:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_interrupted_command_leaves_nothing() {
    let place = CommandFolder::new();
    for signal in ["INT", "TERM"] {
        let sql = "SELECT a.value FROM generate_series(1, 1000000000) a";
        let mut child = command(&place.path("."))
            .args(["sql", "tiny.stallmap", "-c", sql, "-o", "rows.csv"])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let unfinished = place.path(&format!("rows.csv.{}.unfinished", child.id()));
        let started = Instant::now();
        while !unfinished.exists() {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            assert!(started.elapsed() < Duration::from_mins(1), "it never began to write");
            std::thread::sleep(Duration::from_millis(10));
        }
        let killed = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status();
        assert!(killed.unwrap().success());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "a signal ended it");
        assert!(!unfinished.exists() && !place.path("rows.csv").exists(), "after {signal}");
    }
}

#[test]
fn a_long_table_is_drawn_part_by_part() {
    let place = CommandFolder::new();
    let sql = "SELECT value, repeat('x', 200) AS text FROM generate_series(1, 250000)";
    let ran = place.run(&["sql", "tiny.stallmap", "-c", sql]);
    let text = &ran.expect_ok().stdout;
    assert_eq!(text.lines().filter(|line| line.contains("xxx")).count(), 250_000);
    assert!((2..10).contains(&text.lines().filter(|line| line.contains("text")).count()));
}

#[test]
fn an_expression_that_is_nested_too_deep_is_refused() {
    let place = CommandFolder::new();
    let ran = place.run(&["sql", "tiny.stallmap", "-c", &format!("SELECT {}1", "1+".repeat(30_000))]);
    let text = &ran.expect_error(4).stderr;
    assert!(text.contains("more than 2000 others within each other"), "{text}");
}
