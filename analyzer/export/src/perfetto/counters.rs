//! Hardware counters at the begin of their launches.

use std::collections::BTreeMap;

use super::names::Names;
use super::packet_at;
use crate::proto::Message;
use crate::timeline::{Counter, Timeline};

/// One packet per launch with counters. Viewers find the kernel by the time.
pub(super) fn packets<'a>(
    timeline: &'a Timeline,
    measured: &'a [Counter],
    names: &'a Names,
) -> impl Iterator<Item = Message> + 'a {
    let mut by_launch: BTreeMap<u64, Vec<&Counter>> = BTreeMap::new();
    for counter in measured {
        by_launch.entry(counter.kernel_id).or_default().push(counter);
    }
    timeline.launches.iter().filter_map(move |launch| {
        let counters = by_launch.get(&launch.kernel_id)?;
        let value = |counter: &&Counter| {
            Some(Message::default().uint(1, names.counter(&counter.metric)?).double(3, counter.value))
        };
        let event = Message::default().uint(4, 1).messages(2, counters.iter().filter_map(value));
        Some(packet_at(launch.begin_ns()?).message(52, &event.int(3, launch.device_id)))
    })
}
