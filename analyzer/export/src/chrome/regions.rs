//! Regions of the program on the GPU, as PyTorch's profiler has them: from the first to the last work that a region itself,
//! and not one within it, launched on a stream.

use std::collections::BTreeMap;
use std::iter;

use serde_json::{Value, json};

use super::{RelativeClock, described};
use crate::round::unsigned;
use crate::timeline::{CaptureTimeline, TimelineCall};

/// Ops around a piece of work. A damaged capture may have one within itself.
const MAX_DEPTH: usize = 1_000;

/// A region, a GPU and a stream.
type RegionPlace = (u64, i64, u32);

/// The calls of a program by their numbers.
type CallsById<'a> = BTreeMap<u64, &'a TimelineCall>;

impl RelativeClock<'_> {
    pub(super) fn regions(&self, timeline: &CaptureTimeline) -> Vec<Value> {
        let calls: CallsById<'_> = timeline.calls.iter().map(|call| (call.op_id, call)).collect();
        let mut spans: BTreeMap<RegionPlace, (u64, u64)> = BTreeMap::new();
        for (op_id, device, stream, begin, end) in works(timeline) {
            if let Some(region) = region(op_id, &calls) {
                let span = spans.entry((region, device, stream)).or_insert((begin, end));
                *span = (span.0.min(begin), span.1.max(end));
            }
        }
        let event = |((region, device, stream), (begin, end)): (RegionPlace, (u64, u64))| {
            let event = self.event(begin, Some(end.saturating_sub(begin)));
            let call = calls.get(&region)?;
            let lane = (self.lane(call.run_id, call.process_id).gpu(device), stream.into());
            let arguments = json!({ "External id": region });
            Some(described(event, "gpu_user_annotation", &call.name, lane, arguments))
        };
        spans.into_iter().filter_map(event).collect()
    }
}

/// Work of ops with a time on a GPU: op, GPU, stream, begin, end.
fn works(timeline: &CaptureTimeline) -> impl Iterator<Item = (u64, i64, u32, u64, u64)> {
    let launches = timeline.launches.iter().filter_map(|launch| {
        let begin = unsigned(launch.gpu_begin_ns?);
        let end = begin.saturating_add(launch.duration()?);
        Some((launch.op_id?, launch.device_id, launch.stream_id?, begin, end))
    });
    let copies = timeline.copies.iter().filter_map(|copy| {
        let (begin, end) = (unsigned(copy.begin_ns), unsigned(copy.end_ns?));
        Some((copy.op_id?, copy.device_id?, copy.stream_id?, begin, end))
    });
    launches.chain(copies)
}

/// The innermost region around an op, or the op if it is one.
fn region(op_id: u64, calls: &CallsById<'_>) -> Option<u64> {
    let above = |call: &&TimelineCall| calls.get(&call.parent_op_id?).copied();
    let mut around = iter::successors(calls.get(&op_id).copied(), above).take(MAX_DEPTH);
    around.find(|call| call.kind == "region").map(|call| call.op_id)
}
