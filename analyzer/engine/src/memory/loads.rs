//! Loads of a launch that read bytes again, by the sectors that they touch.
//!
//! A sector needs no other, so a launch is divided into parts by its sectors. Each part walks over its sectors, in the
//! order of the requests, and its answers are joined lane by lane.

use std::ops::{Range, RangeInclusive};

use super::lane_addresses::{self, LaneAddresses, LaneIter};
use super::numbers::{NumberMap, position};
use super::patterns::LaneDistances;
use super::regular::RegularLanes;
use super::request::{SECTOR_BYTES, WarpRequest};
use super::sampler::{HashSampler, mix};
use super::sector::{SCOPES, SectorLoads};

/// Touches walked over before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
/// Adjacent sectors that are numbered together: neighbors cost one search.
const PAGE_SECTORS: u32 = 8;

/// Memory that stays for the next launch.
const MAX_KEPT_BYTES: usize = 16 << 20;

/// Thread, warp, block, grid: the scopes in which a load may be redundant.
pub const SCOPE_COUNT: usize = SCOPES;

/// One warp request.
#[derive(Clone, Copy, Debug)]
pub struct LoadRequest {
    /// The order of the launch's requests.
    pub sequence: u64,
    /// Its block.
    pub block: u64,
    /// The number of its instruction.
    pub instruction: u32,
    /// Its warp in the block.
    pub warp: u16,
    /// Bytes that each lane accesses.
    pub bytes: u8,
    /// True if it stores.
    pub is_store: bool,
    /// The position of its first lane among those of all requests.
    begin: u32,
    /// The position past its last lane.
    end: u32,
    addresses: LaneAddresses,
}

impl LoadRequest {
    /// A request without lanes.
    pub fn new(sequence: u64, block: u64, warp: u16, instruction: u32, bytes: u8, is_store: bool) -> Self {
        Self {
            sequence,
            block,
            instruction,
            warp,
            bytes,
            is_store,
            begin: 0,
            end: 0,
            addresses: LaneAddresses::Listed(0),
        }
    }
}

/// One lane of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestLane {
    /// The first byte that it accesses.
    pub(super) address: u64,
    /// Its number in the warp.
    pub(super) lane: u8,
}

/// The requests of a launch, with all their lanes.
#[derive(Clone, Debug, Default)]
pub struct LaunchLoads {
    /// In the order in which they ran, once [`LaunchLoads::sort`] has run.
    pub requests: Vec<LoadRequest>,
    /// Lanes that are not regular: those of one request, then those of another.
    listed: Vec<RequestLane>,
    /// Lanes of all requests.
    count: u32,
    patterns: LaneDistances,
    touched: Vec<(u64, u64)>,
    /// Per request, true if no other touches the memory between its first and its last byte. Filled by [`LaunchLoads::sort`].
    is_alone: Vec<bool>,
}

/// Consecutive lanes of one request that touch one sector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SectorTouch {
    /// The sector's number, by pages in the order of appearance.
    sector: u32,
    pub(super) request: u32,
    begin: u32,
    end: u32,
}

/// The walk over a part of the sectors that a launch's requests touch.
#[derive(Default)]
pub struct LoadWalk {
    part: u64,
    parts: u64,
    /// The page of the last sector that was read, and its number if it is in the part.
    page: Option<u64>,
    first: Option<u32>,
    /// In the order of requests.
    unsorted: Vec<SectorTouch>,
    /// By sector, then in the order of requests.
    touches: Vec<SectorTouch>,
    is_sorted: bool,
    /// The numbers of pages in memory, in the order of appearance.
    pages: Vec<u64>,
    /// Their positions.
    numbers: NumberMap<u64, u32>,
    next: usize,
    /// Past the touches of the sector at hand.
    end: usize,
    /// Per lane, one bit per scope in which a byte of its access was not loaded before.
    fresh: Vec<u8>,
    sector: SectorLoads,
}

impl LoadRequest {
    /// The positions of its lanes.
    pub fn lanes(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// Its warp in the block, from 1.
    pub(super) fn who(&self) -> u32 {
        1 + u32::from(self.warp)
    }
}

impl RequestLane {
    /// The sectors that it touches, by an access of some bytes.
    fn sectors(self, bytes: u8) -> RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(bytes).saturating_sub(1));
        self.address / SECTOR_BYTES..=last / SECTOR_BYTES
    }
}

