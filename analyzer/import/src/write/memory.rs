//! Memory: allocations of the framework and of the driver, with their ordinals, and allocations that failed.

use std::collections::BTreeMap;

use stallmap_readers::trace::model::TraceModel;
use stallmap_schema::capture::error::CaptureError;
use stallmap_schema::id::{Address, AllocationId, StorageId};
use stallmap_schema::tables::memory::{AllocationFailure, DeviceAllocation, StorageRequest};
use stallmap_schema::tables::tensor::Storage;
use stallmap_schema::word::StorageOrigin;
use stallmap_write::CaptureWriter;

use super::{RecordingWriter, op_id, run_id};

/// Writes all tables of memory.
pub(super) fn write(writing: &RecordingWriter<'_>, writer: &mut CaptureWriter) -> Result<(), CaptureError> {
    let clock = MemoryClock::for_recording(writing);
    let trace = writing.trace;
    writer.append_rows(storages(trace, &clock))?;
    writer.append_rows(allocations(trace, &clock))?;
    writer.append_rows((1..).map(StorageId).zip(&trace.storages).filter_map(|(storage_id, storage)| {
        Some(StorageRequest { storage_id, requested_bytes: storage.requested? })
    }))?;
    let mut failures: Vec<AllocationFailure> = trace
        .failures
        .iter()
        .map(|failure| AllocationFailure {
            run_id: run_id(failure.process),
            device_id: failure.device,
            time_ns: failure.time_ns,
            ordinal: clock.ordinal(failure.process, failure.time_ns),
            requested_bytes: failure.bytes,
            free_bytes: failure.free_bytes,
            op_id: failure.op.map(op_id),
        })
        .collect();
    failures.sort_by_key(|failure| (failure.run_id, failure.time_ns));
    writer.append_rows(failures)
}

/// Times and ordinals of processes.
struct MemoryClock {
    /// The times that ordinals count, by process: launch calls, or without any, allocations and frees.
    moments: BTreeMap<usize, Vec<i64>>,
    /// The begin of each process.
    begins: Vec<i64>,
}

impl MemoryClock {
    fn for_recording(writing: &RecordingWriter<'_>) -> Self {
        let mut moments: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for storage in &writing.trace.storages {
            let times = storage.alloc_ns.into_iter().chain(storage.free_ns);
            moments.entry(storage.process).or_default().extend(times);
        }
        let mut calls: BTreeMap<usize, Vec<i64>> = BTreeMap::new();
        for (_, _, kernel) in writing.launched() {
            calls.entry(kernel.process).or_default().push(kernel.called_ns());
        }
        moments.extend(calls);
        for times in moments.values_mut() {
            times.sort_unstable();
        }
        let begins = (0..writing.trace.processes.len()).map(|process| writing.extent(process).0).collect();
        Self { moments, begins }
    }

    fn ordinal(&self, process: usize, time_ns: i64) -> u64 {
        self.moments
            .get(&process)
            .map_or(0, |moments| moments.partition_point(|moment| *moment < time_ns) as u64)
    }

    fn begin(&self, process: usize) -> i64 {
        self.begins.get(process).copied().unwrap_or(0)
    }
}

fn storages(trace: &TraceModel, clock: &MemoryClock) -> impl Iterator<Item = Storage> {
    (1..).map(StorageId).zip(&trace.storages).map(|(storage_id, storage)| {
        let ordinal = |time: i64| clock.ordinal(storage.process, time);
        Storage {
            storage_id,
            run_id: run_id(storage.process),
            device_id: storage.device,
            address: Address(storage.address),
            size_bytes: storage.bytes,
            alloc_ns: storage.alloc_ns.unwrap_or_else(|| clock.begin(storage.process)),
            free_ns: storage.free_ns,
            alloc_ordinal: storage.alloc_ns.map_or(0, ordinal),
            free_ordinal: storage.free_ns.map(ordinal),
            origin: if storage.alloc_ns.is_some() { StorageOrigin::Allocator } else { StorageOrigin::Tensor },
            op_id: storage.op.map(op_id),
        }
    })
}

fn allocations(trace: &TraceModel, clock: &MemoryClock) -> impl Iterator<Item = DeviceAllocation> {
    (1..).map(AllocationId).zip(&trace.segments).map(|(allocation_id, segment)| {
        let ordinal = |time: i64| clock.ordinal(segment.process, time);
        DeviceAllocation {
            allocation_id,
            run_id: run_id(segment.process),
            device_id: segment.device,
            address: Address(segment.address),
            size_bytes: segment.bytes,
            alloc_ns: segment.alloc_ns.unwrap_or_else(|| clock.begin(segment.process)),
            free_ns: segment.free_ns,
            alloc_ordinal: segment.alloc_ns.map_or(0, ordinal),
            free_ordinal: segment.free_ns.map(ordinal),
            flags: 0,
            op_id: None,
            pystates_hash: None,
            is_mapped: None,
        }
    })
}
