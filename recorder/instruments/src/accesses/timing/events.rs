//! Events of warps, as the GPU writes them: rings, whose layout is in `device/block.cu` and [`stallmap_sass::splice`].

use stallmap_sass::splice::{EVENT_BYTES, MARKER_BITS, WarpMarker};
use stallmap_schema::id::{KernelId, Pc, RunId};
use stallmap_schema::tables::block::WarpEvent;
use stallmap_schema::word::WarpMoment;

use super::layout::LaunchClock;

/// Bytes of a warp's ring.
pub(crate) const RING_BYTES: u64 = 8 << 10;
/// About so many warps of a launch have rings that are read.
pub(crate) const MARKED_WARPS: u64 = 512;
/// Rings that are read: blocks are whole.
pub(crate) const READ_RINGS: u64 = MARKED_WARPS + 32;
/// Rings for all other warps.
pub(crate) const OTHER_RINGS: u64 = 64;
/// Bytes of device memory for the rings, at an address that is a multiple of a ring's.
pub(super) const MEMORY_BYTES: u64 = (READ_RINGS + OTHER_RINGS) * RING_BYTES;

/// The warps of a launch whose events are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct MarkedWarps {
    /// One of so many blocks is marked.
    step: u64,
    warps: u64,
    blocks: u64,
}

impl MarkedWarps {
    pub(super) fn new(blocks: u64, warps: u64) -> Self {
        Self { step: (blocks * warps).div_ceil(MARKED_WARPS).max(1), warps, blocks }
    }

    /// Bytes of their rings.
    pub(super) fn bytes(self) -> u64 {
        self.blocks.div_ceil(self.step) * self.warps * RING_BYTES
    }

    /// Rows of their events, from the bytes of their rings, and the number of events that later ones have overwritten.
    pub(super) fn events(
        self,
        ordinal: u64,
        bytes: &[u8],
        markers: &[WarpMarker],
        clock: &LaunchClock,
    ) -> (Vec<WarpEvent>, u64) {
        let (mut rows, mut lost) = (Vec::new(), 0);
        let rings = bytes.chunks_exact(usize::try_from(RING_BYTES).unwrap_or(usize::MAX));
        for (ring, events) in (0..).zip(rings) {
            let (block, warp) = (ring / self.warps * self.step, ring % self.warps);
            let Some(clock) = clock.for_block(block) else { continue };
            let events = ring_events(events);
            lost += events.first().map_or(0, |first| u64::from(first.number));
            for event in events {
                let Some(marker) = markers.get(event.marker) else { continue };
                let cycles = event.clock.wrapping_sub(clock.begin_clock);
                rows.push(WarpEvent {
                    run_id: RunId(0),
                    kernel_id: KernelId(ordinal),
                    block,
                    warp: u16::try_from(warp).unwrap_or(u16::MAX),
                    sequence: event.number,
                    pc: Pc(marker.offset),
                    moment: if marker.is_end { WarpMoment::Done } else { WarpMoment::Issue },
                    cycles: cycles.into(),
                    time_ns: clock.at(cycles.into()),
                });
            }
        }
        (rows, lost)
    }
}

/// One event of a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct RingEvent {
    /// Events of the warp before it.
    number: u32,
    marker: usize,
    clock: u32,
}

/// The events of a ring, in order. Counts of a warp go round in `32 - MARKER_BITS` bits, far more than a ring holds.
fn ring_events(bytes: &[u8]) -> Vec<RingEvent> {
    let word = |part: &[u8; EVENT_BYTES]| {
        let (words, _) = part.as_chunks::<4>();
        let [clock, word] = <[[u8; 4]; 2]>::try_from(words).unwrap_or_default().map(u32::from_le_bytes);
        let number = (word >> MARKER_BITS).checked_sub(1)?;
        Some(RingEvent { number, marker: (word & ((1 << MARKER_BITS) - 1)) as usize, clock })
    };
    let mut events: Vec<RingEvent> = bytes.as_chunks().0.iter().filter_map(word).collect();
    events.sort_unstable_by_key(|event| event.number);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(count: u32, marker: u32, clock: u32) -> [u8; 8] {
        (u64::from(count << MARKER_BITS | marker) << 32 | u64::from(clock)).to_le_bytes()
    }

    #[test]
    fn events_have_their_block_and_time() {
        let warps = MarkedWarps::new(1024, 2);
        assert_eq!((warps.step, warps.bytes()), (4, 512 * RING_BYTES));
        let markers = [WarpMarker { offset: 32, is_end: false }, WarpMarker { offset: 32, is_end: true }];
        let mut bytes = vec![0; usize::try_from(warps.bytes()).unwrap()];
        // The fourth ring: the second warp of block 4. Its first two events were overwritten.
        let ring = 3 * usize::try_from(RING_BYTES).unwrap();
        for (at, event) in [event(5, 1, 300), event(3, 0, 120), event(4, 9, 130)].into_iter().enumerate() {
            bytes[ring + at * 8..ring + at * 8 + 8].copy_from_slice(&event);
        }
        let clock = LaunchClock::for_test(4, 1_000_000, 100, (1, 2));
        let (rows, lost) = warps.events(7, &bytes, &markers, &clock);
        let seen: Vec<_> = rows
            .iter()
            .map(|row| (row.block, row.warp, row.sequence, row.moment, row.cycles, row.time_ns))
            .collect();
        let expected =
            [(4, 1, 2, WarpMoment::Issue, 20, 1_000_010), (4, 1, 4, WarpMoment::Done, 200, 1_000_100)];
        assert_eq!((seen.as_slice(), lost), (expected.as_slice(), 2));
    }
}
