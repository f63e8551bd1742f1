//! Numbers that look random and are the same in every run.

/// A linear congruential generator.
pub(crate) struct LinearRandom(pub(crate) u64);

impl LinearRandom {
    /// A number below a bound.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    /// An integer from 1 to 1000.
    pub(crate) fn value(&mut self) -> f64 {
        f64::from(u32::try_from(1 + self.below(1000)).unwrap())
    }
}
