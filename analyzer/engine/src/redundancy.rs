//! Redundant loads: repeated by the same thread, warp, block or grid without a store in between.
//!
//! A load is redundant in a scope if an earlier request of the launch loaded every byte of it in that scope, and no
//! request of the launch has stored to the byte since. Atomics are stores. Lanes of one request load at the same time,
//! so none of them makes another redundant.

use std::sync::Arc;

use crate::memory::loads::{LaunchLoads, LoadRequest, LoadWalk, SCOPE_COUNT};
use crate::memory::numbers::position;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{FunctionId, KernelId, Pc};
use stallmap_schema::word::AccessKind;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analysis::{AccessAnalysis, DataStep, LaunchJob, LentSteps, ReadyRows, jobs, lent};
use super::derived::LoadRedundancy;
use super::sampler::HashSampler;

/// Maximum of lane accesses per launch. Beyond it, sectors are sampled.
const MAX_ACCESSES: usize = 1 << 23;
/// The part of it that a sample may have: time goes to launches that are exact.
const SAMPLE_ONE_IN: usize = 4;
/// Maximum of accesses, counted once per sector that they touch.
const MAX_TOUCHES: usize = 1 << 25;
/// Fewer lanes than this are not worth a thread.
const LANES_WORTH_A_THREAD: usize = 1 << 17;
/// Bytes of memory for a lane with its touches.
const LANE_BYTES: usize = 128;

/// One instruction, with all its loads, in the sample or not.
struct LoadInstruction {
    function_id: u64,
    pc: u32,
    loads: u64,
    load_bytes: u64,
}

/// Loads in the sample: their number, and the number of redundant ones in each scope.
#[derive(Clone, Copy, Default)]
struct SampledLoads {
    loads: u64,
    redundant: [u64; SCOPE_COUNT],
}

/// Collects the accesses of a launch, then looks at them sector by sector.
pub(super) struct RedundancyAnalysis {
    most_accesses: usize,
    kernel_id: u64,
    /// By the numbers in requests.
    instructions: Vec<LoadInstruction>,
    loads: Arc<LaunchLoads>,
    sampler: HashSampler,
    stage: RedundancyStage,
    walks: Vec<LentSteps<SectorWalk>>,
    /// Walks over launches before.
    spare: Vec<LoadWalk>,
    ready: ReadyRows<LoadRedundancy>,
}

/// The work on a launch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RedundancyStage {
    /// It is collected.
    Open,
    /// It has ended.
    Ended,
    /// Touches are read.
    Reading,
    /// Sectors are walked over.
    Walking,
}

/// The walk over a part of the sectors.
struct SectorWalk {
    walk: LoadWalk,
    is_read: bool,
}

impl DataStep<LaunchLoads> for SectorWalk {
    fn step(&mut self, loads: &LaunchLoads) -> bool {
        if !self.is_read {
            self.walk.read(loads);
            self.is_read = true;
            return false;
        }
        self.walk.step(loads)
    }

    fn bytes(&self) -> usize {
        self.walk.bytes()
    }
}

impl RedundancyAnalysis {
    /// With some bytes of memory for a launch.
    pub(super) fn new(room_bytes: usize) -> Self {
        Self::with_room(MAX_ACCESSES.min(room_bytes / LANE_BYTES))
    }

    /// With smaller limits, for tests.
    pub(super) fn with_room(most_accesses: usize) -> Self {
        Self {
            most_accesses,
            kernel_id: 0,
            instructions: Vec::new(),
            loads: Arc::default(),
            sampler: HashSampler::default(),
            stage: RedundancyStage::Open,
            walks: Vec::new(),
            spare: Vec::new(),
            ready: ReadyRows::default(),
        }
    }

    /// The instruction of rows. Rows of one instruction are adjacent.
    fn instruction(&mut self, function_id: u64, pc: u32) -> &mut LoadInstruction {
        let is_open =
            self.instructions.last().is_some_and(|one| (one.function_id, one.pc) == (function_id, pc));
        let open = if is_open { self.instructions.pop() } else { None };
        let open = open.unwrap_or(LoadInstruction { function_id, pc, loads: 0, load_bytes: 0 });
        self.instructions.push(open);
        let last = self.instructions.len() - 1;
        &mut self.instructions[last]
    }

