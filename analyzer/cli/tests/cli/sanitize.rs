//! Wrong accesses: the first screen, the section of the report, and the accesses of a block.

use std::fs;
use std::path::Path;

use crate::command::{CommandFolder, CommandRun};

const TESTDATA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata");
const TORCH: &str = "torch.stallmap";

/// Runs a command in a folder with the capture, which hides the paths of this machine.
fn run(arguments: &[&str]) -> CommandRun {
    let place = CommandFolder::new();
    fs::copy(Path::new(TESTDATA).join("sanitize").join(TORCH), place.path(TORCH)).unwrap();
    place.run(arguments)
}

macro_rules! snapshot {
    ($name:ident, $arguments:expr) => {
        #[test]
        fn $name() {
            run(&$arguments).check(stringify!($name));
        }
    };
}

snapshot!(help_block, ["block", "--help"]);
snapshot!(wrong_screen, [TORCH]);
snapshot!(wrong_section, ["report", TORCH, "--section", "wrong"]);
snapshot!(block, ["block", TORCH, "5", "1"]);
snapshot!(block_csv, ["block", TORCH, "5", "1", "--warp", "0", "--format", "csv"]);
snapshot!(block_unknown_warp, ["block", TORCH, "5", "1", "--warp", "99"]);
snapshot!(block_unknown, ["block", TORCH, "5", "10000"]);

/// The screen has room for few findings. Its first sentence names every kind that may make results wrong.
#[test]
fn the_verdict_names_every_kind_of_wrong_access() {
    let place = CommandFolder::new();
    let name = "wrong.stallmap";
    fs::copy(Path::new(TESTDATA).join("sanitize").join(name), place.path(name)).unwrap();
    let sql =
        "SELECT DISTINCT replace(finding, '_', ' ') FROM finding WHERE found_by = 'finding_wrong_access'";
    let kinds = place.run(&["sql", name, "--format", "csv", "-c", sql]);
    let kinds: Vec<&str> = kinds.expect_ok().stdout.lines().skip(1).collect();
    assert_eq!(kinds.len(), 6, "{kinds:?}");
    let json: serde_json::Value =
        serde_json::from_str(&place.run(&[name, "--json"]).expect_ok().stdout).unwrap();
    let sentence = json["verdict"].as_str().unwrap();
    assert!(kinds.iter().all(|kind| sentence.contains(kind)), "{kinds:?}: {sentence}");
    assert_eq!(json["findings"].as_array().unwrap().len(), 3);
}

#[test]
fn a_block_without_accesses_has_a_reason() {
    let place = CommandFolder::new();
    let name = "sampled_blocks.stallmap";
    fs::copy(Path::new(TESTDATA).join("sanitize").join(name), place.path(name)).unwrap();
    // The capture has every second block of launch 0.
    let ran = place.run(&["block", name, "0", "5"]);
    let reason = "the capture has accesses of 256 of the 512 blocks, the closest is block 4";
    assert!(ran.expect_ok().stdout.contains(reason), "{}", ran.stdout);
    let ran = place.run(&["block", name, "6", "0"]);
    assert!(ran.expect_error(2).stderr.contains("launch 6 is not in the capture"), "{}", ran.stderr);
    assert!(ran.stderr.contains("hint: the last launch is 5."), "{}", ran.stderr);
}
