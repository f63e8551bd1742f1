//! Sums of floating-point numbers without rounding errors in between.
//!
//! Threads add the rows of a query in any order, and rounded sums depend on the order. This sum is rounded once, at its
//! end: equal rows give equal digits. Method: Shewchuk, "Adaptive Precision Floating-Point Arithmetic", 1997.

/// A sum and the number of its terms.
#[derive(Clone, Debug, Default)]
pub(super) struct ExactSum {
    /// Number of terms.
    pub(super) count: u64,
    /// The rounded sum so far.
    high: f64,
    /// The part that rounding of `high` lost.
    low: f64,
    /// The part that rounding of `low` lost: numbers that do not overlap, smallest first.
    #[expect(
        clippy::box_collection,
        reason = "it is rare, and there is a sum for each of millions of groups"
    )]
    rest: Option<Box<Vec<f64>>>,
}

impl ExactSum {
    /// A sum from its count and parts.
    pub(super) fn from_parts(count: u64, parts: impl IntoIterator<Item = f64>) -> Self {
        let mut sum = Self::default();
        sum.merge(count, parts);
        sum
    }

    /// Adds one term.
    pub(super) fn add(&mut self, term: f64) {
        self.count += 1;
        self.add_part(term);
    }

    /// Removes one term that was added.
    pub(super) fn remove(&mut self, term: f64) {
        self.count = self.count.saturating_sub(1);
        self.add_part(-term);
    }

    /// Adds the terms of another sum.
    pub(super) fn merge(&mut self, count: u64, parts: impl IntoIterator<Item = f64>) {
        self.count += count;
        for part in parts {
            self.add_part(part);
        }
    }

    /// Numbers whose sum, without rounding, is this sum: one, if nothing was rounded.
    pub(super) fn parts(&self) -> impl Iterator<Item = f64> {
        [self.high, self.low].into_iter().chain(self.rest().iter().copied()).filter(|part| *part != 0.0)
    }

    fn rest(&self) -> &[f64] {
        self.rest.as_deref().map_or(&[], Vec::as_slice)
    }

    /// The sum, rounded to the nearest number.
    pub(super) fn value(&self) -> f64 {
        if self.rest().is_empty() || !self.high.is_finite() {
            return self.high + self.low;
        }
        let mut parts = self.rest().to_vec();
        grow(&mut parts, self.low);
        grow(&mut parts, self.high);
        rounded(&parts)
    }

    /// Bytes on the heap.
    pub(super) fn heap_bytes(&self) -> usize {
        self.rest.as_ref().map_or(0, |rest| size_of_val(rest.as_ref()) + rest.capacity() * size_of::<f64>())
    }

    fn add_part(&mut self, part: f64) {
        let (high, lost) = two_sum(self.high, part);
        self.high = high;
        if !high.is_finite() {
            // Infinities and NaN have no rounding errors.
            self.low = 0.0;
            return;
        }
        let (low, lost) = two_sum(self.low, lost);
        self.low = low;
        if lost != 0.0 {
            grow(self.rest.get_or_insert_default(), lost);
        }
    }
}

/// The rounded sum of two numbers, and what rounding lost (Knuth).
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// Adds a term to numbers that do not overlap, smallest first.
fn grow(parts: &mut Vec<f64>, mut term: f64) {
    let mut count = 0;
    for index in 0..parts.len() {
        let (sum, lost) = two_sum(term, parts[index]);
        if lost != 0.0 {
            parts[count] = lost;
            count += 1;
        }
        term = sum;
    }
    parts.truncate(count);
    parts.push(term);
}

