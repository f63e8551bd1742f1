//! Damaged reports have the kernels before the damage, or end with an error, and never with a panic.

use std::fs::File;
use std::io::Read as _;

use flate2::read::GzDecoder;

use super::parse;

fn report() -> Vec<u8> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/ncu/pipe.ncu-rep.gz");
    let mut bytes = Vec::new();
    GzDecoder::new(File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn a_cut_report_has_the_kernels_before_the_cut() {
    let whole = report();
    assert_eq!(parse(&whole[..]).unwrap().kernels.len(), 2);
    let (mut errors, mut parts) = (0, 0);
    for length in (0..whole.len()).step_by(20_011).chain(0..40) {
        match parse(&whole[..length]) {
            Err(reason) => {
                assert!(reason.contains("byte") || reason == "it has no kernels", "{length}: {reason}");
                errors += 1;
            }
            // Between two blocks nothing is missing.
            Ok(trace) => {
                parts += trace.losses.rows().filter(|row| row.1 == "the report behind damage").count();
            }
        }
    }
    assert!(errors > 40 && parts > 5, "{errors} {parts}");
}

#[test]
fn changed_bytes_are_no_panic() {
    let whole = report();
    let mut state = 7_u64;
    for _ in 0..120 {
        let mut changed = whole.clone();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let place = usize::try_from(state >> 33).unwrap() % changed.len();
            changed[place] = state.to_le_bytes()[2];
        }
        if let Err(reason) = parse(&changed[..]) {
            assert!(reason.contains("byte") || reason == "it has no kernels", "{reason}");
        }
    }
}

#[test]
fn lengths_and_counts_beyond_the_file_end_at_once() {
    let start = b"NVR\0\x02\0\0\0\x08\x07";
    for (rest, expected) in [
        (&b"\xff\xff\xff\xff"[..], "byte 10: a message has 4294967295 bytes"),
        (&b"\xff\xff\xff\x0fx"[..], "byte 10: it ends in a message"),
        // A billion results, in a payload of 0 bytes.
        (&b"\x06\0\0\0\x10\xff\xff\xff\xff\x03\0\0\0\0"[..], "byte 20: a message ends behind its block"),
        // A payload of a billion bytes.
        (&b"\x06\0\0\0\x28\xff\xff\xff\xff\x03"[..], "byte 20: it ends in a block"),
        (&b"\x05\0\0\0\x22\x03\x0a\x09x"[..], "byte 16: a field ends behind its message"),
        (&b"\0\0\0\0"[..], "it has no kernels"),
    ] {
        let found = parse(&[&start[..], rest].concat()[..]).unwrap_err();
        assert!(found.starts_with(expected), "{found}");
    }
    assert!(parse(&b"NVX\0"[..]).unwrap_err().starts_with("byte 0"));
}
