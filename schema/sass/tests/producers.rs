//! Producers in small programs: every rule of slicing by an example, with properties that hold for any bytes.
#![expect(clippy::unwrap_used, reason = "a test program that cannot be assembled is a broken test")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use proptest::prelude::*;
use stallmap_sass::cubin::{CodeSection, CubinFunction};
use stallmap_sass::slice::analysis::{SectionAnalysis, WaitClass, analyze};
use stallmap_sass::word::Sm;

mod program;

use program::{SM, assemble};

fn run(program: &str, callee: Option<u32>) -> SectionAnalysis {
    let lines: Vec<&str> = program.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code: Vec<u8> =
        lines.iter().enumerate().flat_map(|(index, line)| assemble(index, line).to_le_bytes()).collect();
    let function = |offset: u32| CubinFunction { offset, ..CubinFunction::default() };
    let functions = [Some(0), callee.map(|index| index * 16)].into_iter().flatten().map(function).collect();
    analyze(&code, &CodeSection { functions, ..CodeSection::default() }, SM).unwrap()
}

/// The producers of one wait, a line each: waiter, producer, link, confidence, weight. Instructions go by line.
#[track_caller]
fn check(program: &str, wait: WaitClass, expected: &str) {
    assert_eq!(shown(&run(program, None), wait), expected);
}

fn shown(analysis: &SectionAnalysis, wait: WaitClass) -> String {
    let mut text = String::new();
    for found in analysis.producers.iter().filter(|found| found.wait == wait) {
        let (waiter, producer) = (found.waiter / 16, found.producer / 16);
        let (link, confidence) = (found.link.name(), found.confidence.name());
        writeln!(text, "{waiter} waits for {producer}: {link}, {confidence} {:.2}", found.weight).unwrap();
    }
    text
}

#[test]
fn the_setter_of_the_waited_barrier_produces() {
    check(
        "LDG R2 R4 w0
         LDG R3 R6 w1
         ADD R8 R2 R2 wait0
         ADD R9 R3 R3 wait1",
        WaitClass::LongScoreboard,
        "2 waits for 0: reads, exact 1.00\n3 waits for 1: reads, exact 1.00\n",
    );
}

#[test]
fn a_test_of_an_mbarrier_waits_for_those_that_arrive() {
    check(
        "SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         SYNCS.ARRIVE R255 R9 R255
         SYNCS.ARRIVE R255 R9 R255",
        WaitClass::LongScoreboard,
        "1 waits for 2: mbarrier, approximate 0.50\n1 waits for 3: mbarrier, approximate 0.50\n",
    );
    check(
        "SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0",
        WaitClass::LongScoreboard,
        "1 waits for 0: barrier, exact 1.00\n",
    );
}

#[test]
fn registers_choose_among_those_that_share_a_barrier() {
    check(
        "LDG R2 R4 w0
         LDG R3 R6 w0
         ADD R8 R3 R3 wait0
         ADD R9 R2 R2",
        WaitClass::LongScoreboard,
        "2 waits for 1: reads, refined 1.00\n",
    );
}

#[test]
fn a_use_of_two_loads_waits_for_both_the_nearer_weighs_more() {
    check(
        "LDG R2 R4 w0 stall2
         LDG R3 R6 w0 stall2
         ADD R8 R2 R3 wait0",
        WaitClass::LongScoreboard,
        "2 waits for 0: reads, shared 0.33\n2 waits for 1: reads, shared 0.67\n",
    );
}

#[test]
fn a_wait_clears_the_barrier() {
    check(
        "LDG R2 R4 w0
         ADD R8 R2 R2 wait0
         LDG R3 R6 w0
         ADD R9 R2 R2 wait0",
        WaitClass::LongScoreboard,
        "1 waits for 0: reads, exact 1.00\n3 waits for 2: barrier, exact 1.00\n",
    );
}

#[test]
fn a_load_at_the_end_of_a_loop_is_waited_for_at_its_begin() {
    check(
        "LDG R2 R4 w0 stall4
         ADD R4 R2 R2 wait0 stall4
         LDG R2 R4 w0 stall4
         @P0 BRA >1 stall4
         EXIT",
        WaitClass::LongScoreboard,
        "1 waits for 0: reads, shared 0.67\n1 waits for 2: reads, shared 0.33\n4 waits for 2: barrier, exact 1.00\n",
    );
}

#[test]
fn a_predicated_load_leaves_the_earlier_one() {
    let program = "@P0 LDG R2 R4 w0
         @!P0 LDG R2 R6 w0
         ADD R8 R2 R2 wait0";
    let both = "2 waits for 0: reads, shared 0.33\n2 waits for 1: reads, shared 0.67\n";
    check(program, WaitClass::LongScoreboard, both);
    // A use under one of the predicates reads the value loaded under it.
    let guarded = program.replace("ADD", "@P0 ADD").replace("@P0 @P0", "@P0");
    check(&guarded, WaitClass::LongScoreboard, "2 waits for 0: reads, refined 1.00\n");
}

