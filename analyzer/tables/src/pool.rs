//! The memory that the operators of a session share.
//!
//! An operator that can spill writes its rows to a file when it gets no more memory. DataFusion's greedy pool grants the
//! first sort all of it, and a second one fails with nothing to spill. Its fair pool grants each the same part, and an
//! aggregate that has no use for files yet fails while most of the memory is free. Here they take what they need while
//! there is enough. Those with more than their part leave the last quarter, and all that can spill the last eighth: to
//! merge files takes memory that cannot spill.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// One of so many parts is left by operators that can spill and have more than their part.
const LEFT_TO_THE_SMALL: usize = 4;
/// One of so many parts is left by all that can spill.
const LEFT_TO_THE_FIXED: usize = 8;

/// Memory of a size in bytes.
#[derive(Debug)]
pub struct SharedPool {
    size_bytes: usize,
    used: Mutex<Used>,
}

#[derive(Debug, Default)]
struct Used {
    /// By those that can spill.
    spillable_bytes: usize,
    /// By the rest, such as joins and rows of views.
    fixed_bytes: usize,
    /// Operators that can spill.
    spillers: usize,
}

impl Used {
    fn bytes(&self) -> usize {
        self.spillable_bytes.saturating_add(self.fixed_bytes)
    }

    fn by(&mut self, consumer: &MemoryConsumer) -> &mut usize {
        if consumer.can_spill() { &mut self.spillable_bytes } else { &mut self.fixed_bytes }
    }
}

impl SharedPool {
    /// A pool of a size in bytes.
    pub fn new(size_bytes: usize) -> Self {
        Self { size_bytes, used: Mutex::default() }
    }

    /// No holder can panic between two states, so a poisoned lock is sound.
    fn used(&self) -> MutexGuard<'_, Used> {
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes that a reservation may take now.
    fn available(&self, used: &Used, reservation: &MemoryReservation) -> usize {
        let free = self.size_bytes.saturating_sub(used.bytes());
        if !reservation.consumer().can_spill() {
            return free;
        }
        let part = self.size_bytes.saturating_sub(used.fixed_bytes) / used.spillers.max(1);
        let to_part = part.saturating_sub(reservation.size());
        let small = free.saturating_sub(self.size_bytes / LEFT_TO_THE_FIXED).min(to_part);
        free.saturating_sub(self.size_bytes / LEFT_TO_THE_SMALL).max(small)
    }
}

impl MemoryPool for SharedPool {
    fn name(&self) -> &'static str {
        "shared"
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.used().spillers += usize::from(consumer.can_spill());
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        let mut used = self.used();
        used.spillers = used.spillers.saturating_sub(usize::from(consumer.can_spill()));
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
    use std::sync::Arc;

    use super::*;

    fn reservation(pool: &Arc<dyn MemoryPool>, can_spill: bool) -> MemoryReservation {
        MemoryConsumer::new("operator").with_can_spill(can_spill).register(pool)
    }

    fn pool() -> Arc<dyn MemoryPool> {
        Arc::new(SharedPool::new(800))
    }

    #[test]
    fn a_join_gets_all() {
        let pool = pool();
        let only = reservation(&pool, false);
        only.try_grow(800).unwrap();
        assert!(matches!(only.try_grow(1), Err(DataFusionError::ResourcesExhausted(_))));
        only.free();
        assert_eq!(pool.reserved(), 0);
    }

    #[test]
    fn a_sort_leaves_memory_to_merge_its_files() {
        let pool = pool();
        let (sort, merge) = (reservation(&pool, true), reservation(&pool, false));
        sort.try_grow(700).unwrap();
        sort.try_grow(1).unwrap_err();
        merge.try_grow(100).unwrap();
        merge.try_grow(1).unwrap_err();
        // What exists is counted, although there is no more.
        merge.grow(50);
        assert_eq!(pool.reserved(), 850);
    }

    #[test]
    fn a_sort_leaves_memory_to_another() {
        let pool = pool();
        let (first, second) = (reservation(&pool, true), reservation(&pool, true));
        first.try_grow(600).unwrap();
        first.try_grow(1).unwrap_err();
        second.try_grow(100).unwrap();
        second.try_grow(1).unwrap_err();
        // It wrote its rows to a file.
        first.free();
        second.try_grow(500).unwrap();
        second.try_grow(1).unwrap_err();
        drop(first);
        second.try_grow(100).unwrap();
    }

    #[test]
    fn the_part_of_a_sort_is_of_what_joins_do_not_hold() {
        let pool = pool();
        let (join, first, second) =
            (reservation(&pool, false), reservation(&pool, true), reservation(&pool, true));
        join.try_grow(400).unwrap();
        first.try_grow(200).unwrap();
        first.try_grow(1).unwrap_err();
        second.try_grow(100).unwrap();
        second.try_grow(1).unwrap_err();
    }
}
