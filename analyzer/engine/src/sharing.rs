//! Sharing of memory between the blocks of a launch.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::memory::footprints::{SectorRun, bounds, count_shared, tidy};
use crate::memory::numbers::NumberSet;
use crate::memory::patterns::LaneDistances;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::KernelId;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analysis::{AccessAnalysis, DataStep, LaunchJob, LentSteps, ReadyRows, jobs, lent};
use super::derived::{BlockFootprint, SectorSharing};
use super::sampler::HashSampler;
use stallmap_tables::words::InternedWords;

/// The rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SharingGrain {
    /// A block: `block_footprint`.
    Block,
    /// A number of blocks: `sector_sharing`.
    Sharing,
    /// Both tables.
    Both,
}

/// Maximum of runs of adjacent sectors. Beyond it, sectors are sampled.
const MAX_RUNS: usize = 1 << 23;
/// Fewer runs than this are not worth a thread.
const RUNS_WORTH_A_THREAD: usize = 1 << 13;
/// Maximum of requests that are remembered: a block makes most of its requests again and again.
const MAX_REQUESTS: usize = 1 << 20;
/// Bytes of memory for a run, while it moves to another list.
const RUN_BYTES: usize = 4 * size_of::<SectorRun>();

/// Collects the sectors of a launch's blocks.
pub(super) struct SharingAnalysis {
    grain: SharingGrain,
    most_runs: usize,
    kernel_id: u64,
    kinds: InternedWords,
    runs: Vec<SectorRun>,
    sampler: HashSampler,
    touched: Vec<(u64, u64)>,
    patterns: LaneDistances,
    /// Requests with irregular lanes: kind, block, shape, and first sector.
    requests: NumberSet<(u8, u64, u64, u64)>,
    stage: SharingStage,
    pieces: Vec<LentSteps<SharedPiece>>,
    footprints: ReadyRows<BlockFootprint>,
    shared: ReadyRows<SectorSharing>,
}

/// The work on a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SharingStage {
    /// It is collected.
    Open,
    /// It has ended.
    Ended,
    /// The runs of blocks are merged.
    Merging,
    /// The blocks of sectors are counted.
    Counting,
}

/// Runs of some blocks, or of some sectors.
#[derive(Default)]
struct SharedPiece {
    runs: Vec<SectorRun>,
    /// True if the runs are of some sectors.
    counts: bool,
    /// Sectors by kind and number of blocks.
    sectors: BTreeMap<(u8, u64), u64>,
}

impl DataStep<()> for SharedPiece {
    fn step(&mut self, (): &()) -> bool {
        if self.counts {
            count_shared(&mut self.runs, &mut self.sectors);
            self.runs = Vec::new();
        } else {
            tidy(&mut self.runs);
        }
        false
    }

    fn bytes(&self) -> usize {
        self.runs.capacity() * size_of::<SectorRun>()
    }
}

