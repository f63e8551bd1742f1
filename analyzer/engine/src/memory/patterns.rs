//! Sectors of requests whose lanes are as far apart as those of an earlier one: a loop makes the same request elsewhere.

use super::request::{ActiveLanes, SECTOR_BYTES, TouchedMemory, WarpRequest};
use super::shape::{self, LINE_BYTES};

/// Positions of a lowest address in its sector.
const PLACES: usize = 32;
const _: () = assert!(PLACES as u64 == SECTOR_BYTES);
/// The same in its line.
const PLACES_OF_LINE: usize = 128;
const _: () = assert!(PLACES_OF_LINE as u64 == LINE_BYTES);

/// See [`LaneDistances::key`].
pub type PatternKey = [u64; 3];

/// The distances of lanes that occurred last.
#[derive(Clone, Debug, Default)]
pub struct LaneDistances {
    /// Instructions of one loop have few, and rows of an instruction are adjacent.
    known: [DistancePattern; 4],
    /// The one that is replaced next.
    oldest: usize,
    /// Shapes that were computed so far.
    computed: u64,
    /// Patterns that were replaced so far.
    replaced: u64,
}

/// Lanes at the same distances.
#[derive(Clone, Debug, Default)]
struct DistancePattern {
    number: u64,
    lane_mask: u32,
    access_bytes: u64,
    shift: u8,
    offsets: Vec<u32>,
    /// Bytes from the lowest address to the end of the highest access. None without lanes.
    span_bytes: Option<u64>,
    /// By the position of the lowest address in its sector. Empty until one is asked for.
    shapes: Vec<Option<SectorShape>>,
    /// By its position in its line. Empty until one is asked for.
    whole: Vec<Option<shape::AccessedShape>>,
}

/// Sectors as runs of adjacent ones, from that of the lowest address on.
#[derive(Clone, Debug)]
struct SectorShape {
    /// A number that no shape with other sectors has.
    number: u64,
    /// None until it is asked for.
    touched: Option<TouchedMemory>,
    runs: Vec<(u64, u64)>,
}

