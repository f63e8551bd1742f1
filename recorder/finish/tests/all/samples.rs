//! Tests of samples: they find their launches with their functions.

use stallmap_schema::capture::recording::{AMBIGUOUS_FUNCTION, CodeRange, RawSample};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::hash;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{LossKind, Match};

use crate::finish::{Finished, finished, kernel_id};
use crate::recording::{self, KERNEL, launch, launch_run, put, sample};

const WAIT: &str = "smsp__pcsamp_warps_issue_stalled_wait";
/// A module that has a kernel of the same name, and whose cubin was not stored.
const OTHER: ModuleId = ModuleId(99);

fn other() -> FunctionId {
    hash::function_id(OTHER, KERNEL)
}

/// A launch that the recorder took for one of the other module.
fn put_guess(segment: &mut SegmentWriter, ordinal: u64) {
    put(
        segment,
        [CodeRange {
            function_id: other(),
            module_id: OTHER,
            name: KERNEL.into(),
            is_kernel: true,
            address: Address(0),
            code_bytes: 0,
            ordinal,
        }],
    );
    put(segment, [Launch { function_id: other(), ..launch(ordinal) }]);
    put(segment, [LaunchRun { correlation_id: Some(100 + ordinal), ..launch_run(ordinal) }]);
    put(
        segment,
        [Loss {
            run_id: RunId(0),
            kind: LossKind::Code,
            reason: AMBIGUOUS_FUNCTION.into(),
            lost_count: 1,
            kernel_id: Some(KernelId(ordinal)),
            detail: None,
        }],
    );
}

fn matches(capture: &Finished) -> Vec<Match> {
    let rows = capture.rows::<LaunchRun>().into_iter();
    rows.filter(|row| row.run_id.0 == 2).map(|row| row.matched).collect()
}

fn ambiguous(capture: &Finished) -> u64 {
    let losses = capture.rows::<Loss>().into_iter();
    losses.filter(|loss| loss.reason == AMBIGUOUS_FUNCTION).map(|loss| loss.lost_count).sum()
}

#[test]
fn samples_correct_the_function_of_their_launch_before_it_is_matched() {
    let capture = finished(|partial| {
        recording::with_samples(partial, |segment| {
            put_guess(segment, 0);
            put(segment, [sample(0, KERNEL, 0x90, WAIT, 7)]);
        });
    });
    assert_eq!(matches(&capture), [Match::Matched]);
    assert_eq!(ambiguous(&capture), 0);
    assert!(capture.rows::<Launch>().iter().all(|launch| launch.function_id == recording::kernel()));
}

#[test]
fn a_guess_that_no_sample_confirms_stays_one() {
    let unknown = |segment: &mut SegmentWriter| {
        put_guess(segment, 0);
        let raw = sample(0, KERNEL, 0x90, WAIT, 7);
        put(segment, [RawSample { cubin_crc: 1, ..raw }]);
        put_guess(segment, 1);
        put(segment, [sample(1, "another kernel", 0x90, WAIT, 7)]);
    };
    let capture = finished(|partial| recording::with_samples(partial, unknown));
    assert_eq!(matches(&capture), [Match::Unmatched, Match::Unmatched]);
    assert_eq!(ambiguous(&capture), 2);
}

#[test]
fn an_ordinal_names_the_launch_where_a_call_had_several() {
    let capture = finished(|partial| {
        recording::with_samples(partial, |segment| {
            for ordinal in [0, 1] {
                put(segment, [launch(ordinal)]);
                put(segment, [LaunchRun { samples_are_split: Some(true), ..launch_run(ordinal) }]);
                let raw = RawSample { correlation_id: 500, ..sample(0, KERNEL, 0x90, WAIT, 7 + ordinal) };
                put(segment, [RawSample { ordinal: Some(ordinal), ..raw }]);
            }
            let raw = sample(0, KERNEL, 0x90, WAIT, 3);
            put(segment, [RawSample { ordinal: Some(9), ..raw }]);
        });
    });
    let samples: Vec<_> =
        capture.rows::<PcSample>().into_iter().map(|row| (row.kernel_id, row.samples)).collect();
    assert_eq!(samples, [(kernel_id(1, 0), 7), (kernel_id(1, 1), 8)]);
    let counts = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 2);
    let counts: Vec<_> = counts.map(|row| (row.sample_count, row.samples_are_split)).collect();
    assert_eq!(counts, [(Some(7), Some(true)), (Some(8), Some(true))]);
    let lost =
        capture.rows::<Loss>().into_iter().find(|loss| loss.reason == "launch of the sample is not known");
    assert_eq!(lost.map(|loss| loss.lost_count), Some(3));
}
