//! The sampling period of a launch: chosen by the samples that the last launch of its kind took.
//!
//! A multiprocessor takes one sample per period while it has a block. All samples of a launch times the period are its
//! cycles, summed over multiprocessors: measurements at different periods compare.

use std::collections::BTreeMap;

/// Two to this power cycles: the period of a run, and the finest that the recorder chooses.
pub(super) const FINEST: u32 = 8;
/// The coarsest that the recorder chooses.
pub(super) const COARSEST: u32 = 20;
/// Samples of a kernel that are enough: about 5 ms of decoding.
const TARGET: u64 = 1 << 17;
/// Divisor of the hardware buffer for launches of graphs, which bounds decoding to about 30 ms.
const GRAPH_PARTS: u64 = 8;
/// Bytes of the hardware buffer that a sample takes, rounded up: 512 MiB hold 51 million samples.
const SAMPLE_BYTES: u64 = 11;
/// A kernel that never ran may last so long before its samples fill the hardware buffer.
const FIRST_NS: u64 = 20_000_000;
/// Each kernel of a graph that never ran may add so much to that.
const NODE_NS: u64 = 100_000;
/// Kinds of launches that are remembered.
const KINDS: usize = 1 << 16;

/// Launches that are expected to last equally long: function, grid and block.
pub(super) type DurationKind = (usize, [u32; 6]);

/// Bounds of the samples of a context's launches.
#[derive(Clone, Copy, Debug)]
pub(super) struct ContextBounds {
    pub(super) multiprocessors: u64,
    pub(super) clock_khz: u64,
    pub(super) buffer_bytes: u64,
}

impl ContextBounds {
    /// Samples of a launch of so many blocks that lasts so long.
    pub(super) fn samples(self, blocks: u64, ns: u64, exponent: u32) -> u64 {
        let cycles = u128::from(ns) * u128::from(self.clock_khz) / 1_000_000;
        let all = (cycles * u128::from(blocks.min(self.multiprocessors))) >> exponent.min(64);
        u64::try_from(all).unwrap_or(u64::MAX)
    }

    /// Samples that the hardware buffer holds.
    pub(super) fn capacity(self) -> u64 {
        capacity(self.buffer_bytes)
    }

    /// The plan for a kernel of so many blocks.
    pub(super) fn kernel(self, blocks: u64) -> SamplePlan {
        SamplePlan { machine: self, blocks, first_ns: FIRST_NS, target: TARGET, longest_ns: None }
    }

    /// The plan for a graph of so many kernels, which may run concurrently.
    pub(super) fn graph(self, kernels: u64) -> SamplePlan {
        let first_ns = FIRST_NS.saturating_add(kernels.saturating_mul(NODE_NS));
        let most = (self.capacity() / GRAPH_PARTS).max(TARGET);
        let target = kernels.max(1).saturating_mul(TARGET).min(most);
        SamplePlan { machine: self, blocks: self.multiprocessors, first_ns, target, longest_ns: None }
    }
}

/// Samples that a hardware buffer holds.
pub(super) fn capacity(buffer_bytes: u64) -> u64 {
    buffer_bytes / SAMPLE_BYTES
}

/// Expected and wanted samples of a launch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SamplePlan {
    machine: ContextBounds,
    blocks: u64,
    /// Time in which a launch that was never seen must not fill the buffer.
    first_ns: u64,
    /// Samples that are enough.
    target: u64,
    /// The longest launch of the kind that a run before has measured.
    longest_ns: Option<u64>,
}

impl SamplePlan {
    /// The plan where a run before has measured the longest launch of the kind.
    pub(super) fn of_measured(self, longest_ns: Option<u64>) -> Self {
        Self { longest_ns, ..self }
    }

    /// The finest period at which a launch that was never sampled does not fill the buffer. Its duration may be known.
    fn first(self) -> u32 {
        if let Some(ns) = self.longest_ns {
            return self.next(self.machine.samples(self.blocks, ns, 0));
        }
        let samples = |exponent: u32| self.machine.samples(self.blocks, self.first_ns, exponent);
        let fits = |exponent: &u32| samples(*exponent) <= self.machine.capacity();
        (FINEST..COARSEST).find(fits).unwrap_or(COARSEST)
    }

    /// The finest period whose samples in so many cycles do not exceed the target.
    fn next(self, cycles: u64) -> u32 {
        (FINEST..COARSEST).find(|exponent| cycles >> exponent <= self.target).unwrap_or(COARSEST)
    }
}

/// The cycles of each kind of launch.
#[derive(Debug, Default)]
pub(super) struct LaunchPeriods(BTreeMap<DurationKind, u64>);

impl LaunchPeriods {
    /// The exponent of the period for a launch.
    pub(super) fn choose(&self, kind: &DurationKind, plan: SamplePlan) -> u32 {
        self.0.get(kind).map_or_else(|| plan.first(), |cycles| plan.next(*cycles))
    }

