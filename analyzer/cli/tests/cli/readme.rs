//! The README shows the output of commands: `UPDATE=1 cargo test -p stallmap --test cli -- readme` writes it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::command::command;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Start of a block with a command and its output.
const BEGIN: &str = "```text\n$ stallmap ";

#[test]
fn the_readme_shows_what_commands_print() {
    let path = Path::new(ROOT).join("README.md");
    let page = fs::read_to_string(&path).unwrap();
    let mut parts = page.split(BEGIN);
    let mut written = parts.next().unwrap().to_owned();
    let mut shown = 0;
    for part in parts {
        let (block, rest) = part.split_once("\n```\n").unwrap();
        let arguments = block.lines().next().unwrap();
        write!(written, "{BEGIN}{arguments}\n{}\n```\n{rest}", printed(arguments)).unwrap();
        shown += 1;
    }
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &written).unwrap();
    }
    assert!(shown >= 4, "the page shows commands with their output");
    assert!(
        written == page || std::env::var_os("UPDATE").is_some(),
        "README.md is stale; `UPDATE=1 cargo test -p stallmap-cli --test cli -- readme` writes it"
    );
}

/// Output of a command in the root of the project.
fn printed(arguments: &str) -> String {
    let output = command(Path::new(ROOT)).args(arguments.split(' ')).output().unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
