//! A tensor's heat map: the bin of each of its elements, by its strides.

use super::view::{ElementSize, TensorView, ViewDimension};

/// Maximum bins in a row and in a column of a heat map.
const MAX_CELLS: u64 = 64;
/// Dimensions that elements are located in: more than any framework has.
const MAX_DIMENSIONS: usize = 64;
/// Dimensions of a view whose lines are looked for.
const FEW_DIMENSIONS: usize = 8;
/// Maximum of indices whose bins are listed.
const LONG_AXIS: u64 = 1 << 12;

/// Layout of a tensor's elements in bins.
///
/// The two largest dimensions are rows and columns, the first in the tensor's sizes as rows. Others are summed. If only
/// one dimension varies, its elements are wrapped line by line into a square.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BinGrid {
    rows: HeatAxis,
    columns: HeatAxis,
    /// Elements per line of a wrapped single dimension.
    fold: Option<u64>,
    row_steps: AxisBins,
    column_steps: AxisBins,
}

/// The bins along an axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct AxisBins {
    /// The bin of each index. Empty for long axes.
    bins: Vec<u8>,
    /// The first index past each bin.
    pasts: Vec<u64>,
}

/// Elements of a view along its innermost dimension.
#[derive(Clone, Copy, Debug)]
pub struct ViewLine {
    /// Address of the first element.
    low: u64,
    /// Past the last element.
    high: u64,
    element: ElementSize,
    /// The row and column of the first element.
    first: (u32, u32),
    along: LineAxis,
}

/// The axis that a line runs along.
#[derive(Clone, Copy, Debug)]
enum LineAxis {
    Rows,
    Columns,
    /// Both, wrapped after so many elements.
    Fold(u64),
    /// None: the dimension is not drawn.
    Neither,
}

/// One direction of a heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatAxis {
    /// The tensor's dimension, if there is only one.
    pub dimension: Option<u32>,
    /// Elements along it.
    pub extent: u64,
    /// Bins along it.
    pub count: u32,
    /// Its index among the view's dimensions that vary.
    dimension_index: Option<usize>,
}

impl HeatAxis {
    fn new(extent: u64, along: Option<(usize, &ViewDimension)>) -> Self {
        let count = u32::try_from(extent.clamp(1, MAX_CELLS)).unwrap_or(1);
        let (dimension_index, dimension) =
            along.map(|(index, dimension)| (index, dimension.position)).unzip();
        Self { dimension, extent: extent.max(1), count, dimension_index }
    }

    /// The bin that holds an index.
    fn cell(&self, index: u64) -> u32 {
        let extent = self.extent.max(1);
        let cell = match index.checked_mul(self.count.into()) {
            Some(scaled) => scaled / extent,
            None => u64::try_from(u128::from(index) * u128::from(self.count) / u128::from(extent))
                .unwrap_or(u64::MAX),
        };
        u32::try_from(cell).unwrap_or(u32::MAX).min(self.count - 1)
    }

    /// The first index past a bin.
    fn past(&self, bin: u32) -> u64 {
        let past = ((u128::from(bin) + 1) * u128::from(self.extent)).div_ceil(u128::from(self.count));
        u64::try_from(past).unwrap_or(u64::MAX)
    }

    fn steps(&self) -> AxisBins {
        let is_short = self.extent <= LONG_AXIS;
        let bins = (0..if is_short { self.extent } else { 0 }).map(|index| {
            // There are fewer bins than that.
            u8::try_from(self.cell(index)).unwrap_or(u8::MAX)
        });
        AxisBins { bins: bins.collect(), pasts: (0..self.count).map(|bin| self.past(bin)).collect() }
    }

    /// The bin that holds an index, and the first index past it.
    fn step(&self, steps: &AxisBins, index: u64) -> (u32, u64) {
        let known = usize::try_from(index).ok().and_then(|index| steps.bins.get(index));
        let bin = known.map_or_else(|| self.cell(index), |&bin| bin.into());
        let past = steps.pasts.get(bin as usize).copied().unwrap_or(u64::MAX);
        (bin, past.max(index.saturating_add(1)))
    }
}

