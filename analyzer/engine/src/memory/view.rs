//! The geometry of a tensor: which addresses its elements have.

use std::cmp::Reverse;

/// Maximum steps of one search for an element: views whose dimensions do not nest need a search, and an untrusted
/// capture must not make it endless.
const SEARCH_STEPS: u32 = 4096;

/// A tensor's elements in its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorView {
    /// Address of the first element.
    pub low: u64,
    /// Past the last byte of the last element.
    pub high: u64,
    /// Bytes covered by its elements. Elements repeated by a stride of 0 count once.
    pub bytes: u64,
    /// True if it covers every byte from `low` to `high`.
    pub is_dense: bool,
    element: ElementSize,
    /// True if no two elements overlap and every dimension moves past all inner ones.
    is_nested: bool,
    /// Largest stride first, without dimensions that do not move.
    dimensions: Vec<ViewDimension>,
}

/// The size of an element. Most are powers of two: a shift takes a tenth of a division.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ElementSize {
    /// Its bytes.
    pub bytes: u64,
    shift: Option<u32>,
}

impl ElementSize {
    fn new(bytes: u64) -> Self {
        Self { bytes, shift: bytes.is_power_of_two().then(|| bytes.trailing_zeros()) }
    }

    /// The number of whole elements in some bytes.
    #[inline]
    pub fn count(self, bytes: u64) -> u64 {
        match self.shift {
            Some(shift) => bytes >> shift,
            None => bytes / self.bytes,
        }
    }

    /// True if some bytes are whole elements.
    #[inline]
    pub fn divides(self, bytes: u64) -> bool {
        self.count(bytes) * self.bytes == bytes
    }
}

/// A dimension of a view that moves: its size is above 1 and its stride is not 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewDimension {
    /// Elements from one index to the next.
    pub stride: u64,
    /// Indices.
    pub size: u64,
    /// Its position among the tensor's sizes.
    pub position: u32,
}

impl TensorView {
    /// A view of `sizes` and `strides` in elements. `None` without elements, or if invalid.
    pub fn new(address: u64, element_bytes: u64, sizes: &[i64], strides: &[i64]) -> Option<Self> {
        if element_bytes == 0 || sizes.len() != strides.len() {
            return None;
        }
        let mut dimensions = Vec::new();
        let (mut last, mut count) = (0_u64, 1_u64);
        for ((&size, &stride), position) in sizes.iter().zip(strides).zip(0..) {
            let (size, stride) = (u64::try_from(size).ok()?, u64::try_from(stride).ok()?);
            last = last.checked_add(size.checked_sub(1)?.checked_mul(stride)?)?;
            if size > 1 && stride > 0 {
                count = count.saturating_mul(size);
                dimensions.push(ViewDimension { stride, size, position });
            }
        }
        dimensions.sort_by_key(|dimension| Reverse((dimension.stride, dimension.size)));
        let high = address.checked_add(last.checked_add(1)?.checked_mul(element_bytes)?)?;
        let mut dense = 1_u64;
        let is_dense = dimensions.iter().rev().all(|&ViewDimension { stride, size, .. }| {
            let follows = stride == dense;
            dense = dense.saturating_mul(size);
            follows
        });
        let mut farthest = 0;
        let is_nested = dimensions.iter().rev().all(|&ViewDimension { stride, size, .. }| {
            let passes = stride > farthest;
            farthest += (size - 1) * stride;
            passes
        });
        let bytes = count.saturating_mul(element_bytes);
        let element = ElementSize::new(element_bytes);
        Some(Self { low: address, high, bytes, is_dense, element, is_nested, dimensions })
    }

    /// True if an element covers the byte at an address.
    pub fn holds(&self, address: u64) -> bool {
        if address < self.low || address >= self.high {
            return false;
        }
        self.is_dense || self.find(self.element.count(address - self.low), &mut [])
    }

