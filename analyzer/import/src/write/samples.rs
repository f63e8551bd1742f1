//! Samples of instructions: a run of their own on the launches of another.

use std::collections::BTreeMap;

use stallmap_readers::trace::model::{TraceModel, TraceSample};
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::Pc;
use stallmap_schema::tables::launch::LaunchRun;
use stallmap_schema::tables::sample::PcSample;
use stallmap_schema::word::Match;
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, run_id};

/// Writes the samples, and the launches as their runs saw them.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let ids = writing.ids();
    let mut samplings: Vec<_> = writing
        .trace
        .samplings
        .iter()
        .filter_map(|sampling| Some((sampling.process, *ids.get(&sampling.kernel)?, sampling)))
        .collect();
    samplings.sort_by_key(|(process, kernel_id, _)| (*process, *kernel_id));
    let mut next: BTreeMap<usize, u64> = BTreeMap::new();
    writer.append_rows(samplings.into_iter().map(|(process, kernel_id, sampling)| {
        let next = next.entry(process).or_default();
        *next += 1;
        let kernel = writing.trace.kernels.get(sampling.kernel);
        LaunchRun {
            run_id: run_id(process),
            ordinal: *next - 1,
            kernel_id,
            matched: Match::Matched,
            match_reason: None,
            thread_id: 0,
            stream_id: kernel
                .map_or(0, |kernel| writing.names.stream(kernel.process, kernel.device, kernel.stream)),
            correlation_id: None,
            begin_ns: 0,
            end_ns: None,
            recorded: true,
            request_count: None,
            lane_access_count: None,
            lost_request_count: None,
            sample_count: Some(sampling.taken),
            lost_sample_count: Some(sampling.lost),
            sampling_period_cycles: sampling.period_cycles,
            samples_are_split: None,
        }
    }))?;
    let row = |sample: &TraceSample| {
        let kernel = writing.trace.kernels.get(sample.kernel)?;
        Some(PcSample {
            run_id: run_id(sample.process),
            kernel_id: *ids.get(&sample.kernel)?,
            function_id: writing.names.inner(kernel, &sample.function),
            pc: Pc(sample.pc),
            stall_reason: sample.reason.to_string(),
            samples: sample.samples,
            samples_not_issued: sample.not_issued,
        })
    };
    let mut rows: Vec<PcSample> = writing.trace.samples.iter().filter_map(row).collect();
    rows.sort_by(|a, b| {
        let key = |row: &PcSample| (row.kernel_id, row.function_id, row.pc);
        (key(a), &a.stall_reason).cmp(&(key(b), &b.stall_reason))
    });
    writer.append_rows(rows)
}

/// The cycles between two samples, where all kernels of a run have the same.
pub(super) fn period_cycles(trace: &TraceModel, process: usize) -> Option<u64> {
    let of_run = trace.samplings.iter().filter(|sampling| sampling.process == process);
    let mut periods = of_run.map(|sampling| sampling.period_cycles);
    let first = periods.next()??;
    periods.all(|period| period == Some(first)).then_some(first)
}