/// The sum of numbers that do not overlap, smallest first, rounded half to even.
fn rounded(parts: &[f64]) -> f64 {
    let mut parts = parts.iter().rev();
    let mut sum = parts.next().copied().unwrap_or_default();
    let mut lost = 0.0;
    for part in parts.by_ref() {
        (sum, lost) = two_sum(sum, *part);
        if lost != 0.0 {
            break;
        }
    }
    // A tie was rounded to even without regard to the smaller parts: they decide it.
    let is_tie_to_break = parts.next().is_some_and(|next| (lost < 0.0) == (*next < 0.0)) && lost != 0.0;
    let twice = 2.0 * lost;
    let other = sum + twice;
    #[expect(clippy::float_cmp, reason = "a tie is exact")]
    if is_tie_to_break && other - sum == twice { other } else { sum }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "sums are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum_of(terms: &[f64]) -> ExactSum {
        let mut sum = ExactSum::default();
        for term in terms {
            sum.add(*term);
        }
        sum
    }

    fn sum(terms: &[f64]) -> f64 {
        sum_of(terms).value()
    }

    /// Integers of 2^-40: their sum is exact in 128 bits, and converting it rounds half to even.
    fn fixed(numbers: &[i64], shifts: &[u32]) -> (Vec<f64>, f64) {
        let pairs = || numbers.iter().zip(shifts);
        #[expect(clippy::cast_precision_loss, reason = "numbers of 53 bits, and a sum that is rounded")]
        let (terms, total) = (
            pairs().map(|(number, shift)| *number as f64 * f64::from(*shift).exp2()).collect(),
            pairs().map(|(number, shift)| i128::from(*number) << shift).sum::<i128>() as f64,
        );
        (terms, total)
    }

    proptest! {
        #[test]
        fn sums_are_those_of_wide_integers(
            rows in prop::collection::vec((-(1_i64 << 53)..(1 << 53), 0_u32..60), 0..60),
        ) {
            let (numbers, shifts): (Vec<i64>, Vec<u32>) = rows.into_iter().unzip();
            let (terms, total) = fixed(&numbers, &shifts);
            prop_assert_eq!(sum(&terms), total);
        }

        #[test]
        fn order_and_parts_change_no_digit(
            mut terms in prop::collection::vec(prop::num::f64::NORMAL, 0..40),
            at in 0_usize..40,
        ) {
            // Sums of 40 of the largest numbers would be infinite.
            for term in &mut terms {
                *term *= 1e-20;
            }
            let whole = sum(&terms);
            let (first, second) = terms.split_at(at.min(terms.len()));
            let (first, second) = (sum_of(first), sum_of(second));
            let mut merged = ExactSum::from_parts(second.count, second.parts());
            merged.merge(first.count, first.parts());
            prop_assert_eq!(merged.count, terms.len() as u64);
            prop_assert_eq!(merged.value().to_bits(), whole.to_bits());
            terms.reverse();
            prop_assert_eq!(sum(&terms).to_bits(), whole.to_bits());
        }

        #[test]
        fn what_is_removed_leaves_no_trace(
            stays in prop::collection::vec(-1e9..1e9, 0..20), gone in prop::collection::vec(-1e30..1e30, 0..20),
        ) {
            let mut left = sum_of(&[stays.clone(), gone.clone()].concat());
            for term in &gone {
                left.remove(*term);
            }
            prop_assert_eq!(left.value(), sum(&stays));
            prop_assert_eq!(left.count, stays.len() as u64);
        }
    }

    #[test]
    fn large_numbers_that_cancel_leave_the_small_ones() {
        assert_eq!(sum(&[1e100, 1.0, -1e100, 1e-100]), 1.0);
        assert_eq!(sum(&[0.1; 10]), 1.0);
        // A tie, decided by a part that no sum of two holds.
        assert_eq!(sum(&[1.0, f64::EPSILON / 2.0, 1e-300]), 1.0 + f64::EPSILON);
        assert_eq!(sum(&[1.0, f64::EPSILON / 2.0, -1e-300]), 1.0);
    }

    #[test]
    fn sums_without_rounding_are_small() {
        assert_eq!(size_of::<ExactSum>(), 32);
        assert_eq!(sum_of(&[1.0, 2.0]).parts().collect::<Vec<_>>(), [3.0]);
        assert_eq!(sum_of(&[1.0, -1.0]).parts().count(), 0);
        assert_eq!(sum_of(&[0.1; 3]).parts().count(), 2);
    }

    #[test]
    fn infinities_stay() {
        assert!(sum(&[f64::INFINITY, 1.0, -5.0]).is_infinite());
        assert!(sum(&[1e308, 1e308]).is_infinite());
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
        assert!(sum(&[1.0, f64::NAN, 1.0]).is_nan());
    }
}
