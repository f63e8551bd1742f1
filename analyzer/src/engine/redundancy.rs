//! Redundant loads: of what was loaded already, by the same thread, warp, block or grid, and not stored to since.
//!
//! A load is redundant in a scope where every byte of it was loaded in that scope by an earlier request of the launch,
//! and no request of the launch has stored to the byte since; atomics are stores. Lanes of one request load at once, so
//! none of them makes another redundant.

use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_schema::word::AccessKind;

use super::access::{Accesses, Instructions, Places};
use super::analysis::{Analysis, Ready, Sampler};
use super::derived::LoadRedundancy;
use super::request::SECTOR_BYTES;

/// Lane accesses that are kept of a launch; beyond, those of a sample of the sectors are.
const MOST_ACCESSES: usize = 1 << 23;
/// Pieces of accesses that are kept.
const MOST_PIECES: usize = 1 << 25;
/// Pieces that are worked on before others may run.
const PIECES_AT_A_TIME: usize = 1 << 16;
/// The largest piece of memory that is looked at as one.
const LARGEST_PIECE: u64 = 16;
/// Thread, warp, block, grid.
const SCOPES: usize = 4;

/// One lane's access.
#[derive(Clone, Copy, Debug)]
struct Access {
    sequence: u64,
    address: u64,
    block: u64,
    instruction: u32,
    warp: u16,
    lane: u8,
    bytes: u8,
    is_store: bool,
}

/// One instruction, with all its loads, in the sample or not.
struct Instruction {
    function_id: u64,
    pc: u32,
    loads: u64,
    load_bytes: u64,
}

/// Of the loads in the sample, how many there are, and how many are redundant in each scope.
#[derive(Clone, Copy, Default)]
struct Seen {
    loads: u64,
    redundant: [u64; SCOPES],
}

/// Collects the accesses of a launch, then looks at them byte by byte, or in the largest pieces that never part.
pub(super) struct Redundancy {
    most_accesses: usize,
    kernel_id: u64,
    /// By the numbers in accesses.
    instructions: Vec<Instruction>,
    accesses: Vec<Access>,
    sampler: Sampler,
    running: Option<Pass>,
    ready: Ready<LoadRedundancy>,
}

/// The walk over the pieces of a launch's accesses.
struct Pass {
    /// A piece of memory and the position of an access that covers it, by piece, then in the order of requests.
    pieces: Vec<(u64, u32)>,
    next: usize,
    /// Of each access, one bit a scope where a piece of it was not loaded before.
    fresh: Vec<u8>,
    /// Of the piece at hand, since the last store to it: the first request that loaded it in each scope.
    loaded: HashMap<(u64, u32), u64>,
    in_grid: Option<u64>,
}

impl Redundancy {
    pub(super) fn new() -> Self {
        Self::with_room(MOST_ACCESSES)
    }

    /// With less room for what is kept.
    pub(super) fn with_room(most_accesses: usize) -> Self {
        Self {
            most_accesses,
            kernel_id: 0,
            instructions: Vec::new(),
            accesses: Vec::new(),
            sampler: Sampler::default(),
            running: None,
            ready: Ready::default(),
        }
    }

    /// The instruction that rows are of; those of one stand together.
    fn instruction(&mut self, function_id: u64, pc: u32) -> &mut Instruction {
        let is_open =
            self.instructions.last().is_some_and(|one| (one.function_id, one.pc) == (function_id, pc));
        let open = if is_open { self.instructions.pop() } else { None };
        let open = open.unwrap_or(Instruction { function_id, pc, loads: 0, load_bytes: 0 });
        self.instructions.push(open);
        let last = self.instructions.len() - 1;
        &mut self.instructions[last]
    }

    fn halve(&mut self) {
        self.sampler.halve();
        let sampler = self.sampler;
        self.accesses.retain(|access| sampler.keeps(access.address / SECTOR_BYTES));
    }

