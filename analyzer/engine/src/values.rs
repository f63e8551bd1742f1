//! Values that accesses of bundled launches read and write: the rows of `access_value`.
//!
//! A load has the value before the launch where no store comes before it, a store the value after the launch where none
//! comes after it. Only stores of the same warp have a known order.

use std::sync::Arc;

use arrow::array::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use stallmap_schema::id::{AllocationId, FunctionId, KernelId, Pc, StorageId, TensorId};
use stallmap_schema::word::AccessKind;
use stallmap_tables::values::AccessValue;

use super::access::{AccessBatch, InstructionColumns, WarpColumns};
use super::analyses::AnalysisScan;
use super::analysis::{AccessAnalysis, ReadyRows};
use super::derived::OpenWord;
use super::request::WarpRequest;
use super::resolve::{AddressResolver, LaneShare};

mod bundles;
mod elements;
mod stores;

pub(super) use bundles::BundledMemory;
use bundles::{MemoryGap, ValuedMemory};
use elements::ElementType;
use stores::{LaunchStores, StoreOrder};

/// Bytes of a page of a bundle.
const PAGE_BYTES: u64 = stallmap_schema::tables::replay::PAGE_BYTES as u64;

/// The next work on the accesses of a launch.
enum LaunchStage {
    /// They are collected.
    Open,
    /// The stores of this batch and those behind it are added.
    Stores(usize),
    /// Memory is read.
    Memory,
    /// The rows of this batch and those behind it are computed.
    Rows(usize),
}

/// A launch with its accesses.
struct ValuedLaunch {
    kernel_id: u64,
    batches: Vec<RecordBatch>,
    batch_bytes: usize,
    /// Bits of all addresses and sizes of stores.
    low_bits: u64,
    stage: LaunchStage,
    stores: LaunchStores,
    memory: ValuedMemory,
    /// True if instructions write that are not observed.
    has_unseen_stores: bool,
}

/// Finds the values of accesses, launch by launch.
pub(super) struct ValueAnalysis {
    resolver: AddressResolver,
    bundles: Arc<BundledMemory>,
    /// True if all values are asked for.
    keeps_values: bool,
    launch: Option<ValuedLaunch>,
    shares: Vec<LaneShare>,
    rows: ReadyRows<AccessValue>,
    failure: Option<DataFusionError>,
}

impl ValueAnalysis {
    pub(super) fn new(resolver: AddressResolver, asked: &AnalysisScan) -> Self {
        Self {
            resolver,
            bundles: Arc::clone(&asked.bundles),
            keeps_values: asked.has_any(&["element_values"]),
            launch: None,
            shares: Vec::new(),
            rows: ReadyRows::default(),
            failure: None,
        }
    }

    /// Computes the rows of the next batch. False if none is left.
    fn add_rows(&mut self) -> Result<bool> {
        let Some(launch) = &mut self.launch else { return Ok(false) };
        let LaunchStage::Rows(next) = launch.stage else { return Ok(false) };
        let Some(batch) = launch.batches.get(next).cloned() else {
            self.launch = None;
            return Ok(false);
        };
        launch.stage = LaunchStage::Rows(next + 1);
        self.resolver.move_to(launch.kernel_id);
        let mut shares = std::mem::take(&mut self.shares);
        for_each_access(&batch, |access| {
            self.resolver.resolve(&access.request, &mut shares);
            for share in &shares {
                let row = self.row(&access, *share);
                self.rows.extend(row);
            }
        })?;
        self.shares = shares;
        Ok(true)
    }

    fn row(&self, access: &ObservedAccess<'_>, share: LaneShare) -> Option<AccessValue> {
        let launch = self.launch.as_ref()?;
        let index = self.resolver.index();
        let (storage, tensor, allocation) = AddressResolver::ids(index, share.target);
        let known = tensor.and_then(|tensor| self.bundles.element_type(tensor));
        let mut found = FoundValues { keeps_values: self.keeps_values, ..FoundValues::default() };
        for (_, address) in access.request.addresses().filter(|(lane, _)| share.lane_mask >> lane & 1 == 1) {
            launch.add_lane(access, address, known.map(|(of, _)| *of), &mut found);
        }
        Some(AccessValue {
            kernel_id: KernelId(launch.kernel_id),
            function_id: FunctionId(access.function_id),
            pc: Pc(access.pc),
            block: access.warp.0,
            warp: access.warp.1,
            sequence: access.sequence,
            kind: OpenWord(access.kind.word().into()),
            storage_id: storage.map(StorageId),
            tensor_id: tensor.map(TensorId),
            allocation_id: allocation.map(AllocationId),
            dtype: known.map(|(_, name)| OpenWord(Arc::clone(name))),
            lane_mask: share.lane_mask,
            value_count: found.values,
            nan_count: found.nans,
            infinite_count: found.infinite,
            zero_count: found.zeros,
            min_value: found.min,
            max_value: found.max,
            first_value: found.first.and_then(|(_, value)| value),
            last_value: found.last.and_then(|(_, value)| value),
            element_values: found.all,
            unknown_count: found.unknown,
            unknown_reason: found.reason.map(|reason| OpenWord(reason.into())),
        })
    }
}

