//! Allocations and frees of GPU memory, as lifetimes.

use std::collections::HashMap;

use super::plane::PlaneEvent;
use crate::model::{TraceModel, TraceStorage};
use crate::nest::{ThreadSpan, enclosing};

/// An allocation or a free.
#[derive(Clone, Copy, Debug)]
struct MemoryChange {
    device: i32,
    thread: u64,
    time_ns: i64,
    address: u64,
    bytes: u64,
    requested: Option<u64>,
    is_free: bool,
}

/// All changes of a trace.
#[derive(Debug, Default)]
pub(super) struct DeviceAllocations {
    changes: Vec<MemoryChange>,
    /// Events without an address.
    unread: u64,
}

impl DeviceAllocations {
    /// Adds an event.
    pub(super) fn add(&mut self, event: &PlaneEvent<'_>, device: i32, thread: u64, time_ns: i64) {
        let Some((address, bytes)) = event.address.zip(event.bytes) else {
            self.unread += 1;
            return;
        };
        let is_free = event.name.contains("Dealloc");
        let requested = event.requested.filter(|requested| *requested > 0);
        self.changes.push(MemoryChange { device, thread, time_ns, address, bytes, requested, is_free });
    }

    /// Pairs each free with the allocation of its address before it. A free without one is of older memory.
    pub(super) fn join(mut self, trace: &mut TraceModel) {
        self.changes.sort_by_key(|change| change.time_ns);
        let point = |change: &MemoryChange| ThreadSpan {
            thread: change.thread,
            begin_ns: change.time_ns,
            end_ns: change.time_ns,
        };
        let points: Vec<ThreadSpan> = self.changes.iter().map(point).collect();
        let mut living: HashMap<(i32, u64), usize> = HashMap::new();
        for (change, op) in self.changes.iter().zip(enclosing(&trace.ops, &points)) {
            let op = op.get();
            let key = (change.device, change.address);
            let known = living.remove(&key).filter(|_| change.is_free);
            if let Some(storage) = known.and_then(|place| trace.storages.get_mut(place)) {
                storage.free_ns = Some(change.time_ns);
                continue;
            }
            if !change.is_free {
                living.insert(key, trace.storages.len());
            }
            trace.storages.push(TraceStorage {
                process: 0,
                device: change.device,
                address: change.address,
                bytes: change.bytes,
                requested: change.requested.filter(|_| !change.is_free),
                alloc_ns: (!change.is_free).then_some(change.time_ns),
                free_ns: change.is_free.then_some(change.time_ns),
                op: op.filter(|_| !change.is_free),
            });
        }
        let reason = "memory events without address, size or time";
        trace.losses.add_many(stallmap_schema::word::LossKind::Memory, reason, self.unread, None);
    }
}
