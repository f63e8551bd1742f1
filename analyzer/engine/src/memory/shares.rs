//! Counts divided in proportion to weights.

/// A count shared in proportion to weights: largest remainders, so the parts add up to it. All of it goes to the first
/// part if nothing has a weight.
pub fn share(count: u64, weights: &[u64]) -> Vec<u64> {
    let total: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
    if total == 0 {
        return (0..weights.len()).map(|index| if index == 0 { count } else { 0 }).collect();
    }
    let exact = weights.iter().map(|&weight| u128::from(count) * u128::from(weight));
    let (mut parts, mut rests): (Vec<u64>, Vec<(u128, usize)>) = exact
        .enumerate()
        .map(|(index, exact)| (u64::try_from(exact / total).unwrap_or(count), (exact % total, index)))
        .unzip();
    let left = count - parts.iter().sum::<u64>();
    rests.sort_by_key(|&(rest, index)| (std::cmp::Reverse(rest), index));
    for (_, index) in rests.into_iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
        if let Some(part) = parts.get_mut(index) {
            *part += 1;
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up_and_the_largest_remainders_gain() {
        assert_eq!(share(10, &[1, 1, 1]), [4, 3, 3]);
        assert_eq!(share(7, &[6, 8]), [3, 4]);
        assert_eq!(share(5, &[0, 0]), [5, 0]);
        assert_eq!(share(u64::MAX, &[u64::MAX, u64::MAX]).iter().sum::<u64>(), u64::MAX);
    }
}
