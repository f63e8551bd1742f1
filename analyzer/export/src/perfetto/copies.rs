//! Copies and fills as stages of the GPU.

use super::kernels::event_id;
use super::names::{COPY_STAGE, FILL_STAGE, InternedStrings};
use super::packet_at;
use crate::proto::MessageBuilder;
use crate::round::unsigned;
use crate::timeline::{CaptureTimeline, SharedCalls, TimelineCopy};

/// A copy or fill with a time on the GPU.
pub(super) struct TimedCopy<'a> {
    pub(super) copy: &'a TimelineCopy,
    /// Its place among all copies and fills.
    pub(super) place: usize,
    end_ns: i64,
    /// The number of its event, behind those of launches.
    pub(super) event_id: u64,
}

/// The number of the event of a copy or fill, by its place.
pub(super) fn copy_event(timeline: &CaptureTimeline) -> impl Fn(usize) -> u64 + use<> {
    let last = timeline.launches.iter().map(|launch| event_id(launch.kernel_id)).max().unwrap_or(0);
    move |place| last + 1 + place as u64
}

/// Copies and fills with a time on the GPU.
pub(super) fn timed(timeline: &CaptureTimeline) -> impl Iterator<Item = TimedCopy<'_>> {
    let event = copy_event(timeline);
    let timed = timeline.copies.iter().enumerate();
    timed.filter_map(move |(place, copy)| {
        Some(TimedCopy { copy, place, end_ns: copy.end_ns?, event_id: event(place) })
    })
}

/// One packet per copy and fill with a time on the GPU.
pub(super) fn packets<'a>(
    timeline: &'a CaptureTimeline,
    names: &'a InternedStrings,
    calls: &'a SharedCalls,
) -> impl Iterator<Item = MessageBuilder> + 'a {
    let event = copy_event(timeline);
    timed(timeline).map(move |timed| {
        let works = calls.of_copy(timed.copy);
        let first = works.and_then(|works| works.copies.first()).map(|place| event(*place));
        // Kernels of one call share the number of the first one, and its copies too.
        let correlation = works.and_then(|works| works.kernels.first().copied()).or(first);
        let stage = stage(&timed, names, correlation.unwrap_or(timed.event_id));
        packet_at(unsigned(timed.copy.begin_ns)).message(53, &stage)
    })
}

fn stage(timed: &TimedCopy<'_>, names: &InternedStrings, correlation: u64) -> MessageBuilder {
    let TimedCopy { copy, end_ns, event_id, .. } = timed;
    let extra = [
        ("correlation", copy.call_begin_ns.map(|_| correlation)),
        ("bytes", copy.size_bytes),
        ("stream", copy.stream_id.map(u64::from)),
        ("device", copy.device_id.map(unsigned)),
    ];
    let extra = extra.into_iter().filter_map(|(name, value)| {
        Some(MessageBuilder::default().text(1, name).text(2, &value?.to_string()))
    });
    MessageBuilder::default()
        .uint(1, *event_id)
        .uint(2, unsigned(end_ns.saturating_sub(copy.begin_ns)))
        .with(names.context(copy.process_id), |stage, context| stage.uint(5, context))
        .messages(6, extra)
        .int(11, names.gpu(copy.run_id, copy.device_id.unwrap_or(0)))
        .with(names.stream(copy.stream_id.unwrap_or(0)), |stage, stream| stage.uint(13, stream))
        .uint(14, if copy.kind == "fill" { FILL_STAGE } else { COPY_STAGE })
        .text(17, &copy.name())
}
