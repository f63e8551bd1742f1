//! Tests of samples: they find their launches with their functions.

use std::path::Path;

use stallmap_schema::capture::recording::{AMBIGUOUS_FUNCTION, CodeRange, GAVE_WAY, LossTotal, RawSample};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::hash;
use stallmap_schema::id::{Address, FunctionId, KernelId, ModuleId, RunId};
use stallmap_schema::tables::code::Module;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::{LossKind, Match};

use crate::finish::{FinishedRecording, finished, kernel_id};
use crate::recording::{self, KERNEL, launch, launch_run, put, sample};

const WAIT: &str = "smsp__pcsamp_warps_issue_stalled_wait";
/// A module that has a kernel of the same name, and whose cubin was not stored.
const OTHER: ModuleId = ModuleId(99);

/// A launch that the recorder took for one of the other module.
fn put_guess(segment: &mut SegmentWriter, ordinal: u64, name: &str) {
    let function_id = hash::function_id(OTHER, name);
    put(
        segment,
        [CodeRange {
            function_id,
            module_id: OTHER,
            name: name.into(),
            is_kernel: true,
            address: Address(0),
            code_bytes: 0,
            ordinal,
        }],
    );
    put(segment, [Launch { function_id, ..launch(ordinal) }]);
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

fn matches(capture: &FinishedRecording) -> Vec<Match> {
    let rows = capture.rows::<LaunchRun>().into_iter();
    rows.filter(|row| row.run_id.0 == 2).map(|row| row.matched).collect()
}

fn ambiguous(capture: &FinishedRecording) -> u64 {
    let losses = capture.rows::<Loss>().into_iter();
    losses.filter(|loss| loss.reason == AMBIGUOUS_FUNCTION).map(|loss| loss.lost_count).sum()
}

#[test]
fn samples_correct_the_function_of_their_launch_before_it_is_matched() {
    let capture = finished(|partial| {
        recording::with_samples(partial, |segment| {
            put_guess(segment, 0, KERNEL);
            put(segment, [sample(0, KERNEL, 0x90, WAIT, 7)]);
        });
    });
    assert_eq!(matches(&capture), [Match::Matched]);
    assert_eq!(ambiguous(&capture), 0);
    assert!(capture.rows::<Launch>().iter().all(|launch| launch.function_id == recording::kernel()));
}

#[test]
fn a_guess_that_no_sample_confirms_is_the_reference_runs_launch_of_its_name_or_stays_one() {
    let unknown = |segment: &mut SegmentWriter| {
        put_guess(segment, 0, KERNEL);
        let raw = sample(0, KERNEL, 0x90, WAIT, 7);
        put(segment, [RawSample { cubin_crc: 1, ..raw }]);
        put_guess(segment, 1, "another kernel");
        put(segment, [sample(1, "a third", 0x90, WAIT, 7)]);
    };
    let capture = finished(|partial| recording::with_samples(partial, unknown));
    assert_eq!(matches(&capture), [Match::Matched, Match::Unmatched]);
    assert_eq!(ambiguous(&capture), 1);
}

/// A cubin of several kernels.
const NESTED: &[u8] = include_bytes!("../../../../schema/sass/testdata/cubins/nested.sm_90.abi8.cubin");
pub(crate) const LONG: &str = "_ZN6shapes6nestedEPfPKfi";
pub(crate) const CALLED: &str = "$_ZN6shapes6nestedEPfPKfi$_Z6calledPKfi";
pub(crate) const SHORT: &str = "_Z6chosenPfif";
pub(crate) const NESTED_CRC: u64 = 0xbeef;

/// The module of [`NESTED`], in a recording that holds its cubin from then on.
pub(crate) fn nested_module(partial: &Path) -> Module {
    let content_hash = blake3::hash(NESTED).to_hex().to_string();
    std::fs::write(partial.join("cubins").join(format!("{content_hash}.cubin")), NESTED).unwrap();
    Module {
        module_id: hash::module_id(NESTED),
        content_hash,
        cubin_bytes: NESTED.len() as u64,
        cupti_crc: Some(NESTED_CRC),
        sm: None,
        file: None,
        zeroed_bytes: 0,
    }
}

/// A sampling run that launched these kernels, with samples of functions that were read with one of them.
fn launched(kernels: &[&str], samples: &[(u64, &str, u64)]) -> FinishedRecording {
    finished(|partial| {
        let module = nested_module(partial);
        recording::with_samples(partial, |segment| {
            put(segment, [module]);
            for (ordinal, kernel) in (0..).zip(kernels) {
                put(segment, [Launch { function_id: nested(kernel), ..launch(ordinal) }]);
                put(segment, [LaunchRun { correlation_id: Some(100 + ordinal), ..launch_run(ordinal) }]);
            }
            for &(ordinal, function, samples) in samples {
                let raw = sample(ordinal, function, 0x20, WAIT, samples);
                put(segment, [RawSample { cubin_crc: NESTED_CRC, ..raw }]);
            }
        });
    })
}

pub(crate) fn nested(name: &str) -> FunctionId {
    hash::function_id(hash::module_id(NESTED), name)
}

/// The samples of each launch, by its kernel.
fn samples_of_launches(capture: &FinishedRecording) -> Vec<(FunctionId, Option<u64>)> {
    let launches = capture.rows::<Launch>();
    let kernel = |row: &LaunchRun| launches.iter().find(|launch| launch.kernel_id == row.kernel_id).unwrap();
    let rows = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 2);
    rows.map(|row| (kernel(&row).function_id, row.sample_count)).collect()
}

