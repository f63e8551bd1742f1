//! Reuse distances: memory touched between two touches of the same unit.
//!
//! The distance of a touch is the number of distinct other units touched since the last touch of its unit, in one
//! stream of requests: those of a block, or of the complete launch, in the order in which the GPU queued them under the
//! instrument. An LRU cache of N units holds the unit if the distance is below N.

use std::ops::Range;

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};

use super::access::{Accesses, Instructions, Places};
use super::analysis::{Analysis, Ready};
use super::derived::{InstructionReuse, ReuseDistance, Word};
use super::lru::{Histogram, Stack};
use super::request::SECTOR_BYTES;
use super::sampler::Sampler;
use super::shape::LINE_BYTES;

/// Maximum of sector touches per launch. Beyond it, lines are sampled.
const MOST_TOUCHES: usize = 1 << 25;
/// The same for instructions: latencies need the level of memory only, and every first question asks for them.
const MOST_TOUCHES_OF_INSTRUCTIONS: usize = 1 << 20;
/// Touches processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;

/// One request with the sectors that it touches, ascending.
#[derive(Clone, Copy, Debug)]
struct Request {
    block: u64,
    sequence: u64,
    /// The number of its instruction. 0 where instructions do not count.
    site: u32,
    /// The positions of its touches.
    begin: u32,
    end: u32,
}

/// Stream of consecutive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stream {
    Block,
    /// Blocks are dealt to so many multiprocessors in turn.
    Multiprocessor(u64),
    Launch,
}

/// The rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grain {
    /// The launch.
    Launch,
    /// The instruction, with a cache for each of so many multiprocessors.
    Instruction(u64),
}

/// The streams and units of a launch, processed in sequence.
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
            Self::Multiprocessor(_) => "multiprocessor",
            Self::Launch => "launch",
        }
    }

    /// The number of a request's stream.
    fn number(self, block: u64) -> u64 {
        match self {
            Self::Block => block,
            Self::Multiprocessor(count) => block % count.max(1),
            Self::Launch => 0,
        }
    }

    fn order(self, request: &Request) -> (u64, u64, u64) {
        (self.number(request.block), request.sequence, request.block)
    }

    fn is_same(self, one: &Request, other: &Request) -> bool {
        self.number(one.block) == self.number(other.block)
    }
}

/// Collects the touches of a launch, then measures their distances.
pub(super) struct Reuse {
    grain: Grain,
    most_touches: usize,
    kernel_id: u64,
    requests: Vec<Request>,
    /// The touched sectors, request by request, by their numbers in `units`.
    touches: Vec<u32>,
    units: Units,
    /// The instructions of the launch, by number.
    sites: Vec<Site>,
    sampler: Sampler,
    /// All touches of sectors and of lines, in the sample or not.
    all: [u64; 2],
    touched: Vec<(u64, u64)>,
    /// The remaining passes for the finished launch, and the progress of the current one.
    passes: Vec<(Stream, u64)>,
    running: Option<Pass>,
    ready: Ready<ReuseDistance>,
    ready_sites: Ready<InstructionReuse>,
}

/// An instruction of a launch, with the warp requests that it made.
#[derive(Clone, Copy, Debug)]
struct Site {
    function_id: u64,
    pc: u32,
    requests: u64,
    /// Distinct cache lines of each request, summed.
    lines: u64,
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
    /// By instruction.
    distances: Vec<Histogram>,
}

