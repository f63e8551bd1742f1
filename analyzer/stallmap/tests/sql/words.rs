//! Words of the workspace: its prose keeps to the field's terms, in code, queries, documents and scripts.
//!
//! A banned pattern matches nowhere. A falling pattern has a recorded number of matches, which no change may raise.
//! Lower the number when matches go. Patterns ignore case. This file is the only one that they do not apply to.

use std::fs;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};

/// Patterns without any match.
const BANNED: [&str; 14] = [
    r"without a word",
    r"95 of 100",
    r"several times for several|with commas for several",
    r"\b(it|that|which|what|input|output) (is|was) no (file|name|number|part|table|terminal|text|unit|view|whole)\b",
    r"\bof ours\b|\bour own\b",
    r"\bfor ever\b|\bin vain\b|\banew\b",
    r"sectors a request",
    r"\bmet most\b|\bas far as\b",
    r"\b1 (launches|names|others|samples)\b",
    r"(?m)^\s*(///|//!|--) (What|Whether|Where|Who|How|Of|Those) .*$",
    r"\b(nobody|somebody|a person|strangers?)\b",
    r"\bbeside\b",
    r"\b(delivered|summed up|the others)\b",
    r"\b(by|than|what) chance\b",
];

/// Patterns with the number of their matches, which may only fall.
const FALLING: [(&str, usize); 4] = [
    (r"\b(born|birth|bears?|bore)\b", 1),
    (r"\b(told|said|tells?|hears?)\b", 16),
    (r"\b(kept|made of|at most|so that)\b", 1),
    (r"[a-z]; [a-z]", 118),
];

/// Text that a pattern may match, as (end of the path, text, reason).
const EXCEPTIONS: [(&str, &str, &str); 2] = [
    ("redact/words.rs", "\"nobody\"", "the name of a user on every Linux system"),
    ("scripts/wheel_backend.py", "; extra ==", "a condition in the metadata of a Python package"),
];

/// Endings of the files that are read.
const EXTENSIONS: [&str; 6] = ["rs", "sql", "md", "py", "js", "html"];

/// Folders that hold no text of the workspace.
const SKIPPED_FOLDERS: [&str; 5] = [".git", ".venv", "__pycache__", "node_modules", "target"];

/// End of the path that is not read: this file.
const SKIPPED_FILE: &str = "sql/words.rs";

/// The workspace's folder: that of its lock file.
fn root() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().find(|folder| folder.join("Cargo.lock").exists());
    root.expect("a workspace has a lock file").to_owned()
}

/// Adds the files below a folder, with their text less the exceptions.
fn read(folder: &Path, texts: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && !SKIPPED_FOLDERS.contains(&name) {
            read(&path, texts);
        }
        let is_read = path.extension().is_some_and(|end| EXTENSIONS.iter().any(|wanted| end == *wanted));
        if !is_read || !path.is_file() || path.ends_with(SKIPPED_FILE) {
            continue;
        }
        let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
        let exceptions = EXCEPTIONS.iter().filter(|(end, ..)| path.ends_with(end));
        let text = exceptions.fold(text, |text, (_, allowed, _)| text.replace(allowed, ""));
        texts.push((path, text));
    }
}

fn compile(pattern: &str) -> Regex {
    RegexBuilder::new(pattern).case_insensitive(true).build().unwrap()
}

#[test]
fn prose_keeps_to_the_words_of_the_field() {
    let mut texts = Vec::new();
    read(&root(), &mut texts);
    texts.sort();
    let mut wrong = Vec::new();
    for pattern in BANNED {
        let regex = compile(pattern);
        for (path, text) in &texts {
            wrong.extend(regex.find_iter(text).map(|found| {
                let line = text.get(..found.start()).map_or(0, |before| before.matches('\n').count()) + 1;
                format!("{}:{line}: `{}` is banned by `{pattern}`", path.display(), found.as_str())
            }));
        }
    }
    for (pattern, recorded) in FALLING {
        let regex = compile(pattern);
        let count: usize = texts.iter().map(|(_, text)| regex.find_iter(text).count()).sum();
        if count > recorded {
            wrong.push(format!(
                "`{pattern}` matches {count} times, up from {recorded}: reword the new matches"
            ));
        } else if count < recorded {
            wrong.push(format!("`{pattern}` matches {count} times: lower the number in the test to {count}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
