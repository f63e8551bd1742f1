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
use super::analysis::{Analysis, Ready, Sampler};
use super::derived::LoadRedundancy;
use super::request::SECTOR_BYTES;
use super::sector::{Requests, SCOPES, Sector};

/// Maximum of lane accesses per launch. Beyond it, sectors are sampled.
const MOST_ACCESSES: usize = 1 << 23;
/// Maximum of accesses, counted once per sector that they touch.
const MOST_TOUCHES: usize = 1 << 25;
/// Accesses processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
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
    running: Option<Pass>,
    ready: Ready<LoadRedundancy>,
}

/// The walk over the sectors that a launch's requests touch.
struct Pass {
    /// By sector, then in the order of requests.
    touches: Vec<Touch>,
    /// The number of each sector among all sectors of memory.
    sectors: Vec<u64>,
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
    /// The sector's number in the order of appearance.
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
            running: None,
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

    fn start(&mut self) -> Pass {
        self.requests.sort_unstable_by_key(|request| (request.sequence, request.block, request.warp));
        let (mut touches, mut sectors) = self.touches();
        while touches.len() > MOST_TOUCHES {
            self.halve();
            (touches, sectors) = self.touches();
        }
        let fresh = vec![0; self.lanes.len()];
        let touches = by_sector(touches, sectors.len());
        Pass { touches, sectors, next: 0, end: 0, fresh, sector: Sector::default() }
    }

    /// The touches in the order of requests, and the sectors.
    fn touches(&self) -> (Vec<Touch>, Vec<u64>) {
        let (mut touches, mut sectors, mut numbers) = (Vec::<Touch>::new(), Vec::new(), HashMap::new());
        let mut last = None;
        for (request, number) in self.requests.iter().zip(0..) {
            let lanes = self.lanes.get(request.lanes()).unwrap_or_default();
            for (lane, place) in lanes.iter().zip(request.begin..) {
                for address in lane.sectors(request) {
                    let next = position(sectors.len());
                    let sector = match last {
                        Some((known, sector)) if known == address => sector,
                        _ => *numbers.entry(address).or_insert(next),
                    };
                    if sector == next {
                        sectors.push(address);
                    }
                    last = Some((address, sector));
                    let next = Touch { sector, request: number, begin: place, end: place + 1 };
                    match touches.last_mut() {
                        Some(last) if last.precedes(next) => last.end = next.end,
                        _ => touches.push(next),
                    }
                }
            }
        }
        (touches, sectors)
    }

    fn push(&mut self, pass: &Pass) {
        let mut seen = vec![Seen::default(); self.instructions.len()];
        for request in self.requests.iter().filter(|request| !request.is_store) {
            let Some(seen) = seen.get_mut(request.instruction as usize) else { continue };
            for fresh in pass.fresh.get(request.lanes()).unwrap_or_default() {
                seen.loads += 1;
                for (scope, count) in seen.redundant.iter_mut().enumerate() {
                    *count += u64::from(fresh >> scope & 1 == 0);
                }
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

/// Sorts touches by their sectors, and keeps the order of each sector's.
fn by_sector(touches: Vec<Touch>, sectors: usize) -> Vec<Touch> {
    let mut starts: Vec<usize> = std::iter::repeat_n(0, sectors + 1).collect();
    for touch in &touches {
        starts[touch.sector as usize + 1] += 1;
    }
    for sector in 0..sectors {
        starts[sector + 1] += starts[sector];
    }
    let mut sorted = vec![Touch::default(); touches.len()];
    for touch in touches {
        let place = &mut starts[touch.sector as usize];
        sorted[*place] = touch;
        *place += 1;
    }
    sorted
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

    /// True if another is of the same sector and request, and follows.
    fn precedes(self, next: Self) -> bool {
        (self.sector, self.request, self.end) == (next.sector, next.request, next.begin)
    }
}

impl Pass {
    fn bytes(&self) -> usize {
        let touches =
            self.touches.capacity() * size_of::<Touch>() + self.sectors.capacity() * size_of::<u64>();
        touches + self.fresh.capacity() + self.sector.bytes()
    }

    /// Continues for a while. Returns true if work remains.
    fn walk(&mut self, all: Requests<'_>) -> bool {
        let stop = self.next + TOUCHES_AT_A_TIME;
        while self.next < stop {
            let rest = self.touches.get(self.next..).unwrap_or_default();
            let Some(touch) = rest.first() else { return false };
            if self.next == self.end {
                self.end += rest.iter().take_while(|other| other.sector == touch.sector).count();
                self.sector.enter(self.sectors.get(touch.sector as usize).copied().unwrap_or(0));
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
        self.running = Some(self.start());
    }

    fn work(&mut self) -> bool {
        let Some(mut pass) = self.running.take() else { return false };
        let all = Requests { requests: &self.requests, lanes: &self.lanes };
        if pass.walk(all) {
            self.running = Some(pass);
        } else {
            self.push(&pass);
            self.requests = Vec::new();
            self.lanes = Vec::new();
            self.instructions.clear();
            self.sampler = Sampler::default();
        }
        true
    }

    fn bytes(&self) -> usize {
        let pass = self.running.as_ref().map_or(0, Pass::bytes);
        self.requests.capacity() * size_of::<Request>() + self.lanes.capacity() * size_of::<Lane>() + pass
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
