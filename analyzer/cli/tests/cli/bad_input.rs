//! Input that is wrong: each gives a clear error, its exit code, and never a panic.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bytes::Bytes;
use stallmap::tables::captured::CapturedTable;
use stallmap_schema::capture::source::EntryBytes;

use crate::command::{CommandFolder, command};
use crate::serving::{DOUBLING, too_large};

/// Every command that opens a capture reports the same error for a bad one.
#[track_caller]
fn check(place: &CommandFolder, name: &str, snapshot: &str) {
    let ran = place.run(&["report", name]);
    ran.expect_error(3).check(snapshot);
    place.run(&["info", name]).expect_error(3);
    place.run(&["check", name]).expect_error(3);
    place.run(&["sql", name, "-c", "SELECT 1"]).expect_error(3);
}

/// The small capture as a folder whose files can be changed.
fn unpacked(place: &CommandFolder) -> PathBuf {
    assert_eq!(place.run(&["unpack", "tiny.stallmap", "folder"]).code, Some(0));
    place.path("folder")
}

#[test]
fn no_such_file() {
    check(&CommandFolder::new(), "missing.stallmap", "bad_no_such_file");
}

#[test]
fn empty_file() {
    let place = CommandFolder::new();
    place.file("bad.stallmap", "");
    check(&place, "bad.stallmap", "bad_empty_file");
}

