//! Copies and signals in small programs: the work before a signal, and tensor maps that a kernel makes.
#![expect(clippy::unwrap_used, reason = "a test program that cannot be assembled is a broken test")]

use stallmap_sass::cubin::{CodeSection, CubinFunction, CubinParameter};
use stallmap_sass::slice::analysis::{SectionAnalysis, analyze};
use stallmap_sass::slice::axes::GridAxes;

mod program;

use program::{SM, assemble};

/// The parameters begin there.
const PARAMETERS: u32 = 528;

fn run(program: &str) -> SectionAnalysis {
    let lines: Vec<&str> = program.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let code: Vec<u8> =
        lines.iter().enumerate().flat_map(|(index, line)| assemble(index, line).to_le_bytes()).collect();
    let section = CodeSection {
        functions: vec![CubinFunction::default()],
        parameters_offset: Some(PARAMETERS),
        parameters: vec![CubinParameter { ordinal: 0, offset: 0, bytes: 64 }],
        ..CodeSection::default()
    };
    analyze(&code, &section, SM).unwrap()
}

/// Copies with the pointers that lead to their memory, by line and position among the parameters.
#[track_caller]
fn check_pointers(program: &str, expected: &[(u32, u32)]) {
    let pointers: Vec<(u32, u32)> =
        run(program).pointers.iter().map(|found| (found.offset / 16, found.parameter_offset)).collect();
    assert_eq!(pointers, expected);
}

/// Copies with the parameters that their tensor maps are, by line.
#[track_caller]
fn check_maps(program: &str, expected: &[(u32, u32)]) {
    let maps: Vec<(u32, u32)> =
        run(program).tensor_maps.iter().map(|found| (found.offset / 16, found.parameter_offset)).collect();
    assert_eq!(maps, expected);
}

#[test]
fn the_address_of_a_tensor_map_is_saved_on_the_stack() {
    check_maps(
        "LDC.64 R12 c520
         ADDI R12 R12 #48
         STL.64 R1 R12
         LDL.64 R6 R1
         R2UR R28 R6
         UTMALDG R28 R20
         EXIT",
        &[(5, 48)],
    );
}

#[test]
fn registers_that_exchange_their_values_keep_the_address_of_a_tensor_map() {
    let exchanged = "LDC.64 R12 c520
         ADDI R12 R12 #48
         R2UR R20 R12
         R2UR R21 R13
         UXOR R21 R20 R21
         UXOR R20 R20 R21
         UXOR R21 R20 R21
         UTMALDG R21 R8
         EXIT";
    check_maps(exchanged, &[(7, 48)]);
    // One of the three writes another register.
    check_maps(&exchanged.replacen("UXOR R21 R20 R21", "UXOR R22 R20 R21", 1), &[]);
}

#[test]
fn the_first_of_an_array_of_tensor_maps_stands_for_all() {
    let program = "LDC.64 R12 c520
         ADDI R12 R12 #48
         LDG R5 R2 w0
         SHL6 R6 R5 R12 wait0
         ADDI R6 R6 #-64
         R2UR R28 R6
         UTMALDG R28 R20
         EXIT";
    check_maps(&program.replace("#48", "#112"), &[(6, 48)]);
    // Other elements are no tensor maps.
    check_maps(&program.replace("SHL6", "SHL3"), &[]);
}

/// Accesses with the pointers from which their addresses are computed, by line and place among the parameters.
#[track_caller]
fn check_accesses(program: &str, expected: &[(u32, u32)]) {
    let accesses: Vec<(u32, u32)> =
        run(program).accesses.iter().map(|found| (found.offset / 16, found.parameter_offset)).collect();
    assert_eq!(accesses, expected);
}

#[test]
fn an_address_is_computed_from_the_pointer_that_all_paths_have() {
    check_accesses("LDC.64 R2 c536\n S2R R5\n ADD R6 R2 R5\n LDG R4 R6\n EXIT", &[(3, 8)]);
    // The second pointer is loaded from memory, in the other program on one path.
    check_accesses("LDC.64 R2 c528\n LDG R4 R2\n LDG R6 R4\n EXIT", &[(1, 0)]);
    check_accesses("LDC.64 R2 c528\n @P1 LDG R2 R2\n LDG R4 R2\n EXIT", &[(1, 0)]);
    // A loop goes on from where it starts.
    check_accesses("LDC.64 R2 c528\n LDG R4 R2\n ADDI R2 R2 #4\n @P1 BRA >1\n EXIT", &[(1, 0)]);
    // A number of four bytes that ends behind the parameters is none.
    check_accesses("LDC.64 R2 c588\n LDG R4 R2\n EXIT", &[]);
}

/// Signals with the work before them, by line.
#[track_caller]
fn check_signals(program: &str, expected: &[(u32, &[u32])]) {
    let found = run(program).signals;
    let lines: Vec<(u32, Vec<u32>)> = found
        .iter()
        .map(|signal| (signal.offset / 16, signal.work.iter().map(|offset| offset / 16).collect()))
        .collect();
    let lines: Vec<(u32, &[u32])> = lines.iter().map(|(signal, work)| (*signal, &work[..])).collect();
    assert_eq!(lines, expected);
}

#[test]
fn a_tensor_map_made_in_shared_memory_leads_to_its_pointer() {
    // As Triton makes two: at one address of shared memory, one after the other.
    check_pointers(
        "ULDC.64 R28 c544
         ULDC.64 R30 c552
         LDC.64 R12 c528
         STS.64 R8 R12
         UTMACCTL.IV R28
         LDC.64 R14 c536
         STS.64 R8 R14
         UTMACCTL.IV R30
         UTMALDG R28 R20
         UTMALDG R30 R16
         EXIT",
        &[(8, 0), (9, 8)],
    );
}

