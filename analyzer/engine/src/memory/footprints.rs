//! Memory that the blocks of a launch touch, as runs of adjacent sectors, and its sharing.

use std::collections::BTreeMap;

use super::sampler::HashSampler;

/// Runs whose sectors are looked at to divide all sectors into parts with about equal numbers of runs.
const PROBES: usize = 1 << 10;

/// Adjacent sectors that a block touches with one kind of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectorRun {
    /// The number of the kind.
    pub kind: u8,
    /// The block.
    pub block: u64,
    /// The first sector.
    pub first: u64,
    /// The last sector.
    pub last: u64,
}

impl SectorRun {
    /// The parts of it between some sectors, with the position of each part.
    pub fn cut(self, bounds: &[u64]) -> impl Iterator<Item = (usize, Self)> {
        let first = bounds.partition_point(|bound| *bound <= self.first);
        let last = bounds.partition_point(|bound| *bound <= self.last);
        (first..=last).map(move |index| {
            let from = index.checked_sub(1).and_then(|before| bounds.get(before)).copied().unwrap_or(0);
            let to = bounds.get(index).map_or(u64::MAX, |bound| bound - 1);
            (index, Self { first: self.first.max(from), last: self.last.min(to), ..self })
        })
    }

    /// The number of its sectors.
    pub fn sectors(self) -> u64 {
        self.last - self.first + 1
    }

    /// Appends a run that begins in it or right after it. Returns true if so.
    pub fn extend(&mut self, next: Self) -> bool {
        let joins = (self.kind, self.block) == (next.kind, next.block)
            && self.first <= next.first
            && next.first <= self.last.saturating_add(1);
        if joins {
            self.last = self.last.max(next.last);
        }
        joins
    }

    /// Its sectors in a sample.
    pub fn sampled(self, sampler: HashSampler) -> impl Iterator<Item = Self> {
        let sectors = (self.first..=self.last).filter(move |&sector| sampler.keeps(sector));
        sectors.map(move |sector| Self { first: sector, last: sector, ..self })
    }
}

/// The first sectors of all parts but the first: up to so many parts with about equal numbers of runs.
pub fn bounds(runs: &[Vec<SectorRun>], parts: usize) -> Vec<u64> {
    let step = (runs.iter().map(Vec::len).sum::<usize>() / PROBES).max(1);
    let mut probes: Vec<u64> = runs.iter().flatten().step_by(step).map(|run| run.first).collect();
    probes.sort_unstable();
    let mut bounds: Vec<u64> =
        (1..parts).filter_map(|part| probes.get(part * probes.len() / parts)).copied().collect();
    bounds.dedup();
    bounds
}

/// Sorts runs and merges those of the same block.
pub fn tidy(runs: &mut Vec<SectorRun>) {
    runs.sort_unstable();
    runs.dedup_by(|next, run| run.extend(*next));
}

/// Adds up sectors by the kind of access and the number of blocks.
pub fn count_shared(runs: &mut [SectorRun], sectors: &mut BTreeMap<(u8, u64), u64>) {
    runs.sort_unstable_by_key(|run| (run.kind, run.first));
    for runs in runs.chunk_by(|run, other| run.kind == other.kind) {
        let Some(&SectorRun { kind, .. }) = runs.first() else { continue };
        for (block_count, count) in shared(runs) {
            *sectors.entry((kind, block_count)).or_default() += count;
        }
    }
}

/// Sectors by the number of runs that hold them, of runs in the order of their first sectors. No two runs of a block
/// overlap.
fn shared(runs: &[SectorRun]) -> BTreeMap<u64, u64> {
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
