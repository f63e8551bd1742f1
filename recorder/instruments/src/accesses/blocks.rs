//! Blocks of memory that are alive at a launch: storages, and what of the driver's allocations lies between them.

/// `struct Range` of `device/access.cu`: a block of memory, half-open.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceRange {
    /// Its first address.
    pub start: u64,
    /// The first address behind it.
    pub end: u64,
}

/// The blocks of sorted allocations and sorted storages, sorted and without overlaps. Where two overlap, the one that
/// begins later ends the one before.
pub fn blocks(
    allocations: impl IntoIterator<Item = DeviceRange>,
    storages: impl IntoIterator<Item = DeviceRange>,
) -> Vec<DeviceRange> {
    let mut storages = storages.into_iter().peekable();
    let (mut blocks, mut reached) = (BlockList::default(), 0);
    for allocation in allocations {
        reached = allocation.start.max(reached);
        while let Some(storage) = storages.next_if(|storage| storage.start < allocation.end) {
            blocks.push(DeviceRange { start: reached, end: storage.start });
            blocks.push(storage);
            reached = storage.end.max(reached);
        }
        blocks.push(DeviceRange { start: reached, end: allocation.end });
    }
    storages.for_each(|storage| blocks.push(storage));
    blocks.0
}

#[derive(Default)]
struct BlockList(Vec<DeviceRange>);

impl BlockList {
    fn push(&mut self, block: DeviceRange) {
        if block.start >= block.end {
            return;
        }
        if let Some(last) = self.0.last_mut() {
            if last.start >= block.start {
                return;
            }
            last.end = last.end.min(block.start);
        }
        self.0.push(block);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ranges(pairs: &[(u64, u64)]) -> Vec<DeviceRange> {
        pairs.iter().map(|&(start, end)| DeviceRange { start, end }).collect()
    }

    #[test]
    fn storages_divide_their_allocation() {
        let found = blocks(ranges(&[(100, 200), (300, 400)]), ranges(&[(100, 110), (150, 160), (500, 600)]));
        let expected = [(100, 110), (110, 150), (150, 160), (160, 200), (300, 400), (500, 600)];
        assert_eq!(found, ranges(&expected));
        assert_eq!(blocks(ranges(&[]), ranges(&[(5, 6)])), ranges(&[(5, 6)]));
        assert_eq!(blocks(ranges(&[(1, 9)]), ranges(&[(1, 9)])), ranges(&[(1, 9)]));
    }

    proptest! {
        /// Each address belongs to its storage, else to its allocation, and blocks are in order.
        #[test]
        fn blocks_cover_what_lives(
            allocations in prop::collection::vec((0..40_u64, 1..10_u64), 0..8),
            storages in prop::collection::vec((0..40_u64, 1..6_u64), 0..12),
        ) {
            let apart = |pairs: Vec<(u64, u64)>| {
                let mut next = 0;
                let place = |(gap, bytes)| {
                    let start = next + gap;
                    next = start + bytes;
                    DeviceRange { start, end: next }
                };
                pairs.into_iter().map(place).collect::<Vec<_>>()
            };
            let (allocations, storages) = (apart(allocations), apart(storages));
            let found = blocks(allocations.clone(), storages.clone());
            prop_assert!(found.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let holder = |ranges: &[DeviceRange], at| {
                ranges.iter().find(|range| range.start <= at && at < range.end).copied()
            };
            for at in 0..500 {
                let block = holder(&found, at);
                if let Some(storage) = holder(&storages, at) {
                    prop_assert_eq!(block.map(|block| block.start), Some(storage.start));
                } else {
                    prop_assert_eq!(block.is_some(), holder(&allocations, at).is_some());
                }
            }
        }
    }
}