    /// The largest piece of memory that every access covers wholly or not at all.
    fn piece_bytes(&self) -> u64 {
        let bits = self
            .accesses
            .iter()
            .fold(LARGEST_PIECE, |bits, access| bits | access.address | u64::from(access.bytes));
        1 << bits.trailing_zeros()
    }

    fn start(&mut self) -> Pass {
        let size = self.piece_bytes();
        let count = |access: &Access| u64::from(access.bytes) / size;
        while self.accesses.iter().map(count).sum::<u64>() > MOST_PIECES as u64 {
            self.halve();
        }
        self.accesses
            .sort_unstable_by_key(|access| (access.sequence, access.block, access.warp, access.lane));
        let mut pieces = Vec::new();
        for (access, place) in self.accesses.iter().zip(0..) {
            let first = access.address / size;
            pieces.extend((first..first.saturating_add(count(access))).map(|piece| (piece, place)));
        }
        pieces.sort_unstable();
        let fresh = vec![0; self.accesses.len()];
        Pass { pieces, next: 0, fresh, loaded: HashMap::new(), in_grid: None }
    }

    fn push(&mut self, pass: &Pass) {
        let mut seen = vec![Seen::default(); self.instructions.len()];
        for (access, fresh) in self.accesses.iter().zip(&pass.fresh).filter(|(access, _)| !access.is_store) {
            let Some(seen) = seen.get_mut(access.instruction as usize) else { continue };
            seen.loads += 1;
            for (scope, count) in seen.redundant.iter_mut().enumerate() {
                *count += u64::from(fresh >> scope & 1 == 0);
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

impl Pass {
    /// Walks on for a while; whether pieces are left.
    fn walk(&mut self, accesses: &[Access]) -> bool {
        for _ in 0..PIECES_AT_A_TIME {
            let Some(&(piece, place)) = self.pieces.get(self.next) else { return false };
            if self
                .next
                .checked_sub(1)
                .and_then(|before| self.pieces.get(before))
                .is_none_or(|b| b.0 != piece)
            {
                self.forget();
            }
            self.next += 1;
            let Some(access) = accesses.get(place as usize) else { continue };
            if access.is_store {
                self.forget();
            } else {
                let fresh = self.load(access);
                if let Some(known) = self.fresh.get_mut(place as usize) {
                    *known |= fresh;
                }
            }
        }
        true
    }

    fn forget(&mut self) {
        if self.loaded.capacity() > 1 << 12 {
            self.loaded = HashMap::new();
        }
        self.loaded.clear();
        self.in_grid = None;
    }

    /// Loads the piece at hand; one bit for each scope that had not loaded it before.
    fn load(&mut self, access: &Access) -> u8 {
        let Access { sequence, block, .. } = *access;
        let warp = 1 + u32::from(access.warp);
        let thread = warp << 5 | u32::from(access.lane) | 1 << 31;
        let mut fresh = 0;
        for (scope, key) in [thread, warp, 0].into_iter().enumerate() {
            let first = *self.loaded.entry((block, key)).or_insert(sequence);
            fresh |= u8::from(first >= sequence) << scope;
        }
        let first = *self.in_grid.get_or_insert(sequence);
        fresh | u8::from(first >= sequence) << 3
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
                // A prefetch gives nobody a value.
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
            let kept = request.addresses().filter(|(_, address)| sampler.keeps(address / SECTOR_BYTES));
            self.accesses.extend(kept.map(|(lane, address)| Access {
                sequence: places.sequence[row],
                address,
                block: places.block[row],
                instruction: u32::try_from(self.instructions.len() - 1).unwrap_or(u32::MAX),
                warp: places.warp[row],
                lane: u8::try_from(lane).unwrap_or(u8::MAX),
                bytes: u8::try_from(request.access_bytes).unwrap_or(u8::MAX),
                is_store,
            }));
            while self.accesses.len() > self.most_accesses {
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
        if pass.walk(&self.accesses) {
            self.running = Some(pass);
        } else {
            self.push(&pass);
            self.accesses.clear();
            self.instructions.clear();
            self.sampler = Sampler::default();
        }
        true
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
