//! Adjacent lanes of a request at equal distances: most requests. Their sectors are computed, not searched lane by lane.

use std::ops::Range;

use super::loads::RequestLane;
use super::request::{ActiveLanes, SECTOR_BYTES, WarpRequest, contiguous};

/// Adjacent lanes at equal distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct RegularLanes {
    /// The first lane and its address.
    lane: u8,
    address: u64,
    /// Bytes from a lane to the next.
    stride: i32,
}

impl RegularLanes {
    /// The lanes of an access, if they are adjacent and regular, and none is past the last address.
    pub(super) fn from_request(access: &WarpRequest<'_>) -> Option<Self> {
        let ActiveLanes::Regular(stride) = access.lanes else { return None };
        let (mask, count) = (access.lane_mask, i64::from(access.lane_mask.count_ones()));
        let span = i64::from(stride.unsigned_abs()) * (count - 1);
        access.address.checked_add(span.unsigned_abs())?.checked_add(access.access_bytes)?;
        // If distances are negative, the highest lane has the lowest address.
        let address = if stride < 0 { access.address + span.unsigned_abs() } else { access.address };
        let lane = u8::try_from(mask.trailing_zeros()).ok()?;
        contiguous(mask).then_some(Self { lane, address, stride })
    }

    /// One of the lanes, by its position from the first.
    pub(super) fn lane(self, index: u32) -> RequestLane {
        let distance = i64::from(index) * i64::from(self.stride);
        let lane = self.lane.saturating_add(u8::try_from(index).unwrap_or(u8::MAX));
        RequestLane { address: self.address.wrapping_add_signed(distance), lane }
    }

    /// The lowest and the highest address of some lanes. None without lanes.
    pub(super) fn span(self, lanes: u32) -> Option<(u64, u64)> {
        let (one, other) = (self.address, self.lane(lanes.checked_sub(1)?).address);
        Some((one.min(other), one.max(other)))
    }

    /// The sectors that some lanes touch, if they touch all in between, and per sector the positions of those lanes.
    pub(super) fn sectors(self, bytes: u8, lanes: u32) -> Option<impl Iterator<Item = (u64, Range<u32>)>> {
        let (stride, last) = (u64::from(self.stride.unsigned_abs()), u64::from(lanes.checked_sub(1)?));
        let (bytes, is_down) = (u64::from(bytes), self.stride < 0);
        let low = if is_down { self.address - stride * last } else { self.address };
        let sectors = low / SECTOR_BYTES..=(low + stride * last + bytes - 1) / SECTOR_BYTES;
        let within = move |sector: u64| {
            let begin = sector * SECTOR_BYTES;
            let (from, to) = match stride {
                0 => (0, last),
                stride => {
                    let before = (begin + 1).saturating_sub(bytes).saturating_sub(low);
                    (before.div_ceil(stride), ((begin + SECTOR_BYTES - 1 - low) / stride).min(last))
                }
            };
            let (from, to) = if is_down { (last - to, last - from) } else { (from, to) };
            (sector, position_of(from)..position_of(to) + 1)
        };
        (stride <= SECTOR_BYTES).then(|| sectors.map(within))
    }

    /// The first byte of some lanes and their number of bytes, if they leave no gap.
    pub(super) fn run(self, bytes: u8, lanes: Range<u32>) -> Option<(u64, u64)> {
        let (stride, bytes) = (u64::from(self.stride.unsigned_abs()), u64::from(bytes));
        let last = u64::from(lanes.end - lanes.start).checked_sub(1)?;
        let low = if self.stride < 0 { lanes.end - 1 } else { lanes.start };
        (stride <= bytes).then(|| (self.lane(low).address, stride * last + bytes))
    }
}

/// A position among the lanes of a warp.
fn position_of(lane: u64) -> u32 {
    u32::try_from(lane).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The lanes of each sector, lane by lane.
    fn one_by_one(regular: RegularLanes, bytes: u8, lanes: u32) -> BTreeMap<u64, Vec<u32>> {
        let mut sectors = BTreeMap::<u64, Vec<u32>>::new();
        for index in 0..lanes {
            let RequestLane { address, .. } = regular.lane(index);
            for sector in address / SECTOR_BYTES..=(address + u64::from(bytes) - 1) / SECTOR_BYTES {
                sectors.entry(sector).or_default().push(index);
            }
        }
        sectors
    }

    #[test]
    fn sectors_have_the_lanes_that_touch_them() {
        for (stride, bytes) in
            (-33..=33).flat_map(|stride| [1, 2, 4, 8, 12, 16, 64].map(|bytes| (stride, bytes)))
        {
            for (start, mask) in [(0x1000, u32::MAX), (0x101e, 0xff0), (0x1003, 1 << 31), (0x1011, 7)] {
                let access = WarpRequest {
                    lane_mask: mask,
                    address: start,
                    span_bytes: 0,
                    access_bytes: bytes.into(),
                    lanes: ActiveLanes::Regular(stride),
                };
                let regular = RegularLanes::from_request(&access).unwrap();
                let lanes = mask.count_ones();
                let own: Vec<(u32, u64)> = (0..lanes)
                    .map(|index| regular.lane(index))
                    .map(|lane| (lane.lane.into(), lane.address))
                    .collect();
                assert!(own.into_iter().eq(access.addresses()));
                match regular.sectors(bytes, lanes) {
                    Some(sectors) => {
                        let found: BTreeMap<u64, Vec<u32>> =
                            sectors.map(|(sector, lanes)| (sector, lanes.collect())).collect();
                        assert_eq!(
                            found,
                            one_by_one(regular, bytes, lanes),
                            "{stride} {bytes} {start:x} {mask:x}"
                        );
                    }
                    None => assert_eq!(stride.abs(), 33),
                }
            }
        }
    }

    #[test]
    fn lanes_beyond_the_last_address_are_not_regular() {
        let access = |address, mask| WarpRequest {
            lane_mask: mask,
            address,
            span_bytes: 0,
            access_bytes: 4,
            lanes: ActiveLanes::Regular(4),
        };
        assert!(RegularLanes::from_request(&access(u64::MAX - 128, u32::MAX)).is_some());
        assert!(RegularLanes::from_request(&access(u64::MAX - 127, u32::MAX)).is_none());
        assert!(RegularLanes::from_request(&access(0x1000, 5)).is_none());
    }
}
