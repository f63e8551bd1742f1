//! Redundant loads: repeated by the same thread, warp, block or grid without a store in between.
//!
//! A load is redundant in a scope if an earlier request of the launch loaded every byte of it in that scope, and no
//! request of the launch has stored to the byte since. Atomics are stores. Lanes of one request load at the same time,
//! so none of them makes another redundant.

use std::ops::{Range, RangeInclusive};

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_schema::word::AccessKind;

use super::access::{Accesses, Instructions, Places};
use super::analysis::{Analysis, Ready};
use super::derived::LoadRedundancy;
use super::request::SECTOR_BYTES;
use super::sampler::Sampler;
use super::sector::{Requests, SCOPES, Sector};

/// Maximum of lane accesses per launch. Beyond it, sectors are sampled.
const MOST_ACCESSES: usize = 1 << 23;
/// Maximum of accesses, counted once per sector that they touch.
const MOST_TOUCHES: usize = 1 << 25;
/// Accesses processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
/// Adjacent sectors that are numbered together: neighbors cost one search.
const PAGE_SECTORS: u32 = 8;
/// Length up to which a list keeps its memory for the next launch.
const MOST_SPARE: usize = 1 << 20;

/// One warp request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    pub(super) sequence: u64,
    pub(super) block: u64,
    instruction: u32,
    warp: u16,
    pub(super) bytes: u8,
    pub(super) is_store: bool,
    /// The positions of its lanes.
    begin: u32,
    end: u32,
}

/// One lane of a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lane {
    pub(super) address: u64,
    pub(super) lane: u8,
}

/// One instruction, with all its loads, in the sample or not.
struct Instruction {
    function_id: u64,
    pc: u32,
    loads: u64,
    load_bytes: u64,
}

/// Loads in the sample: their number, and the number of redundant ones in each scope.
#[derive(Clone, Copy, Default)]
struct Seen {
    loads: u64,
    redundant: [u64; SCOPES],
}

/// Collects the accesses of a launch, then looks at them sector by sector.
pub(super) struct Redundancy {
    most_accesses: usize,
    kernel_id: u64,
    /// By the numbers in requests.
    instructions: Vec<Instruction>,
    requests: Vec<Request>,
    lanes: Vec<Lane>,
    sampler: Sampler,
    is_running: bool,
    pass: Pass,
    ready: Ready<LoadRedundancy>,
}

