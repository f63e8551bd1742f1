//! README.md and the pages of the book show what commands print: `UPDATE=1 cargo test -p stallmap --test cli -- readme`
//! writes it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::command::KEPT_RESULTS;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Begin of a block with a command and its output.
const BEGIN: &str = "```text\n$ stallmap ";

#[test]
fn pages_show_what_commands_print() {
    let mut pages = vec![Path::new(ROOT).join("README.md")];
    add_pages(&Path::new(ROOT).join("docs/src"), &mut pages);
    let mut shown = 0;
    let mut stale = Vec::new();
    for path in pages {
        let page = fs::read_to_string(&path).unwrap();
        shown += page.matches(BEGIN).count();
        let written = with_output(&page);
        if written == page {
            continue;
        }
        if env::var_os("UPDATE").is_some() {
            fs::write(&path, &written).unwrap();
        } else {
            stale.push(path.display().to_string());
        }
    }
    assert!(shown >= 4, "the pages show commands with their output");
    let update = "`UPDATE=1 cargo test -p stallmap --test cli -- readme` writes it";
    assert!(stale.is_empty(), "stale: {}; {update}", stale.join(", "));
}

/// Adds the Markdown files below a folder, in the order of their names.
pub(crate) fn add_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            add_pages(&entry, pages);
        } else if entry.extension().is_some_and(|extension| extension == "md") {
            pages.push(entry);
        }
    }
}

/// A page with the present output of each command that it shows.
fn with_output(page: &str) -> String {
    let mut parts = page.split(BEGIN);
    let mut written = parts.next().unwrap().to_owned();
    for part in parts {
        let (block, rest) = part.split_once("\n```\n").unwrap();
        let arguments = block.lines().next().unwrap();
        write!(written, "{BEGIN}{arguments}\n{}\n```\n{rest}", printed(arguments)).unwrap();
    }
    written
}

/// The output of a command in the root of the project. A shell splits the arguments, which may be quoted.
fn printed(arguments: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_stallmap")).parent().unwrap();
    let path = env::var("PATH").unwrap_or_default();
    let output = Command::new("sh")
        .args(["-c", &format!("stallmap {arguments}")])
        .current_dir(ROOT)
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("STALLMAP_CACHE", &*KEPT_RESULTS)
        .env_remove("COLUMNS")
        .env_remove("NO_COLOR")
        .env_remove("STALLMAP_LIBRARY")
        .output()
        .unwrap();
    assert!(output.status.success(), "{arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
}
