//! Variances of sums over launches. The query in `sql/diff` evaluates them.

use stallmap_console::args::tree::TreeMetric;

/// Variance of one sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SumVariance {
    /// The variance of Poisson counts.
    pub(super) variance: f64,
    /// Squares of the values of launches.
    pub(super) squares: f64,
    /// Degrees of freedom of repeated launches.
    pub(super) freedom: f64,
    /// Pearson's statistic of their differences.
    pub(super) pearson: f64,
}

/// Variances of the sums that are counted in samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct SumVariances {
    /// For samples.
    pub(super) samples: SumVariance,
    /// For samples of memory stalls.
    pub(super) memory: SumVariance,
    /// For time.
    pub(super) time: SumVariance,
}

impl SumVariance {
    fn add(&mut self, other: &Self) {
        self.variance += other.variance;
        self.squares += other.squares;
        self.freedom += other.freedom;
        self.pearson += other.pearson;
    }

    /// The variance of a part of the counted samples, which is a count too.
    fn divided(self, share: f64) -> Self {
        Self { variance: self.variance * share, ..self.scaled(share) }
    }

    /// The variance of a share of the value. Repeated launches differ as before.
    fn scaled(self, share: f64) -> Self {
        Self {
            variance: self.variance * share * share,
            squares: self.squares * share * share,
            freedom: self.freedom * share,
            pearson: self.pearson * share,
        }
    }
}

impl SumVariances {
    /// Adds the variances of other launches.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples.add(&other.samples);
        self.memory.add(&other.memory);
        self.time.add(&other.time);
    }

    /// The variances of a part of the counted samples.
    pub(super) fn divided(&self, share: f64) -> Self {
        Self {
            samples: self.samples.divided(share),
            memory: self.memory.divided(share),
            time: self.time.divided(share),
        }
    }

    /// The variances of a share of the values.
    pub(super) fn scaled(&self, share: f64) -> Self {
        Self {
            samples: self.samples.scaled(share),
            memory: self.memory.scaled(share),
            time: self.time.scaled(share),
        }
    }

    /// The variance of the metric's sum, or of the numerator of its ratio. Launches are counted exactly.
    pub(super) fn for_metric(&self, metric: TreeMetric) -> SumVariance {
        match metric {
            TreeMetric::Samples => self.samples,
            TreeMetric::MemorySamples | TreeMetric::MemoryShare => self.memory,
            TreeMetric::Time | TreeMetric::TimePerLaunch => self.time,
            // Launches are counted, and work is given.
            _ => SumVariance::default(),
        }
    }
}
