//! Results of a load in small programs with calls.

use std::collections::BTreeSet;

use stallmap_sass::cubin::{CodeSection, CubinFunction};

use super::*;

#[path = "../../../../schema/sass/tests/program/mod.rs"]
mod program;

/// The effect of a program without its first instruction. Functions begin at the lines 0, 8 and 11.
fn without_first(program: &str, driver_calls: &[&str]) -> Result<OmissionReach, OmissionRefusal> {
    let lines = program.lines().map(str::trim).filter(|line| !line.is_empty()).enumerate();
    let code: Vec<u8> =
        lines.flat_map(|(index, line)| program::assemble(index, line).to_le_bytes()).collect();
    let function = |offset| CubinFunction { offset, name: offset.to_string(), ..CubinFunction::default() };
    let section = CodeSection {
        functions: vec![function(0), function(8 * 16), function(11 * 16)],
        driver_calls: driver_calls.iter().map(|name| (*name).to_owned()).collect(),
        ..CodeSection::default()
    };
    reached(&DecodedSection::new(&code, &section, program::SM)?, &BTreeSet::from([0]))
}

/// R6 is an address until the first call has returned, and a value before the second one.
const TWO_CALLS: &str = "LDG R10 R2
    CALL >8
    STS.64 R6 R12
    ADD R6 R10 R10
    CALL >8
    STG R2 R6
    EXIT
    EXIT
    ADD R14 R14 R10
    RET";

#[test]
fn registers_that_a_function_leaves_alone_do_not_reach_its_other_callers() {
    assert_eq!(without_first(TWO_CALLS, &[]), Ok(OmissionReach::default()));
}

#[test]
fn the_result_of_a_function_reaches_the_code_behind_its_calls() {
    let result = TWO_CALLS.replace("ADD R14 R14 R10", "ADD R6 R14 R10");
    assert_eq!(without_first(&result, &[]), Err(OmissionRefusal::Address));
    let of_another = TWO_CALLS.replace("STS.64 R6 R12", "STS.64 R14 R12");
    assert_eq!(without_first(&of_another, &[]), Err(OmissionRefusal::Address));
    let only_argument = of_another.replace("ADD R14 R14 R10", "ADD R16 R14 R10");
    assert_eq!(without_first(&only_argument, &[]), Ok(OmissionReach::default()));
}

#[test]
fn a_function_that_calls_another_one_writes_its_registers() {
    let nested = "LDG R10 R2
        CALL >8
        STS.64 R6 R12
        EXIT
        EXIT
        EXIT
        EXIT
        EXIT
        CALL >11
        RET
        EXIT
        ADD R6 R10 R10
        RET";
    assert_eq!(without_first(nested, &[]), Err(OmissionRefusal::Address));
    assert_eq!(without_first(&nested.replace("ADD R6 R10", "ADD R7 R10"), &[]), Ok(OmissionReach::default()));
}

#[test]
fn code_that_is_not_followed_may_use_a_value() {
    let elsewhere = TWO_CALLS.replace("CALL >8", "CALL >800");
    assert_eq!(without_first(&elsewhere, &[]), Err(OmissionRefusal::Elsewhere));
    assert_eq!(without_first(&elsewhere, &["malloc"]), Err(OmissionRefusal::Elsewhere));
    assert_eq!(without_first(&elsewhere, &["__assertfail"]), Ok(OmissionReach::default()));
    let before = elsewhere.replacen("LDG R10 R2", "STG R2 R10", 1);
    assert_eq!(without_first(&before, &[]), Ok(OmissionReach::default()));
}

#[test]
fn what_a_guard_replaces_is_no_result_under_the_same_guard() {
    // Compilers use a register again at once: here for an address of the lanes that write.
    let reused = "LDG R10 R2
        @!P0 S2R R10
        @!P0 STS.64 R10 R12
        EXIT";
    assert_eq!(without_first(reused, &[]), Ok(OmissionReach::default()));
    for other in ["@P0 STS.64", "@!P1 STS.64", "STS.64"] {
        let wrong = reused.replace("@!P0 STS.64", other);
        assert_eq!(without_first(&wrong, &[]), Err(OmissionRefusal::Address), "{other}");
    }
    let again = reused.replace("@!P0 STS.64", "ADD R10 R10 R10\n@!P0 STS.64");
    assert_eq!(without_first(&again, &[]), Err(OmissionRefusal::Address));
}
