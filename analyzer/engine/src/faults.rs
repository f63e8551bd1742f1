//! Accesses outside of the memory that they may access: the rows of `address_fault`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::fault_facts::{AddressDefect, FaultSearch, FaultShare};
use arrow::array::RecordBatch;
use datafusion::error::Result;
use stallmap_schema::id::{Address, AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analyses::AnalysisScan;
use super::analysis::{AccessAnalysis, ReadyRows};
use super::defects::CodeFacts;
use super::derived::OpenWord;
use super::resolve::{AddressResolver, AddressTarget};
use stallmap_tables::defects::AddressFault;
use stallmap_tables::words::InternedWords;

/// Function, pc, kind, space, defect, target: the wrong accesses of an instruction that are counted together.
type FaultKey = (u64, u32, u8, u8, &'static str, (u8, u32));

#[derive(Clone, Copy)]
struct FaultSum {
    target: AddressTarget,
    lane_count: u64,
    request_count: u64,
    /// The lowest byte, its block and warp, and the lanes.
    address: u64,
    place: (u64, u16),
    lane_mask: u32,
}

/// Collects the wrong accesses of launches.
pub(super) struct FaultAnalysis {
    search: FaultSearch,
    code: Arc<CodeFacts>,
    kernel_id: u64,
    kinds: InternedWords,
    spaces: InternedWords,
    shares: Vec<FaultShare>,
    sums: BTreeMap<FaultKey, FaultSum>,
    ready: ReadyRows<AddressFault>,
}

impl FaultAnalysis {
    pub(super) fn new(resolver: AddressResolver, asked: &AnalysisScan) -> Self {
        Self {
            search: FaultSearch::new(resolver, Arc::clone(&asked.faults)),
            code: Arc::clone(&asked.code),
            kernel_id: 0,
            kinds: InternedWords::default(),
            spaces: InternedWords::default(),
            shares: Vec::new(),
            sums: BTreeMap::new(),
            ready: ReadyRows::default(),
        }
    }
}

/// A target as a key.
fn place(target: AddressTarget) -> (u8, u32) {
    let place = match target {
        AddressTarget::Tensor(place) | AddressTarget::Storage(place) | AddressTarget::Allocation(place) => {
            place
        }
        AddressTarget::Unknown | AddressTarget::NotGlobal => 0,
    };
    (target.word(), place)
}

impl AccessAnalysis for FaultAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
        let instructions = InstructionColumns::new(batch)?;
        let kinds = self.kinds.codes(instructions.kind.words.iter().copied());
        let spaces = self.spaces.codes(instructions.space.words.iter().copied());
        let mut shares = std::mem::take(&mut self.shares);
        for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
            self.kernel_id = accesses.kernel_id[row];
            self.search.move_to(self.kernel_id);
            let instruction = (instructions.function_id[row], instructions.pc[row]);
            let pointers = self.code.pointers.get(&instruction).map(Vec::as_slice).unwrap_or_default();
            self.search.find(&accesses.request(row), pointers, &mut shares);
            for share in &shares {
                let code = |codes: &[u8], code: usize| codes.get(code).copied().unwrap_or_default();
                let key = (
                    instruction.0,
                    instruction.1,
                    code(&kinds, instructions.kind.code(row)),
                    code(&spaces, instructions.space.code(row)),
                    AddressDefect::text(share.defect),
                    place(share.target),
                );
                let new = FaultSum {
                    target: share.target,
                    lane_count: 0,
                    request_count: 0,
                    address: share.address,
                    place: (warps.block[row], warps.warp[row]),
                    lane_mask: share.lane_mask,
                };
                let sum = self.sums.entry(key).or_insert(new);
                let (lane_count, request_count) =
                    (sum.lane_count + u64::from(share.lane_mask.count_ones()), sum.request_count + 1);
                if share.address < sum.address {
                    *sum = new;
                }
                (sum.lane_count, sum.request_count) = (lane_count, request_count);
            }
        }
        self.shares = shares;
        Ok(())
    }

    fn end_launch(&mut self) {
        for ((function_id, pc, kind, space, defect, _), sum) in std::mem::take(&mut self.sums) {
            let (storage, tensor, allocation) =
                AddressResolver::ids(self.search.resolver().index(), sum.target);
            self.ready.push(AddressFault {
                kernel_id: KernelId(self.kernel_id),
                function_id: FunctionId(function_id),
                pc: Pc(pc),
                kind: self.kinds.word(kind),
                space: self.spaces.word(space),
                defect: OpenWord(defect.into()),
                storage_id: storage.map(StorageId),
                tensor_id: tensor.map(TensorId),
                allocation_id: allocation.map(AllocationId),
                lane_count: sum.lane_count,
                request_count: sum.request_count,
                address: Address(sum.address),
                block: sum.place.0,
                warp: sum.place.1,
                lane_mask: sum.lane_mask,
            });
        }
    }

    fn bytes(&self) -> usize {
        self.sums.len() * size_of::<(FaultKey, FaultSum)>() * 2
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        self.ready.take(least)
    }
}
