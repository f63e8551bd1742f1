//! Accesses of a capture's launches to tensors, storages and allocations, and the order of reads and writes.

use std::sync::Arc;

use crate::memory::numbers::position;
use crate::memory::patterns::LaneDistances;
use crate::memory::pieces::{AccessedBytes, MemoryObject, MemoryState, PIECE_BYTES, PieceUse};
use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{AllocationId, StorageId, TensorId};
use stallmap_schema::word::AccessKind;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analyses::AnalysisScan;
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::{OpenWord, TargetTouch};
use super::distinct::{DistinctItems, crowd_of};
use super::index::TensorIndex;
use super::request::WarpRequest;
use super::resolve::{AddressResolver, AddressTarget, LaneShare};
use super::view::TensorView;

/// Maximum of bytes that a lane accesses.
const MAX_BYTES: u64 = 64;

/// Aggregates touches by target, and tracks the accesses to each piece of memory.
pub(super) struct TargetTouches {
    resolver: AddressResolver,
    asked: Arc<AnalysisScan>,
    kernel_id: Option<u64>,
    memory: MemoryState,
    /// Per run, the processed memcpys.
    copied: HashMap<usize, usize>,
    patterns: LaneDistances,
    /// By target, in order of appearance.
    sums: Vec<(AddressTarget, TouchSum)>,
    places: HashMap<(u8, u32), usize>,
    crowds: DistinctItems,
    crowd_rate: f64,
    shares: Vec<LaneShare>,
    /// Sectors of the current share.
    sectors: u64,
    /// Remaining rows.
    left: Option<usize>,
    ready: ReadyRows<TargetTouch>,
}

/// Accesses to one target.
#[derive(Debug, Default)]
struct TouchSum {
    reads: u64,
    writes: u64,
    atomics: u64,
    requests: u64,
    sectors: u64,
    blocks: u64,
    warps: u64,
    launches: u64,
    last_launch: Option<u64>,
    last_warp: Option<(u64, u16)>,
}

impl TargetTouches {
    /// With some bytes of memory.
    pub(super) fn new(resolver: AddressResolver, asked: Arc<AnalysisScan>, room_bytes: usize) -> Self {
        Self {
            memory: MemoryState::new(piece_bytes(resolver.index()), room_bytes),
            copied: HashMap::new(),
            patterns: LaneDistances::default(),
            resolver,
            asked,
            kernel_id: None,
            sums: Vec::new(),
            places: HashMap::new(),
            crowds: DistinctItems::new(room_bytes),
            crowd_rate: 1.0,
            shares: Vec::new(),
            sectors: 0,
            left: None,
            ready: ReadyRows::default(),
        }
    }

    /// Moves to a launch: memcpys and memsets before it come first.
    fn begin(&mut self, kernel_id: u64) {
        self.kernel_id = Some(kernel_id);
        if let Some(launch) = self.resolver.index().launches.get(&kernel_id) {
            let (run, ordinal) = (launch.run, launch.ordinal);
            self.copy(run, ordinal);
        }
        self.resolver.move_to(kernel_id);
    }

    /// Applies memcpys and memsets before a launch.
    fn copy(&mut self, run: usize, ordinal: u64) {
        let asked = Arc::clone(&self.asked);
        for copy in asked.copies.before(run, ordinal, &mut self.copied) {
            if let Some(object) = copy.owner {
                self.memory.copy(object, copy.address, copy.bytes, copy.is_write);
            }
        }
    }

    /// Adds a request's lanes of one target.
    fn add_share(
        &mut self,
        request: &WarpRequest<'_>,
        share: LaneShare,
        kind: PieceUse,
        place: (u64, u16),
        sequence: u64,
    ) {
        let object = object(self.resolver.index(), share.target);
        let is_whole = share.lane_mask == request.lane_mask;
        // No instruction accesses more bytes.
        let bytes = request.access_bytes.clamp(1, MAX_BYTES);
        if let Some(object) = object {
            let mut touch = |address, bytes| self.memory.touch(object, address, bytes, kind, sequence);
            match request.adjacent_bytes().filter(|_| is_whole && bytes == request.access_bytes) {
                Some(bytes) => touch(request.address, bytes),
                None if request.is_broadcast() => touch(request.address, bytes),
                None => lanes(request, share).for_each(|(_, address)| touch(address, bytes)),
            }
        }
        // An access of unknown width touches its first byte.
        let wide = WarpRequest { access_bytes: request.access_bytes.max(1), ..*request };
        let touched = if is_whole { self.patterns.touched(&wide) } else { wide.touched_by(share.lane_mask) };
        self.sectors = touched.sectors;
        let is_wanted = match share.target {
            AddressTarget::Tensor(view) => self.asked.wants(view),
            _ => self.asked.wants_all(),
        };
        if is_wanted && !matches!(share.target, AddressTarget::Storage(_)) {
            self.count(share.target, share, kind, place);
        }
        // A storage's row includes the touches of all its tensors.
        if let (Some(MemoryObject::Storage(storage)), true) = (object, self.asked.wants_all()) {
            self.count(AddressTarget::Storage(storage), share, kind, place);
        }
    }