    fn most_accesses(&self) -> usize {
        if self.sampler.keeps_all() { self.most_accesses } else { self.most_accesses / SAMPLE_ONE_IN }
    }

    /// Keeps half of the sectors.
    fn halve(&mut self) {
        self.sampler.halve();
        Arc::make_mut(&mut self.loads).keep(self.sampler);
    }

    /// Reads the touches of the launch, in parts.
    fn read(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        let count = most.min(self.loads.lane_count() / LANES_WORTH_A_THREAD).max(1) as u64;
        let spare = &mut self.spare;
        let mut walk = |part| spare.pop().unwrap_or_default().again(part, count);
        let parts = (0..count).map(|part| SectorWalk { walk: walk(part), is_read: false });
        self.walks = parts.map(|part| LentSteps::new(part.into())).collect();
        self.stage = RedundancyStage::Reading;
        jobs(&self.loads, &self.walks)
    }

    /// Ends a launch.
    fn finish(&mut self) {
        let walks = std::mem::take(&mut self.walks);
        let mut walks: Vec<LoadWalk> =
            walks.iter().map(|walk| std::mem::take(&mut lent(walk).walk)).collect();
        if let Some((first, others)) = walks.split_first_mut() {
            for other in others {
                first.join(other);
            }
            self.push(first);
        }
        // With little memory, a launch leaves none to the next.
        match Arc::get_mut(&mut self.loads).filter(|_| self.most_accesses == MAX_ACCESSES) {
            Some(loads) => {
                loads.clear();
                self.spare = walks.into_iter().map(|walk| walk.again(0, 1)).collect();
            }
            None => self.loads = Arc::default(),
        }
        self.instructions.clear();
        self.sampler = HashSampler::default();
        self.stage = RedundancyStage::Open;
    }

    fn push(&mut self, walk: &LoadWalk) {
        let mut seen = vec![SampledLoads::default(); self.instructions.len()];
        for (index, request) in
            self.loads.requests.iter().enumerate().filter(|(_, request)| !request.is_store)
        {
            let Some(seen) = seen.get_mut(request.instruction as usize) else { continue };
            seen.loads += request.lanes().len() as u64;
            if self.loads.is_alone(index) {
                continue;
            }
            let fresh = walk.fresh(request.lanes());
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
const REDUNDANT: [u64; 1 << SCOPE_COUNT] = {
    let mut counts = [0; 1 << SCOPE_COUNT];
    let mut fresh = 0;
    while fresh < counts.len() {
        let mut scope = 0;
        while scope < SCOPE_COUNT {
            counts[fresh] |= ((!fresh >> scope & 1) as u64) << (16 * scope);
            scope += 1;
        }
        fresh += 1;
    }
    counts
};

impl AccessAnalysis for RedundancyAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let instructions = InstructionColumns::new(batch)?;
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
            let number = position(self.instructions.len() - 1);
            let (block, warp) = (warps.block[row], warps.warp[row]);
            let bytes = u8::try_from(request.access_bytes).unwrap_or(u8::MAX);
            let load = LoadRequest::new(warps.sequence[row], block, warp, number, bytes, is_store);
            Arc::make_mut(&mut self.loads).push(load, &request, self.sampler);
            while self.loads.lane_count() > self.most_accesses() {
                self.halve();
            }
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        Arc::make_mut(&mut self.loads).sort();
        self.stage = RedundancyStage::Ended;
    }

    fn jobs(&mut self, most: usize) -> Vec<Box<dyn LaunchJob>> {
        match self.stage {
            RedundancyStage::Open => return Vec::new(),
            RedundancyStage::Ended => return self.read(most),
            RedundancyStage::Reading => {
                let touches = self.walks.iter().map(|walk| lent(walk).walk.touch_count()).sum::<usize>();
                if touches > MAX_TOUCHES {
                    self.walks.clear();
                    self.halve();
                    return self.read(most);
                }
                self.stage = RedundancyStage::Walking;
                return jobs(&self.loads, &self.walks);
            }
            RedundancyStage::Walking => self.finish(),
        }
        Vec::new()
    }

    fn bytes(&self) -> usize {
        let walks = self.walks.iter().map(|walk| lent(walk).bytes()).sum::<usize>();
        self.loads.bytes() + walks + self.spare.iter().map(LoadWalk::bytes).sum::<usize>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