impl DistancePattern {
    fn is_of(&self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> bool {
        (self.lane_mask, self.access_bytes, self.shift) == (request.lane_mask, request.access_bytes, shift)
            && self.offsets == offsets
    }
}

/// Bytes from the lowest address of a request to the end of its highest access. None without lanes.
fn span_bytes(request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> Option<u64> {
    let farthest = u64::from(offsets.iter().copied().max()?).checked_shl(shift.into())?;
    farthest.checked_add(request.access_bytes)
}

impl LaneDistances {
    /// The same as [`WarpRequest::sector_runs_into`]. Returns a number for irregular lanes, with the first sector: requests
    /// with both in common touch the same sectors.
    pub fn sector_runs_into(
        &mut self,
        request: &WarpRequest<'_>,
        runs: &mut Vec<(u64, u64)>,
    ) -> Option<(u64, u64)> {
        let ActiveLanes::Irregular(offsets, shift) = request.lanes else {
            request.sector_runs_into(runs);
            return None;
        };
        let base = request.address / SECTOR_BYTES;
        let Some(known) = self.shape_of(request, offsets, shift) else {
            request.sector_runs_into(runs);
            return None;
        };
        runs.clear();
        runs.extend(known.runs.iter().map(|&(first, last)| (base + first, base + last)));
        Some((known.number, base))
    }

    /// A key that a request has in common with those only that touch the same sectors.
    pub fn key(&mut self, request: &WarpRequest<'_>) -> Option<PatternKey> {
        match request.lanes {
            ActiveLanes::Regular(stride) => {
                let lanes = u64::from(request.lane_mask) << 32 | u64::from(stride.cast_unsigned());
                Some([request.address, lanes, request.access_bytes])
            }
            ActiveLanes::Irregular(offsets, shift) => {
                let number = self.shape_of(request, offsets, shift)?.number;
                Some([number, request.address / SECTOR_BYTES, u64::MAX])
            }
        }
    }

    /// The same as [`WarpRequest::touched`].
    pub fn touched(&mut self, request: &WarpRequest<'_>) -> TouchedMemory {
        self.known_touched(request).unwrap_or_else(|| request.touched())
    }

    fn known_touched(&mut self, request: &WarpRequest<'_>) -> Option<TouchedMemory> {
        let ActiveLanes::Irregular(offsets, shift) = request.lanes else { return None };
        let index = self.index_of_known(request, offsets, shift)?;
        let shape = self.shape_at(index, request)?;
        Some(*shape.touched.get_or_insert_with(|| request.touched()))
    }

    /// A number that no other mask, access or distances have.
    pub fn number(&mut self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> u64 {
        let index = self.index_of(request, offsets, shift);
        self.known.get(index).map_or(0, |known| known.number)
    }

    /// The position of its pattern among the known ones.
    fn index_of(&mut self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> usize {
        let index = self.known.iter().position(|known| known.is_of(request, offsets, shift));
        index.unwrap_or_else(|| self.replace(request, offsets, shift))
    }

    /// The position of its pattern, if an earlier request has it, too. Random distances never occur again.
    fn index_of_known(&mut self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> Option<usize> {
        let replaced = self.replaced;
        let index = self.index_of(request, offsets, shift);
        (self.replaced == replaced).then_some(index)
    }

    /// The shape of a request, with lines.
    pub fn shape(&mut self, request: &WarpRequest<'_>) -> shape::AccessedShape {
        let known = match request.lanes {
            ActiveLanes::Irregular(offsets, shift) => self.known_shape(request, offsets, shift),
            ActiveLanes::Regular(_) => None,
        };
        known.unwrap_or_else(|| request.shape())
    }

    fn known_shape(
        &mut self,
        request: &WarpRequest<'_>,
        offsets: &[u32],
        shift: u8,
    ) -> Option<shape::AccessedShape> {
        let index = self.index_of_known(request, offsets, shift)?;
        let pattern = self.known.get_mut(index)?;
        request.address.checked_add(pattern.span_bytes?)?;
        pattern.whole.resize(PLACES_OF_LINE, None);
        let shape = pattern.whole.get_mut(usize::try_from(request.address % LINE_BYTES).ok()?)?;
        Some(*shape.get_or_insert_with(|| request.shape()))
    }

    fn shape_of(&mut self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> Option<&SectorShape> {
        let index = self.index_of(request, offsets, shift);
        self.shape_at(index, request).map(|shape| &*shape)
    }

    /// The shape of a request with the known pattern at this position.
    fn shape_at(&mut self, index: usize, request: &WarpRequest<'_>) -> Option<&mut SectorShape> {
        let pattern = self.known.get_mut(index)?;
        // Past the last address, lanes have no distances.
        request.address.checked_add(pattern.span_bytes?)?;
        let low = request.address % SECTOR_BYTES;
        let index = usize::try_from(low).ok()?;
        pattern.shapes.resize_with(PLACES, || None);
        if pattern.shapes.get(index)?.is_none() {
            let mut runs = Vec::new();
            WarpRequest { address: low, ..*request }.sector_runs_into(&mut runs);
            // Lanes a few bytes further on mostly touch the same sectors.
            let same = pattern.shapes.iter().flatten().find(|known| known.runs == runs).cloned();
            let shape = same.unwrap_or_else(|| {
                self.computed += 1;
                SectorShape { number: self.computed, touched: None, runs }
            });
            *pattern.shapes.get_mut(index)? = Some(shape);
        }
        pattern.shapes.get_mut(index)?.as_mut()
    }

    fn replace(&mut self, request: &WarpRequest<'_>, offsets: &[u32], shift: u8) -> usize {
        let index = self.oldest;
        self.oldest = (index + 1) % self.known.len();
        self.replaced += 1;
        if let Some(known) = self.known.get_mut(index) {
            known.number = self.replaced;
            (known.lane_mask, known.access_bytes, known.shift) =
                (request.lane_mask, request.access_bytes, shift);
            known.span_bytes = span_bytes(request, offsets, shift);
            known.offsets.clear();
            known.offsets.extend_from_slice(offsets);
            known.shapes.clear();
            known.whole.clear();
        }
        index
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn known_patterns_have_the_sectors_of_their_lanes(
            all in proptest::collection::vec((0..6_usize, 0..5_u8, 0..4096_u64, any::<bool>()), 1..60),
            offsets in proptest::collection::vec(proptest::collection::vec(0..300_u32, 0..33), 6),
            bytes in prop::sample::select(vec![0, 1, 2, 4, 8, 16]),
        ) {
            let (mut patterns, mut runs, mut expected) = (LaneDistances::default(), Vec::new(), Vec::new());
            let (mut shapes, mut keys) = (BTreeMap::new(), BTreeMap::new());
            for (which, shift, address, is_last) in all {
                let lanes = offsets[which].as_slice();
                let address = if is_last { u64::MAX - address } else { address };
                let lane_mask = u32::MAX.checked_shr(32 - u32::try_from(lanes.len()).unwrap()).unwrap_or(0);
                let lanes = ActiveLanes::Irregular(lanes, shift);
                let request = WarpRequest { lane_mask, address, span_bytes: 0, access_bytes: bytes, lanes };
                request.sector_runs_into(&mut expected);
                let shape = patterns.sector_runs_into(&request, &mut runs);
                prop_assert_eq!(&runs, &expected);
                prop_assert_eq!(patterns.touched(&request), request.touched());
                prop_assert_eq!(patterns.shape(&request), request.shape());
                if let Some(key) = patterns.key(&request) {
                    prop_assert_eq!(keys.entry(key).or_insert_with(|| expected.clone()), &expected);
                }
                if let Some(shape) = shape {
                    prop_assert_eq!(shapes.entry(shape).or_insert_with(|| expected.clone()), &expected);
                }
            }
        }
    }
}
