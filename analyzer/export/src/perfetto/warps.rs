//! Phases of warps as slices: a track for each warp of each block.

use std::collections::BTreeMap;

use super::blocks::described;
use super::packet_at;
use super::slices::{BEGIN, END, number};
use crate::proto::MessageBuilder;
use crate::round::unsigned;
use crate::timeline::TimelinePhase;

/// The number of the track that holds those of all warps, above all tracks of blocks.
const PARENT: u64 = 1 << 62;

/// Descriptors of tracks and slices, for phases in the order of their begins.
pub(super) fn packets(phases: &[TimelinePhase]) -> Vec<MessageBuilder> {
    let mut tracks: BTreeMap<(i64, i64, i64), u64> = BTreeMap::new();
    let mut packets = Vec::new();
    for phase in phases {
        if tracks.is_empty() {
            packets.push(described(PARENT, "warps", None));
        }
        let new = PARENT + 1 + tracks.len() as u64;
        let track = *tracks.entry((phase.process_id, phase.block, phase.warp)).or_insert(new);
        if track == new {
            let name = format!("block {:05}, warp {:02}", phase.block, phase.warp);
            packets.push(described(track, &name, Some(PARENT)));
        }
        let begin = unsigned(phase.begin_ns);
        let end = begin.saturating_add(unsigned(phase.duration_ns));
        let place = phase.line.clone().unwrap_or_else(|| format!("+{:#x}", phase.pc));
        let event = MessageBuilder::default()
            .text(22, "warp")
            .text(23, &format!("{} at {place}", phase.phase))
            .message(4, &number("kernel_id", phase.kernel_id))
            .message(4, &number("pc", unsigned(phase.pc)));
        packets.push(packet_at(begin).message(11, &event.uint(9, BEGIN).uint(11, track)));
        packets.push(packet_at(end).message(11, &MessageBuilder::default().uint(9, END).uint(11, track)));
    }
    packets
}

/// Phases with a time that the trace does not have.
pub(super) fn left_out(phases: &[TimelinePhase]) -> u64 {
    let all = phases.first().map_or(0, |phase| unsigned(phase.phases));
    all.saturating_sub(phases.len() as u64)
}
