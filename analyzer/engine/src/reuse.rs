//! Reuse distances: memory touched between two touches of the same unit.
//!
//! The distance of a touch is the number of distinct other units touched since the last touch of its unit, in one
//! stream of requests: those of a block, or of the complete launch, in the order in which the GPU queued them under the
//! instrument. An LRU cache of N units holds the unit if the distance is below N.

use std::cmp::Ordering;

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::KernelId;

use super::access::{Accesses, Places};
use super::analysis::{Analysis, Ready, Sampler};
use super::derived::{ReuseDistance, Word};
use super::request::SECTOR_BYTES;
use super::shape::LINE_BYTES;

/// Maximum of sector touches per launch. Beyond it, lines are sampled.
const MOST_TOUCHES: usize = 1 << 25;
/// Touches processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
/// Distances are counted by their powers of two, the first for 0.
const BUCKETS: usize = 65;

/// One request's touch of one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Touch {
    block: u64,
    sequence: u64,
    sector: u64,
}

/// Stream of consecutive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Block,
    Launch,
}

/// The streams and units, processed in sequence.
const PASSES: [(Stream, u64); 4] = [
    (Stream::Block, SECTOR_BYTES),
    (Stream::Block, LINE_BYTES),
    (Stream::Launch, SECTOR_BYTES),
    (Stream::Launch, LINE_BYTES),
];

impl Stream {
    fn word(self) -> &'static str {
        match self {
            Self::Block => "block",
            Self::Launch => "launch",
        }
    }

    fn order(self, one: &Touch, other: &Touch) -> Ordering {
        let block = if self == Self::Block { one.block.cmp(&other.block) } else { Ordering::Equal };
        block.then((one.sequence, one.sector).cmp(&(other.sequence, other.sector)))
    }

    fn is_same(self, one: &Touch, other: &Touch) -> bool {
        self == Self::Launch || one.block == other.block
    }
}

/// Collects the touches of a launch, then measures their distances.
pub(super) struct Reuse {
    most_touches: usize,
    kernel_id: u64,
    touches: Vec<Touch>,
    sampler: Sampler,
    /// All touches of sectors and of lines, in the sample or not.
    all: [u64; 2],
    sectors: Vec<u64>,
    /// The remaining passes for the finished launch, and the progress of the current one.
    passes: Vec<(Stream, u64)>,
    running: Option<Pass>,
    ready: Ready<ReuseDistance>,
}

/// One walk over the touches of a launch.
struct Pass {
    stream: Stream,
    unit_bytes: u64,
    /// The touch that is next.
    next: usize,
    /// End of the open stream.
    end: usize,
    stack: Stack,
    counts: [u64; BUCKETS],
    sums: [u64; BUCKETS],
    cold: u64,
}

impl Reuse {
    pub(super) fn new() -> Self {
        Self::with_room(MOST_TOUCHES)
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(most_touches: usize) -> Self {
        Self {
            most_touches,
            kernel_id: 0,
            touches: Vec::new(),
            sampler: Sampler::default(),
            all: [0; 2],
            sectors: Vec::new(),
            passes: Vec::new(),
            running: None,
            ready: Ready::default(),
        }
    }

    fn push(&mut self, pass: &Pass) {
        let all = self.all[usize::from(pass.unit_bytes == LINE_BYTES)];
        let seen = pass.cold + pass.counts.iter().sum::<u64>();
        // The part that the sample shows, of all.
        let of_all = |count: u64| {
            let all = u128::from(count) * u128::from(all);
            all.checked_div(seen.into()).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        let line_rate = self.sampler.rate();
        let row = |reuse: &str, range: Option<(u64, Option<u64>)>, touches: u64, sum: u64| ReuseDistance {
            kernel_id: KernelId(self.kernel_id),
            stream: Word(pass.stream.word().into()),
            unit_bytes: pass.unit_bytes,
            reuse: Word(reuse.into()),
            distance_from: range.map(|(from, _)| from),
            distance_to: range.and_then(|(_, to)| to),
            touches,
            mean_distance: range.map(|_| sum as f64 / touches as f64),
            line_rate,
        };
        if seen == 0 && all > 0 {
            let row = row("unknown", None, all, 0);
            self.ready.push(row);
        }
        if pass.cold > 0 {
            let row = row("cold", None, of_all(pass.cold), 0);
            self.ready.push(row);
        }
        for (bucket, (&count, &sum)) in (0..).zip(pass.counts.iter().zip(&pass.sums)) {
            if count > 0 {
                let from = if bucket == 0 { 0 } else { 1 << (bucket - 1) };
                let mut row = row("reused", Some((from, 1_u64.checked_shl(bucket))), count, sum);
                row.touches = of_all(count);
                self.ready.push(row);
            }
        }
    }
}

impl Analysis for Reuse {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, places) = (Accesses::new(batch)?, Places::new(batch)?);
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            accesses.request(row).sectors_into(&mut self.sectors);
            let lines = self.sectors.chunk_by(|one, other| line(*one) == line(*other)).count();
            self.all = [self.all[0] + self.sectors.len() as u64, self.all[1] + lines as u64];
            let sampler = self.sampler;
            let in_sample = self.sectors.iter().filter(|&&sector| sampler.keeps(line(sector)));
            let (block, sequence) = (places.block[row], places.sequence[row]);
            self.touches.extend(in_sample.map(|&sector| Touch { block, sequence, sector }));
            while self.touches.len() > self.most_touches {
                self.sampler.halve();
                let sampler = self.sampler;
                self.touches.retain(|touch| sampler.keeps(line(touch.sector)));
            }
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.passes = PASSES.into_iter().rev().collect();
    }

