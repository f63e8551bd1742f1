//! Sharing of memory between the blocks of a launch.

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::KernelId;

use super::access::{Accesses, Instructions, Places};
use super::analysis::{Analysis, Ready, Sampler};
use super::derived::{BlockFootprint, SectorSharing, Word};
use super::words::Interned;

/// Level of a result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A block: `block_footprint`.
    Block,
    /// A number of blocks: `sector_sharing`.
    Sharing,
}

/// Maximum of pairs of a sector and a block. Beyond it, sectors are sampled.
const MOST_PAIRS: usize = 1 << 23;

/// A kind of access, a sector, a block.
type Pair = (u8, u64, u64);

/// Collects the sectors of a launch's blocks.
pub(super) struct Sharing {
    grain: Grain,
    most_pairs: usize,
    kernel_id: u64,
    kinds: Interned,
    pairs: Vec<Pair>,
    sampler: Sampler,
    sectors: Vec<u64>,
    footprints: Ready<BlockFootprint>,
    shared: Ready<SectorSharing>,
}

impl Sharing {
    pub(super) fn new(grain: Grain) -> Self {
        Self::with_room(grain, MOST_PAIRS)
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(grain: Grain, most_pairs: usize) -> Self {
        Self {
            grain,
            most_pairs,
            kernel_id: 0,
            kinds: Interned::default(),
            pairs: Vec::new(),
            sampler: Sampler::default(),
            sectors: Vec::new(),
            footprints: Ready::default(),
            shared: Ready::default(),
        }
    }

    /// Makes room: removes duplicates, then half of the sectors, repeatedly.
    fn tidy(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        while self.pairs.len() > self.most_pairs / 2 {
            self.sampler.halve();
            let sampler = self.sampler;
            self.pairs.retain(|&(_, sector, _)| sampler.keeps(sector));
        }
    }

    fn push_footprints(&mut self) {
        let mut footprints: HashMap<(u8, u64), u64> = HashMap::new();
        for &(kind, _, block) in &self.pairs {
            *footprints.entry((kind, block)).or_default() += 1;
        }
        for ((kind, block), sectors) in sorted(footprints) {
            self.footprints.push(BlockFootprint {
                kernel_id: KernelId(self.kernel_id),
                kind: self.kind(kind),
                block,
                sectors: self.sampler.scale(sectors),
                sector_rate: self.sampler.rate(),
            });
        }
    }

    fn push_shared(&mut self) {
        let mut shared: HashMap<(u8, u64), u64> = HashMap::new();
        for blocks in self.pairs.chunk_by(|(kind, sector, _), other| (*kind, *sector) == (other.0, other.1)) {
            if let Some(&(kind, ..)) = blocks.first() {
                *shared.entry((kind, blocks.len() as u64)).or_default() += 1;
            }
        }
        for ((kind, block_count), sectors) in sorted(shared) {
            self.shared.push(SectorSharing {
                kernel_id: KernelId(self.kernel_id),
                kind: self.kind(kind),
                block_count,
                sectors: self.sampler.scale(sectors),
                sector_rate: self.sampler.rate(),
            });
        }
    }

    fn kind(&self, code: u8) -> Word {
        self.kinds.word(code)
    }
}

/// Counts by key, in the keys' order.
fn sorted(counts: HashMap<(u8, u64), u64>) -> Vec<((u8, u64), u64)> {
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_unstable();
    counts
}

impl Analysis for Sharing {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, places) = (Accesses::new(batch)?, Places::new(batch)?);
        let instructions = Instructions::new(batch)?;
        let kinds = self.kinds.codes(&instructions.kind);
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            let kind = kinds.get(instructions.kind.code(row)).copied().unwrap_or_default();
            accesses.request(row).sectors_into(&mut self.sectors);
            let in_sample = self.sectors.iter().filter(|&&sector| self.sampler.keeps(sector));
            self.pairs.extend(in_sample.map(|&sector| (kind, sector, places.block[row])));
            if self.pairs.len() > self.most_pairs {
                self.tidy();
            }
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.pairs.sort_unstable();
        self.pairs.dedup();
        match self.grain {
            Grain::Block => self.push_footprints(),
            Grain::Sharing => self.push_shared(),
        }
        self.pairs.clear();
        self.sampler = Sampler::default();
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.grain {
            Grain::Block => self.footprints.take(least),
            Grain::Sharing => self.shared.take(least),
        }
    }
}
