//! Cost of a path: sums, and ratios computed from sums on demand.

use super::chance::SumVariances;
use stallmap_console::args::tree::TreeMetric;

/// A sum over launches.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct LaunchCost {
    /// Samples.
    pub(super) samples: f64,
    /// Samples of memory stalls.
    pub(super) memory_samples: f64,
    /// Estimated nanoseconds.
    pub(super) time_ns: f64,
    /// Launches.
    pub(super) launches: f64,
    /// Floating-point operations that the program gave.
    pub(super) flops: GivenWork,
    /// Bytes that the program gave.
    pub(super) bytes: GivenWork,
    /// Variances of samples and time. Empty without a comparison.
    pub(super) chances: SumVariances,
}

/// Work that the program gave to ranges, with the time of the launches that have it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct GivenWork {
    /// Operations or bytes.
    pub(super) work: f64,
    /// Nanoseconds.
    pub(super) time_ns: f64,
}

impl GivenWork {
    fn add(&mut self, other: &Self) {
        self.work += other.work;
        self.time_ns += other.time_ns;
    }

    fn scaled(self, share: f64) -> Self {
        Self { work: self.work * share, time_ns: self.time_ns * share }
    }

    /// The work. None where no launch has any.
    fn given(&self) -> Option<f64> {
        (self.work > 0.0 || self.time_ns > 0.0).then_some(self.work)
    }

    fn seconds(&self) -> f64 {
        self.time_ns / 1e9
    }
}

/// A sum in each of two captures. With one capture, only the second is used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct PairedCosts {
    /// In the capture that is compared with.
    pub(super) before: LaunchCost,
    /// In the capture.
    pub(super) after: LaunchCost,
}

/// Which capture a launch is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CaptureSide {
    /// The base of the comparison.
    Before,
    /// The capture in question.
    After,
}

impl LaunchCost {
    /// True if a launch is in it, also one that does not count as one of the program.
    pub(super) fn is_some(&self) -> bool {
        self.launches > 0.0 || self.samples > 0.0
    }

    /// Adds another sum.
    pub(super) fn add(&mut self, other: &Self) {
        self.samples += other.samples;
        self.memory_samples += other.memory_samples;
        self.time_ns += other.time_ns;
        self.launches += other.launches;
        self.flops.add(&other.flops);
        self.bytes.add(&other.bytes);
        self.chances.add(&other.chances);
    }

    /// A share of the cost.
    pub(super) fn scaled(&self, share: f64) -> Self {
        Self {
            samples: self.samples * share,
            memory_samples: self.memory_samples * share,
            time_ns: self.time_ns * share,
            launches: self.launches * share,
            flops: self.flops.scaled(share),
            bytes: self.bytes.scaled(share),
            chances: self.chances.scaled(share),
        }
    }

    /// The part of the cost where some of the samples are. Without samples it has no parts.
    pub(super) fn at(&self, samples: f64, memory_samples: f64) -> Self {
        let share = if self.samples > 0.0 { samples / self.samples } else { 0.0 };
        Self { samples, memory_samples, chances: self.chances.divided(share), ..self.scaled(share) }
    }

    /// The metric. None for a ratio without a denominator.
    pub(super) fn value(&self, metric: TreeMetric) -> Option<f64> {
        let ratio = |part: f64, whole: f64| (whole > 0.0).then(|| part / whole);
        match metric {
            TreeMetric::Samples => Some(self.samples),
            TreeMetric::MemorySamples => Some(self.memory_samples),
            TreeMetric::Time => Some(self.time_ns),
            TreeMetric::Launches => Some(self.launches),
            TreeMetric::MemoryShare => ratio(self.memory_samples, self.samples),
            TreeMetric::TimePerLaunch => ratio(self.time_ns, self.launches),
            TreeMetric::Flops => self.flops.given(),
            TreeMetric::FlopRate => ratio(self.flops.work, self.flops.seconds()),
            TreeMetric::Bytes => self.bytes.given(),
            TreeMetric::ByteRate => ratio(self.bytes.work, self.bytes.seconds()),
        }
    }

    /// Divisor of the metric's sum.
    pub(super) fn exposure(&self, metric: TreeMetric) -> f64 {
        match metric {
            TreeMetric::MemoryShare => self.samples,
            TreeMetric::TimePerLaunch => self.launches,
            TreeMetric::FlopRate => self.flops.seconds(),
            TreeMetric::ByteRate => self.bytes.seconds(),
            _ => 1.0,
        }
    }

    /// The sum that the metric is, or is a ratio of.
    pub(super) fn sum(&self, metric: TreeMetric) -> f64 {
        match metric {
            TreeMetric::Samples => self.samples,
            TreeMetric::MemorySamples | TreeMetric::MemoryShare => self.memory_samples,
            TreeMetric::Time | TreeMetric::TimePerLaunch => self.time_ns,
            TreeMetric::Launches => self.launches,
            TreeMetric::Flops | TreeMetric::FlopRate => self.flops.work,
            TreeMetric::Bytes | TreeMetric::ByteRate => self.bytes.work,
        }
    }
}

impl PairedCosts {
    /// The sum of one launch.
    pub(super) fn for_side(side: CaptureSide, cost: LaunchCost) -> Self {
        match side {
            CaptureSide::Before => Self { before: cost, ..Self::default() },
            CaptureSide::After => Self { after: cost, ..Self::default() },
        }
    }

    /// Adds other sums.
    pub(super) fn add(&mut self, other: &Self) {
        self.before.add(&other.before);
        self.after.add(&other.after);
    }

    /// True without launches.
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The change of a metric. A missing side counts as zero.
    pub(super) fn change(&self, metric: TreeMetric) -> Option<f64> {
        let (before, after) = (self.before.value(metric), self.after.value(metric));
        if before.is_none() && after.is_none() {
            return None;
        }
        Some(after.unwrap_or_default() - before.unwrap_or_default())
    }

    /// Weight for ranking: the value, or in a comparison the absolute change.
    pub(super) fn weight(&self, metric: TreeMetric, is_diff: bool) -> f64 {
        let (before, after) = (self.before.sum(metric), self.after.sum(metric));
        if is_diff { (after - before).abs() } else { after }
    }
}

/// True if a metric adds up over children.
pub(super) const fn is_sum(metric: TreeMetric) -> bool {
    !matches!(
        metric,
        TreeMetric::MemoryShare | TreeMetric::TimePerLaunch | TreeMetric::FlopRate | TreeMetric::ByteRate
    )
}
