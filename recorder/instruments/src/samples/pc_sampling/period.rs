//! The sampling period of a run: the finest whose samples are read in about a second.
//!
//! A multiprocessor takes one sample per period while it has a block. All samples of a launch times the period are its
//! cycles, summed over multiprocessors: measurements at different periods compare.
//!
//! A change of the period makes the next launch 135 ms longer, because CUPTI sets up the hardware again: as long as four
//! million samples take to be read. So all launches have one period. It is made coarser where the run has taken enough
//! samples or a launch would fill the hardware buffer, and never finer.

/// Two to this power cycles: the period of a run, and the finest that the recorder chooses.
pub(super) const FINEST: u32 = 8;
/// The coarsest that the recorder chooses.
pub(super) const COARSEST: u32 = 20;
/// Samples of a run that are enough: about a second of reading. Each doubling of the run's length adds half of them.
const RUN_SAMPLES: u64 = 1 << 25;
/// Bytes of the hardware buffer that a sample takes, rounded up: 512 MiB hold 51 million samples.
const SAMPLE_BYTES: u64 = 11;
/// A kernel that never ran may last so long before its samples fill the hardware buffer.
const FIRST_NS: u64 = 20_000_000;
/// As [`FIRST_NS`] for a kernel that a run before has measured, however short it was there.
const MEASURED_NS: u64 = 4_000_000;
/// Each kernel of a graph may add so much to [`FIRST_NS`].
const NODE_NS: u64 = 100_000;

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

    /// Cycles that a kernel of so many blocks may take, by its longest launch in a run before. It may take twice as long now.
    pub(super) fn kernel_cycles(self, blocks: u64, longest_ns: Option<u64>) -> u64 {
        let ns = longest_ns.map_or(FIRST_NS, |ns| ns.saturating_mul(2).max(MEASURED_NS));
        self.samples(blocks, ns, 0)
    }

    /// Cycles that a graph of so many kernels may take, which may run concurrently.
    pub(super) fn graph_cycles(self, kernels: u64) -> u64 {
        let ns = FIRST_NS.saturating_add(kernels.saturating_mul(NODE_NS));
        self.samples(self.multiprocessors, ns, 0)
    }

    /// The finest period at which so many cycles do not fill the hardware buffer.
    fn fitting(self, cycles: u64) -> u32 {
        finest(cycles, self.capacity())
    }
}

/// Samples that a hardware buffer holds.
pub(super) fn capacity(buffer_bytes: u64) -> u64 {
    buffer_bytes / SAMPLE_BYTES
}

/// The finest period at which cycles give no more than so many samples.
fn finest(cycles: u64, samples: u64) -> u32 {
    (FINEST..COARSEST).find(|exponent| cycles >> exponent <= samples).unwrap_or(COARSEST)
}

/// The period of a run's launches, and what they have taken.
#[derive(Debug)]
pub(super) struct RunPeriod {
    exponent: u32,
    /// Cycles of all launches, summed over multiprocessors.
    cycles: u64,
    /// Time of all kernels in a run before; 0 where none was measured.
    run_ns: u64,
}

impl RunPeriod {
    pub(super) fn new(run_ns: u64) -> Self {
        Self { exponent: FINEST, cycles: 0, run_ns }
    }

    /// The exponent of the period for a launch that may take so many cycles.
    pub(super) fn choose(&mut self, machine: ContextBounds, cycles: u64) -> u32 {
        let expected = machine.samples(machine.multiprocessors, self.run_ns, 0);
        let of_run = finest(self.cycles.max(expected), RUN_SAMPLES);
        self.exponent = self.exponent.max(of_run).max(machine.fitting(cycles));
        self.exponent
    }

    /// Notes the samples of a launch. The next of its kind may be twice as long.
    pub(super) fn learn(&mut self, machine: ContextBounds, samples: u64, exponent: u32) {
        let cycles = samples.saturating_mul(1 << exponent.min(63));
        self.cycles = self.cycles.saturating_add(cycles);
        self.exponent = self.exponent.max(machine.fitting(cycles.saturating_mul(2)));
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
        let first = |blocks| RunPeriod::new(0).choose(H100, H100.kernel_cycles(blocks, None));
        assert_eq!([1, 8, 66, 132, 100_000].map(first), [8, 8, 9, 10, 10]);
        let measured = |ns| RunPeriod::new(ns).choose(H100, H100.kernel_cycles(132, Some(ns)));
        assert_eq!([2_000, 2_000_000, 100_000_000, 10_000_000_000].map(measured), [8, 8, 14, 20]);
    }

