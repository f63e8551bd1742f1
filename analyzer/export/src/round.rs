//! Whole numbers for formats without fractions.

/// Rounds values down and gives the rest to the largest fractions: the sum is the rounded sum of the values.
pub(crate) fn whole(values: &[f64]) -> Vec<u64> {
    let clean = |value: &f64| if value.is_finite() { value.max(0.0) } else { 0.0 };
    let values: Vec<f64> = values.iter().map(clean).collect();
    let mut counts: Vec<u64> = values.iter().map(|value| to_count(value.floor())).collect();
    let total = to_count(values.iter().sum::<f64>().round());
    let rest = total.saturating_sub(counts.iter().sum());
    let mut order: Vec<usize> = (0..values.len()).collect();
    let fraction = |place: &usize| values.get(*place).map_or(0.0, |value| value.fract());
    order.sort_by(|a, b| fraction(b).total_cmp(&fraction(a)).then(a.cmp(b)));
    for place in order.into_iter().take(usize::try_from(rest).unwrap_or(usize::MAX)) {
        if let Some(count) = counts.get_mut(place) {
            *count += 1;
        }
    }
    counts
}

/// A count that was a float.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "values are not negative, and `as` saturates"
)]
fn to_count(value: f64) -> u64 {
    value as u64
}

/// Nanoseconds of a time since the Unix epoch. Times before it are 0.
pub(crate) fn unsigned(ns: i64) -> u64 {
    u64::try_from(ns).unwrap_or(0)
}

/// A measured duration in whole nanoseconds.
pub(crate) fn nanoseconds(duration: f64) -> u64 {
    whole(&[duration]).first().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_stay() {
        assert_eq!(whole(&[0.5, 0.25, 0.25]), [1, 0, 0]);
        assert_eq!(whole(&[1.4, 1.4, 1.2]), [2, 1, 1]);
        assert_eq!(whole(&[]), [0; 0]);
        let thirds = vec![1.0 / 3.0; 3000];
        assert_eq!(whole(&thirds).iter().sum::<u64>(), 1000);
        assert_eq!(whole(&[f64::NAN, -1.0, 2.0]), [0, 0, 2]);
    }
}
