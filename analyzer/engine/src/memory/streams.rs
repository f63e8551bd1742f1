//! Streams of the requests of a launch, and the distances of reuse in them.
//!
//! The distance of a touch is the number of distinct other units touched since the last touch of its unit in its stream.
//! A stream needs no other: several are measured at the same time, and their distances are added.

use std::num::NonZeroU32;
use std::ops::Range;

use super::lru::{LruStack, ReuseHistogram};
use super::numbers::{NumberMap, position};
use super::request::SECTOR_BYTES;
use super::sampler::HashSampler;
use super::shape::LINE_BYTES;

/// Touches processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;

/// Bytes of memory for a sector, its line and their times in the streams.
const UNIT_BYTES: usize = 128;

/// The numbers of a line's sectors, from 1. None before a sector is touched.
type SectorsOfLine = [Option<NonZeroU32>; (LINE_BYTES / SECTOR_BYTES) as usize];

/// Streams of consecutive requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestStream {
    /// The requests of a block.
    Block,
    /// Blocks are dealt to so many multiprocessors in turn.
    Multiprocessor(u64),
    /// All requests of the launch.
    Launch,
}

/// One request with the sectors that it touches, ascending.
#[derive(Clone, Copy, Debug)]
struct StreamRequest {
    block: u64,
    sequence: u64,
    site: u32,
    /// The positions of its touches.
    begin: u32,
    end: u32,
}

/// The requests of a launch with the sectors that they touch.
#[derive(Clone, Debug, Default)]
pub struct LaunchTouches {
    requests: Vec<StreamRequest>,
    /// The requests in the order of streams.
    orders: Vec<(RequestStream, Vec<StreamRequest>)>,
    /// The touched sectors, request by request, by their numbers in `units`.
    sectors: Vec<u32>,
    units: SectorUnits,
}

/// The sectors of a launch and their lines, numbered in the order of appearance.
#[derive(Clone, Debug, Default)]
struct SectorUnits {
    line_numbers: NumberMap<u64, u32>,
    /// The line before, which the next sector is often of.
    last_line: Option<(u64, u32)>,
    /// By line, the numbers of its sectors.
    of_lines: Vec<SectorsOfLine>,
    sectors: Vec<u64>,
    /// The line of each sector.
    lines: Vec<u32>,
}

/// A walk over some streams of a launch.
#[derive(Debug)]
pub struct StreamWalk {
    stream: RequestStream,
    unit_bytes: u64,
    /// The request that is next, and the end.
    next: usize,
    stop: usize,
    /// End of the open stream.
    end: usize,
    sampler: HashSampler,
    stack: LruStack,
    /// The units of the request at hand.
    units: Vec<u32>,
    /// By instruction.
    distances: Vec<ReuseHistogram>,
}

impl RequestStream {
    /// Its name in SQL.
    pub fn word(self) -> &'static str {
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

    fn is_same(self, one: &StreamRequest, other: &StreamRequest) -> bool {
        self.number(one.block) == self.number(other.block)
    }
}

impl StreamRequest {
    fn touches(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// True if another row has more lanes of it.
    fn continues(&self, next: &Self) -> bool {
        (self.block, self.sequence) == (next.block, next.sequence)
    }
}

impl LaunchTouches {
    /// Adds a request of an instruction, by number, with the sectors that it touches, ascending.
    pub fn add(&mut self, (block, sequence): (u64, u64), site: u32, sectors: impl Iterator<Item = u64>) {
        let begin = position(self.sectors.len());
        for sector in sectors {
            self.sectors.push(self.units.number(sector));
        }
        self.add_last(StreamRequest { block, sequence, site, begin, end: position(self.sectors.len()) });
    }

    /// Adds a request with the touches of an earlier one, at some positions.
    pub fn add_again(&mut self, (block, sequence): (u64, u64), site: u32, touches: Range<usize>) {
        let begin = position(self.sectors.len());
        self.sectors.extend_from_within(touches);
        self.add_last(StreamRequest { block, sequence, site, begin, end: position(self.sectors.len()) });
    }

    /// Adds a request with the last touches. One without any is left out.
    fn add_last(&mut self, request: StreamRequest) {
        if !request.touches().is_empty() {
            self.requests.push(request);
        }
    }

    /// The number of touches.
    pub fn count(&self) -> usize {
        self.sectors.len()
    }

    /// The number of distinct sectors.
    pub fn sectors(&self) -> usize {
        self.units.sectors.len()
    }

    /// Keeps the lines of a sample.
    pub fn keep(&mut self, sampler: HashSampler) {
        let before = std::mem::take(self);
        for request in before.requests {
            let old = before.sectors.get(request.touches()).unwrap_or_default().iter();
            let old = old.filter_map(|&unit| before.units.sectors.get(unit as usize).copied());
            let in_sample = old.filter(|&sector| sampler.keeps(line(sector)));
            self.add((request.block, request.sequence), request.site, in_sample);
        }
    }

    /// Puts the requests in the order of streams. Nothing is added afterwards.
    pub fn sort(&mut self, streams: &[RequestStream]) {
        let mut requests = std::mem::take(&mut self.requests);
        // Stable, for the pieces of a warp request that is too wide for one row.
        requests.sort_by_key(|request| (request.sequence, request.block));
        for &stream in streams {
            let mut requests = requests.clone();
            requests.sort_by_key(|request| stream.number(request.block));
            self.orders.push((stream, requests));
        }
    }