    fn work(&mut self) -> bool {
        if let Some(mut pass) = self.running.take() {
            if pass.walk(&self.touches, self.sampler) {
                self.running = Some(pass);
            } else {
                self.push(&pass);
                if self.passes.is_empty() {
                    self.touches.clear();
                    self.sampler = Sampler::default();
                    self.all = [0; 2];
                }
            }
            return true;
        }
        let Some((stream, unit_bytes)) = self.passes.pop() else { return false };
        if unit_bytes == SECTOR_BYTES {
            self.touches.sort_unstable_by(|one, other| stream.order(one, other));
        }
        self.running = Some(Pass::new(stream, unit_bytes));
        true
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        if self.passes.is_empty() && self.running.is_none() {
            return self.ready.take(least);
        }
        Ok(None)
    }
}

fn line(sector: u64) -> u64 {
    sector / (LINE_BYTES / SECTOR_BYTES)
}

impl Pass {
    fn new(stream: Stream, unit_bytes: u64) -> Self {
        let stack = Stack::default();
        let (counts, sums) = ([0; BUCKETS], [0; BUCKETS]);
        Self { stream, unit_bytes, next: 0, end: 0, stack, counts, sums, cold: 0 }
    }

    /// Continues for a while. Returns true if touches remain.
    fn walk(&mut self, touches: &[Touch], sampler: Sampler) -> bool {
        let sectors = self.unit_bytes / SECTOR_BYTES;
        for _ in 0..TOUCHES_AT_A_TIME {
            let Some(touch) = touches.get(self.next) else { return false };
            if self.next == self.end {
                let others = touches.get(self.next..).unwrap_or_default();
                let length = others.partition_point(|other| self.stream.is_same(touch, other)).max(1);
                self.end = self.next + length;
                self.stack.begin(length);
            }
            let unit = touch.sector / sectors;
            // The sectors of a line that one request touches are one touch of the line.
            let before = self.next.checked_sub(1).and_then(|place| touches.get(place));
            let is_again = before.is_some_and(|before| {
                self.stack.has_begun()
                    && (before.block, before.sequence, before.sector / sectors)
                        == (touch.block, touch.sequence, unit)
            });
            self.next += 1;
            if is_again {
                continue;
            }
            match self.stack.touch(unit) {
                None => self.cold += 1,
                Some(distance) => self.count(sampler.scale(distance)),
            }
        }
        true
    }

    fn count(&mut self, distance: u64) {
        let bucket = usize::try_from(u64::BITS - distance.leading_zeros()).unwrap_or(0);
        if let (Some(count), Some(sum)) = (self.counts.get_mut(bucket), self.sums.get_mut(bucket)) {
            *count += 1;
            *sum = sum.saturating_add(distance);
        }
    }
}

/// An LRU stack without its order: per unit the time of its last touch, and a tree that counts those times in a range
/// (Olken's algorithm).
#[derive(Debug, Default)]
struct Stack {
    last: HashMap<u64, u32>,
    /// A Fenwick tree over times from 1.
    tree: Vec<u32>,
    now: u32,
}

impl Stack {
    /// Begins a stream of up to so many touches.
    fn begin(&mut self, touches: usize) {
        if self.last.capacity() > 4 * touches.max(64) {
            self.last = HashMap::new();
        }
        self.last.clear();
        self.tree.clear();
        self.tree.resize(touches + 1, 0);
        self.now = 0;
    }

    fn has_begun(&self) -> bool {
        self.now > 0
    }

    /// The distinct other units since the last touch of this one. `None` for the first touch.
    fn touch(&mut self, unit: u64) -> Option<u64> {
        self.now += 1;
        let before = self.last.insert(unit, self.now);
        let distance = before.map(|before| {
            let distance = self.sum(self.now) - self.sum(before);
            self.add(before, u32::MAX);
            distance
        });
        self.add(self.now, 1);
        distance.map(u64::from)
    }

    /// Adds to the count at a time. The largest number subtracts 1.
    fn add(&mut self, time: u32, number: u32) {
        let mut place = time as usize;
        while let Some(count) = self.tree.get_mut(place) {
            *count = count.wrapping_add(number);
            place += place & place.wrapping_neg();
        }
    }

    /// The counts up to a time.
    fn sum(&self, time: u32) -> u32 {
        let (mut place, mut sum) = (time as usize, 0_u32);
        while place > 0 {
            sum = sum.wrapping_add(self.tree.get(place).copied().unwrap_or(0));
            place &= place - 1;
        }
        sum
    }
}