impl SectorTouch {
    /// The positions of its lanes among those of all requests.
    pub(super) fn positions(self) -> Range<u32> {
        self.begin..self.end
    }

    pub(super) fn lanes(self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }
}

impl LaunchLoads {
    /// Puts the requests in the order in which they ran.
    pub fn sort(&mut self) {
        self.requests.sort_unstable_by_key(|request| (request.sequence, request.block, request.warp));
        self.find_alone();
    }

    /// Finds the requests that are alone: in a launch that streams over memory, all are.
    fn find_alone(&mut self) {
        let mut spans: Vec<(u64, u64, u32)> = Vec::with_capacity(self.requests.len());
        spans.extend(self.requests.iter().zip(0..).filter_map(|(request, number)| {
            let (first, last) = self.span(request)?;
            Some((first, last, number))
        }));
        spans.sort_unstable();
        self.is_alone.clear();
        self.is_alone.resize(self.requests.len(), false);
        let mut past = 0;
        for (index, &(first, last, number)) in spans.iter().enumerate() {
            let is_last = spans.get(index + 1).is_none_or(|next| last < next.0);
            if let Some(is_alone) = self.is_alone.get_mut(number as usize) {
                *is_alone = past <= first && is_last;
            }
            past = past.max(last.saturating_add(1));
        }
    }

    /// True if no other request of the launch accesses the address range of a request, given by its position.
    pub fn is_alone(&self, request: usize) -> bool {
        self.is_alone.get(request).copied().unwrap_or(false)
    }

    /// First and last sector that a request accesses. None without active lanes.
    fn span(&self, request: &LoadRequest) -> Option<(u64, u64)> {
        let lanes = self.lanes(request, request.begin..request.end);
        let (first, last) = match request.addresses {
            LaneAddresses::Regular(regular) => regular.span(request.end - request.begin)?,
            LaneAddresses::Part(..) | LaneAddresses::Listed(_) => lanes
                .fold((u64::MAX, 0), |(first, last), lane| (lane.address.min(first), lane.address.max(last))),
        };
        let last = last.saturating_add(u64::from(request.bytes).saturating_sub(1));
        (first <= last).then_some((first / SECTOR_BYTES, last / SECTOR_BYTES))
    }

    /// Adds a request with its lanes: those of a sample of the sectors.
    pub fn push(&mut self, mut request: LoadRequest, access: &WarpRequest<'_>, sampler: HashSampler) {
        if !sampler.keeps_all() {
            self.patterns.sector_runs_into(access, &mut self.touched);
            let mut touched = self.touched.iter().flat_map(|&(first, last)| first..=last);
            if !touched.any(|sector| sampler.keeps(sector)) {
                return;
            }
        }
        let regular = RegularLanes::from_request(access).filter(|_| request.bytes > 0);
        request.begin = self.count;
        if let Some(regular) = regular {
            let all = access.lane_mask.count_ones();
            let (own, count) = if sampler.keeps_all() {
                (LaneAddresses::Regular(regular), all)
            } else {
                LaneAddresses::in_sample(regular, lane_addresses::first(all), sampler)
            };
            request.addresses = own;
            self.count += count;
        } else {
            let begin = self.listed.len();
            let lanes = access.addresses().filter(|(_, address)| sampler.keeps(address / SECTOR_BYTES));
            let lane = |(lane, address)| RequestLane { address, lane: u8::try_from(lane).unwrap_or(u8::MAX) };
            self.listed.extend(lanes.map(lane));
            request.addresses = LaneAddresses::Listed(position(begin));
            self.count += position(self.listed.len() - begin);
        }
        request.end = self.count;
        self.requests.push(request);
    }

    /// Lanes of all requests.
    pub fn lane_count(&self) -> usize {
        self.count as usize
    }