impl SharingAnalysis {
    /// With some bytes of memory for a launch.
    pub(super) fn new(grain: SharingGrain, room_bytes: usize) -> Self {
        Self::with_room(grain, MAX_RUNS.min(room_bytes / RUN_BYTES))
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(grain: SharingGrain, most_runs: usize) -> Self {
        Self {
            grain,
            most_runs,
            kernel_id: 0,
            kinds: InternedWords::default(),
            runs: Vec::new(),
            sampler: HashSampler::default(),
            touched: Vec::new(),
            patterns: LaneDistances::default(),
            requests: NumberSet::default(),
            stage: SharingStage::Open,
            pieces: Vec::new(),
            footprints: ReadyRows::default(),
            shared: ReadyRows::default(),
        }
    }

    /// True if the block made the same request before.
    fn is_known(&mut self, request: (u8, u64, u64, u64)) -> bool {
        if self.requests.len() < MAX_REQUESTS.min(self.most_runs) {
            return !self.requests.insert(request);
        }
        self.requests.contains(&request)
    }

    fn push_run(&mut self, run: SectorRun) {
        if self.runs.last_mut().is_some_and(|last| last.extend(run)) {
            return;
        }
        self.runs.push(run);
        if self.runs.len() > self.most_runs {
            self.make_room();
        }
    }

    /// A run of one sector. The sample may have shrunk since it was drawn.
    fn push_sampled(&mut self, run: SectorRun) {
        if self.sampler.keeps(run.first) {
            self.push_run(run);
        }
    }

    /// Merges runs, then keeps half of the sectors, repeatedly.
    fn make_room(&mut self) {
        tidy(&mut self.runs);
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

    /// Deals the runs to parts by their blocks.
    fn merge(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        let runs = std::mem::take(&mut self.runs);
        let count = most.min(runs.len() / RUNS_WORTH_A_THREAD).max(1);
        let part = |run: &SectorRun| usize::try_from(run.block % count as u64).unwrap_or(0);
        self.pieces = dealt(count, runs.into_iter().map(|run| (part(&run), run)), false);
        self.stage = SharingStage::Merging;
        jobs(&Arc::new(()), &self.pieces)
    }

    /// Deals the merged runs to parts by their sectors.
    fn count(&mut self) -> Vec<Box<dyn LaunchJob>> {
        if self.grain != SharingGrain::Sharing {
            self.push_footprints();
        }
        if self.grain == SharingGrain::Block {
            self.finish();
            return Vec::new();
        }
        let merged: Vec<Vec<SectorRun>> =
            self.pieces.iter().map(|piece| std::mem::take(&mut lent(piece).runs)).collect();
        let bounds = bounds(&merged, self.pieces.len());
        let runs = merged.into_iter().flatten().flat_map(|run| run.cut(&bounds));
        self.pieces = dealt(bounds.len() + 1, runs, true);
        self.stage = SharingStage::Counting;
        jobs(&Arc::new(()), &self.pieces)
    }

    /// Ends a launch.
    fn finish(&mut self) {
        if self.grain != SharingGrain::Block {
            self.push_shared();
        }
        self.pieces = Vec::new();
        self.sampler = HashSampler::default();
        self.stage = SharingStage::Open;
    }

    fn push_footprints(&mut self) {
        let mut all = BTreeMap::new();
        for piece in &self.pieces {
            for run in &lent(piece).runs {
                *all.entry((run.kind, run.block)).or_insert(0) += run.sectors();
            }
        }
        for ((kind, block), sectors) in all {
            self.footprints.push(BlockFootprint {
                kernel_id: KernelId(self.kernel_id),
                kind: self.kinds.word(kind),
                block,
                sectors: self.sampler.scale(sectors),
                sector_rate: self.sampler.rate(),
            });
        }
    }

    fn push_shared(&mut self) {
        let mut all = BTreeMap::new();
        for piece in &self.pieces {
            for (key, sectors) in &lent(piece).sectors {
                *all.entry(*key).or_insert(0) += sectors;
            }
        }
        for ((kind, block_count), sectors) in all {
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

/// Runs in parts, by the number of each.
fn dealt(
    count: usize,
    runs: impl Iterator<Item = (usize, SectorRun)>,
    counts: bool,
) -> Vec<LentSteps<SharedPiece>> {
    let mut pieces: Vec<SharedPiece> =
        (0..count).map(|_| SharedPiece { counts, ..SharedPiece::default() }).collect();
    for (part, run) in runs {
        pieces[part].runs.push(run);
    }
    pieces.into_iter().map(|piece| LentSteps::new(piece.into())).collect()
}

impl AccessAnalysis for SharingAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let instructions = InstructionColumns::new(batch)?;
        let kinds = self.kinds.codes(instructions.kind.words.iter().copied());
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            let kind = kinds.get(instructions.kind.code(row)).copied().unwrap_or_default();
            let shape = self.patterns.sector_runs_into(&accesses.request(row), &mut self.touched);
            if let Some((shape, first)) = shape
                && self.is_known((kind, warps.block[row], shape, first))
            {
                continue;
            }
            let touched = std::mem::take(&mut self.touched);
            for &(first, last) in &touched {
                let run = SectorRun { kind, block: warps.block[row], first, last };
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
        self.stage = SharingStage::Ended;
        if self.requests.capacity() > MAX_REQUESTS / 16 {
            self.requests = NumberSet::default();
        }
        self.requests.clear();
    }

    fn jobs(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        match self.stage {
            SharingStage::Open => {}
            SharingStage::Ended => return self.merge(most),
            SharingStage::Merging => return self.count(),
            SharingStage::Counting => self.finish(),
        }
        Vec::new()
    }

    fn bytes(&self) -> usize {
        let pieces = self.pieces.iter().map(|piece| lent(piece).bytes()).sum::<usize>();
        let requests = self.requests.capacity() * (size_of::<(u8, u64, u64, u64)>() + 1);
        self.runs.capacity() * size_of::<SectorRun>() + requests + pieces
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.footprints.take(least)? {
            Some(rows) => Ok(Some(rows)),
            None => self.shared.take(least),
        }
    }
}
