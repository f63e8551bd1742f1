//! Stop rule of sampling: the share of each large instruction is known to a wanted relative error.

use std::collections::BTreeMap;

/// Half of a 95 % interval, in standard deviations.
const DEVIATIONS: f64 = 1.96;
/// Minimum number of replays for an estimate from the spread between them.
const LEAST_REPEATS: u32 = 3;
/// Instructions with less than this share of the samples are not waited for.
const LEAST_SHARE: f64 = 0.02;

/// Samples of one launch's replays, by instruction.
#[derive(Clone, Debug, Default)]
pub struct SampleShares<K> {
    repeats: u32,
    total: u64,
    counts: BTreeMap<K, ShareCount>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ShareCount {
    samples: u64,
    /// Sum and sum of squares of its share in each repeat.
    share: f64,
    share_squared: f64,
}

impl<K: Ord> SampleShares<K> {
    /// Adds the samples of one replay. Each instruction comes once.
    pub fn add(&mut self, samples: impl IntoIterator<Item = (K, u64)>) {
        let samples: Vec<(K, u64)> = samples.into_iter().collect();
        let total: u64 = samples.iter().map(|(_, samples)| samples).sum();
        self.repeats += 1;
        self.total += total;
        for (key, samples) in samples {
            let share = samples as f64 / total.max(1) as f64;
            let count = self.counts.entry(key).or_default();
            count.samples += samples;
            count.share += share;
            count.share_squared += share * share;
        }
    }

    /// Samples of all replays.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The largest relative error among the instructions that hold at least 2 % of the samples, or of the one that
    /// holds the most where none does: half of the 95 % interval of its share, from the counts (Poisson) or from the
    /// spread between replays, whichever is wider. Infinite while there are too few replays for an estimate.
    pub fn relative_error(&self) -> f64 {
        if self.repeats < LEAST_REPEATS || self.total == 0 {
            return f64::INFINITY;
        }
        let most = self.counts.values().map(|count| count.samples).max().unwrap_or(0);
        let least = (LEAST_SHARE * self.total as f64).min(most as f64);
        let matters = |count: &&ShareCount| count.samples as f64 >= least;
        self.counts.values().filter(matters).map(|count| self.error_of(count)).fold(0.0, f64::max)
    }

    fn error_of(&self, count: &ShareCount) -> f64 {
        let repeats = f64::from(self.repeats);
        let mean = count.share / repeats;
        let variance = (count.share_squared / repeats - mean * mean).max(0.0) * repeats / (repeats - 1.0);
        let by_spread = (variance / repeats).sqrt() / mean;
        let by_count = 1.0 / (count.samples as f64).sqrt();
        DEVIATIONS * by_spread.max(by_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_repeats_leave_the_error_of_counting() {
        let mut shares = SampleShares::default();
        for _ in 0..2 {
            shares.add([(0, 900), (1, 99), (2, 1)]);
        }
        assert!(shares.relative_error().is_infinite());
        shares.add([(0, 900), (1, 99), (2, 1)]);
        // Instruction 2 holds less than 2 %; 1 has 297 samples.
        assert!((shares.relative_error() - 1.96 / 297_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn where_no_instruction_stands_out_the_largest_counts() {
        let mut shares = SampleShares::default();
        for _ in 0..3 {
            shares.add((0..100).map(|pc| (pc, if pc == 7 { 11 } else { 10 })));
        }
        assert!((shares.relative_error() - 1.96 / 33_f64.sqrt()).abs() < 1e-12);
    }

    #[test]
    fn spread_between_repeats_counts() {
        let mut shares = SampleShares::default();
        for samples in [4000, 5000, 6000] {
            shares.add([(0, samples), (1, 10_000 - samples)]);
        }
        // Shares 0.4, 0.5, 0.6: deviation 0.1 of 0.5, over the root of 3.
        assert!((shares.relative_error() - 1.96 * 0.2 / 3_f64.sqrt()).abs() < 1e-9);
    }
}