#[test]
fn random_bytes() {
    let place = CommandFolder::new();
    let bytes: Vec<u8> = (0..4096_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    place.file("bad.stallmap", bytes);
    check(&place, "bad.stallmap", "bad_random_bytes");
}

#[test]
fn foreign_zip() {
    let place = CommandFolder::new();
    let mut zip = b"PK\x05\x06".to_vec();
    zip.extend([0; 18]);
    place.file("bad.stallmap", zip);
    check(&place, "bad.stallmap", "bad_foreign_zip");
}

#[test]
fn truncated_file() {
    let place = CommandFolder::new();
    let bytes = fs::read(place.path("tiny.stallmap")).unwrap();
    place.file("bad.stallmap", &bytes[..bytes.len() / 2]);
    check(&place, "bad.stallmap", "bad_truncated_file");
}

#[test]
fn newer_format() {
    let place = CommandFolder::new();
    let manifest = unpacked(&place).join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let newer = text.replacen("\"major\": 2", "\"major\": 3", 1).replacen("0.1.0", "9.9.9", 1);
    assert_ne!(text, newer);
    fs::write(manifest, newer).unwrap();
    check(&place, "folder", "bad_newer_format");
}

#[test]
fn missing_table_file() {
    let place = CommandFolder::new();
    fs::remove_file(unpacked(&place).join("tables/launch.parquet")).unwrap();
    check(&place, "folder", "bad_missing_table_file");
}

/// A folder with nothing but this manifest of tables.
fn manifest_only(place: &CommandFolder, tables: &str) {
    fs::create_dir(place.path("folder")).unwrap();
    let head = r#""format":{"major":2,"minor":0},"writer":"0.1.0","hash_algorithm":"x","created_ns":0,"capture_id":"""#;
    place.file("folder/manifest.json", format!("{{{head},\"tables\":[{tables}],\"files\":[]}}"));
}

#[test]
fn names_that_leave_the_capture() {
    let place = CommandFolder::new();
    manifest_only(&place, r#"{"name":"../../secret","rows":1,"bytes":1,"blake3":""}"#);
    check(&place, "folder", "bad_name");
}

#[test]
fn a_capture_without_tables_opens_and_says_so() {
    let place = CommandFolder::new();
    manifest_only(&place, "");
    let check = place.run(&["check", "folder"]);
    assert_eq!(check.code, Some(1), "{}", check.stderr);
    assert!(check.stdout.contains("table `run` is missing"), "{}", check.stdout);
    let report = place.run(&["report", "folder"]);
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    assert!(report.stdout.contains("! missing table"), "{}", report.stdout);
    assert!(report.stdout.contains("there are no stalls"), "{}", report.stdout);
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk() {
    let place = CommandFolder::new();
    let ran = place.run(&["sql", "tiny.stallmap", "-c", "SELECT * FROM launch", "-o", "/dev/full"]);
    ran.expect_error(5).check("bad_full_disk");
}

/// Runs a command that finds the disk full: a limit of the size of files is one.
#[cfg(target_os = "linux")]
#[track_caller]
fn on_a_full_disk(place: &CommandFolder, words: &[&str]) {
    let blocks = if words[0] == "export" { "1" } else { "64" };
    let script = format!("trap '' XFSZ && ulimit -f {blocks} && exec \"$0\" \"$@\"");
    let ran = std::process::Command::new("sh")
        .args(["-c", &script, env!("CARGO_BIN_EXE_stallmap")])
        .args(words)
        .current_dir(place.path(""))
        .env("STALLMAP_CACHE", "off")
        .output()
        .unwrap();
    let error = String::from_utf8(ran.stderr).unwrap();
    assert_eq!(ran.status.code(), Some(5), "{words:?}: {error}");
    assert!(error.contains("File too large"), "{words:?}: {error}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_no_half_of_a_folder() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("empty")).unwrap();
    for format in ["tenprof", "parquet"] {
        on_a_full_disk(&place, &["export", format, "tiny.stallmap", "new"]);
        on_a_full_disk(&place, &["export", format, "tiny.stallmap", "empty"]);
        assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 2, "{format} leaves a folder");
        assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 0, "{format} leaves files");
    }
    place.run(&["export", "tenprof", "tiny.stallmap", "empty"]).expect_ok();
    assert_eq!(fs::read_dir(place.path("empty")).unwrap().count(), 4);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_leaves_the_old_rows() {
    let place = CommandFolder::new();
    let sql = "SELECT value, value * 12345 AS product FROM generate_series(1, 200000)";
    for name in ["rows.csv", "rows.json", "rows.jsonl", "rows.parquet"] {
        place.file(name, "old");
        on_a_full_disk(&place, &["sql", "tiny.stallmap", "-c", sql, "-o", name]);
        assert_eq!(fs::read(place.path(name)).unwrap(), b"old", "{name}");
    }
    assert_eq!(fs::read_dir(place.path("")).unwrap().count(), 5, "no temporary file is left");
}

#[test]
fn folder_that_is_no_capture() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("folder")).unwrap();
    check(&place, "folder", "bad_folder");
}

#[test]
fn unfinished_recording() {
    let place = CommandFolder::new();
    fs::create_dir(place.path("x.stallmap.partial")).unwrap();
    place.file("x.stallmap.partial/recording.json", "{}");
    check(&place, "x.stallmap.partial", "bad_unfinished_recording");
}

#[cfg(unix)]
#[test]
fn no_permission() {
    use std::os::unix::fs::PermissionsExt;

    let place = CommandFolder::new();
    let path = place.path("tiny.stallmap");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o0)).unwrap();
    // Nothing is forbidden to root.
    if fs::File::open(&path).is_err() {
        check(&place, "tiny.stallmap", "bad_no_permission");
    }
}

#[test]
fn damage_is_a_violation_or_an_error_and_never_a_panic() {
    let place = CommandFolder::new();
    let bytes = fs::read(place.path("tiny.stallmap")).unwrap();
    for step in 0..16 {
        let mut damaged = bytes.clone();
        let at = bytes.len() / 16 * step + 40;
        damaged[at..at + 24].iter_mut().for_each(|byte| *byte ^= 0x5a);
        place.file("bad.stallmap", damaged);
        let select = "SELECT count(*) FROM memory_access, pc_sample, tensor, op, launch_run";
        for arguments in [&["check", "bad.stallmap"][..], &["sql", "bad.stallmap", "-c", select]] {
            let ran = place.run(arguments);
            assert!(!ran.stderr.contains("panicked"), "{at}: {}", ran.stderr);
            assert!(matches!(ran.code, Some(0 | 1 | 3 | 4)), "{at}: {:?} {}", ran.code, ran.stderr);
        }
    }
}

