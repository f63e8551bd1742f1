//! Line tables against nvdisasm's output: `scripts/check-lines --update` writes both.

#![expect(clippy::unwrap_used, reason = "committed files can be read")]

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use stallmap_sass::cubin::Cubin;
use stallmap_sass::line::LineTable;

fn cubins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/cubins")
}

fn read(name: &str) -> (Cubin, LineTable) {
    let bytes = fs::read(cubins().join(name)).unwrap();
    let cubin = Cubin::read(&bytes).unwrap();
    let lines = LineTable::read(&bytes, &cubin).unwrap();
    (cubin, lines)
}

#[track_caller]
fn check(name: &str) {
    let (cubin, lines) = read(name);
    assert_eq!(lines.damage, Vec::<String>::new());
    let expected = fs::read_to_string(cubins().join(name).with_extension("lines")).unwrap();
    assert!(expected.lines().any(|line| line.matches("nested.cu:").count() == 3));
    let mut changes: Vec<String> = changes_of_line(&cubin, &lines).lines().map(str::to_owned).collect();
    let mut expected: Vec<String> = expected.lines().map(str::to_owned).collect();
    changes.sort();
    expected.sort();
    assert_eq!(changes, expected);
}

/// A line for every change: section, offset, lines with the innermost first.
fn changes_of_line(cubin: &Cubin, lines: &LineTable) -> String {
    let mut text = String::new();
    for (index, section) in cubin.sections.iter().enumerate() {
        let mut shown = None;
        for offset in (0..u32::try_from(section.bytes.len()).unwrap()).step_by(16) {
            let frames = lines
                .frames(index, offset)
                .fold(String::new(), |frames, frame| format!("{frames} {}:{}", frame.file, frame.line));
            // nvdisasm does not print the end of lines.
            if !frames.is_empty() && shown.as_ref() != Some(&frames) {
                writeln!(text, "{} {offset:#06x}{frames}", section.name).unwrap();
                shown = Some(frames);
            }
        }
    }
    text
}

#[test]
fn lines_of_the_older_flavour_are_those_of_nvdisasm() {
    check("nested.sm_80.abi7.cubin");
}

#[test]
fn lines_of_the_newer_flavour_are_those_of_nvdisasm() {
    check("nested.sm_90.abi8.cubin");
}

#[test]
fn lines_of_blackwell_are_those_of_nvdisasm() {
    check("nested.sm_100.abi8.cubin");
}

#[test]
fn inlined_functions_have_their_names() {
    let (cubin, lines) = read("nested.sm_90.abi8.cubin");
    let section = cubin.sections.iter().position(|section| section.name.contains("nested")).unwrap();
    let frames = (0..0x400).step_by(16).map(|offset| lines.frames(section, offset).collect::<Vec<_>>());
    let deepest = frames.max_by_key(Vec::len).unwrap();
    let functions: Vec<_> = deepest.iter().map(|frame| frame.function).collect();
    assert_eq!(
        functions,
        [
            Some("float sum<float, 2>(float const*, int)"),
            Some("Pair<float> both<float>(float const*, int)"),
            None
        ]
    );
}

#[test]
fn the_compilers_own_functions_have_no_lines() {
    let (cubin, lines) = read("nested.sm_90.abi8.cubin");
    let section = cubin.sections.iter().position(|section| section.name.contains("nested")).unwrap();
    let functions = &cubin.sections[section].functions;
    let division = functions.iter().find(|function| function.name.starts_with("$__internal_0_$")).unwrap();
    assert_eq!(lines.frames(section, division.offset).count(), 0);
    let before = lines.frames(section, division.offset - 16).next().unwrap();
    assert_eq!((before.file, before.line), ("/src/nested.cu", 27));
}

#[test]
fn without_lines_nothing_is_claimed() {
    let bytes = fs::read(cubins().join("nested.sm_90.abi8.cubin")).unwrap();
    let cubin = Cubin::read(&bytes).unwrap();
    let renamed = replaced(&bytes, b".debug_line\0", b".debug_lime\0");
    let lines = LineTable::read(&renamed, &cubin).unwrap();
    assert!(lines.is_empty() && lines.damage.is_empty());
    assert_eq!(lines.frames(0, 0).count(), 0);
}

#[test]
fn a_damaged_line_table_is_named_and_the_code_is_read() {
    let bytes = fs::read(cubins().join("nested.sm_90.abi8.cubin")).unwrap();
    // The version of the line program, between its length and the numbers that every program begins with.
    let mut damaged = bytes.clone();
    let program = bytes.windows(9).position(|window| window[..2] == [2, 0] && window[6..] == [1, 1, 0xfb]);
    damaged[program.unwrap()] = 0x77;
    let cubin = Cubin::read(&damaged).unwrap();
    assert_eq!(cubin.damage, Vec::<String>::new());
    let lines = LineTable::read(&damaged, &cubin).unwrap();
    assert!(lines.damage[0].starts_with("line table at 0x0: "), "{:?}", lines.damage);
    assert!(lines.is_empty());
}

fn position(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

fn replaced(bytes: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    while let Some(at) = position(&bytes, old) {
        bytes[at..at + old.len()].copy_from_slice(new);
    }
    bytes
}
