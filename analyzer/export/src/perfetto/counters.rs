//! Hardware counters at the begin of their launches.

use std::collections::BTreeMap;

use super::names::InternedStrings;
use super::packet_at;
use crate::proto::MessageBuilder;
use crate::timeline::{CaptureTimeline, TimelineCounter};

/// One packet per launch with counters. Viewers find the kernel by the time.
pub(super) fn packets<'a>(
    timeline: &'a CaptureTimeline,
    measured: &'a [TimelineCounter],
    names: &'a InternedStrings,
) -> impl Iterator<Item = MessageBuilder> + 'a {
    let mut by_launch: BTreeMap<u64, Vec<&TimelineCounter>> = BTreeMap::new();
    for counter in measured {
        by_launch.entry(counter.kernel_id).or_default().push(counter);
    }
    timeline.launches.iter().filter_map(move |launch| {
        let counters = by_launch.get(&launch.kernel_id)?;
        let value = |counter: &&TimelineCounter| {
            Some(MessageBuilder::default().uint(1, names.counter(&counter.metric)?).double(3, counter.value))
        };
        let event = MessageBuilder::default().uint(4, 1).messages(2, counters.iter().filter_map(value));
        Some(
            packet_at(launch.begin_ns()?)
                .message(52, &event.int(3, names.gpu(launch.run_id, launch.device_id))),
        )
    })
}
