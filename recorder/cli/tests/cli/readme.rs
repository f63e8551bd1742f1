//! The reference page equals the help: `UPDATE=1 cargo test -p stallmap-record` writes it.

use std::path::Path;
use std::{env, fs};

use stallmap_sys::locate::NvidiaPart;

use super::run::TestFolder;

#[test]
fn the_reference_holds_the_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/stallmap-record.md");
    let text = fs::read_to_string(&path).unwrap();
    let mut expected = with_help(&text, "<!-- help:", &["-h"]);
    for name in ["recover", "merge", "replay", "doctor"] {
        expected = with_help(&expected, &format!("<!-- help of {name}:"), &[name, "-h"]);
    }
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "run `UPDATE=1 cargo test -p stallmap-record`");
    for part in
        [NvidiaPart::Driver, NvidiaPart::Sanitizer, NvidiaPart::Cupti, NvidiaPart::Nvrtc, NvidiaPart::Nvcc]
    {
        assert!(expected.contains(part.variable()), "{} is not explained", part.variable());
    }
}

/// The text with what a command says in the block behind a mark.
fn with_help(text: &str, mark: &str, words: &[&str]) -> String {
    let (before, rest) = text.split_once(mark).unwrap();
    let (comment, rest) = rest.split_once("```text\n").unwrap();
    let (_, after) = rest.split_once("```\n<!-- end -->").unwrap();
    let output = TestFolder::new().command(words).output().unwrap();
    let help: Vec<&str> = str::from_utf8(&output.stdout).unwrap().lines().map(str::trim_end).collect();
    format!("{before}{mark}{comment}```text\n{}\n```\n<!-- end -->{after}", help.join("\n"))
}
