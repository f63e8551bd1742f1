//! Lifetimes from allocations and frees: half-open, and never two at one address at once.

use std::collections::BTreeMap;

use stallmap_schema::capture::recording::{AllocationEvent, StorageEvent};
use stallmap_schema::id::{Address, RunId};
use stallmap_schema::tables::memory::DeviceAllocation;
use stallmap_schema::tables::tensor::Storage;
use stallmap_schema::word::LossKind;

use crate::loss::LossTotals;

/// Rows of `storage`, by identifier.
pub(crate) fn storages(run_id: RunId, events: Vec<StorageEvent>, losses: &mut LossTotals) -> Vec<Storage> {
    let mut lives = AddressLives::default();
    for event in events {
        if event.is_free {
            lives.free(event.storage_id.0, event.time_ns, event.ordinal);
        } else {
            lives.begin(Storage {
                storage_id: event.storage_id,
                run_id,
                device_id: event.device_id,
                address: event.address,
                size_bytes: event.size_bytes,
                alloc_ns: event.time_ns,
                free_ns: None,
                alloc_ordinal: event.ordinal,
                free_ordinal: None,
                origin: event.origin,
                op_id: event.op_id,
            });
        }
    }
    lives.finish(run_id, losses)
}

/// Rows of `device_allocation`, by identifier.
pub(crate) fn allocations(
    run_id: RunId,
    events: Vec<AllocationEvent>,
    losses: &mut LossTotals,
) -> Vec<DeviceAllocation> {
    let mut lives = AddressLives::default();
    for event in events {
        if event.is_free {
            lives.free(event.allocation_id.0, event.time_ns, event.ordinal);
        } else {
            lives.begin(DeviceAllocation {
                allocation_id: event.allocation_id,
                run_id,
                device_id: event.device_id,
                address: event.address,
                size_bytes: event.size_bytes,
                alloc_ns: event.time_ns,
                free_ns: None,
                alloc_ordinal: event.ordinal,
                free_ordinal: None,
                flags: event.flags,
                op_id: event.op_id,
                pystates_hash: event.pystates_hash,
                is_mapped: event.is_mapped,
            });
        }
    }
    lives.finish(run_id, losses)
}

/// Something that lies at an address for a time.
trait AddressLife {
    fn id(&self) -> u64;
    fn device_id(&self) -> i32;
    fn address(&self) -> Address;
    fn size_bytes(&self) -> u64;
    fn begin(&self) -> (i64, u64);
    fn end(&mut self, time_ns: i64, ordinal: u64);
}

macro_rules! life {
    ($($row:ident $id:ident)+) => {$(
        impl AddressLife for $row {
            fn id(&self) -> u64 { self.$id.0 }
            fn device_id(&self) -> i32 { self.device_id }
            fn address(&self) -> Address { self.address }
            fn size_bytes(&self) -> u64 { self.size_bytes }
            fn begin(&self) -> (i64, u64) { (self.alloc_ns, self.alloc_ordinal) }
            fn end(&mut self, time_ns: i64, ordinal: u64) {
                // Clocks of two threads may disagree by a little. A lifetime never ends before it begins.
                self.free_ns = Some(time_ns.max(self.alloc_ns));
                self.free_ordinal = Some(ordinal.max(self.alloc_ordinal));
            }
        }
    )+};
}

life! { Storage storage_id DeviceAllocation allocation_id }

struct AddressLives<T> {
    rows: BTreeMap<u64, T>,
    /// Live things: (device, first address) to the identifier.
    live: BTreeMap<(i32, u64), u64>,
    frees_of_unknown: u64,
    frees_not_seen: u64,
    seen_twice: u64,
}

impl<T> Default for AddressLives<T> {
    fn default() -> Self {
        let (rows, live) = (BTreeMap::new(), BTreeMap::new());
        Self { rows, live, frees_of_unknown: 0, frees_not_seen: 0, seen_twice: 0 }
    }
}

impl<T: AddressLife> AddressLives<T> {
    fn begin(&mut self, row: T) {
        if self.rows.contains_key(&row.id()) {
            self.seen_twice += 1;
            return;
        }
        let (device, first) = (row.device_id(), row.address().0);
        let end = first.saturating_add(row.size_bytes());
        for start in self.overlapping(device, first, end) {
            // Two things cannot lie at one address: the older one's free was not seen.
            if let Some(id) = self.live.remove(&start)
                && let Some(older) = self.rows.get_mut(&id)
            {
                let (time_ns, ordinal) = row.begin();
                older.end(time_ns, ordinal);
                self.frees_not_seen += 1;
            }
        }
        self.live.insert((device, first), row.id());
        self.rows.insert(row.id(), row);
    }

    fn overlapping(&self, device: i32, first: u64, end: u64) -> Vec<(i32, u64)> {
        // Live things do not overlap: no more than one begins before the range and reaches into it.
        let before = self.live.range((device, 0)..(device, first)).next_back().filter(|(_, id)| {
            self.rows.get(id).is_some_and(|row| row.address().0.saturating_add(row.size_bytes()) > first)
        });
        let within = self.live.range((device, first)..(device, end.max(first + 1)));
        before.into_iter().chain(within).map(|(start, _)| *start).collect()
    }

    fn free(&mut self, id: u64, time_ns: i64, ordinal: u64) {
        let Some(row) = self.rows.get_mut(&id) else {
            self.frees_of_unknown += 1;
            return;
        };
        let start = (row.device_id(), row.address().0);
        if self.live.get(&start) == Some(&id) {
            self.live.remove(&start);
            row.end(time_ns, ordinal);
        }
    }

    fn finish(self, run_id: RunId, losses: &mut LossTotals) -> Vec<T> {
        losses.add(run_id, LossKind::Memory, "free of something not recorded", self.frees_of_unknown);
        losses.add(
            run_id,
            LossKind::Memory,
            "free not seen; ended by the next allocation",
            self.frees_not_seen,
        );
        losses.add(run_id, LossKind::Memory, "allocation recorded twice", self.seen_twice);
        self.rows.into_values().collect()
    }
}
