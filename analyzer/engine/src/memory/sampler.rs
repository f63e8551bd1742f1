//! A part of a launch or a capture that stands for all of it, where all of it would take too much memory.

/// A uniform sample of items by their hash, whose rate falls with their number. A sample at a lower rate is a subset of
/// one at a higher rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashSampler {
    /// Hashes up to this one are sampled.
    highest: u64,
}

impl Default for HashSampler {
    fn default() -> Self {
        Self { highest: u64::MAX }
    }
}

impl HashSampler {
    /// True if an item is in the sample.
    #[inline]
    pub fn keeps(self, thing: u64) -> bool {
        self.keeps_all() || (self.highest > 0 && mix(thing) <= self.highest)
    }

    /// True if every item is in the sample.
    pub fn keeps_all(self) -> bool {
        self.highest == u64::MAX
    }

    /// Halves the rate.
    pub fn halve(&mut self) {
        self.highest /= 2;
    }

    /// The sampled part of all items.
    pub fn rate(self) -> f64 {
        // Powers of two are exact.
        0.5_f64.powi(i32::try_from(self.highest.leading_zeros()).unwrap_or(0))
    }

    /// Scales a count of the sample.
    pub fn scale(self, count: u64) -> u64 {
        count.saturating_mul(1_u64.checked_shl(self.highest.leading_zeros()).unwrap_or(u64::MAX))
    }
}

/// Spreads a number over all bits (the finalizer of splitmix64).
pub(super) fn mix(number: u64) -> u64 {
    let number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ number >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_keeps_its_rate() {
        let mut sampler = HashSampler::default();
        assert!((0..1000).all(|thing| sampler.keeps(thing)));
        assert_eq!((sampler.rate(), sampler.scale(3)), (1.0, 3));
        for rate in [0.5, 0.25, 0.125] {
            let before = sampler;
            sampler.halve();
            let in_sample: Vec<u64> = (0..80_000).filter(|&thing| sampler.keeps(thing)).collect();
            assert!(in_sample.iter().all(|&thing| before.keeps(thing)));
            assert!((sampler.rate() - rate).abs() < 1e-12);
            let part = in_sample.len() as f64 / 80_000.0;
            assert!((part / rate - 1.0).abs() < 0.03, "{part}");
        }
        (0..80).for_each(|_| sampler.halve());
        assert!(sampler.scale(2) > 0);
    }
}