    /// Keeps the lanes of a sample of the sectors.
    pub fn keep(&mut self, sampler: HashSampler) {
        let mut in_sample = Vec::with_capacity(self.listed.len() / 2);
        let mut requests = std::mem::take(&mut self.requests);
        let mut count = 0;
        for request in &mut requests {
            let lanes = request.end - request.begin;
            let (own, taken) = match request.addresses {
                LaneAddresses::Regular(regular) => {
                    LaneAddresses::in_sample(regular, lane_addresses::first(lanes), sampler)
                }
                LaneAddresses::Part(regular, before) => LaneAddresses::in_sample(regular, before, sampler),
                LaneAddresses::Listed(_) => {
                    let lanes = request.addresses.lanes(0..lanes, &self.listed);
                    let begin = position(in_sample.len());
                    in_sample.extend(lanes.filter(|lane| sampler.keeps(lane.address / SECTOR_BYTES)));
                    (LaneAddresses::Listed(begin), position(in_sample.len()) - begin)
                }
            };
            (request.addresses, request.begin, request.end) = (own, count, count + taken);
            count += taken;
        }
        requests.retain(|request| !request.lanes().is_empty());
        self.count = count;
        (self.requests, self.listed) = (requests, in_sample);
        if !self.is_alone.is_empty() {
            self.find_alone();
        }
    }

    /// Lanes of a request, by their positions among those of all requests.
    pub(super) fn lanes<'a>(&'a self, request: &LoadRequest, positions: Range<u32>) -> LaneIter<'a> {
        request.addresses.lanes(positions.start - request.begin..positions.end - request.begin, &self.listed)
    }

    /// The bytes from the first to past the last that regular lanes of a request access, if they leave no gap.
    pub(super) fn run(request: &LoadRequest, positions: Range<u32>) -> Option<(u64, u64)> {
        let LaneAddresses::Regular(regular) = request.addresses else { return None };
        regular.run(request.bytes, positions.start - request.begin..positions.end - request.begin)
    }

    /// Empties them for another launch. Memory stays where it is not much.
    pub fn clear(&mut self) {
        if self.bytes() > MAX_KEPT_BYTES {
            *self = Self::default();
        }
        self.requests.clear();
        self.listed.clear();
        self.is_alone.clear();
        self.count = 0;
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.requests.capacity() * size_of::<LoadRequest>()
            + self.listed.capacity() * size_of::<RequestLane>()
            + self.is_alone.capacity()
    }
}

impl LoadWalk {
    /// A part of several.
    pub fn new(part: u64, parts: u64) -> Self {
        Self { part, parts: parts.max(1), ..Self::default() }
    }

    /// A part of another launch, in the memory of this one where it is not much: fresh memory is filled with zeros by the
    /// system, which takes longer than a walk over it.
    #[must_use]
    pub fn again(self, part: u64, parts: u64) -> Self {
        let next = Self::new(part, parts);
        if self.bytes() > MAX_KEPT_BYTES {
            return next;
        }
        let Self { mut unsorted, mut touches, mut pages, mut numbers, mut fresh, .. } = self;
        unsorted.clear();
        touches.clear();
        pages.clear();
        numbers.clear();
        fresh.clear();
        Self { unsorted, touches, pages, numbers, fresh, ..next }
    }

    /// Reads the part's touches, in the order of requests.
    pub fn read(&mut self, loads: &LaunchLoads) {
        for ((request, &is_alone), number) in loads.requests.iter().zip(&loads.is_alone).zip(0..) {
            if is_alone {
                continue;
            }
            let regular = match request.addresses {
                LaneAddresses::Regular(regular) => {
                    regular.sectors(request.bytes, request.end - request.begin)
                }
                LaneAddresses::Part(..) | LaneAddresses::Listed(_) => None,
            };
            if let Some(sectors) = regular {
                for (sector, lanes) in sectors {
                    if let Some(sector) = self.own(sector) {
                        let (begin, end) = (request.begin + lanes.start, request.begin + lanes.end);
                        self.unsorted.push(SectorTouch { sector, request: number, begin, end });
                    }
                }
            } else {
                self.read_lanes(loads, request, number);
            }
        }
    }

    /// Reads the touches of a request lane by lane.
    fn read_lanes(&mut self, loads: &LaunchLoads, request: &LoadRequest, number: u32) {
        let mut open = u64::MAX;
        for (lane, position) in loads.lanes(request, request.begin..request.end).zip(request.begin..) {
            for sector in lane.sectors(request.bytes) {
                let is_open = std::mem::replace(&mut open, sector) == sector;
                let Some(sector) = self.own(sector) else { continue };
                match self.unsorted.last_mut() {
                    Some(last) if is_open && (last.request, last.end) == (number, position) => last.end += 1,
                    _ => {
                        self.unsorted.push(SectorTouch {
                            sector,
                            request: number,
                            begin: position,
                            end: position + 1,
                        });
                    }
                }
            }
        }
    }

