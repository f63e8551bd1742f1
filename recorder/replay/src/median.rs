//! Medians of times, with intervals that assume nothing of how times are spread.

/// An interval, both ends included.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MedianInterval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

/// The middle of some values, or the mean of the two in the middle. `None` without values.
#[must_use]
pub fn median(values: &[i64]) -> Option<f64> {
    let sorted = sorted(values);
    let upper = sorted.get(sorted.len() / 2).copied()?;
    let lower = sorted.get((sorted.len() - 1) / 2).copied()?;
    Some(f64::midpoint(number(lower), number(upper)))
}

/// The narrowest interval between order statistics that holds the median of what the values are drawn from with a
/// probability of at least 95 %: values are below that median as often as a coin shows heads. `None` below 6 values:
/// the least and the largest are not enough then.
///
/// Source: H. A. David, H. N. Nagaraja, Order Statistics, 3rd edition, section 7.1.
#[must_use]
pub fn interval(values: &[i64]) -> Option<MedianInterval> {
    let sorted = sorted(values);
    let rank = lower_rank(sorted.len())?;
    let low = *sorted.get(rank)?;
    let high = *sorted.get(sorted.len() - 1 - rank)?;
    Some(MedianInterval { low: number(low), high: number(high) })
}

/// The largest number of values that can be left out at each end.
fn lower_rank(count: usize) -> Option<usize> {
    // The probability that `rank` or fewer of the values lie below the median.
    let mut below = 0.5_f64.powi(i32::try_from(count).ok()?);
    let mut term = below;
    if below > 0.025 {
        return None;
    }
    let mut rank = 0;
    while rank < count {
        term *= (count - rank) as f64 / (rank + 1) as f64;
        below += term;
        if below > 0.025 {
            break;
        }
        rank += 1;
    }
    Some(rank)
}

fn sorted(values: &[i64]) -> Vec<i64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable();
    sorted
}

#[expect(clippy::cast_precision_loss, reason = "nanoseconds of one launch")]
fn number(value: i64) -> f64 {
    value as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[5]), Some(5.0));
        assert_eq!(median(&[9, 1, 4]), Some(4.0));
        assert_eq!(median(&[9, 1, 4, 5]), Some(4.5));
    }

    #[test]
    fn intervals_are_those_of_the_tables() {
        // Ranks of a 95 % interval of the median by the sign test: 6 → 1, 9 → 2, 15 → 4, 20 → 6, 25 → 8, from 1 on.
        for (count, rank) in [(6, 1), (9, 2), (15, 4), (20, 6), (25, 8)] {
            assert_eq!(lower_rank(count), Some(rank - 1), "{count}");
        }
        assert_eq!(lower_rank(5), None);
        let values: Vec<i64> = (1..=15).rev().collect();
        assert_eq!(interval(&values), Some(MedianInterval { low: 4.0, high: 12.0 }));
    }
}