#[test]
fn sources_that_are_overwritten_are_waited_for() {
    check(
        "STG R2 R9 r1
         ADD R9 R8 R8 wait1",
        WaitClass::LongScoreboard,
        "1 waits for 0: reuses, exact 1.00\n",
    );
}

#[test]
fn a_load_without_a_barrier_is_covered_by_a_later_one_of_its_unit() {
    check(
        "LDS R2 R6
         LDS R3 R6 w0
         ADD R8 R2 R2 wait0",
        WaitClass::ShortScoreboard,
        "2 waits for 0: reads, refined 1.00\n",
    );
}

#[test]
fn stall_reasons_tell_units_apart() {
    let program = "LDG R2 R4 w0
         S2R R3 w0
         ADD R8 R2 R3 wait0";
    check(program, WaitClass::LongScoreboard, "2 waits for 0: reads, exact 1.00\n");
    check(program, WaitClass::ShortScoreboard, "2 waits for 1: reads, exact 1.00\n");
}

#[test]
fn where_no_candidate_fits_the_reason_all_stay() {
    check(
        "S2R R3 w0
         ADD R8 R3 R3 wait0",
        WaitClass::LongScoreboard,
        "1 waits for 0: reads, low 1.00\n",
    );
}

#[test]
fn a_wait_for_all_but_the_newest_group_is_for_the_one_before_it() {
    // The wait of a DEPBAR is found at the instruction behind it too.
    check(
        "LDGSTS R6 R8
         LDGDEPBAR w0
         LDGSTS R6 R10
         LDGDEPBAR w0
         DEPBAR <=1
         LDS R2 R6",
        WaitClass::LongScoreboard,
        "4 waits for 0: group, exact 1.00\n5 waits for 0: group, exact 1.00\n",
    );
}

#[test]
fn groups_age_around_a_loop() {
    // Three groups before the loop and one in it: any of them may be the oldest but two.
    let found = run(
        "LDGSTS R6 R8
         LDGDEPBAR w0
         LDGSTS R6 R10
         LDGDEPBAR w0
         DEPBAR <=1
         LDGSTS R6 R12
         LDGDEPBAR w0
         @P0 BRA >4",
        None,
    );
    let expected = "4 waits for 0: group, shared 0.33\n4 waits for 2: group, shared 0.33\n4 waits for 5: group, shared 0.33\n";
    assert!(shown(&found, WaitClass::LongScoreboard).starts_with(expected), "{found:?}");
}

#[test]
fn a_warp_that_exits_drains_its_stores_behind_the_exit() {
    check(
        "STG R2 R9
         @P0 EXIT
         STG R2 R8
         EXIT
         BRA >4",
        WaitClass::Stores,
        "2 waits for 0: store, exact 1.00\n4 waits for 0: store, shared 0.25\n4 waits for 2: store, shared 0.75\n",
    );
}

#[test]
fn a_warp_that_exits_without_stores_waits_for_its_end() {
    check(
        "@P0 EXIT
         STG R2 R8
         EXIT
         BRA >3",
        WaitClass::Stores,
        "1 waits for 0: store, exact 1.00\n3 waits for 1: store, exact 1.00\n",
    );
}

#[test]
fn the_end_of_some_lanes_waits_for_nobody_elses_loads() {
    check(
        "LDG R2 R4 w0
         @P0 EXIT
         ADD R8 R2 R2 wait0",
        WaitClass::LongScoreboard,
        "1 waits for 0: barrier, exact 1.00\n2 waits for 0: reads, exact 1.00\n",
    );
}

#[test]
fn a_function_is_entered_and_left() {
    let found = run(
        "LDG R2 R4 w0
         CALL >4
         ADD R8 R9 R9 wait1
         EXIT
         ADD R7 R2 R2 wait0
         LDG R9 R4 w1
         RET R20",
        Some(4),
    );
    let text = shown(&found, WaitClass::LongScoreboard);
    assert!(text.contains("2 waits for 5: reads, exact 1.00\n"), "{text}");
    assert!(text.contains("4 waits for 0: reads, exact 1.00\n"), "{text}");
}

