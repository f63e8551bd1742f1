//! Golden shapes, and shapes of random requests against a byte by byte recomputation.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn regular(address: u64, size: u64, stride: i32, mask: u32) -> WarpRequest<'static> {
    WarpRequest {
        lane_mask: mask,
        address,
        span_bytes: 0,
        access_bytes: size,
        lanes: ActiveLanes::Regular(stride),
    }
}

#[track_caller]
fn check(request: &WarpRequest<'_>, sectors: u64, lines: u64, unique_bytes: u64, class: PatternClass) {
    let shape = shape(request);
    assert_eq!((shape.sectors, shape.lines, shape.unique_bytes), (sectors, lines, unique_bytes));
    assert_eq!(shape.class, class);
}

fn shape(request: &WarpRequest<'_>) -> AccessedShape {
    request.shape()
}

#[test]
fn golden_shapes() {
    let all = u32::MAX;
    check(&regular(0x1000, 4, 4, all), 4, 1, 128, PatternClass::Unit);
    check(&regular(0x1004, 4, 4, all), 5, 2, 128, PatternClass::Unit);
    check(&regular(0x1000, 4, 8, all), 8, 2, 128, PatternClass::Strided);
    check(&regular(0x1000, 4, 128, all), 32, 32, 128, PatternClass::Strided);
    check(&regular(0x1000, 4, 0, all), 1, 1, 4, PatternClass::Broadcast);
    check(&regular(0x1000, 16, 16, all), 16, 4, 512, PatternClass::Unit);
    check(&regular(0x1000, 2, 2, all), 2, 1, 64, PatternClass::Unit);
    check(&regular(0x1000, 4, -4, all), 4, 1, 128, PatternClass::Unit);
    check(&regular(0x1000, 4, 4, 1), 1, 1, 4, PatternClass::Broadcast);
    let blocks: Vec<u32> = (0..32).map(|lane| lane / 8 * 256 + lane % 8 * 4).collect();
    let tiled = WarpRequest { lanes: ActiveLanes::Irregular(&blocks, 0), ..regular(0x1000, 4, 0, all) };
    check(&tiled, 4, 4, 128, PatternClass::Tiled);
    let offsets: Vec<u32> = (0..32).map(|lane| lane * lane * 4).collect();
    let gather = WarpRequest { lanes: ActiveLanes::Irregular(&offsets, 0), ..regular(0x1000, 4, 0, all) };
    assert_eq!(shape(&gather).class, PatternClass::Gather);
}

#[test]
fn only_unit_strides_are_misaligned() {
    assert!(shape(&regular(0x1004, 4, 4, u32::MAX)).is_misaligned);
    assert!(!shape(&regular(0x1020, 4, 4, u32::MAX)).is_misaligned);
    assert!(!shape(&regular(0x1004, 4, 8, u32::MAX)).is_misaligned);
}

/// The class and the stride of lanes at equal distances, and of the same lanes with each one's distance.
#[track_caller]
fn check_both(mask: u32, size: u64, stride: i32, expected: (PatternClass, i64)) {
    let regular = regular(0x1000, size, stride, mask);
    let shape = regular.shape();
    assert_eq!((shape.class, shape.stride_bytes), (expected.0, Some(expected.1)), "{mask:#x}");
    let lowest = regular.addresses().map(|(_, address)| address).min().unwrap();
    let offset = |(_, address): (u32, u64)| u32::try_from(address - lowest).unwrap();
    let offsets: Vec<u32> = regular.addresses().map(offset).collect();
    let irregular = WarpRequest { lanes: ActiveLanes::Irregular(&offsets, 0), address: lowest, ..regular };
    assert_eq!(irregular.shape(), shape, "{mask:#x}");
}

#[test]
fn a_class_does_not_depend_on_how_a_row_holds_the_lanes() {
    // Active lanes side by side, others between them.
    check_both(0x11, 4, 1, (PatternClass::Unit, 4));
    check_both(0x1111, 8, 2, (PatternClass::Unit, 8));
    check_both(0x11, 4, -1, (PatternClass::Unit, -4));
    // Holes where lanes are inactive.
    check_both(0b1011, 4, 4, (PatternClass::Unit, 4));
    check_both(0x5555_5555, 4, 4, (PatternClass::Unit, 4));
    check_both(0b1011, 4, 8, (PatternClass::Strided, 8));
    check_both(0x5555_5555, 4, 32, (PatternClass::Strided, 32));
    check_both(0b1011, 4, 0, (PatternClass::Broadcast, 0));
    check_both(0xffff, 4, 12, (PatternClass::Strided, 12));
}

