//! The geometry of a tensor: which addresses its elements have.

/// Most steps of one search for an element: views whose dimensions do not nest need a search, and a capture from
/// elsewhere must not make it endless.
const SEARCH_STEPS: u32 = 4096;

/// A tensor's elements in its storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Address of the first element.
    pub low: u64,
    /// Past the last byte of the last element.
    pub high: u64,
    /// Bytes that its elements cover, those repeated by a stride of 0 counted once.
    pub bytes: u64,
    /// Whether it covers every byte from `low` to `high`.
    pub is_dense: bool,
    element_bytes: u64,
    /// (stride, size) in elements, largest stride first, without dimensions that do not move.
    dimensions: Vec<(u64, u64)>,
}

impl View {
    /// A view of `sizes` and `strides` in elements. `None` where it has no element or makes no sense.
    pub fn new(address: u64, element_bytes: u64, sizes: &[i64], strides: &[i64]) -> Option<Self> {
        if element_bytes == 0 || sizes.len() != strides.len() {
            return None;
        }
        let mut dimensions = Vec::new();
        let (mut last, mut count) = (0_u64, 1_u64);
        for (&size, &stride) in sizes.iter().zip(strides) {
            let (size, stride) = (u64::try_from(size).ok()?, u64::try_from(stride).ok()?);
            last = last.checked_add(size.checked_sub(1)?.checked_mul(stride)?)?;
            if size > 1 && stride > 0 {
                count = count.saturating_mul(size);
                dimensions.push((stride, size));
            }
        }
        dimensions.sort_unstable_by(|a, b| b.cmp(a));
        let high = address.checked_add(last.checked_add(1)?.checked_mul(element_bytes)?)?;
        let mut dense = 1_u64;
        let is_dense = dimensions.iter().rev().all(|&(stride, size)| {
            let follows = stride == dense;
            dense = dense.saturating_mul(size);
            follows
        });
        let bytes = count.saturating_mul(element_bytes);
        Some(Self { low: address, high, bytes, is_dense, element_bytes, dimensions })
    }

    /// Whether an element covers the byte at an address.
    pub fn holds(&self, address: u64) -> bool {
        if address < self.low || address >= self.high {
            return false;
        }
        let mut steps = SEARCH_STEPS;
        self.is_dense || reaches((address - self.low) / self.element_bytes, &self.dimensions, &mut steps)
    }
}

/// Whether indices exist with `offset = sum(index * stride)`. Where dimensions nest, one index fits each.
fn reaches(offset: u64, dimensions: &[(u64, u64)], steps: &mut u32) -> bool {
    let Some((&(stride, size), inner)) = dimensions.split_first() else { return offset == 0 };
    let farthest: u64 = inner.iter().map(|&(stride, size)| (size - 1) * stride).sum();
    let most = (offset / stride).min(size - 1);
    let least = offset.saturating_sub(farthest).div_ceil(stride);
    (least..=most).rev().any(|index| {
        *steps = steps.saturating_sub(1);
        *steps > 0 && reaches(offset - index * stride, inner, steps)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(sizes: &[i64], strides: &[i64], is_dense: bool, held: &[u64]) {
        let view = View::new(1000, 4, sizes, strides).unwrap();
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
        assert_eq!(View::new(0, 4, &[0, 3], &[3, 1]), None);
        assert_eq!(View::new(0, 4, &[3], &[-1]), None);
        assert_eq!(View::new(0, 0, &[3], &[1]), None);
        assert_eq!(View::new(0, 4, &[3], &[1, 1]), None);
        assert_eq!(View::new(0, 4, &[i64::MAX, 3], &[i64::MAX, 1]), None);
    }
}