/// Instructions that make long programs of random parts.
const PARTS: &[&str] = &[
    "LDG R2 R4 w0",
    "LDG R3 R4 w1 r2",
    "STG R4 R3 r2",
    "LDS R5 R6",
    "LDS R6 R6 w3",
    "ADD R4 R2 R3 wait01",
    "@P0 ADD R7 R5 R6 wait3",
    "ADD R4 R4 R4 wait2",
    "LDGSTS R6 R4",
    "LDGDEPBAR w5",
    "DEPBAR <=1",
    "DEPBAR <=0",
    "@!P0 EXIT",
    "EXIT",
    "ATOMG R6 R4 w1",
    "S2R R2 w4",
    "ADD R9 R9 R9 wait0123",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn weights_sum_to_one_and_blocks_cover_the_code(
        parts in prop::collection::vec((0..PARTS.len(), prop::option::weighted(0.15, 0..64_usize)), 1..64),
    ) {
        let lines = parts.iter().map(|(part, jump)| match jump {
            Some(target) => format!("@P1 BRA >{}", target % parts.len()),
            None => PARTS[*part].to_owned(),
        });
        let found = run(&lines.collect::<Vec<_>>().join("\n"), None);
        let mut sums: BTreeMap<(u32, WaitClass), f64> = BTreeMap::new();
        for producer in &found.producers {
            *sums.entry((producer.waiter, producer.wait)).or_default() += producer.weight;
            prop_assert!(producer.weight > 0.0 && (producer.producer as usize) < 16 * found.instructions.len());
        }
        for (key, sum) in sums {
            prop_assert!((sum - 1.0).abs() < 1e-9, "{key:?} sums to {sum}");
        }
        let covered: u32 = found.blocks.iter().map(|block| (block.last - block.first) / 16 + 1).sum();
        prop_assert_eq!(covered as usize, found.instructions.len());
    }

    #[test]
    fn any_bytes_are_analyzed(code in prop::collection::vec(any::<u8>(), 0..2048), sm in 60_u32..130) {
        let found = analyze(&code, &CodeSection::default(), Sm(sm)).unwrap();
        prop_assert_eq!(found.instructions.len(), code.len() / 16);
    }
}

/// Slots and cycles since the barrier was set, by waiter and producer.
fn slots(program: &str) -> Vec<(u32, u32, u32, Option<u32>)> {
    let found =
        run(program, None).producers.into_iter().filter(|found| found.wait == WaitClass::LongScoreboard);
    found.map(|found| (found.waiter / 16, found.producer / 16, found.slot, found.covered_cycles)).collect()
}

#[test]
fn registers_that_are_read_together_are_slots_and_loads_of_one_register_are_alternatives() {
    let program = "LDG R2 R4 w0 stall2
         LDG R3 R6 w1 stall3
         ADD R8 R2 R3 wait01 stall4
         LDG R2 R4 w0 stall5
         @P0 BRA >1 stall4
         EXIT";
    let of_sum = slots(program).into_iter().filter(|found| found.0 == 2).collect::<Vec<_>>();
    assert_eq!(of_sum, [(2, 0, 0, Some(5)), (2, 1, 1, Some(3)), (2, 3, 0, Some(5))]);
}

#[test]
fn a_barrier_counts_the_newest_of_its_setters() {
    let program = "LDG R2 R4 w0 stall8
         LDG R3 R6 w0 stall2
         LDG R5 R6 w1 stall3
         ADD R8 R2 R5 wait01";
    assert_eq!(slots(program), [(3, 0, 0, Some(5)), (3, 2, 1, Some(3))]);
}

#[test]
fn setters_of_one_barrier_on_one_path_are_awaited_together_and_on_two_are_alternatives() {
    let one_path = "LDG R2 R4 w0 stall2
         @P0 BRA >3 stall2
         LDG R3 R4 w0 stall2
         ADD R8 R9 R9 wait0";
    assert_eq!(slots(one_path), [(3, 0, 0, Some(4)), (3, 2, 1, Some(2))]);
    let two_paths = "@P0 BRA >3 stall2
         LDG R2 R4 w0 stall2
         BRA >4 stall2
         LDG R3 R4 w0 stall2
         ADD R8 R9 R9 wait0";
    assert_eq!(slots(two_paths), [(4, 1, 0, Some(4)), (4, 3, 0, Some(2))]);
    // The second one follows the first by way of the loop.
    let around = "@P0 BRA >3 stall2
         LDG R2 R4 w0 stall2
         BRA >4 stall2
         LDG R3 R4 w0 stall2
         @P1 BRA >0 stall2
         ADD R8 R9 R9 wait0";
    assert_eq!(slots(around), [(5, 1, 0, Some(6)), (5, 3, 1, Some(4))]);
}

#[test]
fn shared_memory_answers_in_order_behind_a_branch_too() {
    check(
        "@P0 BRA >3
         LDS R2 R4 w0
         LDS R3 R4 w0
         ADD R8 R9 R9 wait0",
        WaitClass::ShortScoreboard,
        "3 waits for 2: barrier, refined 1.00\n",
    );
}

#[test]
fn copies_of_one_group_are_awaited_together_and_groups_one_after_the_other() {
    let program = "LDGSTS R6 R8
         LDGSTS R6 R9
         LDGDEPBAR w0
         LDGSTS R6 R10
         LDGSTS R6 R11
         LDGDEPBAR w0
         DEPBAR <=1
         LDGSTS R6 R12
         LDGSTS R6 R13
         LDGDEPBAR w0
         @P0 BRA >6";
    let slot_of =
        |copy| slots(program).into_iter().find(|found| found.0 == 6 && found.1 == copy).map(|found| found.2);
    assert_eq!(slot_of(0), slot_of(3));
    assert_eq!(slot_of(1), slot_of(4));
    assert_ne!(slot_of(0), slot_of(1));
}
