//! The fuzzers' corpus, read again without them.

use std::fs;
use std::path::Path;

#[path = "../fuzz/exercise/cubin.rs"]
mod cubin;
#[path = "../fuzz/exercise/instruction.rs"]
mod instruction;

#[track_caller]
fn run(target: &str, exercise: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let read: Vec<_> = files.filter_map(|file| fs::read(file.path()).ok()).collect();
    assert!(!read.is_empty());
    for bytes in &read {
        exercise(bytes);
    }
}

#[test]
fn kept_cubins_are_read() {
    run("cubin", cubin::cubin);
}

#[test]
fn kept_instructions_are_decoded() {
    run("instruction", instruction::instruction);
}
