//! Reuse distances: memory touched between two touches of the same unit.
//!
//! The distance of a touch is the number of distinct other units touched since the last touch of its unit, in one
//! stream of requests: those of a block, or of the complete launch, in the order in which the GPU queued them under the
//! instrument. An LRU cache of N units holds the unit if the distance is below N.

use std::sync::Arc;

use crate::memory::few_sectors::FewSectors;
use crate::memory::numbers::position;
use crate::memory::patterns::LaneDistances;
use crate::memory::repeats::KeyedValues;
use crate::memory::streams::{LaunchTouches, RequestStream, StreamWalk, line};
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analysis::{AccessAnalysis, DataStep, LaunchJob, LentSteps, ReadyRows, jobs, lent};
use super::derived::{InstructionReuse, OpenWord, ReuseDistance};
use super::lru::ReuseHistogram;
use super::request::{SECTOR_BYTES, WarpRequest};
use super::sampler::HashSampler;
use super::shape::LINE_BYTES;

/// Maximum of sector touches per launch. Beyond it, lines are sampled.
const MAX_TOUCHES: usize = 1 << 25;
/// The same for instructions: latencies need the level of memory only, and every first question asks for them.
const MAX_TOUCHES_OF_INSTRUCTIONS: usize = 1 << 20;

/// The rows of the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReuseGrain {
    /// The launch.
    Launch,
    /// The instruction, with a cache for each of so many multiprocessors.
    Instruction(u64),
}

/// The streams and units of a launch.
const SUBJECTS: [(RequestStream, u64); 4] = [
    (RequestStream::Block, SECTOR_BYTES),
    (RequestStream::Block, LINE_BYTES),
    (RequestStream::Launch, SECTOR_BYTES),
    (RequestStream::Launch, LINE_BYTES),
];

/// Collects the touches of a launch, then measures their distances.
pub(super) struct ReuseAnalysis {
    grain: ReuseGrain,
    most_touches: usize,
    room_bytes: usize,
    kernel_id: u64,
    touches: Arc<LaunchTouches>,
    /// The instructions of the launch, by number.
    sites: Vec<ReuseSite>,
    sampler: HashSampler,
    /// All touches of sectors and of lines, in the sample or not.
    all: [u64; 2],
    touched: Vec<(u64, u64)>,
    patterns: LaneDistances,
    /// Requests of this launch.
    known: KeyedValues<3, 512, KnownSectors>,
    /// True if the launch is complete.
    has_ended: bool,
    /// The walks over its streams, in the order of rows.
    walks: Vec<LentSteps<StreamWalk>>,
    ready: ReadyRows<ReuseDistance>,
    ready_sites: ReadyRows<InstructionReuse>,
}

/// An instruction of a launch, with the warp requests that it made.
#[derive(Clone, Debug)]
struct ReuseSite {
    function_id: u64,
    pc: u32,
    requests: u64,
    /// Distinct cache lines of each request, summed.
    lines: u64,
    /// The same for sectors.
    sectors: u64,
    few: FewSectors,
}

/// Sectors and lines that a warp request touches.
#[derive(Clone, Copy)]
struct KnownSectors {
    sectors: u64,
    lines: u64,
    /// The positions of its touches in the sample.
    begin: usize,
    end: usize,
}

impl DataStep<LaunchTouches> for StreamWalk {
    fn step(&mut self, touches: &LaunchTouches) -> bool {
        Self::step(self, touches)
    }

    fn bytes(&self) -> usize {
        Self::bytes(self)
    }
}

