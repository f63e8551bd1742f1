//! Allocations and frees of the framework, as lifetimes.

use std::collections::HashMap;

use stallmap_schema::word::LossKind;

use super::event::TraceEvent;
use crate::model::{TraceModel, TraceStorage};
use crate::nest::{ThreadSpan, enclosing};

/// Types of devices that are GPUs: CUDA and HIP.
const GPUS: [i64; 2] = [1, 6];

/// One event of the allocator.
#[derive(Debug)]
struct AllocatorEvent {
    process: usize,
    thread: u64,
    time_ns: i64,
    device: i32,
    address: u64,
    /// Bytes, negative for a free.
    bytes: i64,
}

/// Events of the allocator of GPU memory, in the order of the file.
#[derive(Debug, Default)]
pub(super) struct AllocatorEvents {
    changes: Vec<AllocatorEvent>,
    unread: u64,
}

impl AllocatorEvents {
    /// True without any event.
    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// True for an event of GPU memory.
    pub(super) fn is_of_gpu(event: &TraceEvent) -> bool {
        event.arguments.device_type.is_some_and(|kind| GPUS.contains(&kind))
    }

    /// Adds an event of GPU memory.
    pub(super) fn add(&mut self, process: usize, thread: u64, event: &TraceEvent) {
        let arguments = &event.arguments;
        let change = || {
            Some(AllocatorEvent {
                process,
                thread,
                time_ns: event.begin_ns?,
                device: i32::try_from(arguments.device_id?).ok()?,
                address: u64::try_from(arguments.address?).ok()?,
                bytes: arguments.bytes?,
            })
        };
        match change() {
            Some(change) => self.changes.push(change),
            None => self.unread += 1,
        }
    }

    /// Pairs each free with the allocation of its address before it. A free without one is of older memory.
    pub(super) fn join(mut self, trace: &mut TraceModel) {
        self.changes.sort_by_key(|change| change.time_ns);
        let point = |change: &AllocatorEvent| ThreadSpan {
            thread: change.thread,
            begin_ns: change.time_ns,
            end_ns: change.time_ns,
        };
        let points: Vec<ThreadSpan> = self.changes.iter().map(point).collect();
        let mut living: HashMap<(usize, i32, u64), usize> = HashMap::new();
        for (change, op) in self.changes.iter().zip(enclosing(&trace.ops, &points)) {
            let op = op.get();
            let key = (change.process, change.device, change.address);
            let storage = TraceStorage {
                process: change.process,
                device: change.device,
                address: change.address,
                bytes: change.bytes.unsigned_abs(),
                requested: None,
                alloc_ns: None,
                free_ns: None,
                op: None,
            };
            if change.bytes >= 0 {
                living.insert(key, trace.storages.len());
                trace.storages.push(TraceStorage { alloc_ns: Some(change.time_ns), op, ..storage });
                continue;
            }
            match living.remove(&key).and_then(|place| trace.storages.get_mut(place)) {
                Some(storage) => storage.free_ns = Some(change.time_ns),
                None => trace.storages.push(TraceStorage { free_ns: Some(change.time_ns), ..storage }),
            }
        }
        trace.losses.add_many(
            LossKind::Memory,
            "memory events without address, size or time",
            self.unread,
            None,
        );
    }
}
