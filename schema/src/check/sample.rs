//! Conservation of samples: every sample that was taken is stored or counted as lost, and no other.

use std::collections::BTreeMap;

use crate::capture::reader::CaptureReader;
use crate::cell::ColumnCell;
use crate::check::{CaptureRule, ViolationList};
use crate::table::TableRow;
use crate::tables::launch::LaunchRun;
use crate::tables::sample::PcSample;

pub(super) fn check(reader: &CaptureReader, found: &mut ViolationList) {
    let mut sums = sums(reader);
    for ((run, kernel), counted) in counted(reader, found) {
        let samples = sums.remove(&(run, kernel)).unwrap_or(0);
        let Some((taken, lost)) = counted else {
            if samples > 0 {
                found.add(CaptureRule::SampleConservation, || {
                    format!("run {run} launch {kernel}: {samples} samples, but the run counts none")
                });
            }
            continue;
        };
        if samples.checked_add(lost) != Some(taken) {
            found.add(CaptureRule::SampleConservation, || {
                format!("run {run} launch {kernel}: {samples} samples and {lost} lost are not {taken}")
            });
        }
    }
    for ((run, kernel), samples) in sums {
        found.add(CaptureRule::SampleConservation, || {
            format!("run {run} launch {kernel}: {samples} samples of a launch that the run did not see")
        });
    }
}

/// Samples (taken, lost) by (run, launch); `None` where none are counted. A run may have replayed a launch often.
fn counted(reader: &CaptureReader, found: &mut ViolationList) -> BTreeMap<(u32, u64), Option<(u64, u64)>> {
    let mut counted: BTreeMap<_, Option<(u64, u64)>> = BTreeMap::new();
    let count = |launch: LaunchRun| {
        let sum = counted.entry((launch.run_id.0, launch.kernel_id.0)).or_default();
        if let Some(taken) = launch.sample_count {
            let (all, lost) = sum.unwrap_or_default();
            let lost = lost.saturating_add(launch.lost_sample_count.unwrap_or(0));
            *sum = Some((all.saturating_add(taken), lost));
        }
    };
    if let Err(error) = reader.for_each_row(usize::MAX, count) {
        found.unreadable(&error);
    }
    counted
}

/// Samples by (run, launch).
fn sums(reader: &CaptureReader) -> BTreeMap<(u32, u64), u64> {
    let mut sums = BTreeMap::new();
    let columns = ["run_id", "kernel_id", "samples"];
    let batches = reader.read_columns(PcSample::TABLE.name, &columns).into_iter().flatten();
    for batch in batches.map_while(Result::ok) {
        let [run, kernel, samples] = columns.map(|name| batch.column_by_name(name));
        let Some(((run, kernel), samples)) = run.zip(kernel).zip(samples) else { continue };
        for row in 0..batch.num_rows() {
            let key = u32::read(run, row).zip(u64::read(kernel, row));
            if let Some((key, samples)) = key.zip(u64::read(samples, row)) {
                let sum: &mut u64 = sums.entry(key).or_default();
                *sum = sum.saturating_add(samples);
            }
        }
    }
    sums
}