/// The walk over the sectors that a launch's requests touch.
#[derive(Default)]
struct Pass {
    /// In the order of requests.
    unsorted: Vec<Touch>,
    /// By sector, then in the order of requests.
    touches: Vec<Touch>,
    /// The numbers of pages in memory, in the order of appearance.
    pages: Vec<u64>,
    /// Their positions.
    numbers: HashMap<u64, u32>,
    next: usize,
    /// Past the touches of the sector at hand.
    end: usize,
    /// Per lane, one bit per scope in which a byte of its access was not loaded before.
    fresh: Vec<u8>,
    sector: Sector,
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

impl Redundancy {
    pub(super) fn new() -> Self {
        Self::with_room(MOST_ACCESSES)
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(most_accesses: usize) -> Self {
        Self {
            most_accesses,
            kernel_id: 0,
            instructions: Vec::new(),
            requests: Vec::new(),
            lanes: Vec::new(),
            sampler: Sampler::default(),
            is_running: false,
            pass: Pass::default(),
            ready: Ready::default(),
        }
    }

    /// The instruction of rows. Rows of one instruction are adjacent.
    fn instruction(&mut self, function_id: u64, pc: u32) -> &mut Instruction {
        let is_open =
            self.instructions.last().is_some_and(|one| (one.function_id, one.pc) == (function_id, pc));
        let open = if is_open { self.instructions.pop() } else { None };
        let open = open.unwrap_or(Instruction { function_id, pc, loads: 0, load_bytes: 0 });
        self.instructions.push(open);
        let last = self.instructions.len() - 1;
        &mut self.instructions[last]
    }

    /// Keeps half of the sectors.
    fn halve(&mut self) {
        self.sampler.halve();
        let sampler = self.sampler;
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

    fn start(&mut self) {
        self.requests.sort_unstable_by_key(|request| (request.sequence, request.block, request.warp));
        self.pass.read(&self.requests, &self.lanes);
        while self.pass.unsorted.len() > MOST_TOUCHES {
            self.halve();
            self.pass.read(&self.requests, &self.lanes);
        }
        self.pass.sort();
        self.pass.fresh.resize(self.lanes.len(), 0);
        self.is_running = true;
    }

    /// Ends a launch. Memory for a usual one is reused: new memory is slower than the walk.
    fn finish(&mut self) {
        self.push();
        self.pass.clear();
        emptied(&mut self.requests);
        emptied(&mut self.lanes);
        self.instructions.clear();
        self.sampler = Sampler::default();
        self.is_running = false;
    }

    fn push(&mut self) {
        let mut seen = vec![Seen::default(); self.instructions.len()];
        for request in self.requests.iter().filter(|request| !request.is_store) {
            let Some(seen) = seen.get_mut(request.instruction as usize) else { continue };
            let fresh = self.pass.fresh.get(request.lanes()).unwrap_or_default();
            seen.loads += fresh.len() as u64;
            // A warp request has up to 32 lanes: each count has a part of 16 bits.
            let redundant: u64 = fresh.iter().map(|fresh| REDUNDANT[usize::from(fresh % 16)]).sum();
            for (scope, count) in seen.redundant.iter_mut().enumerate() {
                *count += redundant >> (16 * scope) & 0xffff;
            }
        }
        for (instruction, seen) in self.instructions.iter().zip(seen).filter(|(one, _)| one.loads > 0) {
            // The part that the sample shows, of all.
            let of_all = |count: u64| {
                let all = u128::from(count) * u128::from(instruction.loads);
                all.checked_div(seen.loads.into()).and_then(|count| u64::try_from(count).ok())
            };
            let [thread_loads, warp_loads, block_loads, grid_loads] = seen.redundant.map(of_all);
            self.ready.push(LoadRedundancy {
                kernel_id: KernelId(self.kernel_id),
                function_id: FunctionId(instruction.function_id),
                pc: Pc(instruction.pc),
                loads: instruction.loads,
                load_bytes: instruction.load_bytes,
                thread_loads,
                warp_loads,
                block_loads,
                grid_loads,
                sector_rate: self.sampler.rate(),
            });
        }
    }
}

/// Per set of scopes with a new byte, 1 for each other scope, in parts of 16 bits.
const REDUNDANT: [u64; 1 << SCOPES] = {
    let mut counts = [0; 1 << SCOPES];
    let mut fresh = 0;
    while fresh < counts.len() {
        let mut scope = 0;
        while scope < SCOPES {
            counts[fresh] |= ((!fresh >> scope & 1) as u64) << (16 * scope);
            scope += 1;
        }
        fresh += 1;
    }
    counts
};

/// Removes all items, and the memory of an unusually long list.
fn emptied<T>(list: &mut Vec<T>) {
    list.clear();
    list.shrink_to(MOST_SPARE);
}

/// The page of a sector of memory, and its position there.
fn place_of(sector: u64) -> (u64, u32) {
    let page = u64::from(PAGE_SECTORS);
    (sector / page, u32::try_from(sector % page).unwrap_or(0))
}

/// The position of a lane. The limit on lanes makes it fit.
fn position(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Request {
    fn lanes(&self) -> Range<usize> {
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

impl Pass {
    /// The touches in the order of requests.
    fn read(&mut self, requests: &[Request], lanes: &[Lane]) {
        self.unsorted.clear();
        self.pages.clear();
        self.numbers.clear();
        let (mut page, mut first, mut open) = (None, 0, u64::MAX);
        for (request, number) in requests.iter().zip(0..) {
            let lanes = lanes.get(request.lanes()).unwrap_or_default();
            for (lane, place) in lanes.iter().zip(request.begin..) {
                for sector in lane.sectors(request) {
                    if sector == open
                        && let Some(last) = self.unsorted.last_mut()
                        && (last.request, last.end) == (number, place)
                    {
                        last.end += 1;
                        continue;
                    }
                    let (own, within) = place_of(sector);
                    if page != Some(own) {
                        first = *self.numbers.entry(own).or_insert_with(|| {
                            self.pages.push(own);
                            position(self.pages.len() - 1)
                        });
                        page = Some(own);
                    }
                    let sector_number = first * PAGE_SECTORS + within;
                    let touch =
                        Touch { sector: sector_number, request: number, begin: place, end: place + 1 };
                    self.unsorted.push(touch);
                    open = sector;
                }
            }
        }
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
    }

    /// The number of a touch's sector in memory.
    fn sector_of(&self, touch: &Touch) -> u64 {
        let (page, within) = (touch.sector / PAGE_SECTORS, touch.sector % PAGE_SECTORS);
        self.pages.get(page as usize).map_or(0, |page| page * u64::from(PAGE_SECTORS) + u64::from(within))
    }

    fn clear(&mut self) {
        emptied(&mut self.unsorted);
        emptied(&mut self.touches);
        emptied(&mut self.pages);
        self.numbers.clear();
        self.numbers.shrink_to(MOST_SPARE);
        emptied(&mut self.fresh);
        (self.next, self.end) = (0, 0);
    }

    fn bytes(&self) -> usize {
        let touches = (self.unsorted.capacity() + self.touches.capacity()) * size_of::<Touch>();
        let pages =
            self.pages.capacity() * size_of::<u64>() + self.numbers.capacity() * size_of::<(u64, u32)>();
        touches + pages + self.fresh.capacity() + self.sector.bytes()
    }

    /// Continues for a while. Returns true if work remains.
    fn walk(&mut self, all: Requests<'_>) -> bool {
        let stop = self.next + TOUCHES_AT_A_TIME;
        while self.next < stop {
            let rest = self.touches.get(self.next..).unwrap_or_default();
            let Some(touch) = rest.first() else { return false };
            if self.next == self.end {
                let own = rest.iter().take_while(|other| other.sector == touch.sector).count();
                self.end += own;
                if own == 1 {
                    all.first_in_sector(touch, &mut self.fresh);
                    self.next += 1;
                    continue;
                }
                self.sector.enter(self.sector_of(touch));
            }
            let own = self.touches.get(self.next..self.end).unwrap_or_default();
            self.next += self.sector.step(own, all, &mut self.fresh);
        }
        true
    }
}

impl Analysis for Redundancy {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, places) = (Accesses::new(batch)?, Places::new(batch)?);
        let instructions = Instructions::new(batch)?;
        let kinds: Vec<_> = instructions.kind.words.iter().map(|word| AccessKind::from_word(word)).collect();
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            let is_store = match kinds.get(instructions.kind.code(row)).copied().flatten() {
                Some(AccessKind::Read) => false,
                Some(AccessKind::Write | AccessKind::Atomic) => true,
                // A prefetch returns no value.
                Some(AccessKind::Prefetch) | None => continue,
            };
            self.kernel_id = accesses.kernel_id[row];
            let request = accesses.request(row);
            if request.access_bytes == 0 {
                continue;
            }
            let instruction = self.instruction(instructions.function_id[row], instructions.pc[row]);
            if !is_store {
                let lanes = u64::from(request.lane_mask.count_ones());
                instruction.loads += lanes;
                instruction.load_bytes += lanes * request.access_bytes;
            }
            let sampler = self.sampler;
            let begin = position(self.lanes.len());
            let in_sample = request.addresses().filter(|(_, address)| sampler.keeps(address / SECTOR_BYTES));
            self.lanes.extend(
                in_sample
                    .map(|(lane, address)| Lane { address, lane: u8::try_from(lane).unwrap_or(u8::MAX) }),
            );
            self.requests.push(Request {
                sequence: places.sequence[row],
                block: places.block[row],
                instruction: position(self.instructions.len() - 1),
                warp: places.warp[row],
                bytes: u8::try_from(request.access_bytes).unwrap_or(u8::MAX),
                is_store,
                begin,
                end: position(self.lanes.len()),
            });
            while self.lanes.len() > self.most_accesses {
                self.halve();
            }
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.start();
    }

    fn work(&mut self) -> bool {
        if self.is_running && !self.pass.walk(Requests { requests: &self.requests, lanes: &self.lanes }) {
            self.finish();
            return true;
        }
        self.is_running
    }

    fn bytes(&self) -> usize {
        let requests = self.requests.capacity() * size_of::<Request>();
        requests + self.lanes.capacity() * size_of::<Lane>() + self.pass.bytes()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
