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

/// Maximum of lane accesses per launch. Beyond it, sectors are sampled.
const MOST_ACCESSES: usize = 1 << 23;
/// Maximum of accesses, counted once per sector that they touch.
const MOST_TOUCHES: usize = 1 << 25;
/// Accesses processed before other tasks may run.
const TOUCHES_AT_A_TIME: usize = 1 << 16;
/// Maximum number of finished entries before the map is cleared.
const MOST_DONE: usize = 1 << 12;
/// The pieces of a sector if each is a byte.
const MOST_PIECES: usize = 32;
const _: () = assert!(MOST_PIECES as u64 == SECTOR_BYTES);
/// Thread, warp, block, grid.
const SCOPES: usize = 4;

/// One warp request.
#[derive(Clone, Copy, Debug)]
struct Request {
    sequence: u64,
    block: u64,
    instruction: u32,
    warp: u16,
    bytes: u8,
    is_store: bool,
    /// The positions of its lanes.
    begin: u32,
    end: u32,
}

/// One lane of a request.
#[derive(Clone, Copy, Debug)]
struct Lane {
    address: u64,
    lane: u8,
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

/// Collects the accesses of a launch, then looks at them sector by sector: byte by byte, or in the largest pieces of the
/// sector that never part.
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
    next: usize,
    /// Per lane, one bit per scope in which a piece of its access was not loaded before.
    fresh: Vec<u8>,
    sector: Sector,
    loaded: Loaded,
}

/// Consecutive lanes of one request that touch one sector.
#[derive(Clone, Copy, Debug)]
struct Touch {
    sector: u64,
    request: u32,
    begin: u32,
    end: u32,
}

/// The sector at hand.
#[derive(Default)]
struct Sector {
    number: u64,
    /// The largest piece of it that every lane covers wholly or not at all.
    piece_bytes: u64,
    pieces: [Piece; MOST_PIECES],
    /// Number of lifetimes of pieces that have begun.
    begun: u64,
}

/// A piece of the sector.
#[derive(Clone, Copy, Default)]
struct Piece {
    /// Its lifetime since the last store to it. Numbers are unique.
    life: u64,
    /// The first load of its lifetime.
    first: Option<Load>,
    /// True if loads of other threads followed. Most pieces are loaded by one thread, and need no lookup.
    is_shared: bool,
}

/// Thread and request of a load.
#[derive(Clone, Copy, Debug)]
struct Load {
    sequence: u64,
    block: u64,
    warp: u16,
    lane: u8,
}

