//! Records in the ring: a segment's record with its launch's tag in bits that a segment's leaves 0.

use stallmap_schema::capture::request::{OFFSETS_32, OFFSETS_64, SLOT_BYTES};

/// Number of tags: a tag has 15 bits.
pub(super) const TAGS: u32 = 1 << 15;

/// The launch that a record belongs to, among those that share a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct LaunchTag(pub(super) u32);

impl LaunchTag {
    /// The tag of a graph's node, by its offset from the graph launch's.
    pub(super) fn plus(self, offset: u32) -> Self {
        Self((self.0 + offset) % TAGS)
    }
}

/// A slot as the reader takes it from the ring: four words.
pub(super) type RingSlot = [u64; 4];

/// Bits of word 1 with bits 0-3 of the tag, above the request's flags.
const LOW: u64 = 0xf << 60;
/// Bits of word 3 with bits 4-9 of the tag, above the request's address space.
const MIDDLE: u64 = 0x3f << 50;
/// Bits of word 3 with bits 10-14 of the tag, above the request's encoding.
const HIGH: u64 = 0x1f << 58;
/// Bit of word 3 that marks a complete record.
const COMPLETE: u64 = 1 << 63;

/// The tag of a header, and the header as segments have it.
pub(super) fn split([address, code, lanes, block]: RingSlot) -> (LaunchTag, RingSlot) {
    let (low, middle, high) = ((code & LOW) >> 60, (block & MIDDLE) >> 50, (block & HIGH) >> 58);
    let tag = u32::try_from(low | middle << 4 | high << 10).unwrap_or(0);
    (LaunchTag(tag), [address, code & !LOW, lanes, block & !(MIDDLE | HIGH | COMPLETE)])
}

/// The lane mask of a header without its tag.
pub(super) fn lanes([_, _, lanes, _]: &RingSlot) -> u32 {
    u32::try_from(lanes & u64::from(u32::MAX)).unwrap_or(0)
}

/// Slots behind a header without its tag: those of the lanes' distances.
pub(super) fn slots_behind(header: &RingSlot) -> u64 {
    let lanes = u64::from(lanes(header).count_ones());
    let bytes = match header[3] >> 56 {
        encoding if encoding == u64::from(OFFSETS_32) => lanes * 4,
        encoding if encoding == u64::from(OFFSETS_64) => lanes * 8,
        _ => 0,
    };
    bytes.div_ceil(SLOT_BYTES as u64)
}

/// The bytes of a slot.
pub(super) fn bytes(slot: &RingSlot) -> [u8; SLOT_BYTES] {
    let mut bytes = [0; SLOT_BYTES];
    for (eight, word) in bytes.as_chunks_mut().0.iter_mut().zip(slot) {
        *eight = word.to_le_bytes();
    }
    bytes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stallmap_schema::capture::request::RequestHeader;

    use super::*;

    /// As `device/access.cu` writes it.
    fn join(tag: u32, mut slot: [u8; SLOT_BYTES]) -> [u8; SLOT_BYTES] {
        slot[15] |= (tag & 15) as u8 * 16;
        slot[30] |= (tag >> 4 & 63) as u8 * 4;
        slot[31] |= 128 | ((tag >> 10) as u8 * 4);
        slot
    }

    proptest! {
        #[test]
        fn a_tag_and_its_record_come_apart(
            tag in 0..TAGS,
            (address, pc, block) in (any::<u64>(), 0..1_u64 << 48, 0..1_u64 << 40),
            (access_bytes, flags, lane_mask, stride) in (any::<u8>(), 0..16_u8, any::<u32>(), any::<i32>()),
            (warp, space, encoding) in (0..32_u8, 0..4_u8, 0..3_u8),
        ) {
            let request = RequestHeader {
                address, pc, access_bytes, flags, lane_mask, stride, block, warp, space, encoding,
            };
            let joined = join(tag, request.write());
            let word = |at: usize| u64::from_le_bytes(*joined[at * 8..].first_chunk().unwrap());
            let (found, slot) = split([word(0), word(1), word(2), word(3)]);
            prop_assert_eq!((found, RequestHeader::read(&bytes(&slot))), (LaunchTag(tag), request));
            prop_assert_eq!(lanes(&slot), request.lane_mask);
            prop_assert_eq!(slots_behind(&slot) + 1, request.slots() as u64);
        }
    }
}