impl Reuse {
    pub(super) fn new(grain: Grain) -> Self {
        let most_touches = match grain {
            Grain::Launch => MOST_TOUCHES,
            Grain::Instruction(_) => MOST_TOUCHES_OF_INSTRUCTIONS,
        };
        Self::with_room(grain, most_touches)
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(grain: Grain, most_touches: usize) -> Self {
        Self {
            grain,
            most_touches,
            kernel_id: 0,
            requests: Vec::new(),
            touches: Vec::new(),
            units: Units::default(),
            sites: Vec::new(),
            sampler: Sampler::default(),
            all: [0; 2],
            touched: Vec::new(),
            passes: Vec::new(),
            running: None,
            ready: Ready::default(),
            ready_sites: Ready::default(),
        }
    }

    /// The streams and units of a launch.
    fn passes(&self) -> Vec<(Stream, u64)> {
        match self.grain {
            Grain::Launch => PASSES.into_iter().rev().collect(),
            Grain::Instruction(count) => {
                vec![(Stream::Launch, SECTOR_BYTES), (Stream::Multiprocessor(count), SECTOR_BYTES)]
            }
        }
    }

    /// The number of an instruction. Rows of one instruction are adjacent.
    fn site(&mut self, function_id: u64, pc: u32) -> u32 {
        if self.grain == Grain::Launch {
            return 0;
        }
        match self.sites.last_mut().filter(|last| (last.function_id, last.pc) == (function_id, pc)) {
            Some(last) => last.requests += 1,
            None => self.sites.push(Site { function_id, pc, requests: 1, lines: 0 }),
        }
        position(self.sites.len() - 1)
    }

    /// Adds the sample of the touched sectors of a warp request.
    fn add_request(&mut self, block: u64, sequence: u64, site: u32) {
        let begin = position(self.touches.len());
        let mut lines = 0;
        for &(first, last) in &self.touched {
            self.all[0] += last - first + 1;
            lines += line(last) - line(first) + 1;
            for sector in (first..=last).filter(|&sector| self.sampler.keeps(line(sector))) {
                self.touches.push(self.units.number(sector));
            }
        }
        // Two runs of sectors can lie in one line.
        lines -= self.touched.windows(2).filter(|pair| line(pair[0].1) == line(pair[1].0)).count() as u64;
        self.all[1] += lines;
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.lines += lines;
        }
        let request = Request { block, sequence, site, begin, end: position(self.touches.len()) };
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
        self.sites = Vec::new();
        self.sampler = Sampler::default();
        self.all = [0; 2];
    }

    /// The rows of instructions: those of which the sample contains nothing have none.
    fn push_sites(&mut self, pass: &Pass) {
        for (site, distances) in self.sites.iter().zip(&pass.distances) {
            for (range, count) in distances.rows() {
                self.ready_sites.push(InstructionReuse {
                    kernel_id: KernelId(self.kernel_id),
                    function_id: FunctionId(site.function_id),
                    pc: Pc(site.pc),
                    requests: site.requests,
                    lines: site.lines,
                    stream: Word(pass.stream.word().into()),
                    reuse: Word(if range.is_some() { "reused" } else { "cold" }.into()),
                    distance_from: range.map(|(from, _)| from),
                    distance_to: range.and_then(|(_, to)| to),
                    touches: self.sampler.scale(count),
                    line_rate: self.sampler.rate(),
                });
            }
        }
    }

    fn push(&mut self, pass: &Pass) {
        let none = Histogram::default();
        let distances = pass.distances.first().unwrap_or(&none);
        let all = self.all[usize::from(pass.unit_bytes == LINE_BYTES)];
        let seen = distances.cold + distances.counts.iter().sum::<u64>();
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
        if distances.cold > 0 {
            let row = row("cold", None, of_all(distances.cold), 0);
            self.ready.push(row);
        }
        for (bucket, (&count, &sum)) in (0..).zip(distances.counts.iter().zip(&distances.sums)) {
            if count > 0 {
                let mut row = row("reused", Some(Histogram::range(bucket)), count, sum);
                row.touches = of_all(count);
                self.ready.push(row);
            }
        }
    }
}

impl Analysis for Reuse {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, places) = (Accesses::new(batch)?, Places::new(batch)?);
        let instructions = Instructions::new(batch)?;
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            accesses.request(row).sector_runs_into(&mut self.touched);
            let site = self.site(instructions.function_id[row], instructions.pc[row]);
            self.add_request(places.block[row], places.sequence[row], site);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.passes = self.passes();
    }

    fn work(&mut self) -> bool {
        if let Some(mut pass) = self.running.take() {
            if pass.walk(&self.requests, &self.touches, &self.units, self.sampler) {
                self.running = Some(pass);
            } else {
                match self.grain {
                    Grain::Launch => self.push(&pass),
                    Grain::Instruction(_) => self.push_sites(&pass),
                }
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
            return match self.grain {
                Grain::Launch => self.ready.take(least),
                Grain::Instruction(_) => self.ready_sites.take(least),
            };
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
        Self { stream, unit_bytes, next: 0, end: 0, stack, units, distances: Vec::new() }
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
            self.touch(known, sampler, request.site as usize);
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
    fn touch(&mut self, known: &Units, sampler: Sampler, site: usize) {
        if self.distances.len() <= site {
            self.distances.resize(site + 1, Histogram::default());
        }
        let Some(distances) = self.distances.get_mut(site) else { return };
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
            distances.count(self.stack.touch(unit).map(|distance| sampler.scale(distance)));
        }
    }
}
