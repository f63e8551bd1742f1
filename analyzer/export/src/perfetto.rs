//! Perfetto's trace: packets of one sequence. Field numbers are those of Perfetto's published messages.
//!
//! | part | messages |
//! |---|---|
//! | launches | `GpuRenderStageEvent`, with the kernels and arguments of the GPU compute page |
//! | copies and fills | `GpuRenderStageEvent` of stages of their own |
//! | ops and launch calls | `TrackEvent` slices, one track per thread |
//! | blocks | `TrackEvent` slices, one track per slot of each multiprocessor |
//! | phases of warps | `TrackEvent` slices, one track per warp of each block |
//! | hardware counters | `GpuCounterEvent` at the launch's begin |
//! | samples | `StackSample` at the launch's begin, with an inline call stack |

mod blocks;
mod copies;
mod counters;
mod kernels;
mod names;
mod slices;
mod warps;

use stallmap::library::queries::export as queries;
use stallmap_console::exit::Outcome;

use crate::proto::MessageBuilder;
use crate::round::whole;
use crate::source::{ExportSource, FileFormat};
use crate::stack::{CallFrame, LaunchStack};
use crate::timeline::{CaptureTimeline, SharedCalls, TimelineBlock, TimelineCounter, TimelinePhase};
use names::InternedStrings;

/// Perfetto.
pub(crate) const FORMAT: FileFormat = FileFormat {
    queries: &[
        queries::LAUNCHES,
        queries::CALLS,
        queries::COPIES,
        queries::BLOCKS,
        queries::WARPS,
        queries::PROGRAM,
        queries::DEVICES,
        queries::LOSSES,
        queries::CLOCKS,
        queries::MOMENTS,
        queries::COUNTERS,
        queries::LAUNCH_STACKS,
    ],
    write,
};

/// The sequence that all packets belong to.
const SEQUENCE: u64 = 1;
/// `CLOCK_BOOTTIME`, the default clock of packets, and `CLOCK_REALTIME`.
const CLOCKS: [u64; 2] = [6, 1];
/// Packets refer to the names of the first one.
const NEEDS_NAMES: u64 = 2;
/// The first packet: nothing before it counts.
const CLEARS_NAMES: u64 = 1;

fn write(source: &ExportSource) -> Outcome<Vec<u8>> {
    let timeline = CaptureTimeline::read(source)?;
    let measured: Vec<TimelineCounter> = source.read(queries::COUNTERS)?;
    let stacks: Vec<LaunchStack> = source.read(queries::LAUNCH_STACKS)?;
    let blocks: Vec<TimelineBlock> = source.read(queries::BLOCKS)?;
    let phases: Vec<TimelinePhase> = source.read(queries::WARPS)?;
    Ok(trace(&timeline, &measured, &stacks, (&blocks, &phases)).finish())
}

fn trace(
    timeline: &CaptureTimeline,
    measured: &[TimelineCounter],
    stacks: &[LaunchStack],
    (blocks, phases): (&[TimelineBlock], &[TimelinePhase]),
) -> MessageBuilder {
    let mut trace = MessageBuilder::default();
    let names = InternedStrings::from_timeline(timeline, measured);
    trace.push(1, &first(&names));
    trace.push(1, &clocks(timeline.begin_ns()));
    trace.push(
        1,
        &facts(
            timeline,
            [("blocks", blocks::left_out(blocks)), ("phases of warps", warps::left_out(phases))],
        ),
    );
    let calls = SharedCalls::from_timeline(timeline);
    let packets = slices::packets(timeline, &calls)
        .chain(kernels::packets(timeline, &names, &calls))
        .chain(copies::packets(timeline, &names, &calls))
        .chain(blocks::packets(blocks))
        .chain(warps::packets(phases))
        .chain(counters::packets(timeline, measured, &names))
        .chain(samples(timeline, stacks));
    packets.for_each(|packet| trace.push(1, &packet));
    trace
}

/// A packet of the sequence.
fn packet() -> MessageBuilder {
    MessageBuilder::default().uint(10, SEQUENCE).uint(13, NEEDS_NAMES)
}

/// A packet at a time.
fn packet_at(time_ns: u64) -> MessageBuilder {
    packet().uint(8, time_ns)
}

/// The packet with all names, and the defaults of samples.
fn first(names: &InternedStrings) -> MessageBuilder {
    let counted = MessageBuilder::default().text(2, "stall samples").uint(3, 9);
    let defaults = MessageBuilder::default().text(1, "stallmap").message(2, &counted);
    MessageBuilder::default()
        .uint(10, SEQUENCE)
        .uint(13, CLEARS_NAMES)
        .uint(41, 1)
        .message(12, &names.interned())
        .message(59, &MessageBuilder::default().uint(58, CLOCKS[0]).message(100, &defaults))
}

/// Packets have times since the Unix epoch: the default clock equals the clock of the day.
fn clocks(begin_ns: u64) -> MessageBuilder {
    let clock = |id: u64| MessageBuilder::default().uint(1, id).uint(2, begin_ns);
    packet().message(6, &MessageBuilder::default().messages(1, CLOCKS.map(clock)).uint(2, CLOCKS[0]))
}

/// Facts about the capture, as attributes of the trace.
fn facts(timeline: &CaptureTimeline, left_out: [(&str, u64); 2]) -> MessageBuilder {
    let fact = |(name, text): (String, String)| MessageBuilder::default().text(1, &name).text(3, &text);
    let mut facts = timeline.facts();
    for (of, count) in left_out.into_iter().filter(|(_, count)| *count > 0) {
        facts.insert(format!("{of} left out"), count.to_string());
    }
    packet().message(126, &MessageBuilder::default().messages(1, facts.into_iter().map(fact)))
}

/// Samples at the begin of their launches. Those of launches without a time are at the beginning: none is lost.
fn samples(timeline: &CaptureTimeline, stacks: &[LaunchStack]) -> impl Iterator<Item = MessageBuilder> {
    let begin = timeline.begin_ns();
    let launch = |launch: &crate::timeline::TimelineLaunch| {
        let thread = slices::thread_number(launch.process_id, launch.thread_id.unwrap_or(0));
        (launch.kernel_id, (launch.begin_ns().unwrap_or(begin), launch.process_id, thread))
    };
    let times: std::collections::BTreeMap<_, _> = timeline.launches.iter().map(launch).collect();
    let counts = whole(&stacks.iter().map(|stack| stack.samples).collect::<Vec<_>>());
    stacks.iter().zip(counts).filter(|(_, count)| *count > 0).map(move |(stack, count)| {
        let (time, process, thread) = times.get(&stack.kernel_id).copied().unwrap_or((begin, 0, 0));
        let task = MessageBuilder::default().int(2, process).int(3, thread);
        let path = MessageBuilder::default().messages(1, stack.path().iter().map(inline));
        packet_at(time)
            .message(135, &MessageBuilder::default().message(1, &task).message(5, &path).uint(11, count))
    })
}

fn inline(frame: &CallFrame) -> MessageBuilder {
    let message = MessageBuilder::default().text(1, &frame.name);
    if frame.file.is_empty() { message } else { message.text(2, &frame.file).uint(3, frame.line.into()) }
}
