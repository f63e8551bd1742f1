//! Storages and their tensors: the lifetime of the allocator block that holds a tensor, earlier views of it.
//!
//! Pure: events in, rows out. Addresses of all devices share one space, so the address alone finds the block.

use std::collections::{BTreeMap, HashMap};

use stallmap_schema::capture::recording::{StorageEvent, TensorName};
use stallmap_schema::id::{Address, RunId, StorageId, TensorId};
use stallmap_schema::tables::tensor::Tensor;
use stallmap_schema::word::StorageOrigin;

use super::message::{SeenTensor, TensorRole};
use super::recorded::{EventMoment, RecordedRow};

/// Live storages, and their tensors.
#[derive(Debug, Default)]
pub struct LiveStorages {
    live: BTreeMap<u64, LiveStorage>,
    last_storage: u64,
    last_tensor: u64,
    /// True if the allocator reports its events: lifetimes are then exact.
    is_reported: bool,
}

#[derive(Debug)]
struct LiveStorage {
    storage_id: StorageId,
    size_bytes: u64,
    origin: StorageOrigin,
    tensors: HashMap<TensorViewKey, KnownTensor>,
}

/// Key of tensors of one storage: equal keys are one tensor.
#[derive(Debug, PartialEq, Eq, Hash)]
struct TensorViewKey {
    address: Address,
    dtype: &'static str,
    sizes: Vec<i64>,
    strides: Vec<i64>,
}

#[derive(Debug)]
struct KnownTensor {
    tensor_id: TensorId,
    label: Option<TensorLabel>,
}

type TensorLabel = (Option<&'static str>, &'static str);

/// The way in which a tensor was seen.
#[derive(Clone, Copy, Debug)]
pub enum TensorSight {
    /// As an argument, or by name.
    Argument,
    /// As a result of the op that began then. Fresh where no argument or earlier result lies in the same storage.
    Result {
        /// The op's beginning.
        begin: EventMoment,
        /// True if the op made the storage.
        is_fresh: bool,
    },
}

impl LiveStorages {
    /// Trusts the allocator's reports from now on.
    pub fn set_reported(&mut self) {
        self.is_reported = true;
    }

    /// The live storage that holds an address: its first address and bytes.
    pub fn block_at(&self, address: u64) -> Option<(u64, u64)> {
        let (&start, live) = self.live.range(..=address).next_back()?;
        (address - start < live.size_bytes).then_some((start, live.size_bytes))
    }

    /// The live storages, by address: first address and bytes.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> {
        self.live.iter().map(|(&start, live)| (start, live.size_bytes))
    }

    /// The allocator gave out a block.
    pub fn allocated(
        &mut self,
        device_id: i32,
        address: Address,
        size_bytes: u64,
        now: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) {
        self.end_overlapping(address, size_bytes, now, rows);
        self.begin(StorageOrigin::Allocator, device_id, (address, size_bytes), now, rows);
    }

    /// The allocator took a block back. A block that no tensor of the recording was seen in is not known, and not missed.
    pub fn freed(&mut self, address: Address, now: EventMoment, rows: &mut Vec<RecordedRow>) {
        if let Some(live) = self.live.remove(&address.0) {
            rows.push(end(&live, address, now));
        }
    }

    /// The identity of a tensor, recorded where it is new. `None` where it has no elements.
    pub fn tensor(
        &mut self,
        seen: &SeenTensor,
        base: Option<TensorId>,
        sight: TensorSight,
        now: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) -> Option<TensorId> {
        let known = self.known(seen, base, sight, now, rows)?;
        if seen.is_parameter && known.label.is_none() {
            label(known, (None, "parameter"), rows);
        }
        Some(known.tensor_id)
    }

    /// Records the role of a tensor in the model, if it is new.
    pub fn name(&mut self, name: &TensorRole, now: EventMoment, rows: &mut Vec<RecordedRow>) {
        if let Some(known) = self.known(&name.tensor, None, TensorSight::Argument, now, rows) {
            label(known, (name.name, name.role), rows);
        }
    }

    fn known(
        &mut self,
        seen: &SeenTensor,
        base: Option<TensorId>,
        sight: TensorSight,
        now: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) -> Option<&mut KnownTensor> {
        if seen.storage_address.0 == 0 || seen.sizes.contains(&0) {
            return None;
        }
        let start = self.storage_of(seen, sight).unwrap_or_else(|| self.observe(seen, sight, now, rows));
        let live = self.live.get_mut(&start)?;
        let view = TensorViewKey {
            address: seen.address,
            dtype: seen.dtype,
            sizes: seen.sizes.clone(),
            strides: seen.strides.clone(),
        };
        let (storage_id, last_tensor) = (live.storage_id, &mut self.last_tensor);
        Some(live.tensors.entry(view).or_insert_with(|| {
            *last_tensor += 1;
            let tensor_id = TensorId(*last_tensor);
            rows.push(RecordedRow::Tensor(row(tensor_id, storage_id, base, sight, seen)));
            KnownTensor { tensor_id, label: None }
        }))
    }

    /// Start of the live storage that holds a tensor.
    fn storage_of(&self, seen: &SeenTensor, sight: TensorSight) -> Option<u64> {
        let (address, bytes) = (seen.storage_address.0, seen.storage_bytes);
        let (&start, live) = self.live.range(..=address).next_back()?;
        let is_inside = address < start.saturating_add(live.size_bytes);
        let is_whole = address.saturating_add(bytes) <= start.saturating_add(live.size_bytes);
        let is_same = match live.origin {
            StorageOrigin::Allocator => is_inside,
            StorageOrigin::Tensor if self.is_reported => is_inside && is_whole,
            // Frees are not reported: another extent at the address is another storage, and so is one that an op made.
            StorageOrigin::Tensor => {
                let is_fresh = matches!(sight, TensorSight::Result { is_fresh: true, .. });
                !is_fresh && start == address && live.size_bytes == extent(seen)
            }
        };
        is_same.then_some(start)
    }

    /// Makes a storage from a tensor's facts about it.
    fn observe(
        &mut self,
        seen: &SeenTensor,
        sight: TensorSight,
        now: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) -> u64 {
        let start = match sight {
            TensorSight::Result { begin, .. } if !self.is_reported => begin,
            _ => now,
        };
        let is_reuse = self.end_overlapping(seen.storage_address, extent(seen), start, rows);
        let is_old = !is_reuse && (self.is_reported || matches!(sight, TensorSight::Argument));
        let start = if is_old { EventMoment { ordinal: 0, op_id: None, ..start } } else { start };
        let span = (seen.storage_address, extent(seen));
        self.begin(StorageOrigin::Tensor, seen.device_id, span, start, rows);
        seen.storage_address.0
    }

    fn begin(
        &mut self,
        origin: StorageOrigin,
        device_id: i32,
        (address, size_bytes): (Address, u64),
        at: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) {
        self.last_storage += 1;
        let storage_id = StorageId(self.last_storage);
        self.live.insert(address.0, LiveStorage { storage_id, size_bytes, origin, tensors: HashMap::new() });
        rows.push(RecordedRow::Storage(StorageEvent {
            storage_id,
            is_free: false,
            device_id,
            address,
            size_bytes,
            time_ns: at.time_ns,
            ordinal: at.ordinal,
            origin,
            op_id: at.op_id,
        }));
    }

    /// Ends the storages that a new one overlaps: their free was not seen. Returns whether there was one.
    fn end_overlapping(
        &mut self,
        address: Address,
        size_bytes: u64,
        at: EventMoment,
        rows: &mut Vec<RecordedRow>,
    ) -> bool {
        let past = address.0.saturating_add(size_bytes);
        let before = rows.len();
        while let Some((&start, live)) = self.live.range(..past).next_back() {
            if start.saturating_add(live.size_bytes) <= address.0 {
                break;
            }
            rows.push(end(live, Address(start), at));
            self.live.remove(&start);
        }
        rows.len() > before
    }
}