    /// Finds the indices of an element, counted from `low`. Returns true if they exist.
    fn find(&self, offset: u64, indices: &mut [u64]) -> bool {
        if !self.is_nested {
            return reaches(offset, &self.dimensions, &mut { SEARCH_STEPS }, indices);
        }
        let mut rest = offset;
        for (position, &ViewDimension { stride, size, .. }) in self.dimensions.iter().enumerate() {
            let index = rest / stride;
            if index >= size {
                return false;
            }
            if let Some(found) = indices.get_mut(position) {
                *found = index;
            }
            rest -= index * stride;
        }
        rest == 0
    }

    /// The innermost dimension, if its elements are adjacent, and an address has one element only.
    pub fn row(&self) -> Option<ViewDimension> {
        self.dimensions.last().copied().filter(|inner| self.is_nested && inner.stride == 1)
    }

    /// Bytes of an element.
    pub fn element_bytes(&self) -> u64 {
        self.element.bytes
    }

    /// The size of an element.
    pub fn element(&self) -> ElementSize {
        self.element
    }

    /// The dimensions that move, largest stride first.
    pub fn dimensions(&self) -> &[ViewDimension] {
        &self.dimensions
    }

    /// Computes the indices, in the order of [`TensorView::dimensions`], of the element that covers the byte at an address,
    /// as many as `indices` has room for. Returns true if there is such an element.
    pub fn locate(&self, address: u64, indices: &mut [u64]) -> bool {
        self.low <= address
            && address < self.high
            && self.find(self.element.count(address - self.low), indices)
    }
}

/// Finds indices with `offset = sum(index * stride)`. Returns true if they exist. For nested dimensions, one index fits
/// each.
fn reaches(offset: u64, dimensions: &[ViewDimension], steps: &mut u32, indices: &mut [u64]) -> bool {
    let Some((&ViewDimension { stride, size, .. }, inner)) = dimensions.split_first() else {
        return offset == 0;
    };
    let farthest: u64 = inner.iter().map(|inner| (inner.size - 1) * inner.stride).sum();
    let most = (offset / stride).min(size - 1);
    let least = offset.saturating_sub(farthest).div_ceil(stride);
    let affordable = usize::try_from(*steps).unwrap_or(usize::MAX);
    (least..=most).rev().take(affordable).any(|index| {
        *steps = steps.saturating_sub(1);
        if let Some(first) = indices.first_mut() {
            *first = index;
        }
        let others = indices.get_mut(1..).unwrap_or_default();
        *steps > 0 && reaches(offset - index * stride, inner, steps, others)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[i64], strides: &[i64], is_dense: bool, held: &[u64]) {
        let view = TensorView::new(1000, 4, sizes, strides).unwrap();
        let elements: Vec<u64> = (0..64).filter(|element| view.holds(1000 + element * 4 + 3)).collect();
        assert_eq!(elements, held);
        assert_eq!(view.is_dense, is_dense);
        assert!(!view.holds(999));
    }

    #[test]
    fn elements_are_found_by_strides() {
        check(&[2, 3], &[3, 1], true, &[0, 1, 2, 3, 4, 5]);
        check(&[3, 2], &[1, 3], true, &[0, 1, 2, 3, 4, 5]);
        check(&[2, 2], &[4, 1], false, &[0, 1, 4, 5]);
        check(&[3, 5], &[2, 0], false, &[0, 2, 4]);
        check(&[7], &[0], true, &[0]);
        check(&[], &[], true, &[0]);
        check(&[3, 3], &[3, 2], false, &[0, 2, 3, 4, 5, 6, 7, 8, 10]);
        check(&[3, 2], &[1, 1], false, &[0, 1, 2, 3]);
    }

    #[test]
    fn what_makes_no_sense_is_no_view() {
        assert_eq!(TensorView::new(0, 4, &[0, 3], &[3, 1]), None);
        assert_eq!(TensorView::new(0, 4, &[3], &[-1]), None);
        assert_eq!(TensorView::new(0, 0, &[3], &[1]), None);
        assert_eq!(TensorView::new(0, 4, &[3], &[1, 1]), None);
        assert_eq!(TensorView::new(0, 4, &[i64::MAX, 3], &[i64::MAX, 1]), None);
    }
}
