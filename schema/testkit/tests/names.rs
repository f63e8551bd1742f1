//! Names of types say their domain noun, and a type's name is unique in the workspace. The counts here may only fall.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Names of types that several files define.
const SHARED_TYPE_NAMES: usize = 0;
/// Names of types that are one word. These are rows of tables, such as `Launch` and `Tensor`, and nouns of the field, such as
/// `Cubin`, `Mbarrier` and `Register`.
const ONE_WORD_TYPE_NAMES: usize = 33;
/// Constants that state an upper bound by another prefix than `MAX_`.
const OTHER_UPPER_BOUNDS: usize = 0;

/// The text of each Rust file of the workspace, by its path.
fn sources() -> BTreeMap<PathBuf, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let mut folders: Vec<PathBuf> = ["schema", "recorder", "analyzer"].map(|part| root.join(part)).into();
    let mut files = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                files.insert(path.strip_prefix(&root).unwrap().to_owned(), text);
            }
        }
    }
    files
}

/// The name that a line defines a type by: a struct, an enum, a union, a trait or an alias.
fn defined_type(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    if let Some(public) = rest.strip_prefix("pub") {
        rest = public
            .strip_prefix('(')
            .map_or(public, |scope| scope.split_once(')').map_or("", |(_, rest)| rest));
        rest = rest.trim_start();
    }
    rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let keywords = ["struct ", "enum ", "union ", "trait ", "type "];
    let name = keywords.iter().find_map(|keyword| rest.strip_prefix(keyword))?;
    let name = name.split(|character: char| !character.is_alphanumeric() && character != '_').next()?;
    name.starts_with(|first: char| first.is_ascii_uppercase()).then_some(name)
}

/// The type of a table's rows that a line declares, as `Launch "launch" key [launch_id]` does.
fn declared_row(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_start().split_once(" \"")?;
    (rest.contains("\" key [") && name.chars().all(char::is_alphanumeric)).then_some(name)
}

/// True for the definition of an associated type: it stands in a trait or an implementation.
fn is_associated(lines: &[&str], number: usize) -> bool {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let depth = indent(lines[number]);
    if depth == 0 || !lines[number].trim_start().starts_with("type ") {
        return false;
    }
    let outer = lines[..number].iter().rev().find(|line| !line.trim().is_empty() && indent(line) < depth);
    !outer.is_some_and(|line| line.contains("mod ") || line.contains("fn "))
}

/// The files that define each name of a type.
fn types() -> BTreeMap<String, BTreeSet<PathBuf>> {
    let mut types: BTreeMap<String, BTreeSet<PathBuf>> = BTreeMap::new();
    for (path, text) in sources() {
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let defined = defined_type(line).filter(|_| !is_associated(&lines, number));
            if let Some(name) = defined.or_else(|| declared_row(line)) {
                types.entry(name.to_owned()).or_default().insert(path.clone());
            }
        }
    }
    types
}

#[test]
fn a_types_name_is_unique_in_the_workspace() {
    let mut types = types();
    assert!(types.len() > 1_000, "the workspace was not found");
    types.retain(|_, files| files.len() > 1);
    assert_eq!(
        types.len(),
        SHARED_TYPE_NAMES,
        "rename, or lower the count. Several files define: {types:#?}"
    );
}

#[test]
fn few_types_names_are_one_word() {
    let mut types = types();
    types.retain(|name, _| !name.chars().skip(1).any(char::is_uppercase));
    let count = types.len();
    assert_eq!(count, ONE_WORD_TYPE_NAMES, "rename, or lower the count. One word each: {types:#?}");
}

#[test]
fn an_upper_bounds_name_begins_with_max() {
    let prefix = concat!("const MO", "ST_");
    let lines = |text: &str| text.lines().filter(|line| line.contains(prefix)).count();
    let count: usize = sources().values().map(|text| lines(text)).sum();
    assert_eq!(count, OTHER_UPPER_BOUNDS, "constants of upper bounds are named MAX_");
}

#[test]
fn definitions_of_types_are_recognized() {
    assert_eq!(defined_type("pub(crate) struct RingSlot<'a> {"), Some("RingSlot"));
    assert_eq!(defined_type("pub unsafe trait DeviceCopy: Sized {}"), Some("DeviceCopy"));
    assert_eq!(defined_type("type Sums = u64;"), Some("Sums"));
    assert_eq!(defined_type("/// The type Sums"), None);
    assert_eq!(defined_type("    let type_name = 1;"), None);
    assert_eq!(declared_row("    Launch \"launch\" key [launch_id] sort [] {"), Some("Launch"));
    let lines = ["impl Iterator for Walk {", "    type Item = u64;", "mod tests {", "    type Point = u64;"];
    assert!(is_associated(&lines, 1));
    assert!(!is_associated(&lines, 3));
}
