//! The decoder against nvdisasm's output for stallmap's test code: `testdata/decode/sm_*.txt`, which
//! `scripts/check-decoder --update-sample` writes.

#![expect(clippy::expect_used, reason = "a broken sample fails the test")]

use std::fs;
use std::path::Path;

use stallmap_sass::decode;
use stallmap_sass::register::{File, Registers};
use stallmap_sass::word::{Sm, Word};

#[test]
fn every_instruction_of_the_sample_is_as_nvdisasm_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/decode");
    let mut compared = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let Some(sm) = name.strip_prefix("sm_").and_then(|number| number.parse().ok()) else { continue };
        for line in fs::read_to_string(&path).unwrap().lines().filter(|line| !line.starts_with('#')) {
            compared += 1;
            wrong
                .extend(difference(line, Sm(sm)).map(|difference| format!("{name}: {difference}\n  {line}")));
        }
    }
    assert!(compared > 3000, "only {compared} instructions in the sample");
    assert!(wrong.is_empty(), "{} of {compared} differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// Difference between the decoder and a line of the sample. `None` if equal.
fn difference(line: &str, sm: Sm) -> Option<String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [word, name, guard, writes, reads, ..] = fields[..] else {
        return Some("not a line of a sample".to_owned());
    };
    let word = Word(u128::from_str_radix(word, 16).expect("bits"));
    let ours = decode(word, sm);
    let guard_of_ours = ours.guard.map_or_else(|| "-".to_owned(), |guard| guard.to_string());
    [
        ("name", ours.mnemonic.unwrap_or("-").to_owned(), name.to_owned()),
        ("guard", guard_of_ours, guard.to_owned()),
        ("writes", one_by_one(&ours.writes), writes.to_owned()),
        ("reads", one_by_one(&ours.reads), reads.to_owned()),
    ]
    .into_iter()
    .find(|(_, ours, theirs)| ours != theirs)
    .map(|(what, ours, theirs)| format!("{what} {ours}, not {theirs}"))
}

/// Registers as the sample lists them. nvdisasm omits convergence registers.
fn one_by_one(set: &Registers) -> String {
    let names: Vec<String> = set
        .iter()
        .filter(|register| register.file != File::Convergence)
        .map(|register| register.to_string())
        .collect();
    if names.is_empty() { "-".to_owned() } else { names.join(" ") }
}
