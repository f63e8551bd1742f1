//! Rings of mbarriers in small programs: which of them a warp waits for, and who signals it.
#![expect(clippy::unwrap_used, reason = "a test program that cannot be assembled is a broken test")]

use std::fmt::Write as _;

use stallmap_sass::cubin::{CodeSection, CubinFunction};
use stallmap_sass::slice::analysis::{WaitClass, analyze};

mod program;

use program::{SM, assemble};

/// The producers of long waits, a line each: waiter, producer, link, weight. Instructions go by line.
#[track_caller]
fn check(program: &str, expected: &str) {
    let lines: Vec<&str> = program.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code: Vec<u8> =
        lines.iter().enumerate().flat_map(|(index, line)| assemble(index, line).to_le_bytes()).collect();
    let section = CodeSection { functions: vec![CubinFunction::default()], ..CodeSection::default() };
    let mut text = String::new();
    let found = analyze(&code, &section, SM).unwrap().producers;
    for found in found.iter().filter(|found| found.wait == WaitClass::LongScoreboard) {
        let (waiter, producer, link) = (found.waiter / 16, found.producer / 16, found.link.name());
        writeln!(text, "{waiter} waits for {producer}: {link} {:.2}", found.weight).unwrap();
    }
    assert_eq!(text, expected);
}

/// A ring of full mbarriers at R9, which copies signal, and one of empty mbarriers at R10, at which warps arrive.
fn two_rings(begin: &str, advance: &str) -> String {
    format!(
        "{begin}
         R2UR R21 R9
         UTMALDG R28 R20
         SYNCS.ARRIVE R255 R10 R255
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         SYNCS.TRYWAIT R0 R10 R3 w1
         ADD R8 R2 R2 wait1
         {advance}
         @P0 BRA >2"
    )
}

const RIGHT: &str = "6 waits for 3: mbarrier 1.00\n8 waits for 4: mbarrier 1.00\n";

#[test]
fn rings_are_told_apart_by_their_starts() {
    check(&two_rings("MOVI R9 #1024\nMOVI R10 #1056", "ADDI R9 R9 #8\nADDI R10 R10 #8"), RIGHT);
}

#[test]
fn the_way_back_to_the_start_of_a_ring_is_no_start() {
    // Both rings have four stages. What they take back is no mbarrier of the other.
    let advance = "ADDI R9 R9 #8\nADDI R10 R10 #8\n@P1 ADDI R9 R9 #-32\n@P1 ADDI R10 R10 #-32";
    check(&two_rings("MOVI R9 #1024\nMOVI R10 #1056", advance), RIGHT);
}

#[test]
fn a_start_that_is_not_known_has_its_offset() {
    // Each group of warps begins at a stage of its own.
    let begin = "S2R R4\nADDI R9 R4 #1024\nADDI R10 R4 #1056";
    check(
        &two_rings(begin, "ADDI R9 R9 #8\nADDI R10 R10 #8").replace(">2", ">3"),
        "7 waits for 4: mbarrier 1.00\n9 waits for 5: mbarrier 1.00\n",
    );
}

#[test]
fn copies_come_last_whoever_arrives() {
    // A warp arrives at the full mbarrier, too: it says how many bytes will come.
    check(
        "MOVI R9 #1024
         R2UR R21 R9
         UTMALDG R28 R20
         SYNCS.ARRIVE R255 R9 R255
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0",
        "5 waits for 2: mbarrier 1.00\n",
    );
}

#[test]
fn groups_that_take_turns_arrive_at_each_others_mbarriers() {
    // Group n waits at 1024 + 8 n and arrives at 1032 - 8 n.
    check(
        "S2R R4
         MOVI R5 #1024
         SHL3 R9 R4 R5
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         MOVI R6 #1032
         SHL3 R10 R7 R6
         SYNCS.ARRIVE R255 R10 R255
         @P0 BRA >3",
        "4 waits for 7: mbarrier 1.00\n",
    );
}

#[test]
fn copies_of_one_loop_are_in_order() {
    // Each operand has an mbarrier of its own. The copy of one is behind that of the other.
    let program = "MOVI R9 #1024
         MOVI R10 #1088
         R2UR R21 R9
         UTMALDG R28 R20
         R2UR R25 R10
         UTMALDG R30 R24
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         ADDI R9 R9 #8
         ADDI R10 R10 #8
         @P0 BRA >2";
    check(program, "7 waits for 3: mbarrier 0.50\n7 waits for 5: in order 0.50\n");
    // Without the loop the other copy is none that comes before.
    check(&program.replace("@P0 BRA >2", "EXIT"), "7 waits for 3: mbarrier 1.00\n");
}

#[test]
fn a_group_of_copies_out_is_awaited_by_the_barrier_of_its_end() {
    check(
        "UTMASTG R28 R20
         UTMACMDFLUSH r3
         ADD R8 R2 R2 wait3",
        "2 waits for 0: group 1.00\n",
    );
}
