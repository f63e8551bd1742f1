//! Allocations, memcpy and memset under the sanitizer API.

use std::cell::Cell;

use stallmap_schema::capture::recording::AllocationEvent;
use stallmap_schema::id::{Address, AllocationId, RunId};
use stallmap_schema::tables::memory::{Memcpy, Memset};
use stallmap_schema::word::{CopyKind, LossKind};
use stallmap_sys::sanitizer::{MemcpyData, MemoryData, MemsetData};

use super::{AccessInstrument, SanitizerState};
use crate::accesses::blocks::{DeviceRange, blocks};
use crate::accesses::bundle::memory::{AllocatedRange, AllocationKind};
use stallmap_session::{context, replayed, session, torch};

thread_local! {
    /// True while a call of the thread maps memory.
    static IS_MAPPING: Cell<bool> = const { Cell::new(false) };
}

/// A call that maps memory begins or ends on this thread: what is allocated meanwhile is mapped by the program.
pub(super) fn set_mapping(is_mapping: bool) {
    IS_MAPPING.set(is_mapping);
}

impl AccessInstrument {
    pub(super) fn allocated(&self, data: &MemoryData, is_host: bool) {
        if replayed::is_session() {
            return;
        }
        if let Some(bundles) = &self.bundles {
            bundles.memory().allocated(AllocatedRange {
                address: data.address,
                bytes: data.size_bytes,
                device: data.device,
                kind: AllocationKind::from_flags(data.flags, is_host),
            });
        }
        let mut state = self.lock();
        state.next_allocation += 1;
        let id = AllocationId(state.next_allocation);
        state.allocations.insert(data.address, (id, data.size_bytes));
        if !self.is_timing() {
            session::emit(allocation_event(data, id, false));
        }
    }

    pub(super) fn freed(&self, data: &MemoryData) {
        if replayed::is_session() {
            return;
        }
        if let Some(bundles) = &self.bundles {
            bundles.memory().freed(data.address);
        }
        match self.lock().allocations.remove(&data.address) {
            Some(_) if self.is_timing() => {}
            Some((id, _)) => session::emit(allocation_event(data, id, true)),
            None => session::lose(LossKind::Memory, "free of memory whose allocation was not seen", 1, None),
        }
    }

    pub(super) fn copied(&self, data: &MemcpyData) {
        if replayed::is_session() || self.is_timing() {
            return;
        }
        let [row_bytes, height, depth] = data.extent;
        let has_gaps =
            height.max(1) * depth.max(1) > 1 && data.pitches.iter().any(|pitch| *pitch > row_bytes);
        // How far apart layers are is not reported.
        let is_rows = has_gaps && depth <= 1 && row_bytes.checked_mul(height) == Some(data.size_bytes);
        if has_gaps && !is_rows {
            session::lose(LossKind::Memory, "gaps of a copy in several dimensions", 1, None);
        }
        let stream_id = self.lock().stream(data.streams[1]);
        let context = context::of_launch().unwrap_or_default();
        session::emit(Memcpy {
            run_id: RunId(0),
            kind: match data.direction {
                2 => CopyKind::HostToDevice,
                3 => CopyKind::DeviceToHost,
                4 => CopyKind::DeviceToDevice,
                _ => CopyKind::Other,
            },
            source: Address(data.source),
            destination: Address(data.destination),
            size_bytes: data.size_bytes,
            stream_id,
            ordinal: session::next_ordinal(),
            begin_ns: session::now_ns(),
            op_id: context.op_id,
            row_bytes: is_rows.then_some(row_bytes),
            source_pitch: is_rows.then_some(data.pitches[0].max(row_bytes)),
            destination_pitch: is_rows.then_some(data.pitches[1].max(row_bytes)),
            pystates_hash: context.pystates_hash,
            native_stack: context.native_stack,
        });
    }

    pub(super) fn filled(&self, data: &MemsetData) {
        if replayed::is_session() || self.is_timing() {
            return;
        }
        let row_bytes = data.width * u64::from(data.element_bytes.max(1));
        if data.height > 1 && data.pitch > row_bytes {
            session::lose(LossKind::Memory, "gaps of a fill in two dimensions", 1, None);
        }
        let stream_id = self.lock().stream(data.stream_handle);
        session::emit(Memset {
            run_id: RunId(0),
            address: Address(data.address),
            size_bytes: data.width * data.height.max(1) * u64::from(data.element_bytes.max(1)),
            value: data.value,
            element_bytes: data.element_bytes,
            stream_id,
            ordinal: session::next_ordinal(),
            begin_ns: session::now_ns(),
            op_id: context::current_op(),
        });
    }
}

impl SanitizerState {
    /// The blocks of memory that are alive: storages, and what of the driver's allocations lies between them.
    pub(super) fn blocks(&self) -> Vec<DeviceRange> {
        let allocations = self.allocations.iter();
        let range =
            |(&start, &(_, bytes)): (&u64, &(AllocationId, u64))| DeviceRange { start, end: start + bytes };
        let storages = torch::calls::storages().into_iter();
        blocks(
            allocations.map(range),
            storages.map(|(start, bytes)| DeviceRange { start, end: start + bytes }),
        )
    }

    /// True if an address lies in memory that is allocated.
    pub(super) fn is_address(&self, word: u64) -> bool {
        let below = self.allocations.range(..=word).next_back();
        below.is_some_and(|(start, (_, bytes))| word - start < *bytes)
            || torch::calls::storage_at(word).is_some()
    }
}

fn allocation_event(data: &MemoryData, allocation_id: AllocationId, is_free: bool) -> AllocationEvent {
    let context = if is_free { None } else { context::current() };
    AllocationEvent {
        allocation_id,
        is_free,
        device_id: data.device,
        address: Address(data.address),
        size_bytes: data.size_bytes,
        time_ns: session::now_ns(),
        ordinal: session::next_ordinal(),
        flags: data.flags,
        op_id: context.and_then(|context| context.op_id),
        pystates_hash: context.and_then(|context| context.pystates_hash),
        is_mapped: Some(IS_MAPPING.get()),
    }
}
