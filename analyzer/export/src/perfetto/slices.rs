//! Ops, regions and launch calls as slices of their threads.

use std::collections::{BTreeMap, BTreeSet};

use super::copies::{TimedCopy, copy_event, timed};
use super::kernels::event_id;
use super::{packet, packet_at};
use crate::proto::MessageBuilder;
use crate::round::unsigned;
use crate::timeline::{CallWorks, CaptureTimeline, SharedCalls, TimelineCall, TimelineLaunch};

/// A slice begins, and ends.
pub(super) const BEGIN: u64 = 1;
pub(super) const END: u64 = 2;
/// Numbers of the stages that a slice submits, an extension of `TrackEvent`.
const GPU_CORRELATION: u32 = 3000;
/// Threads of one process, in the numbers of tracks.
const MAX_THREADS: u64 = 1 << 20;

/// A slice of a thread.
struct ThreadSlice {
    begin_ns: u64,
    end_ns: Option<u64>,
    event: MessageBuilder,
}

/// Descriptors of processes and threads, then the slices of each thread in the order of time.
pub(super) fn packets(
    timeline: &CaptureTimeline,
    calls: &SharedCalls,
) -> impl Iterator<Item = MessageBuilder> {
    let mut threads: BTreeMap<(i64, u32), Vec<ThreadSlice>> = BTreeMap::new();
    for call in &timeline.calls {
        threads.entry((call.process_id, call.thread_id)).or_default().push(call_slice(call));
    }
    let event = copy_event(timeline);
    for launch in &timeline.launches {
        let thread = (launch.process_id, launch.thread_id.unwrap_or(0));
        threads.entry(thread).or_default().extend(launch_slice(launch, calls.of_launch(launch), &event));
    }
    for timed in timed(timeline).filter(|timed| calls.is_first(timed.copy, timed.place)) {
        let thread = (timed.copy.process_id, timed.copy.thread_id.unwrap_or(0));
        threads.entry(thread).or_default().extend(copy_slice(&timed, calls.of_copy(timed.copy), &event));
    }
    let described = described(timeline, threads.keys().copied());
    let slices = threads
        .into_iter()
        .flat_map(|((process, thread), slices)| nested(track(process, Some(thread)), slices));
    described.into_iter().chain(slices)
}

/// The number of a thread as the trace has it: unique among threads and processes.
pub(super) fn thread_number(process: i64, thread: u32) -> i64 {
    // The recorder numbers threads from 0. Perfetto takes thread 0 for the idle one.
    process.saturating_add(i64::from(thread))
}

/// The number of a process's track, or of a thread's.
fn track(process: i64, thread: Option<u32>) -> u64 {
    unsigned(process) * MAX_THREADS + thread.map_or(1, |thread| u64::from(thread) + 2)
}

fn described(timeline: &CaptureTimeline, threads: impl Iterator<Item = (i64, u32)>) -> Vec<MessageBuilder> {
    let threads: BTreeSet<(i64, u32)> = threads.collect();
    let process = |process: &crate::timeline::TimelineProcess| {
        let rank = process.rank.map(|rank| format!("rank {rank}"));
        let name = MessageBuilder::default().int(1, process.id).text(6, &process.program);
        let name = name.with(rank, |name, rank| name.text(8, &rank));
        packet().message(60, &MessageBuilder::default().uint(1, track(process.id, None)).message(3, &name))
    };
    let thread = |(process, thread): (i64, u32)| {
        let number = thread_number(process, thread);
        let name =
            MessageBuilder::default().int(1, process).int(2, number).text(5, &format!("thread {thread}"));
        let place =
            MessageBuilder::default().uint(1, track(process, Some(thread))).uint(5, track(process, None));
        packet().message(60, &place.message(4, &name))
    };
    timeline.processes.iter().map(process).chain(threads.into_iter().map(thread)).collect()
}

fn call_slice(call: &TimelineCall) -> ThreadSlice {
    let category = if call.kind == "region" { "user_annotation" } else { "cpu_op" };
    let texts = [
        ("phase", Some(call.phase.as_str())),
        ("module", call.module_path.as_deref()),
        ("line", call.line.as_deref()),
    ];
    let event = MessageBuilder::default().text(22, category).text(23, &call.name);
    let event = event.message(4, &number("op_id", call.op_id)).message(4, &number("step", call.step.into()));
    let event = texts.into_iter().fold(event, |event, (name, value)| {
        event.with(value, |event, value| {
            event.message(4, &MessageBuilder::default().text(10, name).text(6, value))
        })
    });
    ThreadSlice { begin_ns: unsigned(call.begin_ns), end_ns: call.end_ns.map(unsigned), event }
}