impl ReuseAnalysis {
    /// With some bytes of memory for a launch.
    pub(super) fn new(grain: ReuseGrain, room_bytes: usize) -> Self {
        let most_touches = match grain {
            ReuseGrain::Launch => MAX_TOUCHES,
            ReuseGrain::Instruction(_) => MAX_TOUCHES_OF_INSTRUCTIONS,
        };
        Self { room_bytes, ..Self::with_room(grain, most_touches) }
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(grain: ReuseGrain, most_touches: usize) -> Self {
        Self {
            grain,
            most_touches,
            room_bytes: usize::MAX,
            kernel_id: 0,
            touches: Arc::default(),
            sites: Vec::new(),
            sampler: HashSampler::default(),
            all: [0; 2],
            touched: Vec::new(),
            patterns: LaneDistances::default(),
            known: KeyedValues::default(),
            has_ended: false,
            walks: Vec::new(),
            ready: ReadyRows::default(),
            ready_sites: ReadyRows::default(),
        }
    }

    /// The streams and units of a launch, in the order of rows.
    fn subjects(&self) -> Vec<(RequestStream, u64)> {
        match self.grain {
            ReuseGrain::Launch => SUBJECTS.to_vec(),
            ReuseGrain::Instruction(count) => {
                vec![
                    (RequestStream::Multiprocessor(count), SECTOR_BYTES),
                    (RequestStream::Launch, SECTOR_BYTES),
                ]
            }
        }
    }

    /// The number of an instruction. Rows of one instruction are adjacent.
    fn site(&mut self, function_id: u64, pc: u32) -> u32 {
        if self.grain == ReuseGrain::Launch {
            return 0;
        }
        let is_same = |last: &&mut ReuseSite| (last.function_id, last.pc) == (function_id, pc);
        if let Some(last) = self.sites.last_mut().filter(is_same) {
            last.requests += 1;
        } else {
            let few = FewSectors::default();
            self.sites.push(ReuseSite { function_id, pc, requests: 1, lines: 0, sectors: 0, few });
        }
        position(self.sites.len() - 1)
    }

    /// Adds the sample of the sectors that a warp request touches.
    fn add_request(&mut self, request: &WarpRequest<'_>, place: (u64, u64), site: u32) {
        let key = self.patterns.key(request);
        // All sectors of an instruction that touches few are of interest.
        let has_few = self.sites.get(site as usize).is_some_and(|site| !site.few.are_many());
        let again = key.filter(|_| !has_few).and_then(|key| self.known.get(&key));
        let known = match again {
            Some(known) => {
                Arc::make_mut(&mut self.touches).add_again(place, site, known.begin..known.end);
                known
            }
            None => self.add_new(request, place, site),
        };
        self.all[0] += known.sectors;
        self.all[1] += known.lines;
        if let Some(site) = self.sites.get_mut(site as usize) {
            site.lines += known.lines;
            site.sectors += known.sectors;
        }
        if let Some(key) = key.filter(|_| again.is_none()) {
            self.known.set(key, known);
        }
        let is_full = |touches: &LaunchTouches| touches.need_bytes() > self.room_bytes && touches.count() > 0;
        while self.touches.count() > self.most_touches || is_full(&self.touches) {
            self.sampler.halve();
            Arc::make_mut(&mut self.touches).keep(self.sampler);
            self.known.clear();
        }
    }

    /// Adds the sampled sectors of a warp request that is not known.
    fn add_new(&mut self, request: &WarpRequest<'_>, place: (u64, u64), site: u32) -> KnownSectors {
        self.patterns.sector_runs_into(request, &mut self.touched);
        let (mut lines, mut sectors) = (0, 0);
        for &(first, last) in &self.touched {
            sectors += last - first + 1;
            lines += line(last) - line(first) + 1;
        }
        // Two runs of sectors can lie in one line.
        lines -= self.touched.windows(2).filter(|pair| line(pair[0].1) == line(pair[1].0)).count() as u64;
        if let Some(site) = self.sites.get_mut(site as usize) {
            self.touched.iter().for_each(|&(first, last)| site.few.add(first, last));
        }
        let (begin, sampler) = (self.touches.count(), self.sampler);
        let all = self.touched.iter().flat_map(|&(first, last)| first..=last);
        let in_sample = all.filter(|&sector| sampler.keeps(line(sector)));
        Arc::make_mut(&mut self.touches).add(place, site, in_sample);
        KnownSectors { sectors, lines, begin, end: self.touches.count() }
    }

    /// Begins to walk over the streams of the launch.
    fn start(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        let subjects = self.subjects();
        let mut streams: Vec<RequestStream> = subjects.iter().map(|(stream, _)| *stream).collect();
        streams.dedup();
        Arc::make_mut(&mut self.touches).sort(&streams);
        let walks = |(stream, unit_bytes)| self.touches.walks(stream, unit_bytes, self.sampler, most);
        let walks = subjects.into_iter().flat_map(walks).map(|walk| LentSteps::new(walk.into()));
        self.walks = walks.collect();
        // The stream of all requests is the longest.
        let mut jobs = jobs(&self.touches, &self.walks);
        jobs.reverse();
        jobs
    }

    /// Ends the launch.
    fn finish(&mut self) {
        let walks = std::mem::take(&mut self.walks);
        for (stream, unit_bytes) in self.subjects() {
            let own = walks.iter().map(lent).filter(|walk| walk.subject() == (stream, unit_bytes));
            let distances = own.fold(Vec::new(), |all, walk| walk.add_to(all));
            match self.grain {
                ReuseGrain::Launch => self.push((stream, unit_bytes), &distances),
                ReuseGrain::Instruction(_) => self.push_sites(stream, &distances),
            }
        }
        self.touches = Arc::default();
        self.known.clear();
        self.sites = Vec::new();
        self.sampler = HashSampler::default();
        self.all = [0; 2];
        self.has_ended = false;
    }

    /// The rows of instructions. One that the sample does not show has an estimate where it touches few sectors, else
    /// no rows.
    fn push_sites(&mut self, stream: RequestStream, distances: &[ReuseHistogram]) {
        let streams = if let RequestStream::Multiprocessor(count) = stream { count } else { 1 };
        let distinct = self.sampler.scale(self.touches.sectors() as u64 + 1);
        let none = ReuseHistogram::default();
        for (number, site) in self.sites.iter().enumerate() {
            let sampled = distances.get(number).unwrap_or(&none);
            let is_sampled = self.sampler.keeps_all() || sampled.rows().next().is_some();
            let spread = || site.few.distances(site.sectors, self.all[0], distinct, streams);
            let estimate = if is_sampled { None } else { spread() };
            let scale = estimate.as_ref().map_or(self.sampler, |_| HashSampler::default());
            let distances = estimate.as_ref().unwrap_or(sampled);
            // One sampled sector stands for many. An instruction is the first to touch no more than it touches at all.
            let most_cold = site.few.sectors().map_or(u64::MAX, |sectors| sectors.saturating_mul(streams));
            for (range, count) in distances.rows() {
                self.ready_sites.push(InstructionReuse {
                    kernel_id: KernelId(self.kernel_id),
                    function_id: FunctionId(site.function_id),
                    pc: Pc(site.pc),
                    requests: site.requests,
                    lines: site.lines,
                    stream: OpenWord(stream.word().into()),
                    reuse: OpenWord(if range.is_some() { "reused" } else { "cold" }.into()),
                    distance_from: range.map(|(from, _)| from),
                    distance_to: range.and_then(|(_, to)| to),
                    touches: scale.scale(count).min(if range.is_none() { most_cold } else { u64::MAX }),
                    line_rate: self.sampler.rate(),
                });
            }
        }
    }

    fn push(&mut self, (stream, unit_bytes): (RequestStream, u64), distances: &[ReuseHistogram]) {
        let none = ReuseHistogram::default();
        let distances = distances.first().unwrap_or(&none);
        let all = self.all[usize::from(unit_bytes == LINE_BYTES)];
        let seen = distances.cold + distances.counts.iter().sum::<u64>();
        // The part that the sample shows, of all.
        let of_all = |count: u64| {
            let all = u128::from(count) * u128::from(all);
            all.checked_div(seen.into()).and_then(|count| u64::try_from(count).ok()).unwrap_or(0)
        };
        let line_rate = self.sampler.rate();
        let row = |reuse: &str, range: Option<(u64, Option<u64>)>, touches: u64, sum: u64| ReuseDistance {
            kernel_id: KernelId(self.kernel_id),
            stream: OpenWord(stream.word().into()),
            unit_bytes,
            reuse: OpenWord(reuse.into()),
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
                let mut row = row("reused", Some(ReuseHistogram::range(bucket)), count, sum);
                row.touches = of_all(count);
                self.ready.push(row);
            }
        }
    }
}

impl AccessAnalysis for ReuseAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let instructions = InstructionColumns::new(batch)?;
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            let site = self.site(instructions.function_id[row], instructions.pc[row]);
            self.add_request(&accesses.request(row), (warps.block[row], warps.sequence[row]), site);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.has_ended = true;
    }

    fn jobs(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        if !self.has_ended {
            return Vec::new();
        }
        if self.walks.is_empty() && self.touches.count() > 0 {
            return self.start(most);
        }
        self.finish();
        Vec::new()
    }

    fn bytes(&self) -> usize {
        self.touches.bytes()
            + self.known.bytes()
            + self.walks.iter().map(|walk| lent(walk).bytes()).sum::<usize>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.grain {
            ReuseGrain::Launch => self.ready.take(least),
            ReuseGrain::Instruction(_) => self.ready_sites.take(least),
        }
    }
}
