//! Rows of one record of the GPU: one, or several if a request's lanes are too far apart.

use stallmap_schema::capture::request::{
    ATOMIC, OFFSETS_32, OFFSETS_64, PREFETCH, READ, REGULAR, RequestHeader, SLOT_BYTES, SPACE_GLOBAL,
    SPACE_GLOBAL_ASYNC, SPACE_LOCAL, SPACE_SHARED, WRITE,
};
use stallmap_schema::word::{AccessKind, Space};

/// Lanes of a warp.
const LANES: usize = 32;

/// A record with its header read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestRecord<'a> {
    pub(crate) request: RequestHeader,
    /// The lanes' distances, still as bytes. Empty where lanes are regular.
    distances: &'a [u8],
}

/// The columns of a row that say where its lanes access memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LaneColumns<'a> {
    pub(crate) lane_mask: u32,
    pub(crate) address: u64,
    pub(crate) span_bytes: u64,
    pub(crate) stride_bytes: Option<i32>,
    pub(crate) offsets: &'a [u32],
    pub(crate) offset_shift: u8,
}

/// The records of a frame's bytes, each with its position in them. Bytes that are no record end the iteration with
/// an error.
pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Result<(usize, RequestRecord<'_>), ()>> {
    let mut position = 0;
    std::iter::from_fn(move || {
        if position >= bytes.len() {
            return None;
        }
        let start = position;
        if let Some((record, length)) = RequestRecord::read(&bytes[start..]) {
            position += length;
            Some(Ok((start, record)))
        } else {
            position = bytes.len();
            Some(Err(()))
        }
    })
}

impl<'a> RequestRecord<'a> {
    /// The record at the start of bytes, and its length; `None` where there is none.
    pub(crate) fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let (slot, rest) = bytes.split_first_chunk()?;
        let record = Self::from_slot(slot, rest)?;
        Some((record, record.bytes()))
    }

    /// The record with this first slot, before these bytes; `None` where there is none.
    pub(crate) fn from_slot(slot: &[u8; SLOT_BYTES], rest: &'a [u8]) -> Option<Self> {
        let request = RequestHeader::read(slot);
        let known = matches!(request.encoding, REGULAR | OFFSETS_32 | OFFSETS_64)
            && request.lane_mask != 0
            && space(request.space).is_some()
            && kind(request.flags).is_some();
        if !known {
            return None;
        }
        let distances = rest.get(..(request.slots() - 1) * SLOT_BYTES)?;
        Some(Self { request, distances })
    }

    /// Number of active lanes.
    #[inline]
    pub(crate) fn lanes(&self) -> u64 {
        let mask = self.request.lane_mask;
        if mask == u32::MAX { LANES as u64 } else { mask.count_ones().into() }
    }

    /// The column `kind`.
    pub(crate) fn kind(&self) -> AccessKind {
        kind(self.request.flags).unwrap_or(AccessKind::Read)
    }

    /// The column `space`.
    pub(crate) fn space(&self) -> Space {
        space(self.request.space).unwrap_or(Space::Global)
    }

    /// The row's, or rows', addresses: at least one piece, whose masks are disjoint and together the request's.
    pub(crate) fn for_each_piece(&self, mut take: impl FnMut(LaneColumns<'_>)) {
        if self.request.encoding == REGULAR {
            return take(self.regular());
        }
        let mut all = [(0, 0); LANES];
        let lanes = self.lane_addresses(&mut all);
        if fits(lanes) {
            return take(self.piece(lanes, &mut [0; LANES]));
        }
        lanes.sort_unstable();
        let mut rest = lanes;
        while !rest.is_empty() {
            // Fewer lanes share at least the alignment of more, so the largest count that fits is the one to take.
            let count = (1..=rest.len()).rev().find(|count| fits(&rest[..*count])).unwrap_or(1);
            let (near, far) = rest.split_at_mut(count);
            near.sort_unstable_by_key(|(_, lane)| *lane);
            take(self.piece(near, &mut [0; LANES]));
            rest = far;
        }
    }

    /// All that records with the same rows have in common, but for address, warp and the lanes' distances. Two numbers,
    /// because bytes that were just put together are slow to compare.
    #[inline]
    pub(crate) fn shape(&self) -> (u64, u32) {
        let RequestHeader { access_bytes, flags, lane_mask, stride, space, encoding, .. } = self.request;
        let rest = [access_bytes, flags, space, encoding].map(u32::from);
        let lanes = u64::from(lane_mask) << 32 | u64::from(stride.cast_unsigned());
        (lanes, rest[0] << 24 | rest[1] << 16 | rest[2] << 8 | rest[3])
    }

    /// The distances of the active lanes, without the bytes that fill the last slot.
    #[inline]
    pub(crate) fn lane_distances(&self) -> &'a [u8] {
        let width = match self.request.encoding {
            OFFSETS_32 => 4,
            OFFSETS_64 => 8,
            _ => return &[],
        };
        self.distances.get(..self.request.lane_mask.count_ones() as usize * width).unwrap_or_default()
    }

    /// Bytes of the record.
    pub(crate) fn bytes(&self) -> usize {
        SLOT_BYTES + self.distances.len()
    }

    fn regular(&self) -> LaneColumns<'static> {
        let RequestHeader { address, lane_mask, access_bytes, stride, .. } = self.request;
        let lanes_apart = i64::from(lane_mask.ilog2()) - i64::from(lane_mask.trailing_zeros());
        // A lane alone has no stride.
        let stride = if lanes_apart == 0 { 0 } else { stride };
        let reach = i64::from(stride) * lanes_apart;
        LaneColumns {
            lane_mask,
            address: address.wrapping_add(reach.min(0).cast_unsigned()),
            span_bytes: reach.unsigned_abs() + u64::from(access_bytes),
            stride_bytes: Some(stride),
            offsets: &[],
            offset_shift: 0,
        }
    }

    /// (address, lane) of every active lane, in the lanes' order.
    fn lane_addresses<'b>(&self, lanes: &'b mut [(u64, u32); LANES]) -> &'b mut [(u64, u32)] {
        let width = if self.request.encoding == OFFSETS_64 { 8 } else { 4 };
        let distance = |bytes: &[u8]| match *bytes {
            [a, b, c, d] => i64::from(i32::from_le_bytes([a, b, c, d])),
            _ => bytes.first_chunk().map_or(0, |bytes| i64::from_le_bytes(*bytes)),
        };
        let mut count = 0;
        let mut mask = self.request.lane_mask;
        for (lane, bytes) in lanes.iter_mut().zip(self.distances.chunks_exact(width)) {
            if mask == 0 {
                break;
            }
            *lane =
                (self.request.address.wrapping_add(distance(bytes).cast_unsigned()), mask.trailing_zeros());
            mask &= mask - 1;
            count += 1;
        }
        &mut lanes[..count]
    }

    /// A row of lanes, lowest lane first, that are near enough to each other.
    fn piece<'b>(&self, lanes: &[(u64, u32)], offsets: &'b mut [u32; LANES]) -> LaneColumns<'b> {
        let LaneExtent { first, last, shift } = LaneExtent::from_lanes(lanes);
        for (offset, (address, _)) in offsets.iter_mut().zip(lanes) {
            *offset = u32::try_from((address - first) >> shift).unwrap_or(u32::MAX);
        }
        let alone = lanes.len() == 1;
        LaneColumns {
            lane_mask: lanes.iter().fold(0, |mask, (_, lane)| mask | 1 << lane),
            address: first,
            span_bytes: (last - first).saturating_add(self.request.access_bytes.into()),
            stride_bytes: alone.then_some(0),
            offsets: if alone { &[] } else { &offsets[..lanes.len()] },
            offset_shift: if alone { 0 } else { shift },
        }
    }
}

