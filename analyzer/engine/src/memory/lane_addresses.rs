//! The addresses of a request's lanes, of all or of those in a sample.

use std::ops::Range;
use std::slice::Iter;

use super::loads::RequestLane;
use super::regular::RegularLanes;
use super::request::SECTOR_BYTES;
use super::sampler::HashSampler;

/// The addresses of a request's lanes.
#[derive(Clone, Copy, Debug)]
pub(super) enum LaneAddresses {
    /// Addresses of adjacent lanes from a first one, at equal distances: most requests. They take no memory.
    Regular(RegularLanes),
    /// Some of such lanes, by their positions: those of a sample. They take none either.
    Part(RegularLanes, u32),
    /// Addresses in a list, from a position on.
    Listed(u32),
}

/// Iterator over the lanes of a request, in ascending order.
pub(super) enum LaneIter<'a> {
    Regular(RegularLanes, Range<u32>),
    /// Positions that remain, and the number of lanes to return.
    Part(RegularLanes, u32, u32),
    Listed(Iter<'a, RequestLane>),
}

impl LaneAddresses {
    /// Some regular lanes, by a bit for each position, in a sample of the sectors. Returns the number of lanes, too.
    pub(super) fn in_sample(regular: RegularLanes, lanes: u32, sampler: HashSampler) -> (Self, u32) {
        let (mut taken, mut rest) = (0, lanes);
        let mut last = None;
        while rest != 0 {
            let index = rest.trailing_zeros();
            rest &= rest - 1;
            let sector = regular.lane(index).address / SECTOR_BYTES;
            // Neighbors are mostly in the same sector.
            let is_in = match last {
                Some((known, is_in)) if known == sector => is_in,
                _ => sampler.keeps(sector),
            };
            last = Some((sector, is_in));
            taken |= u32::from(is_in) << index;
        }
        (Self::Part(regular, taken), taken.count_ones())
    }

    /// The lanes at some positions among those that are there.
    pub(super) fn lanes(self, positions: Range<u32>, listed: &[RequestLane]) -> LaneIter<'_> {
        match self {
            Self::Regular(regular) => LaneIter::Regular(regular, positions),
            Self::Part(regular, mut taken) => {
                for _ in 0..positions.start {
                    taken &= taken.wrapping_sub(1);
                }
                LaneIter::Part(regular, taken, positions.end.saturating_sub(positions.start))
            }
            Self::Listed(begin) => {
                let range = (begin + positions.start) as usize..(begin + positions.end) as usize;
                LaneIter::Listed(listed.get(range).unwrap_or_default().iter())
            }
        }
    }
}

/// A bit for each of the first positions.
pub(super) fn first(lanes: u32) -> u32 {
    1_u32.checked_shl(lanes).map_or(u32::MAX, |bit| bit - 1)
}

impl Iterator for LaneIter<'_> {
    type Item = RequestLane;

    #[inline]
    fn next(&mut self) -> Option<RequestLane> {
        match self {
            Self::Regular(regular, addresses) => addresses.next().map(|index| regular.lane(index)),
            Self::Part(regular, taken, left) => {
                *left = left.checked_sub(1)?;
                let index = taken.trailing_zeros();
                *taken &= taken.checked_sub(1)?;
                Some(regular.lane(index))
            }
            Self::Listed(lanes) => lanes.next().copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::request::{self, WarpRequest};

    #[test]
    fn regular_lanes_in_a_sample_are_those_that_a_list_keeps() {
        let mut half = HashSampler::default();
        half.halve();
        let mut quarter = half;
        quarter.halve();
        for (stride, mask) in
            (-40..=40).flat_map(|stride| [u32::MAX, 0xff0, 1 << 31].map(|mask| (stride, mask)))
        {
            let access = WarpRequest {
                lane_mask: mask,
                address: 0x7f30_1003,
                span_bytes: 0,
                access_bytes: 4,
                lanes: request::ActiveLanes::Regular(stride),
            };
            let regular = RegularLanes::from_request(&access).unwrap();
            let seen = |lanes: LaneIter<'_>| lanes.map(|lane| (lane.lane, lane.address)).collect::<Vec<_>>();
            let listed = |sampler: HashSampler| {
                let lanes = (0..mask.count_ones()).map(|index| regular.lane(index));
                let taken = lanes.filter(|lane| sampler.keeps(lane.address / SECTOR_BYTES));
                taken.map(|lane| (lane.lane, lane.address)).collect::<Vec<_>>()
            };
            let (addresses, count) = LaneAddresses::in_sample(regular, first(mask.count_ones()), half);
            assert_eq!(seen(addresses.lanes(0..count, &[])), listed(half));
            for from in 0..count {
                let range = from as usize..(from + 1).min(count) as usize;
                assert_eq!(seen(addresses.lanes(from..from + 1, &[])), listed(half)[range]);
            }
            let LaneAddresses::Part(_, taken) = addresses else { panic!("{addresses:?}") };
            let (addresses, count) = LaneAddresses::in_sample(regular, taken, quarter);
            assert_eq!(seen(addresses.lanes(0..count, &[])), listed(quarter));
        }
    }
}