#[test]
fn a_tensor_map_made_in_device_memory_leads_to_its_pointer() {
    let program = "ULDC.64 R28 c544
         LDC.64 R2 c544
         LDC.64 R12 c528
         STG.64 R2 R12
         UTMACCTL.IV R28
         UTMALDG R28 R20
         EXIT";
    check_pointers(program, &[(5, 0)]);
    // A store elsewhere is none into the map, and neither is one to a map that is only brought nearer.
    check_pointers(&program.replace("LDC.64 R2 c544", "LDC.64 R2 c560"), &[]);
    check_pointers(&program.replace("UTMACCTL.IV", "UTMACCTL.PF"), &[]);
}

#[test]
fn the_last_of_two_pointers_stays() {
    check_pointers(
        "ULDC.64 R28 c544
         LDC.64 R12 c528
         STS.64 R8 R12
         LDC.64 R14 c536
         STS.64 R8 R14
         UTMACCTL.IV R28
         UTMALDG R28 R20
         EXIT",
        &[(6, 8)],
    );
}

/// Two maps that are made together, of pointers in arrays, and the kernel that fills such an array.
#[test]
fn tensor_maps_made_together_lead_to_their_arrays_of_pointers() {
    let program = "ULDC.64 R28 c544
         ULDC.64 R30 c552
         LDC.64 R2 c528
         LDG.64 R12 R2
         LDC.64 R4 c536
         LDG.64 R14 R4
         MOVI R8 #0
         STS.64 R8 R12
         MOVI R9 #128
         STS.64 R9 R14
         UTMACCTL.IV R28
         UTMACCTL.IV R30
         UTMALDG R28 R20
         UTMALDG R30 R20
         EXIT";
    let arrays = |program| -> Vec<(u32, u32)> {
        run(program).pointer_arrays.iter().map(|one| (one.offset / 16, one.parameter_offset)).collect()
    };
    assert_eq!(arrays(program), [(12, 0), (13, 8)]);
    let stores = run("LDC.64 R2 c528
         LDC.64 R12 c536
         S2R R5
         SHL3 R2 R5 R2
         STG.64 R2 R12
         EXIT")
    .pointer_stores;
    let stores: Vec<(u32, u32, u32)> =
        stores.iter().map(|one| (one.offset / 16, one.parameter_offset, one.stored_offset)).collect();
    assert_eq!(stores, [(4, 0, 8)]);
}

#[test]
fn work_before_a_signal_in_a_loop_is_that_since_the_one_before() {
    check_signals(
        "@P1 BRA >5
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         @P0 BRA >1
         EXIT
         ADD R4 R5 R5
         LDG R2 R4 w1
         ADD R6 R2 R2 wait1
         SYNCS.ARRIVE R255 R9 R255
         @P0 BRA >6
         EXIT",
        &[(8, &[6, 7, 8, 9])],
    );
}

#[test]
fn work_before_a_single_signal_is_all_before_it() {
    check_signals(
        "@P1 BRA >4
         SYNCS.TRYWAIT R0 R9 R3 w0
         ADD R8 R2 R2 wait0
         EXIT
         LDG R2 R4 w1
         ADD R6 R2 R2 wait1
         SYNCS.ARRIVE R255 R9 R255
         EXIT",
        &[(6, &[0, 4, 5, 6])],
    );
}

/// Dimensions of the grid that say what the copy of a program brings.
#[track_caller]
fn check_axes(program: &str, expected: Option<&str>) {
    let pointers = run(program).pointers;
    assert_eq!(pointers[0].axes.map(GridAxes::name).as_deref(), expected, "{program}");
}

#[test]
fn coordinates_lead_to_the_indices_of_the_block() {
    let program = "ULDC.64 R28 c544
        LDC.64 R12 c528
        STS.64 R8 R12
        UTMACCTL.IV R28
        S2R R4
        S2R.CTAID.X R5
        SHL3 R6 R5 R7
        R2UR R22 R6
        MOVI R10 #0
        R2UR R23 R10
        UTMALDG R28 R20
        ADDI R10 R10 #64
        R2UR R23 R10
        @P0 BRA >10
        EXIT";
    check_axes(program, Some("x"));
    check_axes(&program.replace("CTAID.X", "CTAID.Y"), Some("y"));
    check_axes(&program.replace("S2R R4", "S2R.CTAID.Y R7"), Some("xy"));
    // A block copies all of it: the index of a thread is the same in each.
    check_axes(&program.replace("S2R.CTAID.X", "S2R"), Some(""));
    // The next tile is what a counter in memory says, or the multiprocessor.
    check_axes(&program.replace("S2R.CTAID.X R5", "LDG R5 R2 w0"), None);
    check_axes(&program.replace("S2R.CTAID.X", "S2R.SMID"), None);
}

#[test]
fn a_guard_says_if_and_not_what() {
    check_axes(
        "ULDC.64 R28 c544
         LDC.64 R12 c528
         STS.64 R8 R12
         UTMACCTL.IV R28
         S2R.CTAID.X R5
         MOVI R6 #0
         R2UR R22 R6
         R2UR R23 R6
         @P0 UTMALDG R28 R20
         EXIT",
        Some(""),
    );
}