/// The call of a launch. Work of one call has the first one's slice.
fn launch_slice(
    launch: &TimelineLaunch,
    works: Option<&CallWorks>,
    copy_event: impl Fn(usize) -> u64,
) -> Option<ThreadSlice> {
    let own = [launch.kernel_id];
    let kernels = works.map_or(&own[..], |works| &works.kernels);
    let name = if works.is_some() { "graph launch" } else { "launch" };
    let name = launch.call_name.as_deref().unwrap_or(name);
    let event = MessageBuilder::default().text(22, "cuda_runtime").text(23, name);
    let event = event.message(4, &number("kernel_id", launch.kernel_id));
    let begin_ns = launch.call_begin_ns.filter(|_| kernels.first() == Some(&launch.kernel_id))?;
    let copies = works.into_iter().flat_map(|works| &works.copies).map(|place| copy_event(*place));
    Some(ThreadSlice {
        begin_ns: unsigned(begin_ns),
        end_ns: launch.call_end_ns.map(unsigned),
        event: arrows(event, kernels.iter().map(|kernel_id| event_id(*kernel_id)).chain(copies)),
    })
}

fn copy_slice(
    timed: &TimedCopy<'_>,
    works: Option<&CallWorks>,
    copy_event: impl Fn(usize) -> u64,
) -> Option<ThreadSlice> {
    let TimedCopy { copy, place, event_id, .. } = timed;
    let own = [*place];
    let copies = works.map_or(&own[..], |works| &works.copies);
    let name = copy.call_name.as_deref().unwrap_or(&copy.kind);
    let event = MessageBuilder::default().text(22, "cuda_runtime").text(23, name);
    let event = event.message(4, &number("correlation", *event_id));
    Some(ThreadSlice {
        begin_ns: unsigned(copy.call_begin_ns?),
        end_ns: copy.call_end_ns.map(unsigned),
        event: arrows(event, copies.iter().map(|place| copy_event(*place))),
    })
}

/// Arrows from a call to its work, which the viewer draws by the numbers of the work's events.
fn arrows(event: MessageBuilder, events: impl IntoIterator<Item = u64>) -> MessageBuilder {
    let numbers =
        events.into_iter().fold(MessageBuilder::default(), |numbers, number| numbers.uint(1, number));
    event.message(GPU_CORRELATION, &numbers)
}

/// A number as an argument of a slice.
pub(super) fn number(name: &str, value: u64) -> MessageBuilder {
    MessageBuilder::default().text(10, name).uint(3, value)
}

/// Begins and ends in the order of time. A slice that outlasts the one around it ends with it.
fn nested(track: u64, mut slices: Vec<ThreadSlice>) -> Vec<MessageBuilder> {
    slices.sort_by_key(|slice| (slice.begin_ns, std::cmp::Reverse(slice.end_ns.unwrap_or(u64::MAX))));
    let mut packets = Vec::new();
    let mut open: Vec<u64> = Vec::new();
    let end =
        |time: u64| packet_at(time).message(11, &MessageBuilder::default().uint(9, END).uint(11, track));
    for slice in slices {
        while let Some(time) = open.pop_if(|end| *end <= slice.begin_ns) {
            packets.push(end(time));
        }
        packets.push(packet_at(slice.begin_ns).message(11, &slice.event.uint(9, BEGIN).uint(11, track)));
        let outer = open.last().copied().unwrap_or(u64::MAX);
        open.push(slice.end_ns.unwrap_or(u64::MAX).min(outer));
    }
    // A call without an end has a begin only.
    while let Some(time) = open.pop() {
        if time < u64::MAX {
            packets.push(end(time));
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_follows_its_begin_and_none_is_invented() {
        let slice = |begin_ns, end_ns| ThreadSlice { begin_ns, end_ns, event: MessageBuilder::default() };
        assert_eq!(nested(1, vec![slice(5, Some(9)), slice(0, Some(10)), slice(9, Some(12))]).len(), 6);
        assert_eq!(nested(1, vec![slice(0, None), slice(2, Some(3))]).len(), 3);
        assert_eq!(nested(1, Vec::new()).len(), 0);
    }
}