/// Bytes of a table whose reader panics: its schema has an integer of an odd number of bits.
fn panicking(table: &[u8]) -> Vec<u8> {
    let opens = |bytes: &[u8]| {
        let bytes = EntryBytes::from(Bytes::from(bytes.to_vec()));
        CapturedTable::open("module", None, bytes).err().map(|error| error.to_string())
    };
    let key = b"ARROW:schema";
    let begin = table.windows(key.len()).position(|bytes| bytes == key).unwrap() + key.len();
    let mut damaged = table.to_vec();
    for at in begin..table.len() {
        for byte in [b'E', b'R'] {
            damaged[at] = byte;
            if opens(&damaged).is_some_and(|error| error.contains("its reader gave up")) {
                return damaged;
            }
        }
        damaged[at] = table[at];
    }
    panic!("no damage makes the reader panic");
}

#[test]
fn a_panic_of_a_reader_is_an_error_even_for_developers() {
    let place = CommandFolder::new();
    let folder = unpacked(&place);
    let path = folder.join("tables/module.parquet");
    fs::write(&path, panicking(&fs::read(&path).unwrap())).unwrap();
    let output =
        command(&place.path(".")).env("RUST_BACKTRACE", "1").arg("info").arg(&folder).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.starts_with("error: table `module` cannot be read: its reader gave up: "), "{text}");
    assert!(!text.contains("panicked") && text.lines().count() == 2, "{text}");
}

#[test]
fn cut_files_are_errors_and_never_panics() {
    let place = CommandFolder::new();
    let bytes = fs::read(place.path("tiny.stallmap")).unwrap();
    for step in 0..16 {
        place.file("bad.stallmap", &bytes[..bytes.len() * step / 16]);
        place.run(&["check", "bad.stallmap"]).expect_error(3);
    }
}

#[test]
fn one_bad_capture_does_not_keep_others_from_being_checked() {
    let place = CommandFolder::new();
    place.file("bad.stallmap", "bad");
    let ran = place.run(&["check", "bad.stallmap", "tiny.stallmap"]);
    assert_eq!(ran.code, Some(3));
    assert!(ran.stdout.contains("tiny.stallmap: ok"), "{}", ran.stdout);
}

#[test]
fn a_statement_that_is_too_large_is_refused() {
    let place = CommandFolder::new();
    for (sql, part) in too_large() {
        let path = place.file("large.sql", sql);
        let ran = place.run(&["sql", "tiny.stallmap", "-f", path.to_str().unwrap()]);
        assert!(ran.expect_error(4).stderr.contains(part), "{}", ran.stderr);
    }
    // Views in views.
    let next = |at| format!("CREATE VIEW v{} AS SELECT x.n FROM v{at} x, v{at} y;", at + 1);
    let views = ["CREATE VIEW v0 AS SELECT 1 n;".to_owned()].into_iter().chain((0..24).map(next));
    let ran = place.run(&["sql", "tiny.stallmap", "-c", &views.collect::<Vec<_>>().concat()]);
    assert!(ran.expect_error(4).stderr.contains("relations or more"), "{}", ran.stderr);
}

#[test]
fn a_text_that_doubles_is_an_error_where_memory_is_short() {
    let place = CommandFolder::new();
    for memory in [&[][..], &["--memory", "1G"]] {
        let (code, text) = with_few_addresses(&place, DOUBLING, memory);
        assert_eq!(code, Some(4), "{text}");
        assert!(text.contains("`||` makes more than 256 MiB at once"), "{text}");
    }
}

/// The exit code and the errors of a statement, with 6 GB of addresses.
fn with_few_addresses(place: &CommandFolder, sql: &str, memory: &[&str]) -> (Option<i32>, String) {
    let mut limited = Command::new("sh");
    limited.args(["-c", "ulimit -v 6291456; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_stallmap")]);
    limited.args(["sql", "tiny.stallmap", "-c", sql]).args(memory);
    let output = limited.current_dir(place.path(".")).env("STALLMAP_CACHE", "off").output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Rows that DataFusion makes without a reservation: of lists, of constants, of windows, and of tables.