    #[test]
    fn launches_of_all_lengths_have_one_period() {
        let mut period = RunPeriod::new(0);
        let mut chosen = Vec::new();
        for ns in [2_000, 1_500_000, 5_000, 300_000].repeat(10) {
            let exponent = period.choose(H100, H100.kernel_cycles(132, None));
            period.learn(H100, H100.samples(132, ns, exponent), exponent);
            chosen.push(exponent);
        }
        assert!(chosen.iter().all(|exponent| *exponent == 10), "{chosen:?}");
    }

    #[test]
    fn a_run_of_known_length_has_its_period_from_the_first_launch_on() {
        let ns = 20_000;
        let mut period = RunPeriod::new(100_000 * ns);
        let mut samples = 0;
        for _ in 0..100_000 {
            let exponent = period.choose(H100, H100.kernel_cycles(132, Some(ns)));
            assert_eq!(exponent, 14);
            let taken = H100.samples(132, ns, exponent);
            samples += taken;
            period.learn(H100, taken, exponent);
        }
        assert!((RUN_SAMPLES / 2..=RUN_SAMPLES).contains(&samples), "{samples}");
    }

    #[test]
    fn a_run_of_unknown_length_is_sampled_coarser_and_coarser() {
        let (mut period, mut samples, mut changes) = (RunPeriod::new(0), 0, 0);
        let mut before = period.choose(H100, 0);
        for _ in 0..1_000_000 {
            let exponent = period.choose(H100, 0);
            changes += u32::from(exponent != before);
            before = exponent;
            let taken = H100.samples(132, 200_000, exponent);
            samples += taken;
            period.learn(H100, taken, exponent);
        }
        assert!(samples < RUN_SAMPLES * 8 && changes <= 12, "{samples} samples, {changes} changes");
    }

    #[test]
    fn a_launch_that_filled_the_buffer_does_not_fill_it_again() {
        let mut period = RunPeriod::new(0);
        let cycles = H100.kernel_cycles(132, None);
        let first = period.choose(H100, cycles);
        let of_long = |exponent| H100.samples(132, 300_000_000, exponent);
        assert!(of_long(first) > H100.capacity());
        period.learn(H100, of_long(first), first);
        assert!(of_long(period.choose(H100, cycles)) <= H100.capacity());
    }

    #[test]
    fn graphs_have_time_for_each_of_their_kernels() {
        let first = |kernels| RunPeriod::new(0).choose(H100, H100.graph_cycles(kernels));
        assert_eq!([1, 100, 10_000].map(first), [10, 11, 16]);
    }

    proptest! {
        #[test]
        fn every_period_is_in_range(run: u64, ns: u64, samples: u64, before in 0..64_u32, blocks: u64, bytes: u64) {
            let machine = ContextBounds { buffer_bytes: bytes, ..H100 };
            let mut period = RunPeriod::new(run);
            prop_assert!((FINEST..=COARSEST).contains(&period.choose(machine, machine.kernel_cycles(blocks, Some(ns)))));
            period.learn(machine, samples, before);
            prop_assert!((FINEST..=COARSEST).contains(&period.choose(machine, machine.graph_cycles(blocks))));
        }

        #[test]
        fn a_repeated_launch_never_overflows(ns in 0..5_000_000_000_u64, blocks in 1..100_000_u64) {
            let mut period = RunPeriod::new(0);
            let cycles = H100.kernel_cycles(blocks, None);
            let first = period.choose(H100, cycles);
            period.learn(H100, H100.samples(blocks, ns, first), first);
            let exponent = period.choose(H100, cycles);
            prop_assert!(H100.samples(blocks, ns, exponent) <= H100.capacity());
        }
    }
}