impl ViewLine {
    /// True if an element of it covers the byte at an address.
    fn holds(&self, address: u64) -> bool {
        self.low <= address && address < self.high
    }
}

impl BinGrid {
    /// The layout of a view.
    pub fn new(view: &TensorView) -> Self {
        let mut moving: Vec<(usize, &ViewDimension)> =
            view.dimensions().iter().enumerate().take(MAX_DIMENSIONS).collect();
        moving.sort_by_key(|(_, dimension)| (dimension.size, dimension.position));
        let (rows, columns, fold) = match moving[..] {
            [] => (HeatAxis::new(1, None), HeatAxis::new(1, None), None),
            [only] => {
                let count = only.1.size;
                let line = if count <= MAX_CELLS { count } else { root(count) };
                let columns = HeatAxis { dimension: Some(only.1.position), ..HeatAxis::new(line, None) };
                (HeatAxis::new(count.div_ceil(line), None), columns, Some(line))
            }
            [.., one, other] => {
                let (first, last) =
                    if one.1.position < other.1.position { (one, other) } else { (other, one) };
                let axis = |along: (usize, &ViewDimension)| HeatAxis::new(along.1.size, Some(along));
                (axis(first), axis(last), None)
            }
        };
        Self { rows, columns, fold, row_steps: rows.steps(), column_steps: columns.steps() }
    }

