//! Reuse distances: memory touched between two touches of the same unit.
//!
//! The distance of a touch is the number of distinct other units touched since the last touch of its unit, in one
//! stream of requests: those of a block, or of the complete launch, in the order in which the GPU queued them under the
//! instrument. An LRU cache of N units holds the unit if the distance is below N.

use std::ops::Range;

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

/// One request with the sectors that it touches, ascending.
#[derive(Clone, Copy, Debug)]
struct Request {
    block: u64,
    sequence: u64,
    /// The positions of its touches.
    begin: u32,
    end: u32,
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

    fn order(self, request: &Request) -> (u64, u64, u64) {
        let Request { block, sequence, .. } = *request;
        if self == Self::Block { (block, sequence, 0) } else { (0, sequence, block) }
    }

    fn is_same(self, one: &Request, other: &Request) -> bool {
        self == Self::Launch || one.block == other.block
    }
}

/// Collects the touches of a launch, then measures their distances.
pub(super) struct Reuse {
    most_touches: usize,
    kernel_id: u64,
    requests: Vec<Request>,
    /// The touched sectors, request by request, by their numbers in `units`.
    touches: Vec<u32>,
    units: Units,
    sampler: Sampler,
    /// All touches of sectors and of lines, in the sample or not.
    all: [u64; 2],
    touched: Vec<(u64, u64)>,
    /// The remaining passes for the finished launch, and the progress of the current one.
    passes: Vec<(Stream, u64)>,
    running: Option<Pass>,
    ready: Ready<ReuseDistance>,
}

/// The sectors of a launch and their lines, numbered in the order of appearance.
#[derive(Debug, Default)]
struct Units {
    numbers: HashMap<u64, u32>,
    sectors: Vec<u64>,
    line_numbers: HashMap<u64, u32>,
    /// The line of each sector.
    lines: Vec<u32>,
}

