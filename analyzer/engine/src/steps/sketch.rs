//! Counts of a sequence's kernels in any stretch of it, compressed to a few numbers.
//!
//! Each kernel adds 1 or -1 to each of [`LANES`] sums, by a hash. The squared distance of two stretches' sums is that of
//! their counts, on average. Equal counts have distance 0. Prefix sums give the sums of every stretch.

/// Sums of a stretch.
const LANES: usize = 16;
/// Stretches that are longer than this part of each other's length apart are alike, else not.
pub(crate) const MAX_ALIKE: f64 = 0.3;
/// Stretches closer than this are equal.
pub(crate) const MAX_EQUAL: f64 = 0.02;

/// Sums of one stretch.
pub(crate) type SketchSums = [i64; LANES];

/// Prefix sums over a sequence.
pub(crate) struct CountSketch {
    before: Vec<[i32; LANES]>,
}

impl CountSketch {
    /// Sums over the kernels of a sequence, by number.
    pub(crate) fn from_tokens(tokens: &[u32]) -> Self {
        let mut sums = [0_i32; LANES];
        let mut before = Vec::with_capacity(tokens.len() + 1);
        before.push(sums);
        for token in tokens {
            let signs = mixed(u64::from(*token));
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum = sum.wrapping_add(if signs >> lane & 1 == 1 { 1 } else { -1 });
            }
            before.push(sums);
        }
        Self { before }
    }

    /// Sums of a stretch. None outside the sequence.
    pub(crate) fn sums(&self, begin: usize, end: usize) -> Option<SketchSums> {
        let (low, high) = (self.before.get(begin)?, self.before.get(end)?);
        let mut sums = [0; LANES];
        for (sum, (low, high)) in sums.iter_mut().zip(low.iter().zip(high)) {
            *sum = i64::from(*high) - i64::from(*low);
        }
        Some(sums)
    }
}

/// Sums in the middle of all, lane by lane.
pub(crate) fn center(all: &[SketchSums]) -> SketchSums {
    let mut center = [0; LANES];
    let mut column: Vec<i64> = Vec::with_capacity(all.len());
    for (lane, sum) in center.iter_mut().enumerate() {
        column.clear();
        column.extend(all.iter().map(|sums| sums[lane]));
        let middle = column.len() / 2;
        if middle < column.len() {
            *sum = *column.select_nth_unstable(middle).1;
        }
    }
    center
}

/// Distance of two stretches, as a part of the longer one's length: 0 for equal counts.
pub(crate) fn distance(a: &SketchSums, b: &SketchSums) -> f64 {
    let square = |value: i64| (value as f64) * (value as f64);
    let length = |sums: &SketchSums| sums.iter().map(|&sum| square(sum)).sum::<f64>();
    let apart: f64 = a.iter().zip(b).map(|(a, b)| square(a - b)).sum();
    if apart == 0.0 { 0.0 } else { (apart / length(a).max(length(b)).max(1.0)).sqrt() }
}

/// SplitMix64: bits that look independent for consecutive numbers.
fn mixed(number: u64) -> u64 {
    let mut bits = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_kernels_has_no_distance() {
        let sketch = CountSketch::from_tokens(&[1, 2, 3, 3, 2, 1, 4]);
        let sums = |begin, end| sketch.sums(begin, end).unwrap();
        assert!(distance(&sums(0, 3), &sums(3, 6)) < 1e-9);
        assert!(distance(&sums(0, 3), &sums(4, 7)) > MAX_ALIKE);
        assert!(sketch.sums(3, 8).is_none());
    }

    #[test]
    fn one_more_kernel_among_many_is_alike_and_not_equal() {
        let mut tokens: Vec<u32> = (0..100).collect();
        tokens.extend(0..100);
        tokens.push(1_000);
        let sketch = CountSketch::from_tokens(&tokens);
        let apart = distance(&sketch.sums(0, 100).unwrap(), &sketch.sums(100, 201).unwrap());
        assert!(apart > MAX_EQUAL && apart < MAX_ALIKE, "{apart}");
    }
}
