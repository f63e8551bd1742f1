//! Content of shared memory in small programs: which copy, load or store filled what an instruction reads.
#![expect(clippy::unwrap_used, reason = "a test program that cannot be assembled is a broken test")]

use std::fmt::Write as _;

use stallmap_sass::cubin::{CodeSection, CubinFunction};
use stallmap_sass::slice::analysis::analyze;

mod program;

use program::{SM, assemble};

/// The fills of each read, a line each. Instructions go by line.
#[track_caller]
fn check(program: &str, expected: &str) {
    let lines: Vec<&str> = program.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code: Vec<u8> =
        lines.iter().enumerate().flat_map(|(index, line)| assemble(index, line).to_le_bytes()).collect();
    let section = CodeSection { functions: vec![CubinFunction::default()], ..CodeSection::default() };
    let mut text = String::new();
    let analysis = analyze(&code, &section, SM).unwrap();
    for fill in analysis.fills {
        let (read, by, kind) = (fill.offset / 16, fill.fill / 16, fill.kind.name());
        writeln!(text, "{read} filled by {by}: {kind} {:.2}", fill.share).unwrap();
    }
    for (read, store) in analysis.fill_stores {
        writeln!(text, "{} stored by {}", read / 16, store / 16).unwrap();
    }
    assert_eq!(text, expected);
}

#[test]
fn a_tile_is_filled_by_the_copies_to_its_array() {
    // Threads have numbers of their own in R8, added to the starts of two arrays.
    check(
        "S2R R8
         ADDI R9 R8 #1024
         ADDI R10 R8 #2048
         LDGSTS R9 R2
         LDGSTS R10 R4
         S2R R7
         ADDI R11 R7 #1024
         ADDI R12 R7 #2064
         LDS R0 R11
         LDS R1 R12",
        "8 filled by 3: copy 1.00\n9 filled by 4: copy 1.00\n",
    );
}

#[test]
fn copies_by_tensor_maps_fill_where_their_registers_say() {
    check(
        "MOVI R9 #1024
         MOVI R10 #2048
         R2UR R20 R9
         UTMALDG R28 R20
         R2UR R22 R10
         UTMALDG R30 R22
         S2R R7
         ADDI R11 R7 #2048
         LDS R0 R11",
        "8 filled by 5: copy 1.00\n",
    );
}

#[test]
fn a_store_of_a_loaded_value_is_filled_by_the_load() {
    check(
        "MOVI R9 #1024
         LDG R4 R2 w0
         STS.64 R9 R4 wait0
         LDS R0 R9",
        "3 filled by 1: load 1.00\n3 stored by 2\n",
    );
}

#[test]
fn a_store_of_a_sum_is_computed_from_its_loads() {
    check(
        "MOVI R9 #1024
         LDG R4 R2 w0
         LDG R6 R2 w1
         ADD R4 R4 R6 wait01
         STS.64 R9 R4
         LDS R0 R9",
        "5 filled by 1: computed 0.50\n5 filled by 2: computed 0.50\n5 stored by 4\n",
    );
}

#[test]
fn a_store_of_something_else_is_the_fill() {
    check(
        "MOVI R9 #1024
         S2R R4
         STS.64 R9 R4
         LDS R0 R9",
        "3 filled by 2: computed 1.00\n3 stored by 2\n",
    );
}

#[test]
fn an_array_below_all_fills_has_any_of_them() {
    check(
        "MOVI R9 #1024
         MOVI R10 #2048
         LDGSTS R9 R2
         LDGSTS R10 R4
         MOVI R11 #16
         LDS R0 R11",
        "5 filled by 2: copy 0.50\n5 filled by 3: copy 0.50\n",
    );
}