/// One walk over the touches of a launch.
struct Pass {
    stream: Stream,
    unit_bytes: u64,
    /// The request that is next.
    next: usize,
    /// End of the open stream.
    end: usize,
    stack: Stack,
    /// The units of the request at hand.
    units: Vec<u32>,
    distances: Histogram,
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
            requests: Vec::new(),
            touches: Vec::new(),
            units: Units::default(),
            sampler: Sampler::default(),
            all: [0; 2],
            touched: Vec::new(),
            passes: Vec::new(),
            running: None,
            ready: Ready::default(),
        }
    }

    /// Adds the sample of the touched sectors of a warp request.
    fn add_request(&mut self, block: u64, sequence: u64) {
        let begin = position(self.touches.len());
        for &(first, last) in &self.touched {
            self.all[0] += last - first + 1;
            self.all[1] += line(last) - line(first) + 1;
            for sector in (first..=last).filter(|&sector| self.sampler.keeps(line(sector))) {
                self.touches.push(self.units.number(sector));
            }
        }
        // Two runs of sectors can lie in one line.
        let shared = self.touched.windows(2).filter(|pair| line(pair[0].1) == line(pair[1].0)).count();
        self.all[1] -= shared as u64;
        let request = Request { block, sequence, begin, end: position(self.touches.len()) };
        if !request.touches().is_empty() {
            self.requests.push(request);
        }
        while self.touches.len() > self.most_touches {
            self.halve();
        }
    }

    /// Keeps half of the lines.
    fn halve(&mut self) {
        self.sampler.halve();
        let (sampler, before) = (self.sampler, std::mem::take(&mut self.units));
        let touches = std::mem::take(&mut self.touches);
        for request in &mut self.requests {
            let old = touches.get(request.touches()).unwrap_or_default().iter();
            let old = old.filter_map(|&unit| before.sectors.get(unit as usize).copied());
            request.begin = position(self.touches.len());
            self.touches.extend(
                old.filter(|&sector| sampler.keeps(line(sector))).map(|sector| self.units.number(sector)),
            );
            request.end = position(self.touches.len());
        }
        self.requests.retain(|request| !request.touches().is_empty());
    }

    /// Ends the launch.
    fn clear(&mut self) {
        self.requests = Vec::new();
        self.touches = Vec::new();
        self.units = Units::default();
        self.sampler = Sampler::default();
        self.all = [0; 2];
    }

    fn push(&mut self, pass: &Pass) {
        let all = self.all[usize::from(pass.unit_bytes == LINE_BYTES)];
        let seen = pass.cold + pass.distances.counts.iter().sum::<u64>();
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
        for (bucket, (&count, &sum)) in (0..).zip(pass.distances.counts.iter().zip(&pass.distances.sums)) {
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
            accesses.request(row).sector_runs_into(&mut self.touched);
            self.add_request(places.block[row], places.sequence[row]);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.passes = PASSES.into_iter().rev().collect();
    }

    fn work(&mut self) -> bool {
        if let Some(mut pass) = self.running.take() {
            if pass.walk(&self.requests, &self.touches, &self.units, self.sampler) {
                self.running = Some(pass);
            } else {
                self.push(&pass);
                if self.passes.is_empty() {
                    self.clear();
                }
            }
            return true;
        }
        let Some((stream, unit_bytes)) = self.passes.pop() else { return false };
        if unit_bytes == SECTOR_BYTES {
            // Stable, for the pieces of a warp request that is too wide for one row.
            self.requests.sort_by_key(|request| stream.order(request));
        }
        self.running = Some(Pass::new(stream, unit_bytes));
        true
    }

    fn bytes(&self) -> usize {
        let units = self.units.bytes() + self.running.as_ref().map_or(0, |pass| pass.stack.bytes());
        self.requests.capacity() * size_of::<Request>() + self.touches.capacity() * size_of::<u32>() + units
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

/// The position of a touch, or the number of a unit. The limit on touches makes it fit.
fn position(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Request {
    fn touches(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// True if another row has more lanes of it.
    fn continues(&self, next: &Self) -> bool {
        (self.block, self.sequence) == (next.block, next.sequence)
    }
}

impl Units {
    /// The number of a sector.
    fn number(&mut self, sector: u64) -> u32 {
        let next = position(self.sectors.len());
        let number = *self.numbers.entry(sector).or_insert(next);
        if number == next {
            let next_line = position(self.line_numbers.len());
            self.lines.push(*self.line_numbers.entry(line(sector)).or_insert(next_line));
            self.sectors.push(sector);
        }
        number
    }

    fn count(&self, unit_bytes: u64) -> usize {
        if unit_bytes == LINE_BYTES { self.line_numbers.len() } else { self.sectors.len() }
    }

    fn bytes(&self) -> usize {
        let entries = self.numbers.capacity() + self.line_numbers.capacity();
        entries * size_of::<(u64, u32)>() + self.sectors.capacity() * 12
    }
}

impl Pass {
    fn new(stream: Stream, unit_bytes: u64) -> Self {
        let (stack, units) = (Stack::default(), Vec::new());
        let distances = Histogram { counts: [0; BUCKETS], sums: [0; BUCKETS] };
        Self { stream, unit_bytes, next: 0, end: 0, stack, units, distances, cold: 0 }
    }

    /// Continues for a while. Returns true if requests remain.
    fn walk(&mut self, requests: &[Request], touches: &[u32], known: &Units, sampler: Sampler) -> bool {
        let mut walked = 0;
        while walked < TOUCHES_AT_A_TIME {
            let Some(request) = requests.get(self.next) else { return false };
            if self.next == self.end {
                self.open(requests, request, known);
            }
            self.units.clear();
            for row in requests.get(self.next..self.end).unwrap_or_default() {
                if !request.continues(row) {
                    break;
                }
                self.next += 1;
                self.units.extend_from_slice(touches.get(row.touches()).unwrap_or_default());
            }
            walked += self.units.len().max(1);
            self.touch(known, sampler);
        }
        true
    }

    /// Begins the stream of a warp request.
    fn open(&mut self, requests: &[Request], request: &Request, known: &Units) {
        let rest = requests.get(self.next..).unwrap_or_default();
        let length = rest.partition_point(|other| self.stream.is_same(request, other)).max(1);
        self.end = self.next + length;
        let touches = rest.iter().take(length).map(|request| request.touches().len()).sum();
        self.stack.begin(touches, known.count(self.unit_bytes));
    }

    /// The touches of a request: each of its units once, by ascending address.
    fn touch(&mut self, known: &Units, sampler: Sampler) {
        let address = |&unit: &u32| known.sectors.get(unit as usize).copied().unwrap_or(0);
        if !self.units.is_sorted_by_key(address) {
            self.units.sort_unstable_by_key(address);
        }
        let is_line = self.unit_bytes == LINE_BYTES;
        let mut last = None;
        for &sector in &self.units {
            let unit = if is_line { known.lines.get(sector as usize).copied().unwrap_or(0) } else { sector };
            if last.replace(unit) == Some(unit) {
                continue;
            }
            match self.stack.touch(unit) {
                None => self.cold += 1,
                Some(distance) => self.distances.count(sampler.scale(distance)),
            }
        }
    }
}

/// Touches by their distance.
struct Histogram {
    counts: [u64; BUCKETS],
    sums: [u64; BUCKETS],
}

impl Histogram {
    fn count(&mut self, distance: u64) {
        let bucket = usize::try_from(u64::BITS - distance.leading_zeros()).unwrap_or(0);
        if let (Some(count), Some(sum)) = (self.counts.get_mut(bucket), self.sums.get_mut(bucket)) {
            *count += 1;
            *sum = sum.saturating_add(distance);
        }
    }
}

/// An LRU stack without its order: per unit the time of its last touch, and the number of those times in a range
/// (Olken's algorithm). Times are counted by words of bits, and the words by a Fenwick tree.
#[derive(Debug, Default)]
struct Stack {
    /// By unit, from 1. Times up to `begun` are of earlier streams.
    last: Vec<u64>,
    begun: u64,
    now: u64,
    /// One bit for each time since then that is the last touch of a unit.
    times: Vec<u64>,
    /// Over the words of `times`, from 1.
    tree: Vec<u32>,
    units: u32,
}

/// Times of a word.
const WORD: u64 = 64;

impl Stack {
    /// Begins a stream of up to so many touches of so many units.
    fn begin(&mut self, touches: usize, units: usize) {
        self.last.resize(units, 0);
        self.begun = self.now;
        let words = word(touches as u64) + 1;
        self.times.clear();
        self.times.resize(words, 0);
        self.tree.clear();
        self.tree.resize(words + 1, 0);
        self.units = 0;
    }

    /// The distinct other units since the last touch of this one. `None` for the first touch.
    fn touch(&mut self, unit: u32) -> Option<u64> {
        let time = self.now - self.begun;
        self.now += 1;
        let last = self.last.get_mut(unit as usize)?;
        let before = std::mem::replace(last, self.now);
        let before = before.checked_sub(self.begun + 1);
        let distance = before.map(|before| {
            let distance = self.units - self.up_to(before);
            self.flip(before, u32::MAX);
            u64::from(distance)
        });
        self.units += u32::from(distance.is_none());
        self.flip(time, 1);
        distance
    }

    /// Sets or clears a time. The largest number subtracts 1.
    fn flip(&mut self, time: u64, number: u32) {
        let mut place = word(time);
        if let Some(word) = self.times.get_mut(place) {
            *word ^= 1 << (time % WORD);
        }
        place += 1;
        while let Some(count) = self.tree.get_mut(place) {
            *count = count.wrapping_add(number);
            place += place & place.wrapping_neg();
        }
    }

    /// The times that are set up to one, inclusive.
    fn up_to(&self, time: u64) -> u32 {
        let mut place = word(time);
        let bits = self.times.get(place).map_or(0, |word| word << (WORD - 1 - time % WORD));
        let mut sum = bits.count_ones();
        while place > 0 {
            sum = sum.wrapping_add(self.tree.get(place).copied().unwrap_or(0));
            place &= place - 1;
        }
        sum
    }

    fn bytes(&self) -> usize {
        self.last.capacity() * 8 + self.times.capacity() * 8 + self.tree.capacity() * 4
    }
}

/// The word of a time.
fn word(time: u64) -> usize {
    usize::try_from(time / WORD).unwrap_or(usize::MAX)
}