    fn count(&mut self, target: AddressTarget, share: LaneShare, kind: PieceUse, (block, warp): (u64, u16)) {
        let next = self.sums.len();
        let place = *self.places.entry(key(target)).or_insert(next);
        if place == next {
            self.sums.push((target, TouchSum::default()));
        }
        let Some((_, sum)) = self.sums.get_mut(place) else { return };
        let lanes = u64::from(share.lane_mask.count_ones());
        *match kind {
            PieceUse::Read => &mut sum.reads,
            PieceUse::Write => &mut sum.writes,
            PieceUse::Both => &mut sum.atomics,
        } += lanes;
        sum.requests += 1;
        sum.sectors += self.sectors;
        if sum.last_launch != self.kernel_id {
            sum.last_launch = self.kernel_id;
            sum.launches += 1;
            sum.last_warp = None;
        }
        if sum.last_warp != Some((block, warp)) {
            sum.last_warp = Some((block, warp));
            self.crowds.add(position(place), block, warp);
        }
    }

    /// Adds the wanted tensors that no lane belongs to: other views of their storage may have touched them.
    fn add_others(&mut self) {
        let count = u32::try_from(self.resolver.index().views.len()).unwrap_or(u32::MAX);
        for target in (0..count).filter(|view| self.asked.wants(*view)).map(AddressTarget::Tensor) {
            if !self.places.contains_key(&key(target)) {
                self.sums.push((target, TouchSum::default()));
            }
        }
    }

    fn push(&mut self, place: usize) {
        let Some((target, sum)) = self.sums.get(place) else { return };
        let index = self.resolver.index();
        let (storage, tensor, allocation) = AddressResolver::ids(index, *target);
        let (size_bytes, view) = extent(index, *target);
        let found = object(index, *target).map(|object| self.memory.found(object, view));
        if sum.requests == 0 && found.as_ref().is_none_or(|found| found.touched == 0) {
            return;
        }
        let of =
            |count: fn(&AccessedBytes) -> u64| found.as_ref().map(|found| self.memory.scale(count(found)));
        self.ready.push(TargetTouch {
            target: OpenWord(target.text().into()),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            size_bytes,
            launches: sum.launches,
            reads: sum.reads,
            writes: sum.writes,
            atomics: sum.atomics,
            requests: sum.requests,
            sectors: sum.sectors,
            blocks: sum.blocks,
            warps: sum.warps,
            block_rate: self.crowd_rate,
            touched_bytes: of(|found| found.touched),
            read_bytes: of(|found| found.read),
            written_bytes: of(|found| found.written),
            read_before_written_bytes: of(|found| found.read_before_written),
            uninitialized_bytes: of(|found| found.uninitialized),
            written_never_read_bytes: of(|found| found.unread),
            unused_bytes: of(|found| found.unused),
            byte_rate: self.memory.rate(),
        });
    }
}

/// The range of memory with a lifetime that a target lies in.
fn object(index: &TensorIndex, target: AddressTarget) -> Option<MemoryObject> {
    match target {
        AddressTarget::Tensor(view) => {
            index.views.get(view as usize).map(|view| MemoryObject::Storage(view.storage))
        }
        AddressTarget::Storage(storage) => Some(MemoryObject::Storage(storage)),
        AddressTarget::Allocation(allocation) => Some(MemoryObject::Allocation(allocation)),
        AddressTarget::Unknown | AddressTarget::NotGlobal => None,
    }
}

