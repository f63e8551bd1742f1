//! A tensor's heat map: the bin of each of its elements, by its strides.

use super::view::{Dimension, View};

/// Maximum bins in a row and in a column of a heat map.
const MOST_CELLS: u64 = 64;
/// Dimensions that elements are located in: more than any framework has.
const MOST_DIMENSIONS: usize = 64;

/// Layout of a tensor's elements in bins.
///
/// The two largest dimensions are rows and columns, the first in the tensor's sizes as rows. Others are summed. If only
/// one dimension varies, its elements are wrapped line by line into a square.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    rows: Axis,
    columns: Axis,
    /// Elements per line of a wrapped single dimension.
    fold: Option<u64>,
}

/// One direction of a heat map.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Axis {
    /// The tensor's dimension, if there is only one.
    pub dimension: Option<u32>,
    /// Elements along it.
    pub extent: u64,
    /// Bins along it.
    pub count: u32,
    /// Its index among the view's dimensions that vary.
    place: Option<usize>,
}

impl Axis {
    fn new(extent: u64, along: Option<(usize, &Dimension)>) -> Self {
        let count = u32::try_from(extent.clamp(1, MOST_CELLS)).unwrap_or(1);
        let (place, dimension) = along.map(|(place, dimension)| (place, dimension.position)).unzip();
        Self { dimension, extent: extent.max(1), count, place }
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

    /// The first index past the bin that holds an index.
    fn past(&self, index: u64) -> u64 {
        let next = u128::from(self.cell(index)) + 1;
        let past = (next * u128::from(self.extent)).div_ceil(u128::from(self.count));
        u64::try_from(past).unwrap_or(u64::MAX).max(index.saturating_add(1))
    }
}

impl Grid {
    /// The layout of a view.
    pub fn new(view: &View) -> Self {
        let mut moving: Vec<(usize, &Dimension)> =
            view.dimensions().iter().enumerate().take(MOST_DIMENSIONS).collect();
        moving.sort_by_key(|(_, dimension)| (dimension.size, dimension.position));
        match moving[..] {
            [] => Self { rows: Axis::new(1, None), columns: Axis::new(1, None), fold: None },
            [only] => {
                let count = only.1.size;
                let line = if count <= MOST_CELLS { count } else { root(count) };
                let columns = Axis { dimension: Some(only.1.position), ..Axis::new(line, None) };
                Self { rows: Axis::new(count.div_ceil(line), None), columns, fold: Some(line) }
            }
            [.., one, other] => {
                let (first, last) =
                    if one.1.position < other.1.position { (one, other) } else { (other, one) };
                let axis = |along: (usize, &Dimension)| Axis::new(along.1.size, Some(along));
                Self { rows: axis(first), columns: axis(last), fold: None }
            }
        }
    }

    /// The rows.
    pub fn rows(&self) -> &Axis {
        &self.rows
    }

    /// The columns.
    pub fn columns(&self) -> &Axis {
        &self.columns
    }

    /// Number of a cell: 0 for holes, then row by row.
    pub fn number(&self, cell: Option<(u32, u32)>) -> u32 {
        cell.map_or(0, |(row, column)| 1 + row * self.columns.count + column)
    }

    /// The cell of a number.
    pub fn cell_of(&self, number: u32) -> Option<(u32, u32)> {
        let place = number.checked_sub(1)?;
        Some((place / self.columns.count, place % self.columns.count))
    }

    /// The cells with holes.
    pub fn size(&self) -> usize {
        (self.rows.count * self.columns.count) as usize + 1
    }

    /// The cell of the byte at an address of the view, and an address up to which every byte has the same.
    pub fn stretch(&self, view: &View, address: u64) -> (Option<(u32, u32)>, u64) {
        let mut indices = [0; MOST_DIMENSIONS];
        let element = address.saturating_sub(view.low) / view.element_bytes();
        let cell = self.cell_at(view, address, &mut indices);
        let elements = cell.and_then(|_| self.elements(view, &indices)).unwrap_or(1);
        let past = element.saturating_add(elements).saturating_mul(view.element_bytes());
        (cell, view.low.saturating_add(past))
    }

    /// Elements from some indices on, along the innermost dimension, that have the same cell.
    fn elements(&self, view: &View, indices: &[u64]) -> Option<u64> {
        let (inner, place) = (view.row()?, view.dimensions().len() - 1);
        let index = *indices.get(place)?;
        let past = if let Some(line) = self.fold {
            let begin = index / line * line;
            begin.saturating_add(self.columns.past(index % line).min(line))
        } else if self.rows.place == Some(place) {
            self.rows.past(index)
        } else if self.columns.place == Some(place) {
            self.columns.past(index)
        } else {
            inner.size
        };
        Some(past.min(inner.size).saturating_sub(index).max(1))
    }

    /// The row and column of the element of the view that covers the byte at an address. `None` if there is none.
    pub fn cell(&self, view: &View, address: u64) -> Option<(u32, u32)> {
        self.cell_at(view, address, &mut [0; MOST_DIMENSIONS])
    }

    fn cell_at(&self, view: &View, address: u64, indices: &mut [u64; MOST_DIMENSIONS]) -> Option<(u32, u32)> {
        if !view.locate(address, indices) {
            return None;
        }
        if let Some(line) = self.fold {
            return Some((self.rows.cell(indices[0] / line), self.columns.cell(indices[0] % line)));
        }
        let index = |axis: &Axis| axis.place.and_then(|place| indices.get(place)).copied().unwrap_or(0);
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

    fn grid(sizes: &[i64], strides: &[i64]) -> (View, Grid) {
        let view = View::new(1000, 4, sizes, strides).unwrap();
        let grid = Grid::new(&view);
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
            let mut places: Vec<usize> = (0..sizes.len()).collect();
            places.rotate_left(usize::from(order) % sizes.len());
            for &place in &places {
                strides[place] = next;
                next = next * sizes[place] + gap;
            }
            let view = View::new(4096, 4, &sizes, &strides).unwrap();
            let grid = Grid::new(&view);
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
            dimensions in proptest::collection::vec((1..90_i64, 0..40_i64), 0..4), probe in 0..40_000_u64, element in 1..9_u64,
        ) {
            let (sizes, strides): (Vec<i64>, Vec<i64>) = dimensions.into_iter().unzip();
            let view = View::new(4096, element, &sizes, &strides).unwrap();
            let grid = Grid::new(&view);
            let (cell, past) = grid.stretch(&view, 4096 + probe);
            prop_assert!(past > 4096 + probe);
            for address in 4096 + probe..past {
                prop_assert_eq!(grid.cell(&view, address), cell);
                prop_assert_eq!(grid.cell_of(grid.number(cell)), cell);
            }
            prop_assert!((grid.number(cell) as usize) < grid.size());
        }

        #[test]
        fn no_shape_makes_it_fail(
            sizes in proptest::collection::vec(any::<i64>(), 0..5), strides in proptest::collection::vec(any::<i64>(), 0..5),
            address: u64, probe: u64, element in 0..32_u64,
        ) {
            if let Some(view) = View::new(address, element, &sizes, &strides) {
                let grid = Grid::new(&view);
                grid.stretch(&view, probe);
                if let Some((row, column)) = grid.cell(&view, probe) {
                    prop_assert!(row < grid.rows().count && column < grid.columns().count);
                }
            }
        }
    }
}