/// Range of the lanes' addresses.
struct LaneExtent {
    first: u64,
    last: u64,
    /// The alignment that all distances from the first share, in bits.
    shift: u8,
}

impl LaneExtent {
    fn from_lanes(lanes: &[(u64, u32)]) -> Self {
        let addresses = || lanes.iter().map(|lane| lane.0);
        let first = addresses().min().unwrap_or(0);
        let bits = addresses().fold(0, |bits, address| bits | (address - first));
        let shift = u8::try_from(bits.trailing_zeros() % 64).unwrap_or(0);
        Self { first, last: addresses().max().unwrap_or(0), shift }
    }
}

/// True if the distances of lanes from the first of them fit their column.
fn fits(lanes: &[(u64, u32)]) -> bool {
    let LaneExtent { first, last, shift } = LaneExtent::from_lanes(lanes);
    u32::try_from((last - first) >> shift).is_ok()
}

/// The kind that a request's flags mean.
pub fn kind(flags: u8) -> Option<AccessKind> {
    let kinds = [
        (ATOMIC, AccessKind::Atomic),
        (PREFETCH, AccessKind::Prefetch),
        (WRITE, AccessKind::Write),
        (READ, AccessKind::Read),
    ];
    kinds.into_iter().find(|(flag, _)| flags & flag != 0).map(|(_, kind)| kind)
}

/// The address space with a request's number.
pub fn space(code: u8) -> Option<Space> {
    match code {
        SPACE_GLOBAL => Some(Space::Global),
        SPACE_GLOBAL_ASYNC => Some(Space::GlobalAsync),
        SPACE_SHARED => Some(Space::Shared),
        SPACE_LOCAL => Some(Space::Local),
        _ => None,
    }
}
