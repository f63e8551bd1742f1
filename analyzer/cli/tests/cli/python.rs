//! The Python package asks `stallmap serve`. The tests of the package are Python's own: `python/tests`.
//!
//! The Python is `STALLMAP_TEST_PYTHON`, or else `python3`. Tests that need a package it lacks are skipped and counted.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

use crate::command::{CommandFolder, KEPT_RESULTS, command};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The Python of tests, free of the developer's environment.
pub(crate) fn python() -> Command {
    let mut command = Command::new(std::env::var_os("STALLMAP_TEST_PYTHON").unwrap_or("python3".into()));
    command
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .env("STALLMAP_CACHE", &*KEPT_RESULTS)
        .env_remove("PYTHONPATH");
    command.env("STALLMAP_PROGRAM", env!("CARGO_BIN_EXE_stallmap"));
    command
}

/// Prints a line that `scripts/test` counts. Not by println, whose output the test runner hides.
pub(crate) fn skipped(count: usize, why: &str) {
    let line = format!("skipped {count} tests: {why}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

#[test]
fn the_packages_own_tests_pass() {
    let mut command = python();
    let tests = root().join("python/tests");
    command.args(["-W", "error::ResourceWarning", "-m", "unittest", "discover", "-s"]).arg(&tests);
    let Ok(Output { status, stderr, .. }) = command.output() else { return skipped(1, "no Python") };
    let text = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{text}");
    let last = text.lines().last().unwrap_or_default();
    let count = last.split("skipped=").nth(1).map_or("0", |rest| rest.trim_end_matches(')'));
    if count != "0" {
        skipped(
            count.parse().unwrap(),
            "the Python of STALLMAP_TEST_PYTHON lacks packages: scripts/requirements.txt",
        );
    }
    let ran = text.lines().find_map(|line| line.strip_prefix("Ran ")?.split(' ').next()).unwrap();
    assert!(ran.parse::<usize>().unwrap() > 30, "{text}");
}

/// The frames of an output: letters with their bytes.
fn frames(mut bytes: &[u8]) -> Vec<(char, Vec<u8>)> {
    let mut frames = Vec::new();
    while !bytes.is_empty() {
        let (mut head, mut content) = ([0; 5], Vec::new());
        bytes.read_exact(&mut head).unwrap();
        let count = u32::from_le_bytes([head[1], head[2], head[3], head[4]]);
        assert_eq!(bytes.take(count.into()).read_to_end(&mut content).unwrap(), count as usize);
        bytes = &bytes[count as usize..];
        frames.push((char::from(head[0]), content));
    }
    frames
}

fn framed(request: &Value) -> Vec<u8> {
    let text = request.to_string().into_bytes();
    [&u32::try_from(text.len()).unwrap().to_le_bytes()[..], &text].concat()
}

/// The frames and the exit code of `stallmap serve` for an input.
fn serve(place: &CommandFolder, capture: &str, input: &[u8]) -> (Vec<(char, Vec<u8>)>, Option<i32>) {
    let mut child = command(&place.path(""))
        .args(["serve", "--stdio", capture])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // It may have left before it read everything.
    drop(child.stdin.take().unwrap().write_all(input));
    let output = child.wait_with_output().unwrap();
    (frames(&output.stdout), output.status.code())
}

fn letters(frames: &[(char, Vec<u8>)]) -> String {
    frames.iter().map(|(letter, _)| *letter).collect()
}

#[test]
fn every_request_is_answered_until_the_input_ends() {
    let place = CommandFolder::new();
    let requests = [
        json!({ "sql": "SELECT 1 AS one" }),
        json!({ "sql": "SELECT nothing" }),
        json!({ "section": "kernels", "top": 2 }),
        json!({ "section": "colors" }),
        json!({ "diff": ["--metric", "colors"] }),
        json!({ "unknown": 1 }),
        json!([]),
        json!({ "sql": "SELECT * FROM run" }),
    ];
    let input: Vec<u8> = requests.iter().flat_map(framed).collect();
    let (frames, code) = serve(&place, "tiny.stallmap", &input);
    assert_eq!((letters(&frames).as_str(), code), ("HADESADEEEEAD", Some(0)));
    let hello: Value = serde_json::from_slice(&frames[0].1).unwrap();
    assert_eq!((&hello["protocol"], &hello["version"]), (&json!(1), &json!(env!("CARGO_PKG_VERSION"))));
    let done: Value = serde_json::from_slice(&frames[2].1).unwrap();
    assert_eq!(done, json!({ "rows": 1, "absence": null }));
    let error: Value = serde_json::from_slice(&frames[3].1).unwrap();
    assert_eq!((&error["code"], error["excerpt"].as_str().unwrap().contains('^')), (&json!(4), true));
}

#[test]
fn a_capture_that_cannot_be_opened_is_one_frame_and_the_exit_code() {
    let (frames, code) =
        serve(&CommandFolder::new(), "gone.stallmap", &framed(&json!({ "sql": "SELECT 1" })));
    assert_eq!((letters(&frames).as_str(), code), ("E", Some(3)));
}

#[test]
fn a_damaged_request_ends_the_process() {
    let place = CommandFolder::new();
    for damaged in [&b"\xff\xff\xff\xff"[..], b"\x02\0\0\0{]", b"\x09\0\0\0{}", b"\x01"] {
        let (frames, code) = serve(&place, "tiny.stallmap", damaged);
        assert_eq!((letters(&frames).as_str(), code), ("H", Some(5)), "{damaged:?}");
    }
}
