//! Allocations and frees of the framework, as lifetimes. What is older than the trace is one storage per GPU.

use std::collections::{BTreeMap, HashMap};

use stallmap_schema::word::{LossKind, OpKind, Phase};

use super::event::TraceEvent;
use crate::model::{TraceCall, TraceModel, TraceOp, TraceStorage};
use crate::nest::{ThreadSpan, enclosing};

/// Types of devices that are GPUs or such: CUDA, HIP, XPU, MTIA and those of extensions (PrivateUse1).
const GPUS: [i64; 5] = [1, 6, 12, 19, 20];

/// The name of the region that stands for the allocations before the trace.
const OLDER: &str = "allocated before the trace";

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
    /// Bytes that the allocator has given behind this event.
    allocated: Option<i64>,
}

/// Memory of a GPU that was allocated before the trace, and the first event that knows of it.
#[derive(Clone, Copy, Debug)]
struct OlderMemory {
    bytes: i64,
    thread: u64,
    time_ns: i64,
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
                allocated: arguments.allocated,
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
                let before = living.insert(key, trace.storages.len());
                if let Some(lost) = before.and_then(|place| trace.storages.get_mut(place)) {
                    lost.free_ns = Some(change.time_ns);
                    let reason = "frees of memory whose address is allocated again: it ends there";
                    trace.losses.add(LossKind::Memory, reason, None);
                }
                trace.storages.push(TraceStorage { alloc_ns: Some(change.time_ns), op, ..storage });
                continue;
            }
            match living.remove(&key).and_then(|place| trace.storages.get_mut(place)) {
                Some(storage) => storage.free_ns = Some(change.time_ns),
                None => trace.storages.push(TraceStorage { free_ns: Some(change.time_ns), ..storage }),
            }
        }
        self.add_older(trace);
        trace.losses.add_many(
            LossKind::Memory,
            "memory events without address, size or time",
            self.unread,
            None,
        );
    }

    /// Adds the memory that was allocated before the trace, and that no free in it names.
    fn add_older(&self, trace: &mut TraceModel) {
        for ((process, device), older) in self.older() {
            let is_freed = |storage: &&TraceStorage| {
                (storage.process, storage.device, storage.alloc_ns) == (process, device, None)
            };
            let freed: u64 = trace.storages.iter().filter(is_freed).map(|storage| storage.bytes).sum();
            let bytes = u64::try_from(older.bytes).unwrap_or(0).saturating_sub(freed);
            if bytes == 0 {
                continue;
            }
            let call = TraceCall { thread: older.thread, begin_ns: older.time_ns, end_ns: older.time_ns };
            let op =
                TraceOp { process, phase: Phase::Other, ..TraceOp::for_call(call, OpKind::Region, OLDER) };
            trace.storages.push(TraceStorage {
                process,
                device,
                address: 0,
                bytes,
                requested: None,
                alloc_ns: None,
                free_ns: None,
                op: Some(trace.ops.len()),
            });
            trace.ops.push(op);
        }
    }

    /// The memory of each GPU before its first event, by process and GPU: the allocator counts what it has given.
    fn older(&self) -> BTreeMap<(usize, i32), OlderMemory> {
        let mut changed: BTreeMap<(usize, i32), i64> = BTreeMap::new();
        let mut found = BTreeMap::new();
        for change in &self.changes {
            let key = (change.process, change.device);
            let changed = changed.entry(key).or_default();
            *changed = changed.saturating_add(change.bytes);
            if let Some(allocated) = change.allocated {
                let bytes = allocated.saturating_sub(*changed);
                let AllocatorEvent { thread, time_ns, .. } = *change;
                found.entry(key).or_insert(OlderMemory { bytes, thread, time_ns });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kineto::event::EventArguments;

    /// An event of the allocator: time, address, bytes, and what the allocator has given.
    fn event((time_ns, address, bytes, allocated): (i64, i64, i64, i64)) -> TraceEvent {
        let arguments = EventArguments {
            address: Some(address),
            bytes: Some(bytes),
            allocated: Some(allocated),
            device_id: Some(0),
            device_type: Some(1),
            ..EventArguments::default()
        };
        TraceEvent { begin_ns: Some(time_ns), arguments, ..TraceEvent::default() }
    }

    #[test]
    fn memory_of_all_accelerators_is_read() {
        let of_type = |device_type| {
            let mut event = event((0, 1, 1, 1));
            event.arguments.device_type = Some(device_type);
            event
        };
        let read = (0..24).filter(|device_type| AllocatorEvents::is_of_gpu(&of_type(*device_type)));
        assert_eq!(read.collect::<Vec<_>>(), [1, 6, 12, 19, 20]);
    }

    #[test]
    fn memory_ends_where_its_address_is_allocated_again() {
        let mut events = AllocatorEvents::default();
        for change in [(10, 1, 100, 100), (20, 1, 300, 400), (30, 1, -300, 100)] {
            events.add(0, 3, &event(change));
        }
        let mut trace = TraceModel::default();
        events.join(&mut trace);
        let found: Vec<_> = trace.storages.iter().map(|storage| (storage.bytes, storage.free_ns)).collect();
        assert_eq!(found, [(100, Some(20)), (300, Some(30))]);
        assert_eq!(trace.losses.rows().map(|(_, _, count, _)| count).sum::<u64>(), 1);
    }

    #[test]
    fn memory_that_is_older_than_the_trace_is_a_storage() {
        let mut events = AllocatorEvents::default();
        for change in [(10, 1, 100, 2_100), (20, 1, -100, 2_000), (30, 2, -500, 1_500)] {
            events.add(0, 3, &event(change));
        }
        let mut trace = TraceModel::default();
        events.join(&mut trace);
        let found: Vec<_> = trace
            .storages
            .iter()
            .map(|storage| (storage.bytes, storage.alloc_ns, storage.free_ns, storage.op))
            .collect();
        let of_events = [(100, Some(10), Some(20), None), (500, None, Some(30), None)];
        assert_eq!(found, [of_events.as_slice(), &[(1_500, None, None, Some(0))]].concat());
        assert_eq!((&*trace.ops[0].name, trace.ops[0].call.begin_ns), (OLDER, 10));
    }
}