impl ValuedLaunch {
    fn new(kernel_id: u64) -> Self {
        Self {
            kernel_id,
            batches: Vec::new(),
            batch_bytes: 0,
            low_bits: 0,
            stage: LaunchStage::Open,
            stores: LaunchStores::with_low_bits(0),
            memory: ValuedMemory::default(),
            has_unseen_stores: false,
        }
    }

    fn hold(&mut self, batch: &RecordBatch) -> Result<()> {
        for_each_access(batch, |access| {
            if access.kind != AccessKind::Read {
                let addresses = access.request.addresses().fold(0, |all, (_, address)| all | address);
                self.low_bits |= addresses | access.request.access_bytes;
            }
        })?;
        self.batch_bytes += batch
            .columns()
            .iter()
            .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
            .sum::<usize>();
        self.batches.push(batch.clone());
        Ok(())
    }

    fn add_stores(&mut self, batch: &RecordBatch) -> Result<()> {
        for_each_access(batch, |access| {
            let bytes = access.request.access_bytes;
            for (_, address) in access.request.addresses() {
                match access.kind {
                    AccessKind::Write => self.stores.add((address, bytes), access.warp, access.sequence),
                    AccessKind::Atomic => self.stores.add_unordered(address, bytes),
                    AccessKind::Read | AccessKind::Prefetch => {}
                }
            }
        })
    }

    /// Does a part of the work before rows. True if more remains.
    fn work(&mut self, bundles: &BundledMemory) -> Result<bool> {
        match self.stage {
            LaunchStage::Open | LaunchStage::Rows(_) => return Ok(false),
            LaunchStage::Stores(next) => match self.batches.get(next).cloned() {
                Some(batch) => {
                    self.add_stores(&batch)?;
                    self.stage = LaunchStage::Stores(next + 1);
                }
                None => self.stage = LaunchStage::Memory,
            },
            LaunchStage::Memory => {
                self.memory = bundles.memory(self.kernel_id)?;
                self.has_unseen_stores =
                    self.memory.written().any(|address| !self.stores.touches_page(address));
                self.stage = LaunchStage::Rows(0);
            }
        }
        Ok(true)
    }

    /// Adds the elements that one lane accesses.
    fn add_lane(
        &self,
        access: &ObservedAccess<'_>,
        address: u64,
        of: Option<ElementType>,
        found: &mut FoundValues,
    ) {
        let Some(of) = of else { return found.miss(address, "no element type") };
        let (width, bytes) = (of.bytes(), access.request.access_bytes);
        if bytes < width {
            return found.miss(address, "part of an element");
        }
        for address in (0..bytes / width).map(|number| address.wrapping_add(number * width)) {
            match self.value(access, address, width) {
                Ok(bytes) => found.add(address, of.value(bytes)),
                Err(reason) => found.miss(address, reason),
            }
        }
    }

    /// The bytes of an element as an access sees it.
    fn value(&self, access: &ObservedAccess<'_>, address: u64, width: u64) -> Result<&[u8], &'static str> {
        let word = |gap| match gap {
            MemoryGap::NotBundled => "not in the bundle",
            MemoryGap::NotRecorded => "not recorded",
            MemoryGap::Redacted => "redacted",
        };
        let order = self.stores.order(address, width, access.warp, access.sequence);
        match (access.kind, order) {
            (AccessKind::Atomic, _) => Err("atomic"),
            (_, StoreOrder::Done) => self.memory.after(address, width).map_err(word),
            (AccessKind::Write, _) => Err("overwritten"),
            (_, StoreOrder::Mixed) => Err("written meanwhile"),
            (_, StoreOrder::Untouched) if self.has_unseen_stores && self.memory.is_written(address) => {
                Err("written unseen")
            }
            (_, StoreOrder::Untouched | StoreOrder::Later) => {
                self.memory.before(address, width).map_err(word)
            }
        }
    }
}

impl AccessAnalysis for ValueAnalysis {
    fn add(&mut self, batch: &RecordBatch) -> Result<()> {
        let Some(&kernel_id) = AccessBatch::new(batch)?.kernel_id.first() else { return Ok(()) };
        if !self.bundles.holds(kernel_id) {
            return Ok(());
        }
        if self.launch.as_ref().is_some_and(|launch| launch.kernel_id != kernel_id) {
            while self.add_rows()? {}
        }
        self.launch.get_or_insert_with(|| ValuedLaunch::new(kernel_id)).hold(batch)
    }

