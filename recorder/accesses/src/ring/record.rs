//! Records in the ring: a segment's record with its launch's tag in bits that a segment's leaves 0.

use stallmap_schema::capture::request::SLOT_BYTES;

/// Number of tags: a tag has 15 bits.
pub(super) const TAGS: u32 = 1 << 15;

/// The launch that a record belongs to, among those that share a ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Tag(pub(super) u32);

impl Tag {
    /// The tag of a graph's node, by its offset from the graph launch's.
    pub(super) fn plus(self, offset: u32) -> Self {
        Self((self.0 + offset) % TAGS)
    }
}

/// Bits of byte 15 with a request's flags. The upper 4 bits hold bits 0-3 of the tag.
const FLAGS: u8 = 0x0f;
/// Bits of byte 30 with a request's address space. The upper 6 bits hold bits 4-9 of the tag.
const SPACE: u8 = 0x03;
/// Bits of byte 31 with a request's encoding. The next 5 bits hold bits 10-14 of the tag, and bit 7 marks a complete
/// record.
const ENCODING: u8 = 0x03;

/// Splits a header into its tag and the header as segments have it.
pub(super) fn split(mut slot: [u8; SLOT_BYTES]) -> (Tag, [u8; SLOT_BYTES]) {
    let low = u32::from(slot[15] >> 4);
    let middle = u32::from(slot[30] >> 2);
    let high = u32::from(slot[31] >> 2 & 0x1f);
    slot[15] &= FLAGS;
    slot[30] &= SPACE;
    slot[31] &= ENCODING;
    (Tag(low | middle << 4 | high << 10), slot)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use stallmap_schema::capture::request::Request;

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
            let request = Request {
                address, pc, access_bytes, flags, lane_mask, stride, block, warp, space, encoding,
            };
            let (found, slot) = split(join(tag, request.write()));
            prop_assert_eq!((found, Request::read(&slot)), (Tag(tag), request));
        }
    }
}
