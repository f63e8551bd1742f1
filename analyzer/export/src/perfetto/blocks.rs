//! Blocks as slices: a track for each slot of each multiprocessor.

use std::collections::BTreeMap;

use super::slices::{BEGIN, END, number};
use super::{packet, packet_at};
use crate::proto::MessageBuilder;
use crate::round::unsigned;
use crate::timeline::TimelineBlock;

/// The number of the track that holds those of all multiprocessors, above all tracks of threads.
const PARENT: u64 = 1 << 61;

/// The slots of a multiprocessor: the end of the last block of each, and its track.
#[derive(Default)]
struct MultiprocessorSlots(Vec<(u64, u64)>);

impl MultiprocessorSlots {
    /// The track of the first slot that is free at a time, for a block that ends at another. `new` is the track of a slot
    /// that is not there yet.
    fn take(&mut self, begin_ns: u64, end_ns: u64, new: u64) -> u64 {
        if let Some((end, track)) = self.0.iter_mut().find(|(end, _)| *end <= begin_ns) {
            *end = end_ns;
            return *track;
        }
        self.0.push((end_ns, new));
        new
    }
}

/// Descriptors of tracks and slices, for blocks in the order of their begins.
pub(super) fn packets(blocks: &[TimelineBlock]) -> Vec<MessageBuilder> {
    let mut slots: BTreeMap<(i64, i64), MultiprocessorSlots> = BTreeMap::new();
    let mut tracks = PARENT;
    let mut packets = Vec::new();
    for block in blocks {
        let begin = unsigned(block.begin_ns);
        let end = begin.saturating_add(unsigned(block.duration_ns));
        let own = slots.entry((block.process_id, block.multiprocessor)).or_default();
        let track = own.take(begin, end, tracks + 1);
        if track > tracks {
            if tracks == PARENT {
                packets.push(described(PARENT, "blocks", None));
            }
            tracks = track;
            let name = format!("multiprocessor {:03}, slot {:02}", block.multiprocessor, own.0.len() - 1);
            packets.push(described(track, &name, Some(PARENT)));
        }
        let kernel = block.kernel.as_deref().unwrap_or("(unknown kernel)");
        let event = MessageBuilder::default()
            .text(22, "block")
            .text(23, &format!("{kernel} [{}]", block.block))
            .message(4, &number("kernel_id", block.kernel_id))
            .message(4, &number("block", unsigned(block.block)))
            .message(4, &number("wave", unsigned(block.wave)));
        packets.push(packet_at(begin).message(11, &event.uint(9, BEGIN).uint(11, track)));
        packets.push(packet_at(end).message(11, &MessageBuilder::default().uint(9, END).uint(11, track)));
    }
    packets
}

/// Blocks with a time that the trace does not have.
pub(super) fn left_out(blocks: &[TimelineBlock]) -> u64 {
    let all = blocks.first().map_or(0, |block| unsigned(block.blocks));
    all.saturating_sub(blocks.len() as u64)
}

pub(super) fn described(track: u64, name: &str, parent: Option<u64>) -> MessageBuilder {
    let place = MessageBuilder::default().uint(1, track).text(2, name);
    packet().message(60, &place.with(parent, |place, parent| place.uint(5, parent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_takes_the_first_free_slot() {
        let mut slots = MultiprocessorSlots::default();
        let tracks = [(0, 10, 1), (2, 5, 2), (5, 9, 3), (9, 12, 3), (10, 11, 3), (10, 11, 3)]
            .map(|(begin, end, new)| slots.take(begin, end, new));
        assert_eq!(tracks, [1, 2, 2, 2, 1, 3]);
    }
}