#[test]
fn samples_that_a_kernel_cannot_execute_belong_to_the_launch_before_that_can() {
    // The second long one is the last that had begun. One of them is read too early, with its name.
    let kernels = [LONG, LONG, SHORT, SHORT, LONG];
    let read = [(0, LONG, 5), (2, LONG, 7), (2, CALLED, 2), (2, SHORT, 3), (3, SHORT, 1), (4, LONG, 11)];
    let capture = launched(&kernels, &read);
    let (long, short) = (nested(LONG), nested(SHORT));
    let expected = [(long, 5), (long, 9), (short, 3), (short, 1), (long, 11)];
    let expected = expected.map(|(kernel, samples)| (kernel, Some(samples)));
    assert_eq!(samples_of_launches(&capture), expected);
    assert!(capture.rows::<Loss>().iter().all(|loss| loss.kind != LossKind::Sample));
}

#[test]
fn launches_behind_a_profiler_of_the_program_are_counted() {
    let gave_way = LossTotal {
        kind: LossKind::Source,
        reason: GAVE_WAY.into(),
        total_count: 1,
        detail: Some("torch.profiler".into()),
    };
    let capture = finished(|partial| {
        recording::with_samples(partial, |segment| {
            put(segment, [launch(0)]);
            put(segment, [launch_run(0)]);
            put(segment, [gave_way]);
        });
    });
    let lost = |kind| {
        let losses = capture.rows::<Loss>().into_iter();
        let mut losses = losses.filter(|loss| loss.kind == kind && loss.reason == GAVE_WAY);
        losses.next().map(|loss| (loss.lost_count, loss.detail.unwrap_or_default()))
    };
    // The first run had four launches.
    assert_eq!(lost(LossKind::Launch), Some((3, "torch.profiler".to_owned())));
    assert_eq!(lost(LossKind::Source), Some((1, "torch.profiler".to_owned())));
}

#[test]
fn samples_that_no_launch_before_can_have_taken_are_counted() {
    let capture = launched(&[SHORT, LONG], &[(0, LONG, 7), (0, SHORT, 3), (1, LONG, 1)]);
    let expected = [(nested(SHORT), Some(3)), (nested(LONG), Some(1))];
    assert_eq!(samples_of_launches(&capture), expected);
    let losses = capture.rows::<Loss>().into_iter().filter(|loss| loss.kind == LossKind::Sample);
    let losses: Vec<_> = losses.map(|loss| (loss.reason, loss.lost_count)).collect();
    assert_eq!(losses, [("no launch before can execute the function".to_owned(), 7)]);
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
