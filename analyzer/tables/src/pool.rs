//! The memory that the operators of a session share.
//!
//! A sort writes its rows to a file when it gets no more memory. DataFusion's greedy pool grants all memory to the
//! first sort, and a second one fails with nothing to write. Its fair pool grants each operator that can spill the
//! same part, and an aggregate fails at its part while most of the memory is free.
//!
//! Here all take what they need while there is enough, but sorts leave some. Before a sort passes its rows on, or
//! writes them, it merges its batches. Their keys take memory, too: 1.4 times as much as the batches for two
//! integers, up to 5 times for texts that the order computes. So sorts share a sixth of what other operators do not
//! hold, and one with more than its part leaves a quarter of that sixth to other sorts.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::prelude::SessionConfig;

/// One of so many parts of the memory is for what operators say they hold. They do not count rows on their way between
/// them, plans, and copies for a moment, which take as much again.
const COUNTED: usize = 2;
/// One of so many parts of a pool is for merges that the sorts of one operator keep ready.
const FOR_MERGES: usize = 6;
/// Sorts take one of so many parts of what other operators do not hold. Their merges take the rest.
const FOR_SORTS: usize = 6;
/// A sort's name begins with it, in DataFusion.
const SORT: &str = "ExternalSorter[";
/// The name of the merges of a sort.
const MERGE: &str = "ExternalSorterMerge[";

/// The resources of sessions whose queries may take so many bytes together. None for no limit.
pub fn runtime(memory_bytes: Option<usize>) -> Result<Arc<RuntimeEnv>> {
    let builder = RuntimeEnvBuilder::new();
    match memory_bytes {
        Some(bytes) => builder.with_memory_pool(Arc::new(SharedPool::new(bytes / COUNTED))),
        None => builder,
    }
    .build_arc()
}

/// Lets the sort of a partition keep less than 10 MiB ready for its merge, where that is much.
pub fn fit_merges(config: &mut SessionConfig, memory_bytes: Option<usize>) {
    let partitions = config.target_partitions().max(1);
    let ready_bytes = &mut config.options_mut().execution.sort_spill_reservation_bytes;
    if let Some(bytes) = memory_bytes {
        *ready_bytes = (*ready_bytes).min(bytes / COUNTED / FOR_MERGES / partitions);
    }
}

/// Memory of a size in bytes.
#[derive(Debug)]
pub struct SharedPool {
    size_bytes: usize,
    used: Mutex<OperatorMemory>,
}

/// Bytes in use, by kind of operator.
#[derive(Debug, Default)]
struct OperatorMemory {
    sorts: usize,
    merges: usize,
    /// Joins, aggregates, rows of views.
    rest: usize,
    sort_count: usize,
}

impl OperatorMemory {
    fn bytes(&self) -> usize {
        self.sorts.saturating_add(self.merges).saturating_add(self.rest)
    }

    fn by(&mut self, consumer: &MemoryConsumer) -> &mut usize {
        if is_sort(consumer) {
            &mut self.sorts
        } else if consumer.name().starts_with(MERGE) {
            &mut self.merges
        } else {
            &mut self.rest
        }
    }
}

fn is_sort(consumer: &MemoryConsumer) -> bool {
    consumer.name().starts_with(SORT)
}

impl SharedPool {
    /// A pool of a size in bytes.
    pub fn new(size_bytes: usize) -> Self {
        Self { size_bytes, used: Mutex::default() }
    }

    /// No holder can panic between two states, so a poisoned lock is sound.
    fn used(&self) -> MutexGuard<'_, OperatorMemory> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that a reservation may take now.
    fn available(&self, used: &OperatorMemory, reservation: &MemoryReservation) -> usize {
        let free = self.size_bytes.saturating_sub(used.bytes());
        if !is_sort(reservation.consumer()) {
            return free;
        }
        let for_sorts = self.size_bytes.saturating_sub(used.rest) / FOR_SORTS;
        let free = free.min(for_sorts.saturating_sub(used.sorts));
        let part = for_sorts / used.sort_count.max(1);
        let left_to_others = if used.sort_count > 1 { for_sorts / 4 } else { 0 };
        free.saturating_sub(left_to_others).max(free.min(part.saturating_sub(reservation.size())))
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.used().sort_count += usize::from(is_sort(consumer));
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut used = self.used();
        used.sort_count = used.sort_count.saturating_sub(usize::from(is_sort(consumer)));
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        let mut used = self.used();
        let own = used.by(reservation.consumer());
        *own = own.saturating_add(additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        let mut used = self.used();
        let own = used.by(reservation.consumer());
        *own = own.saturating_sub(shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        let mut used = self.used();
        let available = self.available(&used, reservation);
        if additional > available {
            let name = reservation.consumer().name();
            return Err(DataFusionError::ResourcesExhausted(format!(
                "{name} needs {additional} bytes more, and gets {available}: {self}"
            )));
        }
        *used.by(reservation.consumer()) += additional;
        Ok(())
    }

    fn reserved(&self) -> usize {
        self.used().bytes()
    }

    fn memory_limit(&self) -> MemoryLimit {
        MemoryLimit::Finite(self.size_bytes)
    }
}

impl fmt::Display for SharedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of memory", self.size_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOIN: &str = "HashJoinInput";
    const SORTER: &str = "ExternalSorter[0]";

    fn reservation(pool: &Arc<dyn MemoryPool>, name: &str) -> MemoryReservation {
        MemoryConsumer::new(name).with_can_spill(name != JOIN).register(pool)
    }

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(SharedPool::new(2400))
    }

    #[test]
    fn joins_and_aggregates_get_all() {
        for name in [JOIN, "FinalHashAggregateStream[0]", "ExternalSorterMerge[0]"] {
            let pool = pool();
            let (only, sort) = (reservation(&pool, name), reservation(&pool, SORTER));
            only.try_grow(2400).unwrap();
            assert!(matches!(only.try_grow(1), Err(DataFusionError::ResourcesExhausted(_))));
            sort.try_grow(1).unwrap_err();
            only.free();
            assert_eq!(pool.reserved(), 0);
        }
    }

    #[test]
    fn a_sort_leaves_memory_to_merge_its_batches() {
        let pool = pool();
        let (sort, merge) = (reservation(&pool, SORTER), reservation(&pool, "ExternalSorterMerge[0]"));
        sort.try_grow(400).unwrap();
        sort.try_grow(1).unwrap_err();
        merge.try_grow(2000).unwrap();
        merge.try_grow(1).unwrap_err();
        // What exists is counted, although there is no more.
        merge.grow(50);
        assert_eq!(pool.reserved(), 2450);
    }

    #[test]
    fn a_sort_leaves_memory_to_another() {
        let pool = pool();
        let (first, second) = (reservation(&pool, SORTER), reservation(&pool, SORTER));
        first.try_grow(300).unwrap();
        first.try_grow(1).unwrap_err();
        second.try_grow(100).unwrap();
        second.try_grow(1).unwrap_err();
        // It wrote its rows to a file.
        first.free();
        second.try_grow(200).unwrap();
        second.try_grow(1).unwrap_err();
        drop(first);
        second.try_grow(100).unwrap();
    }

    #[test]
    fn the_part_of_a_sort_is_of_what_joins_do_not_hold() {
        let pool = pool();
        let join = reservation(&pool, JOIN);
        let (first, second) = (reservation(&pool, SORTER), reservation(&pool, SORTER));
        join.try_grow(1200).unwrap();
        first.try_grow(150).unwrap();
        first.try_grow(1).unwrap_err();
        second.try_grow(50).unwrap();
        second.try_grow(1).unwrap_err();
    }
}
