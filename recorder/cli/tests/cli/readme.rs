//! The README's reference equals the command's help: `UPDATE=1 cargo test -p stallmap-record` writes it.

use std::path::Path;
use std::{env, fs};

use stallmap_sys::locate::Part;

use super::run::Place;

#[test]
fn the_readme_holds_the_help() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let text = fs::read_to_string(&path).unwrap();
    let expected = with_help(&text, "<!-- help:", &["-h"]);
    let expected = with_help(&expected, "<!-- help of replay:", &["replay", "-h"]);
    if env::var_os("UPDATE").is_some() {
        fs::write(&path, &expected).unwrap();
    }
    assert_eq!(fs::read_to_string(&path).unwrap(), expected, "run `UPDATE=1 cargo test -p stallmap-record`");
    for part in [Part::Driver, Part::Sanitizer, Part::Cupti, Part::Nvrtc, Part::Nvcc] {
        assert!(expected.contains(part.variable()), "{} is not explained", part.variable());
    }
}

/// The text with a command's output in the block behind a mark.
fn with_help(text: &str, mark: &str, words: &[&str]) -> String {
    let (before, rest) = text.split_once(mark).unwrap();
    let (comment, rest) = rest.split_once("```text\n").unwrap();
    let (_, after) = rest.split_once("```\n<!-- end -->").unwrap();
    let output = Place::new().command(words).output().unwrap();
    let help: Vec<&str> = str::from_utf8(&output.stdout).unwrap().lines().map(str::trim_end).collect();
    format!("{before}{mark}{comment}```text\n{}\n```\n<!-- end -->{after}", help.join("\n"))
}