    /// The rows.
    pub fn rows(&self) -> &HeatAxis {
        &self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &HeatAxis {
        &self.columns
    }

    /// Number of a cell: 0 for holes, then row by row.
    pub fn number(&self, cell: Option<(u32, u32)>) -> u32 {
        cell.map_or(0, |(row, column)| 1 + row * self.columns.count + column)
    }

    /// The cell of a number.
    pub fn cell_of(&self, number: u32) -> Option<(u32, u32)> {
        let cell = number.checked_sub(1)?;
        Some((cell / self.columns.count, cell % self.columns.count))
    }

    /// The cells with holes.
    pub fn size(&self) -> usize {
        (self.rows.count * self.columns.count) as usize + 1
    }

    /// The line with the byte at an address. None if no element covers it, or elements of a line are not adjacent.
    fn line(&self, view: &TensorView, address: u64) -> Option<ViewLine> {
        let inner = view.row()?;
        let last = view.dimensions().len() - 1;
        let mut indices = [0; FEW_DIMENSIONS];
        let indices = indices.get_mut(..=last)?;
        if !view.locate(address, indices) {
            return None;
        }
        let (element, bytes) = (view.element(), view.element_bytes());
        let low = view.low + (element.count(address - view.low) - indices[last]) * bytes;
        let along = match self.fold {
            Some(line) => LineAxis::Fold(line),
            None if self.rows.dimension_index == Some(last) => LineAxis::Rows,
            None if self.columns.dimension_index == Some(last) => LineAxis::Columns,
            None => LineAxis::Neither,
        };
        let bin = |axis: &HeatAxis, steps: &AxisBins| {
            let index =
                axis.dimension_index.filter(|index| *index != last).and_then(|index| indices.get(index));
            index.map_or(0, |&index| axis.step(steps, index).0)
        };
        let first = (bin(&self.rows, &self.row_steps), bin(&self.columns, &self.column_steps));
        Some(ViewLine { low, high: low.saturating_add(inner.size * bytes), element, first, along })
    }

    /// The number of the cell of the byte at an address of a line, and an address up to which every byte has the same.
    fn along(&self, line: &ViewLine, address: u64) -> (u32, u64) {
        let index = line.element.count(address - line.low);
        let (row, column) = line.first;
        let (cell, past) = match line.along {
            LineAxis::Rows => {
                let (row, past) = self.rows.step(&self.row_steps, index);
                ((row, column), past)
            }
            LineAxis::Columns => {
                let (column, past) = self.columns.step(&self.column_steps, index);
                ((row, column), past)
            }
            LineAxis::Fold(length) => {
                let (turn, within) = (index / length, index % length);
                let (column, past) = self.columns.step(&self.column_steps, within);
                let row = self.rows.step(&self.row_steps, turn).0;
                ((row, column), (turn * length).saturating_add(past.min(length)))
            }
            LineAxis::Neither => (line.first, u64::MAX),
        };
        let past = line.low.saturating_add(past.saturating_mul(line.element.bytes)).min(line.high);
        (self.number(Some(cell)), past)
    }

    /// The number of the cell of the byte at an address of the view, and an address up to which every byte has the same.
    /// `line` is that of an address before, and becomes that of this one.
    pub fn stretch(&self, view: &TensorView, address: u64, line: &mut Option<ViewLine>) -> (u32, u64) {
        if !line.is_some_and(|line| line.holds(address)) {
            *line = self.line(view, address);
        }
        if let Some(line) = line {
            return self.along(line, address);
        }
        let element = view.element().count(address.saturating_sub(view.low));
        let past = element.saturating_add(1).saturating_mul(view.element_bytes());
        (self.number(self.cell(view, address)), view.low.saturating_add(past))
    }

    /// The row and column of the element of the view that covers the byte at an address. `None` if there is none.
    pub fn cell(&self, view: &TensorView, address: u64) -> Option<(u32, u32)> {
        let mut indices = [0; MAX_DIMENSIONS];
        if !view.locate(address, &mut indices) {
            return None;
        }
        if let Some(line) = self.fold {
            return Some((self.rows.cell(indices[0] / line), self.columns.cell(indices[0] % line)));
        }
        let index =
            |axis: &HeatAxis| axis.dimension_index.and_then(|index| indices.get(index)).copied().unwrap_or(0);
        Some((self.rows.cell(index(&self.rows)), self.columns.cell(index(&self.columns))))
    }
}

/// The square root, rounded up.
fn root(number: u64) -> u64 {
    let root = number.isqrt();
    if root * root < number { root + 1 } else { root }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid(sizes: &[i64], strides: &[i64]) -> (TensorView, BinGrid) {
        let view = TensorView::new(1000, 4, sizes, strides).unwrap();
        let grid = BinGrid::new(&view);
        (view, grid)
    }

    #[test]
    fn a_transposed_view_is_drawn_transposed() {
        let (view, grid) = grid(&[4, 3], &[1, 4]);
        assert_eq!((grid.rows().dimension, grid.columns().dimension), (Some(0), Some(1)));
        assert_eq!((grid.rows().count, grid.columns().count), (4, 3));
        assert_eq!(grid.cell(&view, 1000 + 4), Some((1, 0)));
        assert_eq!(grid.cell(&view, 1000 + 4 * 4), Some((0, 1)));
    }

    #[test]
    fn a_sliced_view_has_holes() {
        let (view, grid) = grid(&[3, 2], &[8, 1]);
        assert_eq!(grid.cell(&view, 1000 + 8 * 4 + 4), Some((1, 1)));
        assert_eq!(grid.cell(&view, 1000 + 2 * 4), None);
        assert_eq!(grid.cell(&view, 996), None);
        assert_eq!(grid.cell(&view, 1000 + 18 * 4), None);
    }

    #[test]
    fn the_two_largest_dimensions_are_drawn_and_others_summed() {
        let (view, grid) = grid(&[2, 100, 3, 200], &[60000, 600, 200, 1]);
        assert_eq!((grid.rows().dimension, grid.columns().dimension), (Some(1), Some(3)));
        assert_eq!((grid.rows().count, grid.columns().count), (64, 64));
        let address = |i: u64, j: u64, k: u64, l: u64| 1000 + 4 * (i * 60000 + j * 600 + k * 200 + l);
        assert_eq!(grid.cell(&view, address(1, 99, 2, 199)), Some((63, 63)));
        assert_eq!(grid.cell(&view, address(0, 50, 0, 100)), Some((32, 32)));
    }

    #[test]
    fn one_dimension_is_folded_and_none_is_a_cell() {
        let (view, folded) = grid(&[1000], &[2]);
        assert_eq!((folded.rows().extent, folded.columns().extent), (32, 32));
        assert_eq!(folded.cell(&view, 1000 + 8 * 33), Some((1, 1)));
        assert_eq!(folded.cell(&view, 1000 + 4), None);
        let (view, short) = grid(&[5, 1], &[1, 7]);
        assert_eq!((short.rows().count, short.columns().count), (1, 5));
        assert_eq!(short.cell(&view, 1000 + 16), Some((0, 4)));
        let (view, none) = grid(&[1, 3], &[9, 0]);
        assert_eq!(none.cell(&view, 1001), Some((0, 0)));
    }

    proptest! {
        #[test]
        fn every_element_has_the_cell_of_its_indices(
            sizes in proptest::collection::vec(1..9_i64, 2..4), order in any::<u8>(), gap in 0..5_i64, seed: u64,
        ) {
            // Strides of a dense tensor with gaps, dealt to its dimensions in another order.
            let mut strides = vec![0; sizes.len()];
            let mut next = 1;
            let mut dimensions: Vec<usize> = (0..sizes.len()).collect();
            dimensions.rotate_left(usize::from(order) % sizes.len());
            for &dimension in &dimensions {
                strides[dimension] = next;
                next = next * sizes[dimension] + gap;
            }
            let view = TensorView::new(4096, 4, &sizes, &strides).unwrap();
            let grid = BinGrid::new(&view);
            let mut rest = seed;
            let indices: Vec<u64> = sizes.iter().map(|&size| {
                let size = u64::try_from(size).unwrap();
                let index = rest % size;
                rest /= size;
                index
            }).collect();
            let offset: u64 =
                indices.iter().zip(&strides).map(|(index, stride)| index * u64::try_from(*stride).unwrap()).sum();
            let (row, column) = grid.cell(&view, 4096 + 4 * offset).unwrap();
            if let (Some(first), Some(last)) = (grid.rows().dimension, grid.columns().dimension) {
                prop_assert_eq!((u64::from(row), u64::from(column)), (indices[first as usize], indices[last as usize]));
            }
        }

        #[test]
        fn a_stretch_has_the_cells_of_its_bytes(
            dimensions in proptest::collection::vec((1..5000_i64, 0..40_i64), 0..4), probe in 0..40_000_u64, element in 1..9_u64,
        ) {
            let (sizes, strides): (Vec<i64>, Vec<i64>) = dimensions.into_iter().unzip();
            let view = TensorView::new(4096, element, &sizes, &strides).unwrap();
            let grid = BinGrid::new(&view);
            let mut line = None;
            for probe in [probe, probe / 2, probe + 8] {
                let (number, past) = grid.stretch(&view, 4096 + probe, &mut line);
                prop_assert!(past > 4096 + probe);
                for address in 4096 + probe..past {
                    let cell = grid.cell(&view, address);
                    prop_assert_eq!(grid.number(cell), number);
                    prop_assert_eq!(grid.cell_of(number), cell);
                }
                prop_assert!((number as usize) < grid.size());
            }
        }

        #[test]
        fn no_shape_makes_it_fail(
            sizes in proptest::collection::vec(any::<i64>(), 0..5), strides in proptest::collection::vec(any::<i64>(), 0..5),
            address: u64, probe: u64, element in 0..32_u64,
        ) {
            if let Some(view) = TensorView::new(address, element, &sizes, &strides) {
                let grid = BinGrid::new(&view);
                grid.stretch(&view, probe, &mut None);
                if let Some((row, column)) = grid.cell(&view, probe) {
                    prop_assert!(row < grid.rows().count && column < grid.columns().count);
                }
            }
        }
    }
}