    /// Notes the samples of a launch. A longer one is forgotten by halves: the next may be as long again.
    pub(super) fn learn(&mut self, kind: DurationKind, samples: u64, exponent: u32) {
        let cycles = samples.saturating_mul(1 << exponent.min(63));
        if self.0.len() >= KINDS && !self.0.contains_key(&kind) {
            self.0.clear();
        }
        let known = self.0.entry(kind).or_default();
        *known = cycles.max(*known / 2);
    }

    /// Forgets every kind: handles of functions are reused once their module is gone.
    pub(super) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const H100: ContextBounds =
        ContextBounds { multiprocessors: 132, clock_khz: 1_980_000, buffer_bytes: 64 << 20 };

    #[test]
    fn a_full_gpu_takes_a_million_samples_a_millisecond() {
        assert_eq!(H100.samples(132, 1_000_000, 8), 1_020_937);
        assert_eq!(H100.samples(10_000, 1_000_000, 8), 1_020_937);
        assert_eq!(H100.samples(66, 1_000_000, 9), 255_234);
    }

    #[test]
    fn small_grids_begin_finer_than_full_ones() {
        let periods = LaunchPeriods::default();
        let first = |blocks| periods.choose(&(1, [1; 6]), H100.kernel(blocks));
        assert_eq!([1, 8, 66, 132, 100_000].map(first), [8, 8, 9, 10, 10]);
    }

    #[test]
    fn the_next_launch_takes_as_many_as_wanted() {
        let mut periods = LaunchPeriods::default();
        let kind = (1, [132, 1, 1, 256, 1, 1]);
        let samples = H100.samples(132, 100_000_000, 10);
        periods.learn(kind, samples, 10);
        let exponent = periods.choose(&kind, H100.kernel(132));
        let next = H100.samples(132, 100_000_000, exponent);
        assert!((TARGET / 2..=TARGET).contains(&next), "{next} samples at 2^{exponent}");
    }

    #[test]
    fn the_first_launch_of_a_measured_kernel_takes_as_many_as_wanted() {
        let kind = (1, [132, 1, 1, 256, 1, 1]);
        let chosen = |ns| {
            let exponent = LaunchPeriods::default().choose(&kind, H100.kernel(132).of_measured(Some(ns)));
            (exponent, H100.samples(132, ns, exponent))
        };
        assert_eq!(chosen(2_000).0, FINEST);
        for ms in [30, 100, 300] {
            let (exponent, samples) = chosen(ms * 1_000_000);
            assert!((TARGET / 2..=TARGET).contains(&samples), "{samples} samples at 2^{exponent}");
        }
        assert!(chosen(10_000_000_000).1 < H100.capacity());
        let unknown = LaunchPeriods::default().choose(&kind, H100.kernel(132));
        assert!(H100.samples(132, 300_000_000, unknown) > H100.capacity(), "it would fill the buffer");
    }

    #[test]
    fn a_long_launch_is_not_forgotten_at_once() {
        let mut periods = LaunchPeriods::default();
        let kind = (1, [1; 6]);
        periods.learn(kind, 1 << 30, 8);
        periods.learn(kind, 0, 8);
        assert_eq!(periods.choose(&kind, H100.kernel(1)), 20);
        for _ in 0..32 {
            periods.learn(kind, 0, 8);
        }
        assert_eq!(periods.choose(&kind, H100.kernel(1)), FINEST);
    }

    #[test]
    fn a_graph_has_samples_for_each_kernel_as_far_as_the_buffer_goes() {
        let mut periods = LaunchPeriods::default();
        let kind = (1, [u32::MAX; 6]);
        assert_eq!([1, 100, 10_000].map(|kernels| periods.choose(&kind, H100.graph(kernels))), [10, 11, 16]);
        periods.learn(kind, 1 << 30, 8);
        assert_eq!([1, 4, 10_000].map(|kernels| periods.choose(&kind, H100.graph(kernels))), [20, 19, 19]);
    }

    #[test]
    fn kinds_are_bounded() {
        let mut periods = LaunchPeriods::default();
        for handle in 0..=KINDS {
            periods.learn((handle, [1; 6]), 1, 8);
        }
        assert_eq!(periods.0.len(), 1);
    }

    proptest! {
        #[test]
        fn every_period_is_in_range(samples: u64, before in 0..64_u32, blocks: u64, bytes: u64) {
            let machine = ContextBounds { buffer_bytes: bytes, ..H100 };
            let mut periods = LaunchPeriods::default();
            let kind = (1, [1; 6]);
            prop_assert!((FINEST..=COARSEST).contains(&periods.choose(&kind, machine.kernel(blocks))));
            periods.learn(kind, samples, before);
            prop_assert!((FINEST..=COARSEST).contains(&periods.choose(&kind, machine.kernel(blocks))));
        }

        #[test]
        fn a_repeated_launch_never_overflows(ns in 0..5_000_000_000_u64, blocks in 1..100_000_u64) {
            let mut periods = LaunchPeriods::default();
            let kind = (1, [1; 6]);
            let first = periods.choose(&kind, H100.kernel(blocks));
            periods.learn(kind, H100.samples(blocks, ns, first), first);
            let exponent = periods.choose(&kind, H100.kernel(blocks));
            prop_assert!(H100.samples(blocks, ns, exponent) <= H100.capacity());
        }
    }
}
