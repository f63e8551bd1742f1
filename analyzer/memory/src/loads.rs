//! Loads of a launch that read bytes again, by the sectors that they touch.
//!
//! A sector needs no other, so a launch is divided into parts by its sectors. Each part walks over its sectors, in the
//! order of the requests, and its answers are joined lane by lane.

use std::ops::{Range, RangeInclusive};

use super::numbers::{NumberMap, position};
use super::request::SECTOR_BYTES;
use super::sampler::{Sampler, mix};
use super::sector::{SCOPES, Sector};

/// Touches walked over before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
/// Adjacent sectors that are numbered together: neighbors cost one search.
const PAGE_SECTORS: u32 = 8;

/// Thread, warp, block, grid: the scopes in which a load may be redundant.
pub const SCOPE_COUNT: usize = SCOPES;

/// One warp request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
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
    /// The position of its first lane.
    pub begin: u32,
    /// The position past its last lane.
    pub end: u32,
}

/// One lane of a request.
#[derive(Clone, Copy, Debug)]
pub struct Lane {
    /// The first byte that it accesses.
    pub address: u64,
    /// Its number in the warp.
    pub lane: u8,
}

/// The requests of a launch, with all their lanes.
#[derive(Clone, Debug, Default)]
pub struct Loads {
    /// In the order in which they ran, once [`Loads::sort`] has run.
    pub requests: Vec<Request>,
    /// The lanes of the first request, then those of the next.
    pub lanes: Vec<Lane>,
}

/// Consecutive lanes of one request that touch one sector.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Touch {
    /// The sector's number, by pages in the order of appearance.
    sector: u32,
    pub(super) request: u32,
    begin: u32,
    end: u32,
}

/// The walk over a part of the sectors that a launch's requests touch.
#[derive(Default)]
pub struct Walk {
    part: u64,
    parts: u64,
    /// In the order of requests.
    unsorted: Vec<Touch>,
    /// By sector, then in the order of requests.
    touches: Vec<Touch>,
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
    sector: Sector,
}

impl Request {
    /// The positions of its lanes.
    pub fn lanes(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// Its warp in the block, from 1.
    pub(super) fn who(&self) -> u32 {
        1 + u32::from(self.warp)
    }
}

impl Lane {
    /// The sectors that it touches.
    fn sectors(self, request: &Request) -> RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(request.bytes).saturating_sub(1));
        self.address / SECTOR_BYTES..=last / SECTOR_BYTES
    }
}

impl Touch {
    pub(super) fn lanes(self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }
}

impl Loads {
    /// Puts the requests in the order in which they ran.
    pub fn sort(&mut self) {
        self.requests.sort_unstable_by_key(|request| (request.sequence, request.block, request.warp));
    }

    /// Keeps the lanes of a sample of the sectors.
    pub fn keep(&mut self, sampler: Sampler) {
        let mut in_sample = Vec::with_capacity(self.lanes.len() / 2);
        for request in &mut self.requests {
            let lanes = self.lanes.get(request.lanes()).unwrap_or_default();
            request.begin = position(in_sample.len());
            in_sample.extend(lanes.iter().filter(|lane| sampler.keeps(lane.address / SECTOR_BYTES)));
            request.end = position(in_sample.len());
        }
        self.requests.retain(|request| !request.lanes().is_empty());
        self.lanes = in_sample;
    }

    /// Bytes of memory that they take.
    pub fn bytes(&self) -> usize {
        self.requests.capacity() * size_of::<Request>() + self.lanes.capacity() * size_of::<Lane>()
    }
}

impl Walk {
    /// A part of several.
    pub fn new(part: u64, parts: u64) -> Self {
        Self { part, parts: parts.max(1), ..Self::default() }
    }

    /// Reads the part's touches, in the order of requests.
    pub fn read(&mut self, loads: &Loads) {
        let (mut page, mut first, mut is_own, mut open) = (None, 0, false, u64::MAX);
        for (request, number) in loads.requests.iter().zip(0..) {
            let lanes = loads.lanes.get(request.lanes()).unwrap_or_default();
            for (lane, place) in lanes.iter().zip(request.begin..) {
                for sector in lane.sectors(request) {
                    let (own, within) = place_of(sector);
                    if page != Some(own) {
                        page = Some(own);
                        is_own = self.parts == 1 || mix(own) % self.parts == self.part;
                        first = if is_own { self.number(own) } else { 0 };
                    }
                    let is_open = std::mem::replace(&mut open, sector) == sector;
                    if !is_own {
                        continue;
                    }
                    match self.unsorted.last_mut() {
                        Some(last) if is_open && (last.request, last.end) == (number, place) => last.end += 1,
                        _ => self.unsorted.push(Touch {
                            sector: first * PAGE_SECTORS + within,
                            request: number,
                            begin: place,
                            end: place + 1,
                        }),
                    }
                }
            }
        }
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
        self.touches.resize(self.unsorted.len(), Touch::default());
        for touch in &self.unsorted {
            let place = &mut starts[touch.sector as usize];
            self.touches[*place as usize] = *touch;
            *place += 1;
        }
        self.unsorted = Vec::new();
        self.is_sorted = true;
    }

    /// The number of a touch's sector in memory.
    fn sector_of(&self, touch: &Touch) -> u64 {
        let (page, within) = (touch.sector / PAGE_SECTORS, touch.sector % PAGE_SECTORS);
        self.pages.get(page as usize).map_or(0, |page| page * u64::from(PAGE_SECTORS) + u64::from(within))
    }

    /// Continues for a while. Returns true if work remains.
    pub fn step(&mut self, loads: &Loads) -> bool {
        if !self.is_sorted {
            self.sort();
            self.fresh.resize(loads.lanes.len(), 0);
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

    /// Per lane, one bit per scope in which a byte of its access was not loaded before.
    pub fn fresh(&self, lanes: Range<usize>) -> &[u8] {
        self.fresh.get(lanes).unwrap_or_default()
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        let touches = (self.unsorted.capacity() + self.touches.capacity()) * size_of::<Touch>();
        let pages =
            self.pages.capacity() * size_of::<u64>() + self.numbers.capacity() * size_of::<(u64, u32)>();
        touches + pages + self.fresh.capacity() + self.sector.bytes()
    }
}

/// The page of a sector of memory, and its position there.
fn place_of(sector: u64) -> (u64, u32) {
    let page = u64::from(PAGE_SECTORS);
    (sector / page, u32::try_from(sector % page).unwrap_or(0))
}