    /// Walks over all streams of an order, in up to so many parts with about equal numbers of touches.
    pub fn walks(
        &self,
        stream: RequestStream,
        unit_bytes: u64,
        sampler: HashSampler,
        most: usize,
    ) -> Vec<StreamWalk> {
        let requests = self.for_stream(stream);
        let wanted = most.min(self.sectors.len() / TOUCHES_AT_A_TIME).max(1);
        let (mut walks, mut begin, mut end, mut touches) = (Vec::new(), 0, 0, 0);
        for own in requests.chunk_by(|one, other| stream.is_same(one, other)) {
            end += own.len();
            touches += own.iter().map(|request| request.touches().len()).sum::<usize>();
            if touches * wanted >= self.sectors.len() * (walks.len() + 1) || end == requests.len() {
                walks.push(StreamWalk::new(stream, unit_bytes, sampler, begin..end));
                begin = end;
            }
        }
        walks
    }

    fn for_stream(&self, stream: RequestStream) -> &[StreamRequest] {
        let order = self.orders.iter().find(|(known, _)| *known == stream);
        order.map(|(_, requests)| requests.as_slice()).unwrap_or_default()
    }

    /// An upper bound of the memory of them and their walks. It does not depend on the room that lists have in reserve.
    pub fn need_bytes(&self) -> usize {
        // A request is in up to two orders besides. A list may have twice its length.
        self.requests.len() * 4 * size_of::<StreamRequest>()
            + self.sectors.len() * 2 * size_of::<u32>()
            + self.units.sectors.len() * UNIT_BYTES
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        let ordered = self.orders.iter().map(|(_, requests)| requests.capacity()).sum::<usize>();
        (self.requests.capacity() + ordered) * size_of::<StreamRequest>()
            + self.sectors.capacity() * size_of::<u32>()
            + self.units.bytes()
    }
}

/// The line of a sector.
pub fn line(sector: u64) -> u64 {
    sector / (LINE_BYTES / SECTOR_BYTES)
}

impl SectorUnits {
    /// The number of a sector.
    fn number(&mut self, sector: u64) -> u32 {
        let line = self.line_number(line(sector));
        let index = usize::try_from(sector % (LINE_BYTES / SECTOR_BYTES)).unwrap_or(0);
        let known = self.of_lines.get_mut(line as usize).and_then(|sectors| sectors.get_mut(index));
        if let Some(Some(number)) = known {
            return number.get() - 1;
        }
        self.sectors.push(sector);
        self.lines.push(line);
        let count = position(self.sectors.len());
        if let Some(number) = known {
            *number = NonZeroU32::new(count);
        }
        count - 1
    }

    /// The number of a line.
    fn line_number(&mut self, line: u64) -> u32 {
        if let Some((last, number)) = self.last_line
            && last == line
        {
            return number;
        }
        let next = position(self.of_lines.len());
        let number = *self.line_numbers.entry(line).or_insert(next);
        if number == next {
            self.of_lines.push(SectorsOfLine::default());
        }
        self.last_line = Some((line, number));
        number
    }

    fn count(&self, unit_bytes: u64) -> usize {
        if unit_bytes == LINE_BYTES { self.line_numbers.len() } else { self.sectors.len() }
    }

    fn bytes(&self) -> usize {
        self.line_numbers.capacity() * size_of::<(u64, u32)>()
            + self.of_lines.capacity() * size_of::<SectorsOfLine>()
            + self.sectors.capacity() * 12
    }
}

impl StreamWalk {
    fn new(stream: RequestStream, unit_bytes: u64, sampler: HashSampler, requests: Range<usize>) -> Self {
        let (stack, units, distances) = (LruStack::default(), Vec::new(), Vec::new());
        let Range { start: next, end: stop } = requests;
        Self { stream, unit_bytes, next, stop, end: next, sampler, stack, units, distances }
    }

    /// Its streams and units.
    pub fn subject(&self) -> (RequestStream, u64) {
        (self.stream, self.unit_bytes)
    }

    /// Adds its distances to others, by the number of the instruction. Instructions at the end without touches are left
    /// out.
    pub fn add_to(&self, mut all: Vec<ReuseHistogram>) -> Vec<ReuseHistogram> {
        all.resize(all.len().max(self.distances.len()), ReuseHistogram::default());
        all.iter_mut().zip(&self.distances).for_each(|(all, own)| all.add(own));
        all
    }

    /// Continues for a while. Returns true if requests remain.
    pub fn step(&mut self, all: &LaunchTouches) -> bool {
        let requests = all.for_stream(self.stream).get(..self.stop).unwrap_or_default();
        let mut walked = 0;
        while walked < TOUCHES_AT_A_TIME {
            let Some(request) = requests.get(self.next) else { return false };
            if self.next == self.end {
                self.open(requests, request, &all.units);
            }
            self.units.clear();
            for row in requests.get(self.next..self.end).unwrap_or_default() {
                if !request.continues(row) {
                    break;
                }
                self.next += 1;
                self.units.extend_from_slice(all.sectors.get(row.touches()).unwrap_or_default());
            }
            walked += self.units.len().max(1);
            self.touch(&all.units, request.site as usize);
        }
        true
    }

    /// Begins the stream of a warp request.
    fn open(&mut self, requests: &[StreamRequest], request: &StreamRequest, known: &SectorUnits) {
        let rest = requests.get(self.next..).unwrap_or_default();
        let length = rest.partition_point(|other| self.stream.is_same(request, other)).max(1);
        self.end = self.next + length;
        let touches = rest.iter().take(length).map(|request| request.touches().len()).sum();
        self.stack.begin(touches, known.count(self.unit_bytes));
    }

    /// The touches of a request: each of its units once, by ascending address.
    fn touch(&mut self, known: &SectorUnits, site: usize) {
        if self.distances.len() <= site {
            self.distances.resize(site + 1, ReuseHistogram::default());
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
            distances.count(self.stack.touch(unit).map(|distance| self.sampler.scale(distance)));
        }
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.stack.bytes() + self.distances.capacity() * size_of::<ReuseHistogram>()
    }
}