/// The bytes of a piece of each storage: a power of two that divides its elements.
fn piece_bytes(index: &TensorIndex) -> Vec<u64> {
    let mut pieces = vec![PIECE_BYTES; index.storage_ids.len()];
    for view in &index.views {
        if let Some(bytes) = pieces.get_mut(view.storage as usize) {
            *bytes = (*bytes).min(1 << view.view.element_bytes().max(1).trailing_zeros().min(2));
        }
    }
    pieces
}

/// The lanes of a share with their addresses.
fn lanes<'a>(request: &'a WarpRequest<'_>, share: LaneShare) -> impl Iterator<Item = (u32, u64)> + 'a {
    request.addresses().filter(move |(lane, _)| share.lane_mask >> lane & 1 == 1)
}

/// A target as a key.
fn key(target: AddressTarget) -> (u8, u32) {
    let place = match target {
        AddressTarget::Tensor(place) | AddressTarget::Storage(place) | AddressTarget::Allocation(place) => {
            place
        }
        AddressTarget::Unknown | AddressTarget::NotGlobal => 0,
    };
    (target.word(), place)
}

/// The bytes of a target, and the view that they are of.
fn extent(index: &TensorIndex, target: AddressTarget) -> (Option<u64>, Option<&TensorView>) {
    match target {
        AddressTarget::Tensor(place) => {
            let view = index.views.get(place as usize).map(|indexed| &indexed.view);
            (view.map(|view| view.bytes), view)
        }
        AddressTarget::Storage(place) => {
            let lives = index.runs.iter().find_map(|run| {
                let life = run.storage_rows.iter().position(|&row| row == place)?;
                Some(run.storages.get(u32::try_from(life).ok()?))
            });
            (lives.map(|life| life.high - life.low), None)
        }
        AddressTarget::Allocation(place) => {
            let lives = index.runs.iter().find_map(|run| {
                let life = run.allocation_rows.iter().position(|&row| row == place)?;
                Some(run.allocations.get(u32::try_from(life).ok()?))
            });
            (lives.map(|life| life.high - life.low), None)
        }
        AddressTarget::Unknown | AddressTarget::NotGlobal => (None, None),
    }
}

impl AccessAnalysis for TargetTouches {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warp_columns) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let instructions = InstructionColumns::new(batch)?;
        let kinds: Vec<_> = instructions.kind.words.iter().map(|word| AccessKind::from_word(word)).collect();
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            let kind = match kinds.get(instructions.kind.code(row)).copied().flatten() {
                Some(AccessKind::Read) => PieceUse::Read,
                Some(AccessKind::Write) => PieceUse::Write,
                Some(AccessKind::Atomic) => PieceUse::Both,
                Some(AccessKind::Prefetch) | None => continue,
            };
            if self.kernel_id != Some(accesses.kernel_id[row]) {
                self.begin(accesses.kernel_id[row]);
            }
            let request = accesses.request(row);
            if !self.asked.wants_bytes(request.address, request.span_bytes) {
                continue;
            }
            let mut shares = std::mem::take(&mut self.shares);
            self.resolver.resolve(&request, &mut shares);
            for &share in &shares {
                let place = (warp_columns.block[row], warp_columns.warp[row]);
                self.add_share(&request, share, kind, place, warp_columns.sequence[row]);
            }
            self.shares = shares;
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        self.memory.end_launch();
        let (crowds, rate) = self.crowds.count();
        self.crowd_rate = self.crowd_rate.min(rate);
        for (place, (_, sum)) in self.sums.iter_mut().enumerate() {
            if let Some(crowd) = crowd_of(&crowds, position(place)) {
                sum.blocks += crowd.blocks;
                sum.warps += crowd.warps;
            }
        }
    }

    fn bytes(&self) -> usize {
        self.memory.bytes()
            + self.crowds.bytes()
            + self.sums.capacity() * size_of::<(AddressTarget, TouchSum)>()
    }

    fn end(&mut self) {
        // Copies after the last launch.
        let asked = Arc::clone(&self.asked);
        asked.copies.runs().for_each(|run| self.copy(run, u64::MAX));
        self.memory.end();
        self.add_others();
        self.left = Some(0);
    }

    fn work(&mut self) -> bool {
        let Some(place) = self.left else { return false };
        self.push(place);
        self.left = (place + 1 < self.sums.len()).then_some(place + 1);
        self.left.is_some()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
