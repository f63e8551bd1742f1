//! A user's own views and queries: used in addition to the built-in ones, with the same rules.

use std::fs;
use std::path::Path;

use crate::command::{CommandFolder, CommandRun};

const STEADY: &str = "\
-- One kernel that was launched more than once.
CREATE VIEW steady (
  -- Its name.
  kernel,
  -- Number of launches.
  launch_count
) AS
SELECT k.kernel, k.launch_count FROM kernel_cost k
WHERE k.launch_count > 1
";

/// Reads `steady`, which follows by name.
const COUNTED: &str = "\
-- The number of such kernels.
CREATE VIEW counted (
  -- The count.
  kernels
) AS
SELECT count(*) FROM steady
";

const SLOW: &str = "\
-- Which kernels cost most?
-- Samples of all launches.
-- $top = 1: how many are shown
-- $name: a pattern of LIKE
SELECT kernel, samples FROM kernel_cost WHERE kernel LIKE $name ORDER BY samples DESC, kernel LIMIT $top
";

impl CommandFolder {
    /// A folder `my` with these files.
    fn library(&self, files: &[(&str, &str)]) {
        for (name, text) in files {
            let path = self.path("my").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }
}

fn place() -> CommandFolder {
    let place = CommandFolder::new();
    place.library(&[
        ("steady.sql", STEADY),
        ("deep/counted.sql", COUNTED),
        ("slow.sql", SLOW),
        ("notes.txt", "x"),
    ]);
    place
}

#[track_caller]
fn answer(ran: &CommandRun, expected: &str) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), expected), "{}", ran.stderr);
}

#[test]
fn views_and_queries_are_used_beside_ours() {
    let place = place();
    let sql = ["sql", "tiny.stallmap", "--library", "my", "--format", "csv"];
    answer(&place.run(&[&sql[..], &["-c", "SELECT kernels FROM counted"]].concat()), "kernels\n1\n");
    let slow = place.run(&[&sql[..], &["--query", "slow", "--set", "name=%"]].concat());
    assert_eq!(slow.stdout.lines().count(), 2, "{}{}", slow.stdout, slow.stderr);
    let slow = place.run(&[&sql[..], &["--query", "slow", "--set", "name=%", "--set", "top=2"]].concat());
    assert_eq!(slow.stdout.lines().count(), 3, "{}{}", slow.stdout, slow.stderr);
    place.run(&[&sql[..], &["--query", "slwo"]].concat()).expect_error(2).check("library_unknown_query");
    place.run(&[&sql[..], &["--query", "slow"]].concat()).expect_error(2).check("library_missing_value");
    place.run(&["info", "tiny.stallmap", "counted", "--library", "my"]).check("library_info_view");
    for command in ["report", "info", "source"] {
        let ran = place.run(&[command, "tiny.stallmap", "--library", "my"]);
        assert_eq!(ran.code, Some(0), "{command}: {}", ran.stderr);
    }
}

#[test]
fn the_shell_knows_them() {
    let place = place();
    let input = ".queries\n.run slow name=% top=2\n.sql counted\n";
    place.run_with_input(&["sql", "tiny.stallmap", "--library", "my"], input).check("library_shell");
    let none = place.run_with_input(&["sql", "tiny.stallmap"], ".queries\n");
    assert!(none.stdout.contains("no saved queries"), "{}", none.stdout);
}

#[test]
fn a_library_is_checked_without_a_capture() {
    let place = place();
    answer(&place.run(&["check", "--library", "my"]), "my: ok, 2 views, 1 queries\n");
    answer(
        &place.run(&["check", "--library", "my", "tiny.stallmap"]),
        "my: ok, 2 views, 1 queries\ntiny.stallmap: ok\n",
    );
    place.run(&["check"]).expect_error(2).check("check_nothing");
    place.run(&["check", "--library", "yours"]).expect_error(5).check("library_no_folder");
}

