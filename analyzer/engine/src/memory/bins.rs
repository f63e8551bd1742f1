//! Heat map bins of the elements that warp requests access.

use super::grid::{BinGrid, ViewLine};
use super::request::{SECTOR_BYTES, WarpRequest};
use super::view::TensorView;

/// Elements of one cell that a warp request touches, with the adjacent sectors that hold them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BinTouch {
    /// The number of the cell.
    pub cell: u32,
    first: u64,
    last: u64,
    /// The elements.
    pub elements: u64,
}

/// Accesses of the cells of a heat map.
#[derive(Debug, Default)]
pub struct BinCounts {
    /// In order of appearance, with their numbers.
    cells: Vec<(u32, HeatCell)>,
    /// The position of each cell in `cells`, from 1.
    positions: Vec<u32>,
}

/// Accesses of a cell.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeatCell {
    /// Elements, for each access.
    pub touches: u64,
    /// Warp requests.
    pub requests: u64,
    /// Sectors, distinct in each request.
    pub sectors: u64,
    /// The block and warp of the last request: its neighbours are mostly of the same.
    pub last: Option<(u64, u16)>,
}

impl BinCounts {
    /// The counts of so many cells, in positions that are all 0.
    pub fn new(size: usize, mut positions: Vec<u32>) -> Self {
        positions.resize(size, 0);
        Self { cells: Vec::new(), positions }
    }

    /// The counts of a cell, by its number.
    pub fn cell(&mut self, number: u32) -> Option<&mut HeatCell> {
        let position = self.positions.get_mut(number as usize)?;
        if *position == 0 {
            self.cells.push((number, HeatCell::default()));
            *position = u32::try_from(self.cells.len()).unwrap_or(u32::MAX);
        }
        self.cells.get_mut(*position as usize - 1).map(|(_, cell)| cell)
    }

    /// The accessed cells in order, and positions that are all 0.
    pub fn finish(mut self) -> (Vec<(u32, HeatCell)>, Vec<u32>) {
        self.cells.sort_unstable_by_key(|&(number, _)| number);
        for &(number, _) in &self.cells {
            if let Some(position) = self.positions.get_mut(number as usize) {
                *position = 0;
            }
        }
        (self.cells, self.positions)
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.cells.capacity() * size_of::<(u32, HeatCell)>() + self.positions.capacity() * size_of::<u32>()
    }
}

/// Collects the touches of a request's lanes in a view.
pub struct ViewBins<'a> {
    /// The view.
    pub view: &'a TensorView,
    /// Its bins.
    pub grid: &'a BinGrid,
    /// The line of the address before.
    pub line: &'a mut Option<ViewLine>,
    /// The touches so far.
    pub touched: &'a mut Vec<BinTouch>,
}

impl ViewBins<'_> {
    /// The touches of all lanes, where these access whole elements that lie in one sector each, run by run of adjacent
    /// lanes. Returns true if so.
    pub fn touch_runs(&mut self, request: &WarpRequest<'_>) -> bool {
        let (low, element, size) = (self.view.low, self.view.element(), request.access_bytes);
        let is_whole = |address: u64| address >= low && element.divides(address);
        if !element.divides(SECTOR_BYTES) || size == 0 || !element.divides(size) || !is_whole(low) {
            return false;
        }
        if let Some(bytes) = request.adjacent_bytes() {
            let end = request.address.checked_add(bytes);
            let end = end.filter(|_| is_whole(request.address));
            end.inspect(|&end| self.touch_run(request.address, end)).is_some()
        } else {
            request.addresses().all(|(_, address)| {
                let end = address.checked_add(size).filter(|_| is_whole(address));
                end.inspect(|&end| self.touch_run(address, end)).is_some()
            })
        }
    }

    /// The touches of adjacent bytes.
    fn touch_run(&mut self, mut address: u64, end: u64) {
        while address < end {
            let (cell, past) = self.grid.stretch(self.view, address, self.line);
            let past = past.clamp(address + 1, end);
            let elements = self.view.element().count(past - address);
            self.push(cell, (address / SECTOR_BYTES, (past - 1) / SECTOR_BYTES), elements);
            address = past;
        }
    }

    /// The touches of the lanes of a mask, element by element, and of other lanes between its elements.
    pub fn touch_lanes(&mut self, request: &WarpRequest<'_>, lane_mask: u32) {
        let view = self.view;
        for (lane, address) in request.addresses() {
            if lane_mask >> lane & 1 == 1 {
                for address in elements(address, request.access_bytes, view.low, view.element_bytes()) {
                    let (cell, _) = self.grid.stretch(view, address, self.line);
                    let sector = address / SECTOR_BYTES;
                    self.push(cell, (sector, sector), 1);
                }
            } else if view.low <= address && address < view.high && !view.holds(address) {
                // Its neighbours in the warp access the tensor. This lane falls between its elements. An element that
                // another view has too is no hole.
                let sector = address / SECTOR_BYTES;
                self.push(self.grid.number(None), (sector, sector), 1);
            }
        }
    }

    /// Adds elements of a cell, to the last touch if their sectors overlap or adjoin.
    fn push(&mut self, cell: u32, (first, last): (u64, u64), elements: u64) {
        match self.touched.last_mut() {
            Some(open) if open.cell == cell && open.first <= first && first <= open.last + 1 => {
                open.last = open.last.max(last);
                open.elements += elements;
            }
            _ => self.touched.push(BinTouch { cell, first, last, elements }),
        }
    }
}

/// Distinct sectors of touches in the order of their sectors.
pub fn sectors(touches: &[BinTouch]) -> u64 {
    let (mut count, mut next) = (0, 0);
    for touch in touches {
        let past = touch.last + 1;
        count += past.saturating_sub(touch.first.max(next));
        next = next.max(past);
    }
    count
}

/// One address in each element, counted from `low`, that an access of some bytes touches.
fn elements(address: u64, bytes: u64, low: u64, element_bytes: u64) -> impl Iterator<Item = u64> {
    let first = address.saturating_sub(low) / element_bytes.max(1);
    let last = address.saturating_add(bytes.max(1) - 1).saturating_sub(low) / element_bytes.max(1);
    (first..=last).map(move |element| low.saturating_add(element.saturating_mul(element_bytes)).max(address))
}
