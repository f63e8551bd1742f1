//! Tests of continuous sampling: samples with a window find the launches that ran in it.

use stallmap_schema::capture::recording::{ActivityName, RawActivity, RawSample, SampleWindow};
use stallmap_schema::capture::segment::SegmentWriter;
use stallmap_schema::tables::activity::GpuActivity;
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::tables::loss::Loss;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::LossKind;

use crate::finish::{FinishedRecording, finished};
use crate::recording::{self, CALLEE, KERNEL, launch, launch_run, put, sample};
use crate::samples::{CALLED, LONG, NESTED_CRC, SHORT, nested, nested_module};
use crate::timeline::kernel;

const WAIT: &str = "smsp__pcsamp_warps_issue_stalled_wait";

fn windowed(segment: &mut SegmentWriter, window: u32, function: &str, samples: u64) {
    let window_id = Some(window);
    put(segment, [RawSample { correlation_id: 0, window_id, ..sample(0, function, 0x90, WAIT, samples) }]);
}

const MS: i64 = 1_000_000;

/// Three launches that begin at 10, 100 and 200 ms, the last of which is not selected, in windows of these milliseconds.
fn sampled(windows: &[(i64, i64)], samples: impl FnOnce(&mut SegmentWriter)) -> FinishedRecording {
    finished(|partial| {
        recording::with_samples(partial, |segment| {
            put(segment, [ActivityName { name_id: 7, name: KERNEL.into() }]);
            for (ordinal, begin_ns) in [(0, 10 * MS), (1, 100 * MS), (2, 200 * MS)] {
                put(segment, [launch(ordinal)]);
                let correlation_id = Some(100 + ordinal);
                put(segment, [LaunchRun { correlation_id, recorded: ordinal < 2, ..launch_run(ordinal) }]);
                put(segment, [kernel(100 + ordinal, begin_ns)]);
            }
            for (window_id, &(begin, end)) in (0..).zip(windows) {
                put(
                    segment,
                    [SampleWindow { window_id, device_id: 0, begin_ns: begin * MS, end_ns: end * MS }],
                );
            }
            samples(segment);
        });
    })
}

/// Samples of the launches, and whether they share them.
fn launches(capture: &FinishedRecording) -> Vec<(Option<u64>, Option<bool>)> {
    let rows = capture.rows::<LaunchRun>().into_iter().filter(|row| row.run_id.0 == 2);
    rows.map(|row| (row.sample_count, row.samples_are_split)).collect()
}

fn lost(capture: &FinishedRecording, reason: &str) -> u64 {
    let losses = capture.rows::<Loss>().into_iter();
    let losses = losses.filter(|loss| loss.kind == LossKind::Sample && loss.reason == reason);
    losses.map(|loss| loss.lost_count).sum()
}

#[test]
fn a_window_with_one_launch_is_exact() {
    let capture = sampled(&[(0, 50), (50, 150)], |segment| {
        windowed(segment, 0, KERNEL, 7);
        windowed(segment, 1, KERNEL, 9);
    });
    assert_eq!(launches(&capture)[..2], [(Some(7), None), (Some(9), None)]);
    assert_eq!(capture.rows::<GpuActivity>().len(), 3);
}

#[test]
fn launches_share_a_window_and_no_sample_is_lost() {
    let capture = sampled(&[(0, 150)], |segment| {
        windowed(segment, 0, KERNEL, 9);
        // A function that the kernel calls.
        windowed(segment, 0, CALLEE, 4);
    });
    let launches = launches(&capture);
    assert!(launches[..2].iter().all(|(_, is_split)| *is_split == Some(true)), "{launches:?}");
    let counts: Vec<u64> = launches.iter().filter_map(|(count, _)| *count).collect();
    assert_eq!(counts.iter().sum::<u64>(), 13);
    assert!(counts[0].abs_diff(counts[1]) <= 1, "{counts:?}");
    assert_eq!(capture.rows::<PcSample>().iter().map(|row| row.samples).sum::<u64>(), 13);
}

#[test]
fn samples_of_other_launches_are_counted() {
    let capture = sampled(&[(190, 300), (5000, 6000)], |segment| {
        windowed(segment, 0, KERNEL, 5);
        windowed(segment, 1, KERNEL, 6);
        windowed(segment, 9, KERNEL, 2);
    });
    assert_eq!(lost(&capture, "launch was not selected"), 5);
    assert_eq!(lost(&capture, "launch of the sample is not known"), 8);
    assert_eq!(capture.rows::<PcSample>(), []);
}

#[test]
fn a_function_that_kernels_call_has_samples_in_those_only() {
    let capture = finished(|partial| {
        let module = nested_module(partial);
        recording::with_samples(partial, |segment| {
            put(segment, [module]);
            // Both run in the window, and one of them calls the function.
            for (ordinal, kernel_name) in [(0, LONG), (1, SHORT)] {
                put(segment, [ActivityName { name_id: 7 + ordinal, name: kernel_name.into() }]);
                put(segment, [Launch { function_id: nested(kernel_name), ..launch(ordinal) }]);
                put(segment, [LaunchRun { correlation_id: Some(100 + ordinal), ..launch_run(ordinal) }]);
                put(segment, [RawActivity { name_id: Some(7 + ordinal), ..kernel(100 + ordinal, 10 * MS) }]);
            }
            put(segment, [SampleWindow { window_id: 0, device_id: 0, begin_ns: 0, end_ns: 50 * MS }]);
            for (function, samples) in [(CALLED, 6), (SHORT, 2)] {
                let raw = sample(0, function, 0x20, WAIT, samples);
                let window_id = Some(0);
                put(segment, [RawSample { correlation_id: 0, cubin_crc: NESTED_CRC, window_id, ..raw }]);
            }
        });
    });
    let samples = capture.rows::<PcSample>().into_iter().map(|row| (row.function_id, row.samples));
    let samples: std::collections::BTreeMap<_, _> = samples.collect();
    assert_eq!(samples, [(nested(CALLED), 6), (nested(SHORT), 2)].into());
    assert_eq!(launches(&capture), [(Some(6), None), (Some(2), None)]);
}