#[test]
fn what_breaks_a_rule_is_named_with_its_line() {
    let place = place();
    place.library(&[
        ("bare.sql", "CREATE VIEW bare (\n  -- One.\n  a\n) AS\nSELECT 1\n"),
        ("blank.sql", "-- Nothing.\n"),
        ("circle.sql", "-- One row.\nCREATE VIEW circle (\n  -- One.\n  a\n) AS\nSELECT a FROM round\n"),
        ("round.sql", "-- One row.\nCREATE VIEW round (\n  -- One.\n  a\n) AS\nSELECT a FROM circle\n"),
        ("deep/slow.sql", "-- The name again.\nSELECT 1\n"),
        ("Name.sql", "-- One.\nSELECT 1\n"),
        ("kernel_cost.sql", "-- Ours.\nCREATE VIEW kernel_cost (\n  -- One.\n  a\n) AS\nSELECT 1\n"),
        ("launch.sql", "-- Ours.\nCREATE VIEW launch (\n  -- One.\n  a\n) AS\nSELECT 1\n"),
        (
            "misspelt.sql",
            "-- One row.\nCREATE VIEW misspelt (\n  -- One.\n  a\n) AS\nSELECT kernal FROM kernel_cost\n",
        ),
        ("follows.sql", "-- One row.\nCREATE VIEW follows (\n  -- One.\n  a\n) AS\nSELECT a FROM misspelt\n"),
        ("other.sql", "-- One row.\nCREATE VIEW another (\n  -- One.\n  a\n) AS\nSELECT 1\n"),
        ("sorted.sql", "-- One row.\nCREATE VIEW sorted (\n  -- One.\n  a\n) AS\nSELECT 1\nORDER BY 1\n"),
        ("limited.sql", "-- One row.\nCREATE VIEW limited (\n  -- One.\n  a\n) AS\nSELECT 1\nLIMIT 1\n"),
        ("syntax.sql", "-- Question?\nSELECT\nFROM WHERE\n"),
        ("two.sql", "-- Question?\nSELECT 1;\nSELECT 2\n"),
        ("uncommented.sql", "-- One row.\nCREATE VIEW uncommented (\n  a\n) AS\nSELECT 1\n"),
        ("unset.sql", "-- Question?\nSELECT\n  $x\n"),
        ("writes.sql", "-- Question?\nDROP VIEW kernel_cost\n"),
    ]);
    fs::write(place.path("my/binary.sql"), [0xff, 0xfe, 0]).unwrap();
    fs::write(place.path("my/large.sql"), "-".repeat((1 << 20) + 1)).unwrap();
    let check = place.run(&["check", "--library", "my"]);
    assert_eq!(check.code, Some(1), "{}", check.stderr);
    check.check("library_faults");
    let asked = place.run(&["sql", "tiny.stallmap", "--library", "my", "-c", "SELECT 1"]);
    asked.expect_error(4).check("library_fault");
}

#[cfg(unix)]
#[test]
fn links_lead_in_no_circles() {
    let place = place();
    std::os::unix::fs::symlink(place.path("my"), place.path("my/again")).unwrap();
    std::os::unix::fs::symlink("nowhere", place.path("my/lost.sql")).unwrap();
    std::os::unix::fs::symlink(Path::new("/dev/zero"), place.path("my/zero.sql")).unwrap();
    let ran = place.run(&["check", "--library", "my"]);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    assert!(ran.stdout.contains("my/lost.sql:1: the file cannot be read"), "{}", ran.stdout);
    assert!(ran.stdout.contains("my/zero.sql:1: not a file"), "{}", ran.stdout);
    assert!(ran.stdout.starts_with("my: 2 violations\n"), "{}", ran.stdout);
}

#[test]
fn the_environment_names_a_library_too() {
    let place = place();
    let ran = crate::command::command(&place.path("."))
        .args(["sql", "tiny.stallmap", "--format", "csv", "-c", "SELECT kernels FROM counted"])
        .env("STALLMAP_LIBRARY", "my")
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&ran.stdout), "kernels\n1\n");
}