#[test]
fn rows_that_nothing_reserves_are_an_error_where_memory_is_short() {
    const MANY: &str = "(SELECT unnest(range(0, 50000)) AS r)";
    let place = CommandFolder::new();
    for sql in [
        format!("SELECT sum(y) FROM (SELECT unnest(range(0, 1000000)) AS y FROM {MANY})"),
        format!("SELECT max(length(x)) FROM (SELECT repeat('x', 4000000) AS x, r FROM {MANY}) GROUP BY r"),
        format!("SELECT max(array_length(a)) FROM (SELECT array_agg(r) OVER (ORDER BY r) AS a FROM {MANY})"),
        format!(
            "SELECT max(length(a)) FROM (SELECT string_agg(r::text, '') OVER (ORDER BY r) AS a FROM {MANY})"
        ),
        format!("CREATE TABLE t AS SELECT a.r, b.r AS s FROM {MANY} a, {MANY} b"),
    ] {
        let (code, text) = with_few_addresses(&place, &sql, &["--memory", "512M"]);
        assert_eq!(code, Some(4), "{sql}: {text}");
        let is_named = text.contains("needs more memory") || text.contains("makes more than 256 MiB at once");
        assert!(is_named, "{sql}: {text}");
    }
    let (code, text) =
        with_few_addresses(&place, "SELECT sum(y) FROM (SELECT unnest(range(0, 1000000)) AS y)", &[]);
    assert_eq!(code, Some(0), "{text}");
}

#[test]
fn deep_statements_do_not_exhaust_the_stack() {
    let place = CommandFolder::new();
    place.file("sum.sql", format!("SELECT {} AS n", vec!["1"; 2000].join("+")));
    let sum = place.run(&["sql", "tiny.stallmap", "--format", "csv", "-f", "sum.sql"]);
    assert_eq!((sum.code, sum.stdout.as_str()), (Some(0), "n\n2000\n"), "{}", sum.stderr);
    place.file("nested.sql", format!("SELECT {}1{}", "(".repeat(3000), ")".repeat(3000)));
    place.run(&["sql", "tiny.stallmap", "-f", "nested.sql"]).expect_error(4);
}

#[test]
fn a_query_beyond_the_memory_limit_names_the_option() {
    let place = CommandFolder::new();
    let sql = "SELECT count(*) FROM (SELECT DISTINCT a.value, b.value FROM generate_series(1, 2000) a, \
        generate_series(1, 2000) b)";
    let ran = place.run(&["sql", "tiny.stallmap", "--memory", "1M", "-c", sql]);
    ran.expect_error(4);
    assert!(ran.stderr.contains("more memory than --memory allows"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: select fewer launches"), "{}", ran.stderr);
    place.run(&["report", "tiny.stallmap", "--memory", "lots"]).expect_error(2);
}

#[test]
fn sorts_that_share_little_memory_spill() {
    let sql = "SELECT count(*) AS n FROM (SELECT value, row_number() OVER \
        (PARTITION BY value % 1000 ORDER BY value DESC) AS place FROM generate_series(1, 3000000)) WHERE place = 1";
    let two = "SET datafusion.execution.target_partitions = 2";
    let memory = ["--memory", "90M", "--format", "csv"];
    let ran =
        CommandFolder::new().run(&[&["sql", "tiny.stallmap"], &memory[..], &["-c", two, "-c", sql]].concat());
    assert!(ran.stdout.ends_with("1000\n"), "{}", ran.stderr);
}

#[test]
fn a_query_that_puts_batches_aside_ends() {
    let place = CommandFolder::new();
    // Two tasks of a repartition write files that one task reads. Their order differs from run to run.
    let sql = "SELECT count(*) FROM (SELECT DISTINCT repeat(CAST(value AS VARCHAR), 40) AS x, \
        array_agg(repeat('x', 1000)) FROM generate_series(1, 400000) GROUP BY x)";
    for _ in 0..6 {
        place.run(&["sql", "tiny.stallmap", "--memory", "64M", "-c", sql]).expect_error(4);
    }
}