    fn end_launch(&mut self) {
        if let Some(launch) = self.launch.as_mut().filter(|launch| matches!(launch.stage, LaunchStage::Open))
        {
            launch.stores = LaunchStores::with_low_bits(launch.low_bits);
            launch.stage = LaunchStage::Stores(0);
        }
    }

    fn work(&mut self) -> bool {
        let Some(launch) = &mut self.launch else { return false };
        launch.work(&self.bundles).unwrap_or_else(|failure| {
            self.failure = Some(failure);
            self.launch = None;
            false
        })
    }

    fn bytes(&self) -> usize {
        let launch = self.launch.as_ref().map_or(0, |launch| {
            // Memory counts before it is read.
            let memory = match launch.stage {
                LaunchStage::Memory => self.bundles.memory_bytes(launch.kernel_id),
                _ => launch.memory.bytes(),
            };
            launch.batch_bytes + launch.stores.bytes() + memory
        });
        launch + self.rows.count() * size_of::<AccessValue>()
    }

    fn take(&mut self, least: usize) -> Result<Option<RecordBatch>> {
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        while self.rows.count() < least.max(1) && self.add_rows()? {}
        self.rows.take(least)
    }
}

/// A warp request to device memory.
struct ObservedAccess<'a> {
    function_id: u64,
    pc: u32,
    kind: AccessKind,
    warp: (u64, u16),
    sequence: u64,
    request: WarpRequest<'a>,
}

/// Gives each access of a batch to device memory that moves data.
fn for_each_access(batch: &RecordBatch, mut each: impl FnMut(ObservedAccess<'_>)) -> Result<()> {
    let (accesses, warps) = (AccessBatch::new(batch)?, WarpColumns::new(batch)?);
    let columns = InstructionColumns::new(batch)?;
    let kinds: Vec<_> = columns.kind.words.iter().map(|word| AccessKind::from_word(word)).collect();
    for row in (0..batch.num_rows()).filter(|&row| accesses.is_global(row)) {
        let kind = match kinds.get(columns.kind.code(row)).copied().flatten() {
            Some(AccessKind::Prefetch) | None => continue,
            Some(kind) => kind,
        };
        each(ObservedAccess {
            function_id: columns.function_id[row],
            pc: columns.pc[row],
            kind,
            warp: (warps.block[row], warps.warp[row]),
            sequence: warps.sequence[row],
            request: accesses.request(row),
        });
    }
    Ok(())
}

/// The values of one row.
#[derive(Default)]
struct FoundValues {
    keeps_values: bool,
    values: u32,
    nans: u32,
    infinite: u32,
    zeros: u32,
    unknown: u32,
    reason: Option<&'static str>,
    min: Option<f64>,
    max: Option<f64>,
    /// The element at the lowest address, and its value.
    first: Option<(u64, Option<f64>)>,
    last: Option<(u64, Option<f64>)>,
    all: Vec<f64>,
}

impl FoundValues {
    fn add(&mut self, address: u64, value: f64) {
        self.values += 1;
        self.nans += u32::from(value.is_nan());
        self.infinite += u32::from(value.is_infinite());
        self.zeros += u32::from(value == 0.0);
        if value.is_finite() {
            self.min = Some(self.min.map_or(value, |min| min.min(value)));
            self.max = Some(self.max.map_or(value, |max| max.max(value)));
        }
        if self.keeps_values {
            self.all.push(value);
        }
        self.reach(address, Some(value));
    }

    fn miss(&mut self, address: u64, reason: &'static str) {
        self.unknown += 1;
        self.reason = self.reason.or(Some(reason));
        self.reach(address, None);
    }

    fn reach(&mut self, address: u64, value: Option<f64>) {
        if self.first.is_none_or(|(first, _)| address < first) {
            self.first = Some((address, value));
        }
        if self.last.is_none_or(|(last, _)| address >= last) {
            self.last = Some((address, value));
        }
    }
}