#[test]
fn golden_wavefronts() {
    let banked = |size, stride| {
        let BankCost { wavefronts, passes } = regular(1024, size, stride, u32::MAX).banked();
        (wavefronts, passes)
    };
    assert_eq!(banked(4, 4), (1, 1));
    assert_eq!(banked(4, 8), (2, 1));
    assert_eq!(banked(4, 128), (32, 1));
    assert_eq!(banked(4, 132), (1, 1));
    assert_eq!(banked(4, 0), (1, 1));
    assert_eq!(banked(8, 8), (2, 2));
    assert_eq!(banked(16, 16), (4, 4));
    assert_eq!(banked(16, 32), (8, 4));
    assert_eq!(banked(2, 2), (1, 1));
    assert_eq!(regular(1024, 8, 8, 0xffff).banked(), BankCost { wavefronts: 1, passes: 1 });
    assert_eq!(regular(1024, 4, 4, 0).banked(), BankCost::default());
}

/// The definition, byte by byte.
fn naive(lanes: &[(u32, u64)], size: u64) -> (usize, usize, usize) {
    let bytes: BTreeSet<u64> =
        lanes.iter().flat_map(|&(_, address)| (0..size).map(move |byte| address + byte)).collect();
    let distinct = |unit: u64| bytes.iter().map(|byte| byte / unit).collect::<BTreeSet<_>>().len();
    (distinct(32), distinct(128), bytes.len())
}

/// Wavefronts by their definition: for each pass, the largest number of distinct words in one bank.
fn naive_wavefronts(lanes: &[(u32, u64)], size: u64) -> (usize, usize) {
    let group = [(4, 32), (8, 16), (16, 8)].into_iter().find(|(most, _)| size <= *most).unwrap().1;
    let (mut wavefronts, mut passes) = (0, 0);
    for pass in 0..32 / group {
        let words: BTreeSet<u64> = lanes
            .iter()
            .filter(|(lane, _)| lane / group == pass)
            .flat_map(|&(_, address)| (0..size).map(move |byte| (address + byte) / 4))
            .collect();
        let fullest = (0..32).map(|bank| words.iter().filter(|word| *word % 32 == bank).count()).max();
        wavefronts += fullest.unwrap();
        passes += usize::from(!words.is_empty());
    }
    (wavefronts, passes)
}

proptest! {
    #[test]
    fn shapes_follow_the_definitions(
        mask: u32,
        address in 0..4096_u64,
        size in prop_oneof![Just(1_u64), Just(2), Just(4), Just(8), Just(16)],
        stride in -300..300_i32,
        offsets in proptest::collection::vec(0..2000_u32, 32),
        is_regular: bool,
        shift in 0..3_u8,
    ) {
        let lanes = if is_regular { ActiveLanes::Regular(stride) } else { ActiveLanes::Irregular(&offsets, shift) };
        let request = WarpRequest { lane_mask: mask, address, span_bytes: 0, access_bytes: size, lanes };
        let addresses: Vec<(u32, u64)> = request.addresses().collect();
        let shape = shape(&request);
        let (sectors, lines, bytes) = naive(&addresses, size);
        prop_assert_eq!((shape.sectors, shape.lines, shape.unique_bytes), (sectors as u64, lines as u64, bytes as u64));
        prop_assert_eq!(shape.sectors, request.touched().sectors);
        prop_assert_eq!(shape.unique_bytes, request.touched().unique_bytes);
        let (wavefronts, passes) = naive_wavefronts(&addresses, size);
        let banked = request.banked();
        prop_assert_eq!((banked.wavefronts as usize, banked.passes as usize), (wavefronts, passes));
        prop_assert!(banked.wavefronts >= banked.passes);
    }

    #[test]
    fn nothing_that_a_capture_says_makes_it_fail(
        lane_mask: u32, address: u64, span_bytes: u64, access_bytes in 0..256_u64, stride: i32,
        offsets in proptest::collection::vec(any::<u32>(), 0..40), is_regular: bool, shift: u8,
    ) {
        let lanes = if is_regular { ActiveLanes::Regular(stride) } else { ActiveLanes::Irregular(&offsets, shift) };
        let request = WarpRequest { lane_mask, address, span_bytes, access_bytes, lanes };
        let shape = shape(&request);
        prop_assert!(shape.lanes <= 32 && shape.sectors <= 32 * 9);
        prop_assert!(request.banked().wavefronts <= 32 * 5);
    }
}