/// Bytes of a tensor's storage, and no less than the tensor's extent.
fn extent(seen: &SeenTensor) -> u64 {
    let reach = seen.address.0.saturating_sub(seen.storage_address.0).saturating_add(span_bytes(seen));
    seen.storage_bytes.max(reach)
}

fn end(live: &LiveStorage, address: Address, at: EventMoment) -> RecordedRow {
    RecordedRow::Storage(StorageEvent {
        storage_id: live.storage_id,
        is_free: true,
        device_id: 0,
        address,
        size_bytes: live.size_bytes,
        time_ns: at.time_ns,
        ordinal: at.ordinal,
        origin: live.origin,
        op_id: at.op_id,
    })
}

fn label(known: &mut KnownTensor, news: TensorLabel, rows: &mut Vec<RecordedRow>) {
    if known.label == Some(news) {
        return;
    }
    known.label = Some(news);
    let (name, role) = news;
    rows.push(RecordedRow::TensorName(TensorName {
        tensor_id: known.tensor_id,
        name: name.map(str::to_owned),
        role: role.to_owned(),
    }));
}

fn row(
    tensor_id: TensorId,
    storage_id: StorageId,
    base_tensor_id: Option<TensorId>,
    sight: TensorSight,
    seen: &SeenTensor,
) -> Tensor {
    Tensor {
        tensor_id,
        run_id: RunId(0),
        storage_id,
        base_tensor_id,
        op_id: match sight {
            TensorSight::Argument => None,
            TensorSight::Result { begin, .. } => begin.op_id,
        },
        address: seen.address,
        dtype: seen.dtype.to_owned(),
        element_bytes: seen.element_bytes,
        sizes: seen.sizes.clone(),
        strides: seen.strides.clone(),
        span_bytes: span_bytes(seen),
        is_contiguous: is_contiguous(seen),
        name: None,
        role: None,
    }
}

/// Bytes from the first to past the last element. Strides of PyTorch are never negative.
fn span_bytes(seen: &SeenTensor) -> u64 {
    let last = seen.sizes.iter().zip(&seen.strides).fold(0_i64, |last, (&size, &stride)| {
        last.saturating_add(size.saturating_sub(1).saturating_mul(stride))
    });
    last.saturating_add(1).saturating_mul(seen.element_bytes.into()).max(0).cast_unsigned()
}

/// True if neighbours in the last dimension are neighbours in memory, and so on outwards. Dimensions of one element
/// do not count.
fn is_contiguous(seen: &SeenTensor) -> bool {
    let mut expected = 1_i64;
    seen.sizes.iter().zip(&seen.strides).rev().filter(|&(&size, _)| size != 1).all(|(&size, &stride)| {
        let is_next = stride == expected;
        expected = expected.saturating_mul(size);
        is_next
    })
}

#[cfg(test)]
mod tests;