    /// The number of a sector, if it is in the part.
    fn own(&mut self, sector: u64) -> Option<u32> {
        let (page, within) = page_of(sector);
        if self.page != Some(page) {
            self.page = Some(page);
            let is_own = self.parts == 1 || mix(page) % self.parts == self.part;
            self.first = is_own.then(|| self.number(page));
        }
        Some(self.first? * PAGE_SECTORS + within)
    }

    /// The number of a page.
    fn number(&mut self, page: u64) -> u32 {
        let Self { numbers, pages, .. } = self;
        *numbers.entry(page).or_insert_with(|| {
            pages.push(page);
            position(pages.len() - 1)
        })
    }

    /// The touches that were read.
    pub fn touch_count(&self) -> usize {
        self.unsorted.len()
    }

    /// Sorts touches by their sectors. Those of a sector stay in order.
    fn sort(&mut self) {
        let sectors = self.pages.len() * PAGE_SECTORS as usize;
        let mut starts: Vec<u32> = vec![0; sectors + 1];
        for touch in &self.unsorted {
            starts[touch.sector as usize + 1] += 1;
        }
        for sector in 0..sectors {
            starts[sector + 1] += starts[sector];
        }
        self.touches.resize(self.unsorted.len(), SectorTouch::default());
        for touch in &self.unsorted {
            let start = &mut starts[touch.sector as usize];
            self.touches[*start as usize] = *touch;
            *start += 1;
        }
        if self.unsorted.capacity() * size_of::<SectorTouch>() > MAX_KEPT_BYTES {
            self.unsorted = Vec::new();
        }
        self.unsorted.clear();
        self.is_sorted = true;
    }

    /// The number of a touch's sector in memory.
    fn sector_of(&self, touch: &SectorTouch) -> u64 {
        let (page, within) = (touch.sector / PAGE_SECTORS, touch.sector % PAGE_SECTORS);
        self.pages.get(page as usize).map_or(0, |page| page * u64::from(PAGE_SECTORS) + u64::from(within))
    }

    /// Continues for a while. Returns true if work remains.
    pub fn step(&mut self, loads: &LaunchLoads) -> bool {
        if !self.is_sorted {
            self.sort();
            if !self.touches.is_empty() {
                self.fresh.resize(loads.lane_count(), 0);
            }
            return true;
        }
        let stop = self.next + TOUCHES_AT_A_TIME;
        while self.next < stop {
            let rest = self.touches.get(self.next..).unwrap_or_default();
            let Some(touch) = rest.first() else { return false };
            if self.next == self.end {
                let own = rest.iter().take_while(|other| other.sector == touch.sector).count();
                self.end += own;
                if own == 1 {
                    loads.first_in_sector(touch, &mut self.fresh);
                    self.next += 1;
                    continue;
                }
                self.sector.enter(self.sector_of(touch));
            }
            let own = self.touches.get(self.next..self.end).unwrap_or_default();
            self.next += self.sector.step(own, loads, &mut self.fresh);
        }
        true
    }

    /// Joins the answers of another part.
    pub fn join(&mut self, other: &Self) {
        self.fresh.resize(self.fresh.len().max(other.fresh.len()), 0);
        self.fresh.iter_mut().zip(&other.fresh).for_each(|(own, other)| *own |= other);
    }

    /// A bit mask for each lane of a request: the scopes in which its load is not redundant.
    pub fn fresh(&self, lanes: Range<usize>) -> &[u8] {
        self.fresh.get(lanes).unwrap_or_default()
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        let touches = (self.unsorted.capacity() + self.touches.capacity()) * size_of::<SectorTouch>();
        let pages =
            self.pages.capacity() * size_of::<u64>() + self.numbers.capacity() * size_of::<(u64, u32)>();
        touches + pages + self.fresh.capacity() + self.sector.bytes()
    }
}

/// The page of a sector of memory, and its position there.
fn page_of(sector: u64) -> (u64, u32) {
    let page = u64::from(PAGE_SECTORS);
    (sector / page, u32::try_from(sector % page).unwrap_or(0))
}
