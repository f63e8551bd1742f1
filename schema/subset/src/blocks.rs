//! The blocks of memory at one launch: live storages, and what of allocations lies between them.

use stallmap_schema::tables::launch::Launch;
use stallmap_schema::tables::memory::DeviceAllocation;
use stallmap_schema::tables::tensor::Storage;

/// A range of addresses with a lifetime.
#[derive(Clone, Copy)]
struct Life {
    low: u64,
    high: u64,
    begin_ordinal: u64,
    is_storage: bool,
}

/// A block: first address, and past the last.
pub type Block = (u64, u64);

/// The blocks at a launch, by address.
#[derive(Debug)]
pub struct Blocks(Vec<Block>);

impl Blocks {
    /// Storages come before allocations. Among overlapping ones, the smallest has an address, then the newest.
    pub fn new(launch: &Launch, storages: &[Storage], allocations: &[DeviceAllocation]) -> Self {
        let at = launch.capture_ordinal.unwrap_or(launch.ordinal);
        let is_alive = |begin: u64, end: Option<u64>| begin <= at && end.is_none_or(|end| at < end);
        let life = |low: u64, bytes: u64, begin_ordinal: u64, is_storage: bool| Life {
            low,
            high: low.saturating_add(bytes),
            begin_ordinal,
            is_storage,
        };
        let of_run = |run| run == launch.run_id;
        let storages =
            storages.iter().filter(|s| of_run(s.run_id) && is_alive(s.alloc_ordinal, s.free_ordinal));
        let allocations =
            allocations.iter().filter(|a| of_run(a.run_id) && is_alive(a.alloc_ordinal, a.free_ordinal));
        let lives: Vec<Life> = storages
            .map(|s| life(s.address.0, s.size_bytes, s.alloc_ordinal, true))
            .chain(allocations.map(|a| life(a.address.0, a.size_bytes, a.alloc_ordinal, false)))
            .collect();
        let mut bounds: Vec<u64> = lives.iter().flat_map(|life| [life.low, life.high]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let (mut blocks, mut before) = (Vec::<Block>::new(), None);
        for (&low, &high) in bounds.iter().zip(bounds.iter().skip(1)) {
            let holds = |(_, life): &(usize, &Life)| life.low <= low && high <= life.high;
            let rank = |(place, life): &(usize, &Life)| {
                let newest = std::cmp::Reverse((life.begin_ordinal, *place));
                (!life.is_storage, life.high - life.low, newest)
            };
            let owner = lives.iter().enumerate().filter(holds).min_by_key(rank).map(|(place, _)| place);
            match blocks.last_mut() {
                Some(last) if owner.is_some() && owner == before => last.1 = high,
                _ if owner.is_some() => blocks.push((low, high)),
                _ => {}
            }
            before = owner;
        }
        Self(blocks)
    }

    /// The block that holds an address.
    pub fn find(&self, address: u64) -> Option<Block> {
        let after = self.0.partition_point(|&(low, _)| low <= address);
        let block = self.0.get(after.checked_sub(1)?)?;
        (address < block.1).then_some(*block)
    }
}
