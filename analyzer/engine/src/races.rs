//! Accesses of several blocks, or of several warps of a block, to the same bytes: `block_conflict`, `shared_conflict`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::memory::conflicts::{AccessOrigin, ConflictSearch, InstructionConflict};
use crate::memory::epochs::{AccessStep, BarrierSteps, OrderedRequest, RequestPhase};
use crate::memory::pieces::PieceUse;
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{Address, AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::word::AccessKind;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analysis::{AccessAnalysis, ReadyRows};
use super::defects::CodeFacts;
use super::derived::OpenWord;
use super::request::WarpRequest;
use super::resolve::AddressResolver;
use stallmap_tables::defects::{BlockConflict, SharedConflict};

/// Maximum of requests to shared memory in a launch. Those of later instructions are not judged.
const MAX_REQUESTS: usize = 1 << 22;
/// Maximum of bits for the barriers of a block in the number of a group.
const EPOCH_BITS: u32 = 24;
/// Maximum of phases in which an asynchronous copy is compared.
const MAX_COPY_PHASES: u32 = 8;
/// Blocks whose lanes are compared within their warps: the first ones, all run the same code.
const LANE_BLOCKS: u64 = 8;

/// Steps between instructions, by function and pc. From none: from the kernel's start.
pub(super) type CodeBarriers = HashMap<u64, HashMap<(Option<u32>, u32), AccessStep>>;

/// The accesses that can conflict.
pub(super) enum RaceScope {
    /// Accesses of blocks to device memory.
    Blocks(Box<AddressResolver>),
    /// Accesses of warps to shared memory.
    Warps(Arc<CodeFacts>),
}

/// Collects the accesses of a launch, and compares them.
pub(super) struct RaceAnalysis {
    scope: RaceScope,
    kernel_id: u64,
    search: ConflictSearch,
    /// Accesses of single lanes of a warp.
    lanes: ConflictSearch,
    /// Function, pc and use of each instruction, in the order of rows.
    instructions: Vec<(u64, u32, PieceUse)>,
    requests: Vec<OrderedRequest>,
    has_writes: bool,
    blocks: ReadyRows<BlockConflict>,
    warps: ReadyRows<SharedConflict>,
}

impl RaceAnalysis {
    pub(super) fn new(scope: RaceScope, room_bytes: usize) -> Self {
        Self {
            scope,
            kernel_id: 0,
            search: ConflictSearch::new(room_bytes / 2),
            lanes: ConflictSearch::new(room_bytes / 2),
            instructions: Vec::new(),
            requests: Vec::new(),
            has_writes: false,
            blocks: ReadyRows::default(),
            warps: ReadyRows::default(),
        }
    }

    fn is_judged(&self, function_id: u64) -> bool {
        match &self.scope {
            RaceScope::Blocks(_) => true,
            RaceScope::Warps(code) => {
                code.barriers.contains_key(&function_id) && self.requests.len() < MAX_REQUESTS
            }
        }
    }

    fn push(&mut self, request: &WarpRequest<'_>, ordered: OrderedRequest) {
        let number = ordered.request;
        let (group, party) = match self.scope {
            RaceScope::Blocks(_) => (0, ordered.block),
            RaceScope::Warps(_) => (ordered.block, ordered.warp.into()),
        };
        let origin = AccessOrigin { group, party, instruction: ordered.instruction, request: number };
        match request.adjacent_bytes() {
            Some(bytes) => self.search.push(origin, request.address, bytes),
            None if request.is_broadcast() => {
                self.search.push(origin, request.address, request.access_bytes);
            }
            None => request
                .addresses()
                .for_each(|(_, address)| self.search.push(origin, address, request.access_bytes)),
        }
        if matches!(self.scope, RaceScope::Warps(_)) && ordered.block < LANE_BLOCKS {
            for (lane, address) in request.addresses() {
                let origin = AccessOrigin { party: lane.into(), ..origin };
                self.lanes.push(origin, address, request.access_bytes);
            }
        }
        self.requests.push(ordered);
    }

    /// Puts the accesses of each phase between two barriers, or of a warp between two meetings of its lanes, into a
    /// group of its own.
    fn divide(&mut self) -> Vec<Option<RequestPhase>> {
        let RaceScope::Warps(code) = &self.scope else { return Vec::new() };
        let mut steps = HashMap::new();
        let numbers: HashMap<(u64, u32), u32> = (0..)
            .zip(&self.instructions)
            .map(|(number, (function_id, pc, _))| ((*function_id, *pc), number))
            .collect();
        let function_id = self.instructions.first().map(|(function_id, ..)| *function_id);
        // A kernel whose accesses are in several functions has calls, and no rows of barriers.
        for ((from, to), step) in function_id.and_then(|id| code.barriers.get(&id)).into_iter().flatten() {
            let number = |pc: u32| numbers.get(&(function_id?, pc)).copied();
            if let (Some(to), Some(from)) =
                (number(*to), from.map_or(Some(None), |from| number(from).map(Some)))
            {
                steps.insert((from, to), *step);
            }
        }
        let phases = BarrierSteps { steps }.phases(&mut self.requests);
        self.requests.sort_unstable_by_key(|request| request.request);
        let requests = &self.requests;
        let phase = |number: u32| Some((requests.get(number as usize)?, (*phases.get(number as usize)?)?));
        self.search.regroup(|number| {
            let Some((request, phase)) = phase(number).filter(|(_, phase)| phase.epoch >> EPOCH_BITS == 0)
            else {
                return 0..0;
            };
            let last = phase.last_epoch.min(phase.epoch.saturating_add(MAX_COPY_PHASES));
            let first = request.block << EPOCH_BITS | u64::from(phase.epoch);
            first..first + 1 + u64::from(last.saturating_sub(phase.epoch))
        });
        self.lanes.regroup(|number| {
            let Some((request, phase)) = phase(number) else { return 0..0 };
            let group = request.block << 48 | u64::from(request.warp) << 32 | u64::from(phase.warp_epoch);
            group..group + 1
        });
        phases
    }

    fn add_block_row(&mut self, conflict: &InstructionConflict, sector_rate: f64) {
        let Some([(function_id, pc, kind), (other_function_id, other_pc, other_kind)]) = self.pair(conflict)
        else {
            return;
        };
        let [one, other] = conflict.requests.map(|request| self.requests.get(request as usize).copied());
        let (RaceScope::Blocks(resolver), Some(one), Some(other)) = (&mut self.scope, one, other) else {
            return;
        };
        resolver.move_to(self.kernel_id);
        let target = resolver.target(conflict.address);
        let (storage, tensor, allocation) = AddressResolver::ids(resolver.index(), target);
        self.blocks.push(BlockConflict {
            kernel_id: KernelId(self.kernel_id),
            function_id: FunctionId(function_id),
            pc: Pc(pc),
            kind: word(kind),
            other_function_id: FunctionId(other_function_id),
            other_pc: Pc(other_pc),
            other_kind: word(other_kind),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            byte_count: conflict.bytes,
            address: Address(conflict.address),
            block: one.block,
            warp: one.warp,
            lane_mask: one.lane_mask,
            other_block: other.block,
            other_warp: other.warp,
            other_lane_mask: other.lane_mask,
            sector_rate,
        });
    }

    fn add_warp_row(
        &mut self,
        conflict: &InstructionConflict,
        phases: &[Option<RequestPhase>],
        sector_rate: f64,
    ) {
        let Some([(function_id, pc, kind), (other_function_id, other_pc, other_kind)]) = self.pair(conflict)
        else {
            return;
        };
        let [one, other] = conflict.requests.map(|request| self.requests.get(request as usize).copied());
        let (Some(one), Some(other)) = (one, other) else { return };
        // An asynchronous copy may have begun before: the other access is in the phase.
        let epochs = [one, other]
            .map(|request| phases.get(request.request as usize).copied().flatten().unwrap_or_default().epoch);
        let barrier_count = epochs[0].max(epochs[1]);
        self.warps.push(SharedConflict {
            kernel_id: KernelId(self.kernel_id),
            function_id: FunctionId(function_id),
            pc: Pc(pc),
            kind: word(kind),
            other_function_id: FunctionId(other_function_id),
            other_pc: Pc(other_pc),
            other_kind: word(other_kind),
            byte_count: conflict.bytes,
            address: Address(conflict.address),
            block: one.block,
            warp: one.warp,
            lane_mask: one.lane_mask,
            other_warp: other.warp,
            other_lane_mask: other.lane_mask,
            barrier_count,
            sector_rate,
        });
    }

    fn pair(&self, conflict: &InstructionConflict) -> Option<[(u64, u32, PieceUse); 2]> {
        let [one, other] =
            conflict.instructions.map(|number| self.instructions.get(number as usize).copied());
        Some([one?, other?])
    }
}

fn word(kind: PieceUse) -> OpenWord {
    let kind = match kind {
        PieceUse::Read => AccessKind::Read,
        PieceUse::Write => AccessKind::Write,
        PieceUse::Both => AccessKind::Atomic,
    };
    OpenWord(kind.word().into())
}

impl AccessAnalysis for RaceAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warp_columns) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let columns = InstructionColumns::new(batch)?;
        let kinds: Vec<_> = columns.kind.words.iter().map(|word| AccessKind::from_word(word)).collect();
        let is_shared = matches!(self.scope, RaceScope::Warps(_));
        for row in 0..batch.num_rows() {
            let is_wanted = if is_shared { accesses.is_shared(row) } else { accesses.is_global(row) };
            let function_id = columns.function_id[row];
            if !is_wanted || !self.is_judged(function_id) {
                continue;
            }
            let kind = match kinds.get(columns.kind.code(row)).copied().flatten() {
                Some(AccessKind::Read) => PieceUse::Read,
                Some(AccessKind::Write) => PieceUse::Write,
                Some(AccessKind::Atomic) => PieceUse::Both,
                Some(AccessKind::Prefetch) | None => continue,
            };
            self.kernel_id = accesses.kernel_id[row];
            self.has_writes |= kind != PieceUse::Read;
            let instruction = (function_id, columns.pc[row], kind);
            if self.instructions.last() != Some(&instruction) {
                self.instructions.push(instruction);
            }
            let request = accesses.request(row);
            let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
            let ordered = OrderedRequest {
                block: warp_columns.block[row],
                warp: warp_columns.warp[row],
                sequence: warp_columns.sequence[row],
                instruction: number(self.instructions.len() - 1),
                lane_mask: request.lane_mask,
                request: number(self.requests.len()),
            };
            self.push(&request, ordered);
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        if self.has_writes {
            let phases = self.divide();
            let uses: Vec<PieceUse> = self.instructions.iter().map(|(.., kind)| *kind).collect();
            let rate = self.search.rate();
            for conflict in self.search.take(&uses) {
                match self.scope {
                    RaceScope::Blocks(_) => self.add_block_row(&conflict, rate),
                    RaceScope::Warps(_) => self.add_warp_row(&conflict, &phases, rate),
                }
            }
            // Lanes of one request may write one value.
            let is_pair =
                |conflict: &InstructionConflict| conflict.instructions[0] != conflict.instructions[1];
            let rate = self.lanes.rate();
            for conflict in self.lanes.take(&uses).iter().filter(|conflict| is_pair(conflict)) {
                self.add_warp_row(conflict, &phases, rate);
            }
        } else {
            self.search.take(&[]);
            self.lanes.take(&[]);
        }
        self.instructions.clear();
        self.requests.clear();
        self.has_writes = false;
    }

    fn bytes(&self) -> usize {
        self.search.bytes() + self.lanes.bytes() + self.requests.capacity() * size_of::<OrderedRequest>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        match self.blocks.take(least)? {
            Some(rows) => Ok(Some(rows)),
            None => self.warps.take(least),
        }
    }
}
