//! Stable sorting by numbers, digit by digit.

/// Bits of a digit: as many counters as a processor's nearest cache holds.
const DIGIT_BITS: u32 = 11;
/// Most items for which comparing takes less time than counting.
const FEW: usize = 256;

/// Sorts items by a number. Items with equal numbers keep their order. `spare` is memory that is used again.
pub(super) fn sort<T: Copy>(items: &mut [T], spare: &mut Vec<T>, number: impl Fn(&T) -> u64) {
    let (mut least, mut most, mut before, mut is_sorted) = (u64::MAX, 0, 0, true);
    for item in items.iter() {
        let number = number(item);
        least = least.min(number);
        most = most.max(number);
        is_sorted &= before <= number;
        before = number;
    }
    if is_sorted {
        return;
    }
    if items.len() <= FEW {
        return items.sort_by_key(number);
    }
    let bits = u64::BITS - (most - least).leading_zeros();
    let passes = bits.div_ceil(DIGIT_BITS);
    let width = bits.div_ceil(passes);
    spare.clear();
    spare.extend_from_slice(items);
    let (mut from, mut to) = (items, spare.as_mut_slice());
    for pass in 0..passes {
        let digit = |item: &T| {
            let digit = (number(item) - least) >> (pass * width) & ((1 << width) - 1);
            usize::try_from(digit).unwrap_or(0)
        };
        distribute(from, to, digit);
        std::mem::swap(&mut from, &mut to);
    }
    // The items are in `from`, which is `spare` after an odd number of passes.
    if passes % 2 == 1 {
        to.copy_from_slice(from);
    }
}

/// Copies items in the order of a digit.
#[inline]
fn distribute<T: Copy>(from: &[T], to: &mut [T], digit: impl Fn(&T) -> usize) {
    let mut next = [0_usize; 1 << DIGIT_BITS];
    for item in from {
        next[digit(item)] += 1;
    }
    let mut sum = 0;
    for next in &mut next {
        sum += std::mem::replace(next, sum);
    }
    for item in from {
        let next = &mut next[digit(item)];
        to[*next] = *item;
        *next += 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_stable_sort(numbers in prop::collection::vec(any::<u64>(), 0..2000), shift in 0..64_u32) {
            let mut items: Vec<(u64, usize)> = numbers.iter().map(|number| number >> shift).zip(0..).collect();
            let mut expected = items.clone();
            expected.sort_by_key(|(number, _)| *number);
            sort(&mut items, &mut Vec::new(), |(number, _)| *number);
            prop_assert_eq!(items, expected);
        }
    }
}
