//! The blocks of memory at one launch: live storages, and what of allocations lies between them.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::DeviceAllocation;
use stallmap_schema::tables::tensor::Storage;

/// A range of addresses, and the preference for it: the smallest rank has an address.
#[derive(Clone, Copy)]
struct RankedRange<R> {
    low: u64,
    high: u64,
    rank: R,
}

/// A block: first address, and past the last.
pub type AddressBlock = (u64, u64);

/// The blocks at a launch, by address.
#[derive(Debug)]
pub struct LiveBlocks(Vec<AddressBlock>);

impl LiveBlocks {
    /// Storages come before allocations. Among overlapping ones, the smallest has an address, then the newest.
    pub fn new(launch: &Launch, storages: &[Storage], allocations: &[DeviceAllocation]) -> Self {
        let at = launch.capture_ordinal.unwrap_or(launch.ordinal);
        let is_alive = |begin: u64, end: Option<u64>| begin <= at && end.is_none_or(|end| at < end);
        let of_run = |run| run == launch.run_id;
        let storages =
            storages.iter().filter(|s| of_run(s.run_id) && is_alive(s.alloc_ordinal, s.free_ordinal));
        let allocations =
            allocations.iter().filter(|a| of_run(a.run_id) && is_alive(a.alloc_ordinal, a.free_ordinal));
        let ranges = storages
            .map(|s| (false, s.address.0, s.size_bytes, s.alloc_ordinal))
            .chain(allocations.map(|a| (true, a.address.0, a.size_bytes, a.alloc_ordinal)));
        let life = |(index, (is_rest, low, bytes, begin)): (usize, (bool, u64, u64, u64))| {
            // Not a storage, bytes, newest first, place among all.
            let high = low.saturating_add(bytes);
            RankedRange { low, high, rank: (is_rest, high - low, Reverse((begin, index))) }
        };
        Self(sweep(ranges.enumerate().map(life).filter(|life| life.low < life.high).collect()))
    }

    /// The block that holds an address.
    pub fn find(&self, address: u64) -> Option<AddressBlock> {
        let after = self.0.partition_point(|&(low, _)| low <= address);
        let block = self.0.get(after.checked_sub(1)?)?;
        (address < block.1).then_some(*block)
    }
}

/// Blocks by address, in near linear time: a capture may hold any number of ranges within each other.
fn sweep<R: Ord + Copy>(mut lives: Vec<RankedRange<R>>) -> Vec<AddressBlock> {
    let mut bounds: Vec<u64> = lives.iter().flat_map(|life| [life.low, life.high]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut ends = lives.clone();
    ends.sort_unstable_by_key(|life| life.high);
    lives.sort_unstable_by_key(|life| life.low);
    let (mut begins, mut ends) = (lives.into_iter().peekable(), ends.into_iter().peekable());
    let (mut alive, mut blocks, mut before) = (BTreeSet::new(), Vec::<AddressBlock>::new(), None);
    for (&low, &high) in bounds.iter().zip(bounds.iter().skip(1)) {
        while let Some(life) = ends.next_if(|life| life.high <= low) {
            alive.remove(&life.rank);
        }
        while let Some(life) = begins.next_if(|life| life.low <= low) {
            alive.insert(life.rank);
        }
        let owner = alive.first().copied();
        match blocks.last_mut() {
            Some(last) if owner.is_some() && owner == before => last.1 = high,
            _ if owner.is_some() => blocks.push((low, high)),
            _ => {}
        }
        before = owner;
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    type BlockRank = (bool, u64, Reverse<(u64, usize)>);

    fn life(index: usize, is_rest: bool, low: u64, bytes: u64, begin: u64) -> RankedRange<BlockRank> {
        RankedRange { low, high: low + bytes, rank: (is_rest, bytes, Reverse((begin, index))) }
    }

    /// The owner of each address by itself.
    fn owners(lives: &[RankedRange<BlockRank>], end: u64) -> Vec<Option<BlockRank>> {
        let holds = |at: u64| lives.iter().filter(move |life| life.low <= at && at < life.high);
        (0..end).map(|at| holds(at).map(|life| life.rank).min()).collect()
    }

    #[test]
    fn every_address_is_in_the_block_of_its_owner() {
        let mut seed = 1_u64;
        let mut below = |limit: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % limit
        };
        for _ in 0..200 {
            let lives: Vec<RankedRange<BlockRank>> = (0..below(12))
                .map(|index| {
                    life(usize::try_from(index).unwrap(), below(2) > 0, below(40), 1 + below(24), below(3))
                })
                .collect();
            let owners = owners(&lives, 64);
            let mut expected: Vec<AddressBlock> = Vec::new();
            let mut before = None;
            for (at, owner) in (0..).zip(&owners) {
                match expected.last_mut() {
                    Some(last) if owner.is_some() && *owner == before => last.1 = at + 1,
                    _ if owner.is_some() => expected.push((at, at + 1)),
                    _ => {}
                }
                before = *owner;
            }
            assert_eq!(sweep(lives), expected);
        }
    }

    thread_local! {
        static COMPARISONS: Cell<usize> = const { Cell::new(0) };
    }

    /// A rank that counts how often it is compared.
    #[derive(Clone, Copy, PartialEq, Eq)]
    struct CountedRank(usize);

    impl Ord for CountedRank {
        fn cmp(&self, other: &Self) -> Ordering {
            COMPARISONS.set(COMPARISONS.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for CountedRank {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    #[test]
    fn ranges_within_each_other_take_near_linear_steps() {
        let comparisons = |count: u64| {
            let nested = (0..count).map(|low| {
                let rank = CountedRank(usize::try_from(count - low).unwrap());
                RankedRange { low, high: 2 * count - low, rank }
            });
            COMPARISONS.set(0);
            assert_eq!(sweep(nested.collect()).len(), usize::try_from(2 * count - 1).unwrap());
            COMPARISONS.get()
        };
        // A tenth of the ranges for the constant. A logarithm grows by less than a half.
        let (few, many) = (comparisons(2_000), comparisons(20_000));
        assert!(many < 15 * few, "{few} comparisons of 2,000 ranges, {many} of 20,000");
    }
}
