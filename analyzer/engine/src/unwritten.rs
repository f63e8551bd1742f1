//! Reads of what nothing wrote: the rows of `unwritten_read`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::memory::pieces::MemoryObject;
use crate::memory::unwritten::{UnwrittenAccess, WrittenMemory};
use arrow::array::RecordBatch;
use datafusion::common::HashMap;
use datafusion::error::Result;
use stallmap_schema::id::{Address, AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::word::AccessKind;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analyses::AnalysisScan;
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::OpenWord;
use super::request::WarpRequest;
use super::resolve::{AddressResolver, AddressTarget};
use stallmap_tables::defects::UnwrittenRead;

/// A block without bytes.
const NOWHERE: (u64, u64, Option<MemoryObject>) = (1, 0, None);

/// A warp request of the current launch that may read bytes that nothing wrote.
#[derive(Clone, Copy)]
struct WaitingRequest {
    function_id: u64,
    pc: u32,
    kind: AccessKind,
    place: (u64, u16),
    lane_mask: u32,
}

/// Follows the writes of a capture.
pub(super) struct UnwrittenAnalysis {
    resolver: AddressResolver,
    asked: Arc<AnalysisScan>,
    memory: WrittenMemory,
    copied: HashMap<usize, usize>,
    kernel_id: Option<u64>,
    /// Blocks of the launch that answered last.
    recent: [(u64, u64, Option<MemoryObject>); 4],
    oldest: usize,
    requests: Vec<WaitingRequest>,
    ready: ReadyRows<UnwrittenRead>,
}

impl UnwrittenAnalysis {
    pub(super) fn new(resolver: AddressResolver, asked: Arc<AnalysisScan>, room_bytes: usize) -> Self {
        Self {
            resolver,
            asked,
            memory: WrittenMemory::new(room_bytes),
            copied: HashMap::new(),
            kernel_id: None,
            recent: [NOWHERE; 4],
            oldest: 0,
            requests: Vec::new(),
            ready: ReadyRows::default(),
        }
    }

    /// Moves to a launch: copies and fills before it come first.
    fn begin(&mut self, kernel_id: u64) {
        self.kernel_id = Some(kernel_id);
        self.recent = [NOWHERE; 4];
        self.resolver.move_to(kernel_id);
        let Some(launch) = self.resolver.launch() else { return };
        let asked = Arc::clone(&self.asked);
        for copy in asked.copies.before(launch.run, launch.ordinal, &mut self.copied) {
            if let Some(object) = copy.owner.filter(|_| copy.is_write) {
                self.memory.fill(object, copy.address, copy.bytes);
            }
        }
    }

    /// The block of memory at an address, its first and last byte, and the object if every writer of it is known.
    fn block(&mut self, address: u64) -> (u64, u64, Option<MemoryObject>) {
        let recent = self.recent.iter().find(|(first, last, _)| *first <= address && address <= *last);
        if let Some(block) = recent {
            return *block;
        }
        let object = match self.resolver.target(address) {
            AddressTarget::Allocation(allocation) => Some(MemoryObject::Allocation(allocation)),
            target => self.resolver.storage(target).map(MemoryObject::Storage),
        };
        let known = object.filter(|object| self.asked.faults.knows_writers(*object));
        let Some((first, last)) = self.resolver.block(address) else { return (address, address, None) };
        self.oldest = (self.oldest + 1) % self.recent.len();
        self.recent[self.oldest] = (first, last, known);
        (first, last, known)
    }

    fn add_bytes(&mut self, address: u64, bytes: u64, kind: AccessKind, sequence: u64) {
        let (_, last, Some(object)) = self.block(address) else { return };
        // What lies behind the memory is another defect.
        let bytes = bytes.min((last - address).saturating_add(1));
        if kind != AccessKind::Write {
            let request = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
            self.memory.read(UnwrittenAccess { object, address, bytes, sequence, request });
        }
        if kind != AccessKind::Read {
            self.memory.write(object, address, bytes, sequence);
        }
    }

    fn add_request(&mut self, request: &WarpRequest<'_>, kind: AccessKind, sequence: u64) {
        let bytes = request.access_bytes;
        match request.adjacent_bytes() {
            Some(all) => self.add_bytes(request.address, all, kind, sequence),
            None if request.is_broadcast() => self.add_bytes(request.address, bytes, kind, sequence),
            None => {
                for (_, address) in request.addresses() {
                    self.add_bytes(address, bytes, kind, sequence);
                }
            }
        }
    }

    fn add_rows(&mut self, found: Vec<(UnwrittenAccess, u64, u64)>) {
        let mut rows = BTreeMap::<_, UnwrittenRead>::new();
        for (access, address, bytes) in found {
            let Some(request) = self.requests.get(access.request as usize).copied() else { continue };
            let target = self.resolver.target(address);
            let ids = AddressResolver::ids(self.resolver.index(), target);
            let (storage, tensor, allocation) = ids;
            let new = UnwrittenRead {
                kernel_id: KernelId(self.kernel_id.unwrap_or_default()),
                function_id: FunctionId(request.function_id),
                pc: Pc(request.pc),
                kind: OpenWord(request.kind.word().into()),
                storage_id: storage.map(StorageId),
                tensor_id: tensor.map(TensorId),
                allocation_id: allocation.map(AllocationId),
                request_count: 0,
                byte_count: 0,
                address: Address(address),
                block: request.place.0,
                warp: request.place.1,
                lane_mask: request.lane_mask,
            };
            // Lanes of one request come after each other only where it has one stretch: others count again.
            let row = rows.entry((request.function_id, request.pc, ids)).or_insert_with(|| new.clone());
            let (request_count, byte_count) = (row.request_count + 1, row.byte_count + bytes);
            if address < row.address.0 {
                *row = new;
            }
            (row.request_count, row.byte_count) = (request_count, byte_count);
        }
        for row in rows.into_values() {
            self.ready.push(row);
        }
    }
}

impl AccessAnalysis for UnwrittenAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let columns = InstructionColumns::new(batch)?;
        let kinds: Vec<_> = columns.kind.words.iter().map(|word| AccessKind::from_word(word)).collect();
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            let kind = match kinds.get(columns.kind.code(row)).copied().flatten() {
                Some(AccessKind::Prefetch) | None => continue,
                Some(kind) => kind,
            };
            if self.kernel_id != Some(accesses.kernel_id[row]) {
                self.begin(accesses.kernel_id[row]);
            }
            let request = accesses.request(row);
            let waiting = self.memory.waiting();
            self.add_request(&request, kind, warps.sequence[row]);
            if self.memory.waiting() > waiting {
                self.requests.push(WaitingRequest {
                    function_id: columns.function_id[row],
                    pc: columns.pc[row],
                    kind,
                    place: (warps.block[row], warps.warp[row]),
                    lane_mask: request.lane_mask,
                });
            }
        }
        Ok(())
    }

    fn end_launch(&mut self) {
        let found = self.memory.end_launch();
        self.add_rows(found);
        self.requests.clear();
    }

    fn bytes(&self) -> usize {
        self.memory.bytes() + self.requests.capacity() * size_of::<WaitingRequest>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