/// The first request that loaded a piece, by the piece's lifetime, the block, and the thread or warp in each scope.
type Loaded = HashMap<(u64, u64, u32), u64>;

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
        let mut touches = self.touches();
        while touches.len() > MOST_TOUCHES {
            self.halve();
            touches = self.touches();
        }
        touches.sort_unstable_by_key(|touch| (touch.sector, touch.request, touch.begin));
        let fresh = vec![0; self.lanes.len()];
        Pass { touches, next: 0, fresh, sector: Sector::default(), loaded: Loaded::new() }
    }

    fn touches(&self) -> Vec<Touch> {
        let mut touches: Vec<Touch> = Vec::new();
        for (request, number) in self.requests.iter().zip(0..) {
            let lanes = self.lanes.get(request.lanes()).unwrap_or_default();
            for (lane, place) in lanes.iter().zip(request.begin..) {
                for sector in lane.sectors(request) {
                    let next = Touch { sector, request: number, begin: place, end: place + 1 };
                    match touches.last_mut() {
                        Some(last) if last.precedes(next) => last.end = next.end,
                        _ => touches.push(next),
                    }
                }
            }
        }
        touches
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

/// The position of a lane. The limit on lanes makes it fit.
fn position(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

impl Request {
    fn lanes(&self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }
}

impl Lane {
    /// The sectors that it touches.
    fn sectors(self, request: &Request) -> RangeInclusive<u64> {
        let last = self.address.saturating_add(u64::from(request.bytes).saturating_sub(1));
        self.address / SECTOR_BYTES..=last / SECTOR_BYTES
    }

    /// The bytes of a sector that it covers, counted from the sector's begin.
    fn within(self, request: &Request, sector: u64) -> Range<u64> {
        let first = sector * SECTOR_BYTES;
        let end = self.address.saturating_add(u64::from(request.bytes)).saturating_sub(first);
        self.address.saturating_sub(first)..end.min(SECTOR_BYTES)
    }
}

impl Touch {
    fn lanes(self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    /// True if another is of the same sector and request, and follows.
    fn precedes(self, next: Self) -> bool {
        (self.sector, self.request, self.end) == (next.sector, next.request, next.begin)
    }
}

impl Pass {
    /// Continues for a while. Returns true if work remains.
    fn walk(&mut self, requests: &[Request], lanes: &[Lane]) -> bool {
        for _ in 0..TOUCHES_AT_A_TIME {
            let Some(&touch) = self.touches.get(self.next) else { return false };
            if self.next == 0 || touch.sector != self.sector.number {
                self.enter(touch.sector, requests, lanes);
            }
            self.next += 1;
            let Some(request) = requests.get(touch.request as usize) else { continue };
            let touching = lanes.get(touch.lanes()).unwrap_or_default();
            let fresh = self.fresh.get_mut(touch.lanes()).unwrap_or_default();
            for (lane, fresh) in touching.iter().zip(fresh) {
                *fresh |= self.sector.access(request, *lane, &mut self.loaded);
            }
        }
        true
    }

    fn enter(&mut self, sector: u64, requests: &[Request], lanes: &[Lane]) {
        let rest = self.touches.get(self.next..).unwrap_or_default().iter();
        let bounds = rest.take_while(|touch| touch.sector == sector).flat_map(|touch| {
            let request = requests.get(touch.request as usize);
            let lanes = lanes.get(touch.lanes()).unwrap_or_default();
            lanes.iter().filter_map(move |lane| Some(lane.within(request?, sector)))
        });
        self.sector.enter(sector, bounds);
        if self.loaded.len() > MOST_DONE {
            self.loaded = Loaded::with_capacity(2 * MOST_DONE);
        }
    }
}

impl Sector {
    /// Moves to a sector with these covered bytes.
    fn enter(&mut self, number: u64, bounds: impl Iterator<Item = Range<u64>>) {
        self.number = number;
        let bits = bounds.fold(SECTOR_BYTES, |bits, bytes| bits | bytes.start | bytes.end);
        self.piece_bytes = 1 << bits.trailing_zeros();
        let count = usize::try_from(SECTOR_BYTES / self.piece_bytes).unwrap_or(0);
        (0..count).for_each(|piece| self.begin(piece));
    }

    /// Starts a new lifetime of a piece: earlier loads of it are void.
    fn begin(&mut self, piece: usize) {
        self.begun += 1;
        self.pieces[piece] = Piece { life: self.begun, first: None, is_shared: false };
    }

    /// Processes the next lane. For a load, returns one bit per scope that had not loaded a piece of it before.
    fn access(&mut self, request: &Request, lane: Lane, loaded: &mut Loaded) -> u8 {
        let &Request { sequence, block, warp, .. } = request;
        let load = Load { sequence, block, warp, lane: lane.lane };
        let mut fresh = 0;
        for piece in self.covered(lane.within(request, self.number)) {
            if request.is_store {
                self.begin(piece);
            } else {
                fresh |= self.pieces[piece].load(load, loaded);
            }
        }
        fresh
    }

    /// The pieces that bytes of it cover.
    fn covered(&self, bytes: Range<u64>) -> Range<usize> {
        // A sector bounds the number of bytes.
        let piece = |byte: u64| usize::try_from(byte / self.piece_bytes).unwrap_or(0);
        piece(bytes.start)..piece(bytes.end)
    }
}

impl Piece {
    /// Loads it. Returns one bit per scope that had not loaded it before in this lifetime.
    fn load(&mut self, load: Load, loaded: &mut Loaded) -> u8 {
        let Some(first) = self.first else {
            self.first = Some(load);
            return (1 << SCOPES) - 1;
        };
        if first.thread() == load.thread() && first.sequence < load.sequence {
            return 0;
        }
        if !self.is_shared {
            self.is_shared = true;
            first.enter(self.life, loaded);
        }
        let is_first = first.sequence >= load.sequence;
        load.enter(self.life, loaded) | u8::from(is_first) << (SCOPES - 1)
    }
}

impl Load {
    fn thread(self) -> (u64, u16, u8) {
        (self.block, self.warp, self.lane)
    }

    /// Enters it for its thread, warp and block. Returns one bit per scope that had not loaded the piece in an earlier
    /// request.
    fn enter(self, life: u64, loaded: &mut Loaded) -> u8 {
        let warp = 1 + u32::from(self.warp);
        let thread = warp << 5 | u32::from(self.lane) | 1 << 31;
        let mut fresh = 0;
        for (scope, who) in [thread, warp, 0].into_iter().enumerate() {
            if *loaded.entry((life, self.block, who)).or_insert(self.sequence) < self.sequence {
                // The wider scopes have loaded it too.
                break;
            }
            fresh |= 1 << scope;
        }
        fresh
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
        if pass.walk(&self.requests, &self.lanes) {
            self.running = Some(pass);
        } else {
            self.push(&pass);
            self.requests.clear();
            self.lanes.clear();
            self.instructions.clear();
            self.sampler = Sampler::default();
        }
        true
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
