//! Results that are pending at a point, those of barriers apart: stores, loads without a barrier, groups of copies.

use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of pending stores: a warp that drains waits for the last of them.
pub(super) const MAX_STORES: usize = 32;
/// Maximum number of pending loads without a barrier of their own.
pub(super) const MAX_UNMARKED: usize = 32;

/// Pending results at a point. Times are issue cycles since an arbitrary start.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct PendingResults {
    pub(super) now: i64,
    /// Loads of shared memory without a barrier: a later one's covers them.
    pub(super) unmarked: BTreeMap<usize, i64>,
    pub(super) stores: BTreeMap<usize, i64>,
    /// The MEMBAR before, until an instruction that is not part of the fence.
    pub(super) fence: Option<usize>,
    /// Asynchronous copies that are in no group yet.
    pub(super) open: BTreeSet<usize>,
    /// By the instruction that closed a group: bit n where n groups were closed since.
    pub(super) groups: BTreeMap<usize, u64>,
}

impl PendingResults {
    /// Adds the pending results of another path. Returns whether any was new.
    pub(super) fn merge(&mut self, other: &Self) -> bool {
        let shift = self.now - other.now;
        let mut is_new = false;
        is_new |= keep_latest(&mut self.unmarked, &other.unmarked, shift, MAX_UNMARKED);
        is_new |= keep_latest(&mut self.stores, &other.stores, shift, MAX_STORES);
        is_new |= other.fence.is_some() && self.fence.is_none();
        self.fence = self.fence.or(other.fence);
        for copy in &other.open {
            is_new |= self.open.insert(*copy);
        }
        for (commit, ages) in &other.groups {
            let known = self.groups.entry(*commit).or_default();
            is_new |= *ages & !*known != 0;
            *known |= ages;
        }
        is_new
    }

    /// Results that a visit of a block copies.
    pub(super) fn len(&self) -> usize {
        self.unmarked.len() + self.stores.len() + self.open.len() + self.groups.len()
    }

    pub(super) fn since(&self, time: i64) -> u32 {
        u32::try_from(self.now - time).unwrap_or(u32::MAX)
    }
}

/// Takes over later times, while there is room for more instructions. Returns whether any was new.
fn keep_latest(
    mine: &mut BTreeMap<usize, i64>,
    theirs: &BTreeMap<usize, i64>,
    shift: i64,
    most: usize,
) -> bool {
    let mut is_new = false;
    for (index, time) in theirs {
        let time = time + shift;
        let known = mine.get(index).copied();
        if known.map_or(mine.len() < most, |known| known < time) {
            mine.insert(*index, time);
            is_new = true;
        }
    }
    is_new
}

/// Adds an instruction, for which the one that was issued longest ago makes room.
pub(super) fn push(pending: &mut BTreeMap<usize, i64>, index: usize, now: i64, most: usize) {
    pending.insert(index, now);
    if pending.len() > most {
        let oldest = pending.iter().min_by_key(|(_, time)| **time).map(|(index, _)| *index);
        oldest.map(|index| pending.remove(&index));
    }
}
