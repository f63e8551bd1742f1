//! Records of blocks, as the GPU writes them: the layout of `device/block.cu`.

use stallmap_schema::id::{KernelId, RunId};
use stallmap_schema::tables::block::BlockTime;

/// Bytes of a block's record.
pub(super) const RECORD_BYTES: u64 = RECORD_LEN as u64;
/// The same as a length.
const RECORD_LEN: usize = 32;
/// Nanoseconds of a unit in which a record has its end.
const UNIT_NS: u64 = 32;

/// A multiprocessor's clock may go round in so long a time.
const LONG_NS: u64 = 1_000_000_000;

/// One block, as the GPU wrote it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct BlockRecord {
    begin_ns: u64,
    begin_clock: u32,
    multiprocessor: u32,
    /// In units of [`UNIT_NS`], of which the lowest 32 bits are known.
    end_units: u32,
    end_clock: u32,
}

impl BlockRecord {
    fn of_bytes(bytes: &[u8; RECORD_LEN]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let [low, high, begin_clock, multiprocessor, end_clock, end_units, ..] =
            <[[u8; 4]; 8]>::try_from(words).unwrap_or_default().map(u32::from_le_bytes);
        let begin_ns = u64::from(high) << 32 | u64::from(low);
        Self { begin_ns, begin_clock, multiprocessor, end_units, end_clock }
    }

    /// Nanoseconds and cycles from its begin to its end. `None` where it has none.
    fn passed(self) -> Option<(u64, u64)> {
        if self.begin_ns == 0 || self.end_units == 0 && self.end_clock == 0 {
            return None;
        }
        // Both clocks go round in less than their 32 bits.
        let units = u64::from(self.end_units.wrapping_sub(low_bits(self.begin_ns / UNIT_NS)));
        Some((units * UNIT_NS, u64::from(self.end_clock.wrapping_sub(self.begin_clock))))
    }
}

fn low_bits(number: u64) -> u32 {
    u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0)
}

/// Clocks of a launch's blocks.
///
/// Ends come from the multiprocessors' clock, which is finer than the GPU's. Its frequency is that of all blocks together.
pub(super) struct LaunchClock {
    blocks: Vec<BlockRecord>,
    /// Nanoseconds and cycles of all blocks together.
    ns: u64,
    cycles: u64,
}

/// The clock of one block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockClock {
    pub(super) begin_clock: u32,
    begin_ns: u64,
    ns: u64,
    cycles: u64,
}

impl BlockClock {
    /// The time so many cycles after the block's begin.
    pub(super) fn at(self, cycles: u64) -> i64 {
        let passed = u128::from(cycles) * u128::from(self.ns) / u128::from(self.cycles.max(1));
        (self.begin_ns + u64::try_from(passed).unwrap_or(0)).cast_signed()
    }
}

impl LaunchClock {
    /// Reads the bytes that the GPU wrote.
    pub(super) fn from_bytes(bytes: &[u8]) -> Self {
        let blocks: Vec<BlockRecord> = bytes.as_chunks().0.iter().map(BlockRecord::of_bytes).collect();
        let passed = blocks.iter().filter_map(|block| block.passed()).filter(|(ns, _)| *ns < LONG_NS);
        let (ns, cycles) = passed.fold((0_u64, 0_u64), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        Self { blocks, ns, cycles }
    }

    /// The clock of a block that has begun.
    pub(super) fn for_block(&self, block: u64) -> Option<BlockClock> {
        let record = self.blocks.get(usize::try_from(block).ok()?)?;
        let Self { ns, cycles, .. } = *self;
        let BlockRecord { begin_ns, begin_clock, .. } = *record;
        (begin_ns != 0).then_some(BlockClock { begin_clock, begin_ns, ns, cycles })
    }

    /// Rows of the blocks, and the number of blocks without times.
    pub(super) fn block_times(&self, ordinal: u64) -> (Vec<BlockTime>, u64) {
        let mut lost = 0;
        let rows = (0..).zip(&self.blocks).filter_map(|(block, record)| {
            let Some(((block_ns, block_cycles), clock)) = record.passed().zip(self.for_block(block)) else {
                lost += 1;
                return None;
            };
            let by_clock = self.cycles > 0 && block_ns < LONG_NS;
            let end = (record.begin_ns + block_ns).cast_signed();
            Some(BlockTime {
                run_id: RunId(0),
                kernel_id: KernelId(ordinal),
                block,
                multiprocessor: record.multiprocessor,
                begin_ns: record.begin_ns.cast_signed(),
                end_ns: if by_clock { clock.at(block_cycles) } else { end },
            })
        });
        let rows = rows.collect();
        (rows, lost)
    }

    /// The clock of a launch with one block that has begun: `frequency` is nanoseconds and cycles.
    #[cfg(test)]
    pub(super) fn for_test(block: usize, begin_ns: u64, begin_clock: u32, frequency: (u64, u64)) -> Self {
        let mut blocks = vec![BlockRecord::default(); block + 1];
        blocks[block] = BlockRecord { begin_ns, begin_clock, ..BlockRecord::default() };
        Self { blocks, ns: frequency.0, cycles: frequency.1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(begin_ns: u64, clocks: (u32, u32), end_ns: u64) -> [u8; 32] {
        let mut bytes = [0; 32];
        let end = u64::from(low_bits(end_ns / 32)) << 32 | u64::from(clocks.1);
        let middle = 7_u64 << 32 | u64::from(clocks.0);
        for (at, word) in [begin_ns, middle, end].into_iter().enumerate() {
            bytes[at * 8..at * 8 + 8].copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn ends_are_finer_than_the_gpus_clock() {
        let begin = 0x0018_f000_0000_0000;
        // 2 cycles a nanosecond. The clock of the second block's multiprocessor goes round meanwhile.
        let blocks = [
            record(begin, (1_000, 3_000), begin + 992),
            record(begin + 64, (u32::MAX - 99, 2_000), begin + 64 + 1_056),
            record(0, (0, 0), 0),
            record(begin, (5, 9), 0),
        ];
        let (rows, lost) = LaunchClock::from_bytes(&blocks[..3].concat()).block_times(3);
        let times: Vec<_> =
            rows.iter().map(|row| (row.block, row.end_ns - row.begin_ns, row.multiprocessor)).collect();
        assert_eq!(times, [(0, 999, 7), (1, 1_048, 7)]);
        assert_eq!((rows[1].begin_ns, rows[0].kernel_id, lost), (begin.cast_signed() + 64, KernelId(3), 1));
        assert_eq!(LaunchClock::from_bytes(&[]).block_times(0).0, []);
    }

    #[test]
    fn a_clock_that_went_round_is_not_used() {
        let begin = 64_000_000_000;
        let seconds = record(begin, (0, 10_000), begin + 3_200_000_000);
        let fine = record(begin, (0, 2_000_000), begin + 1_000_000);
        let (rows, _) = LaunchClock::from_bytes(&[fine, seconds].concat()).block_times(0);
        assert_eq!(rows[1].end_ns - rows[1].begin_ns, 3_200_000_000);
    }
}
