//! Sharing of memory between the blocks of a launch.

use std::collections::BTreeMap;

use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::KernelId;

use super::access::{Accesses, Instructions, Places};
use super::analysis::{Analysis, Ready};
use super::derived::{BlockFootprint, SectorSharing};
use super::sampler::Sampler;
use stallmap_tables::words::Interned;

/// Level of a result row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// A block: `block_footprint`.
    Block,
    /// A number of blocks: `sector_sharing`.
    Sharing,
}

/// Maximum of runs of adjacent sectors. Beyond it, sectors are sampled.
const MOST_RUNS: usize = 1 << 23;

/// Adjacent sectors that a block touches with one kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    kind: u8,
    block: u64,
    first: u64,
    last: u64,
}

/// Collects the sectors of a launch's blocks.
pub(super) struct Sharing {
    grain: Grain,
    most_runs: usize,
    kernel_id: u64,
    kinds: Interned,
    runs: Vec<Run>,
    sampler: Sampler,
    touched: Vec<(u64, u64)>,
    footprints: Ready<BlockFootprint>,
    shared: Ready<SectorSharing>,
}

impl Run {
    fn sectors(self) -> u64 {
        self.last - self.first + 1
    }

    /// Appends a run that begins in it or right after it. Returns true if so.
    fn extend(&mut self, next: Self) -> bool {
        let joins = (self.kind, self.block) == (next.kind, next.block)
            && self.first <= next.first
            && next.first <= self.last.saturating_add(1);
        if joins {
            self.last = self.last.max(next.last);
        }
        joins
    }

    /// Its sectors in a sample.
    fn sampled(self, sampler: Sampler) -> impl Iterator<Item = Self> {
        let sectors = (self.first..=self.last).filter(move |&sector| sampler.keeps(sector));
        sectors.map(move |sector| Self { first: sector, last: sector, ..self })
    }
}

impl Sharing {
    pub(super) fn new(grain: Grain) -> Self {
        Self::with_room(grain, MOST_RUNS)
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(grain: Grain, most_runs: usize) -> Self {
        Self {
            grain,
            most_runs,
            kernel_id: 0,
            kinds: Interned::default(),
            runs: Vec::new(),
            sampler: Sampler::default(),
            touched: Vec::new(),
            footprints: Ready::default(),
            shared: Ready::default(),
        }
    }

    fn push_run(&mut self, run: Run) {
        if self.runs.last_mut().is_some_and(|last| last.extend(run)) {
            return;
        }
        self.runs.push(run);
        if self.runs.len() > self.most_runs {
            self.make_room();
        }
    }

    /// A run of one sector. The sample may have shrunk since it was drawn.
    fn push_sampled(&mut self, run: Run) {
        if self.sampler.keeps(run.first) {
            self.push_run(run);
        }
    }

    /// Sorts the runs and merges those of the same block.
    fn tidy(&mut self) {
        self.runs.sort_unstable();
        self.runs.dedup_by(|next, run| run.extend(*next));
    }

    /// Merges runs, then keeps half of the sectors, repeatedly.
    fn make_room(&mut self) {
        self.tidy();
        while self.runs.len() > self.most_runs / 2 {
            let mut left = self.runs.iter().map(|run| run.sectors()).sum::<u64>();
            while left > self.most_runs as u64 / 2 {
                self.sampler.halve();
                left /= 2;
            }
            let sampler = self.sampler;
            self.runs = self.runs.iter().flat_map(|run| run.sampled(sampler)).collect();
        }
    }

    fn push_footprints(&mut self) {
        for runs in self.runs.chunk_by(|run, other| (run.kind, run.block) == (other.kind, other.block)) {
            let Some(&Run { kind, block, .. }) = runs.first() else { continue };
            self.footprints.push(BlockFootprint {
                kernel_id: KernelId(self.kernel_id),
                kind: self.kinds.word(kind),
                block,
                sectors: self.sampler.scale(runs.iter().map(|run| run.sectors()).sum()),
                sector_rate: self.sampler.rate(),
            });
        }
    }

    fn push_shared(&mut self) {
        self.runs.sort_unstable_by_key(|run| (run.kind, run.first));
        for runs in self.runs.chunk_by(|run, other| run.kind == other.kind) {
            let Some(&Run { kind, .. }) = runs.first() else { continue };
            for (block_count, sectors) in shared(runs) {
                self.shared.push(SectorSharing {
                    kernel_id: KernelId(self.kernel_id),
                    kind: self.kinds.word(kind),
                    block_count,
                    sectors: self.sampler.scale(sectors),
                    sector_rate: self.sampler.rate(),
                });
            }
        }
    }
}

/// Sectors by the number of runs that hold them, of runs in the order of their first sectors. No two runs of a block
/// overlap.
fn shared(runs: &[Run]) -> BTreeMap<u64, u64> {
    let mut ends: Vec<u64> = runs.iter().map(|run| run.last + 1).collect();
    ends.sort_unstable();
    let mut begins = runs.iter().map(|run| run.first).peekable();
    let (mut counts, mut open, mut from) = (BTreeMap::new(), 0_u64, 0);
    for end in ends {
        while let Some(begin) = begins.next_if(|&begin| begin < end) {
            count(&mut counts, open, begin - from);
            (open, from) = (open + 1, begin);
        }
        count(&mut counts, open, end - from);
        (open, from) = (open - 1, end);
    }
    counts
}

fn count(counts: &mut BTreeMap<u64, u64>, open: u64, sectors: u64) {
    if open > 0 && sectors > 0 {
        *counts.entry(open).or_default() += sectors;
    }
}

impl Analysis for Sharing {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, places) = (Accesses::new(batch)?, Places::new(batch)?);
        let instructions = Instructions::new(batch)?;
        let kinds = self.kinds.codes(instructions.kind.words.iter().copied());
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            let kind = kinds.get(instructions.kind.code(row)).copied().unwrap_or_default();
            accesses.request(row).sector_runs_into(&mut self.touched);
            let touched = std::mem::take(&mut self.touched);
            for &(first, last) in &touched {
                let run = Run { kind, block: places.block[row], first, last };
                if self.sampler.keeps_all() {
                    self.push_run(run);
                } else {
                    run.sampled(self.sampler).for_each(|sector| self.push_sampled(sector));
                }
            }
            self.touched = touched;
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.tidy();
        match self.grain {
            Grain::Block => self.push_footprints(),
            Grain::Sharing => self.push_shared(),
        }
        self.runs = Vec::new();
        self.sampler = Sampler::default();
    }

    fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<Run>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.grain {
            Grain::Block => self.footprints.take(least),
            Grain::Sharing => self.shared.take(least),
        }
    }
}
