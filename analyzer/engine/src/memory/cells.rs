//! The bins of heat maps that warp requests access. Blocks and instructions repeat each other's requests: the bins of a
//! repeated request are cached.

use std::ops::Range;

use super::bins::{BinTouch, ViewBins, sectors};
use super::grid::{BinGrid, ViewLine};
use super::patterns::LaneDistances;
use super::repeats::KeyedValues;
use super::request::{ActiveLanes, WarpRequest};
use super::view::TensorView;

/// Bins of requests that are remembered.
const MAX_CELLS: usize = 1 << 19;

/// A bin that a warp request accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessedBin {
    /// The number of the bin.
    pub cell: u32,
    /// Elements.
    pub elements: u64,
    /// Distinct sectors that hold them.
    pub sectors: u64,
}

/// Finds the bins of warp requests.
#[derive(Debug, Default)]
pub struct BinFinder {
    /// By number of the view.
    drawn: Vec<Option<Box<DrawnBins>>>,
    patterns: LaneDistances,
    touched: Vec<BinTouch>,
    /// The positions of the bins of requests.
    known: KeyedValues<4, 32_768, (usize, usize)>,
    /// Bins of known requests, and of others between them.
    cells: Vec<AccessedBin>,
}

/// The bins of a view.
#[derive(Debug)]
struct DrawnBins {
    grid: BinGrid,
    /// The line of the last address.
    line: Option<ViewLine>,
}

impl DrawnBins {
    fn for_view(view: &TensorView) -> Box<Self> {
        Box::new(Self { grid: BinGrid::new(view), line: None })
    }
}

impl BinFinder {
    /// The grid of a view, if one of its bins was found.
    pub fn grid(&self, view: u32) -> Option<&BinGrid> {
        self.drawn.get(view as usize)?.as_ref().map(|drawn| &drawn.grid)
    }

    /// The grid of a view with a number, and the bins that some lanes of a warp request access, by number.
    pub fn find(
        &mut self,
        number: u32,
        view: &TensorView,
        request: &WarpRequest<'_>,
        lane_mask: u32,
    ) -> (&BinGrid, &[AccessedBin]) {
        let index = number as usize;
        if self.drawn.len() <= index {
            self.drawn.resize_with(index + 1, || None);
        }
        let cells = if lane_mask == request.lane_mask {
            self.find_again(number, view, request)
        } else {
            self.compute(number, view, request, lane_mask)
        };
        let drawn = self.drawn[index].get_or_insert_with(|| DrawnBins::for_view(view));
        (&drawn.grid, &self.cells[cells])
    }

    /// The positions of the bins of all lanes.
    fn find_again(&mut self, number: u32, view: &TensorView, request: &WarpRequest<'_>) -> Range<usize> {
        let key = self.key(number, request);
        if let Some((first, past)) = self.known.get(&key) {
            return first..past;
        }
        let cells = self.compute(number, view, request, request.lane_mask);
        self.known.set(key, (cells.start, cells.end));
        cells
    }

    /// Requests with the same key access the same elements.
    fn key(&mut self, view: u32, request: &WarpRequest<'_>) -> [u64; 4] {
        let (distances, bytes) = match request.lanes {
            ActiveLanes::Regular(stride) => (u64::from(stride.cast_unsigned()), request.access_bytes),
            // The number implies the bytes of an access.
            ActiveLanes::Irregular(offsets, shift) => {
                (self.patterns.number(request, offsets, shift), u64::MAX)
            }
        };
        let lanes = u64::from(view) << 32 | u64::from(request.lane_mask);
        [request.address, lanes, distances, bytes]
    }

    /// Adds the bins of some lanes. Returns their positions.
    fn compute(
        &mut self,
        number: u32,
        view: &TensorView,
        request: &WarpRequest<'_>,
        lane_mask: u32,
    ) -> Range<usize> {
        if self.cells.len() >= MAX_CELLS {
            self.cells.clear();
            self.known.clear();
        }
        let drawn = self.drawn[number as usize].get_or_insert_with(|| DrawnBins::for_view(view));
        let DrawnBins { grid, line } = &mut **drawn;
        self.touched.clear();
        let mut bins = ViewBins { view, grid, line, touched: &mut self.touched };
        if !(lane_mask == request.lane_mask && bins.touch_runs(request)) {
            bins.touched.clear();
            bins.touch_lanes(request, lane_mask);
        }
        if !self.touched.is_sorted() {
            self.touched.sort_unstable();
        }
        let first = self.cells.len();
        let cells = self.touched.chunk_by(|one, other| one.cell == other.cell);
        self.cells.extend(cells.filter_map(|touches| {
            let elements = touches.iter().map(|touch| touch.elements).sum();
            Some(AccessedBin { cell: touches.first()?.cell, elements, sectors: sectors(touches) })
        }));
        first..self.cells.len()
    }

    /// Bytes of memory that it takes.
    pub fn bytes(&self) -> usize {
        self.known.bytes() + self.cells.capacity() * size_of::<AccessedBin>()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Another finder remembers nothing.
        #[test]
        fn requests_that_occur_again_have_their_cells(
            all in proptest::collection::vec((0..2_u32, 0..3_usize, 0..40_u64, any::<bool>()), 1..200),
            offsets in proptest::collection::vec(proptest::collection::vec(0..60_u32, 32), 2),
        ) {
            let views = [TensorView::new(4096, 4, &[64, 48], &[48, 1]), TensorView::new(4096, 4, &[1000], &[3])];
            let views = views.map(Option::unwrap);
            let mut finder = BinFinder::default();
            for (number, lanes, index, is_part) in all {
                let lanes = match offsets.get(lanes) {
                    Some(offsets) => ActiveLanes::Irregular(offsets, 3),
                    None => ActiveLanes::Regular(8),
                };
                let (lane_mask, address) = (u32::MAX, 4096 + 8 * index);
                let request = WarpRequest { lane_mask, address, span_bytes: 512, access_bytes: 4, lanes };
                let lane_mask = if is_part { 0xff0 } else { u32::MAX };
                let view = &views[number as usize];
                let (_, found) = finder.find(number, view, &request, lane_mask);
                let found = found.to_vec();
                let mut other = BinFinder::default();
                prop_assert_eq!(found.as_slice(), other.find(number, view, &request, lane_mask).1);
            }
        }
    }
}
