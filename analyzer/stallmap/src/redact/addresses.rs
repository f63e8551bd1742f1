//! Anonymous addresses: used memory moves together, preserving order and distances.
//!
//! Used memory is divided into pieces of 2 MiB, the unit of the driver. Neighbours stay neighbours, so distances within
//! a region, alignment, ranges and their order stay. Regions follow each other with one piece between them. The piece
//! at 0 stays there: it holds offsets into shared and local memory.

use std::collections::BTreeMap;

/// Bytes of a piece, as a power of two.
const PIECE_BITS: u32 = 21;
/// The piece at which the first region begins.
const FIRST_PIECE: u64 = 4 << (30 - PIECE_BITS);
/// Pieces that all regions may have together: 47 bits of addresses.
const MAX_PIECES: u64 = 1 << (47 - PIECE_BITS);

/// Regions of used memory, during collection.
#[derive(Debug, Default)]
pub(super) struct UsedRegions {
    /// First piece to last piece, both used. Regions neither overlap nor touch.
    pieces: BTreeMap<u64, u64>,
}

impl UsedRegions {
    /// Adds a used range.
    pub(super) fn add(&mut self, address: u64, bytes: u64) {
        let mut first = address >> PIECE_BITS;
        let mut last = address.saturating_add(bytes.saturating_sub(1)) >> PIECE_BITS;
        if self.pieces.range(..=first).next_back().is_some_and(|(_, end)| *end >= last) {
            return;
        }
        // Overlapping or adjacent regions merge with it.
        while let Some((&start, &end)) = self.pieces.range(..=last.saturating_add(1)).next_back()
            && end.saturating_add(1) >= first
        {
            self.pieces.remove(&start);
            (first, last) = (first.min(start), last.max(end));
        }
        self.pieces.insert(first, last);
    }

    /// Destination of each region. `None` if the regions are too large for real memory.
    pub(super) fn rebase(&self) -> Option<AddressRebase> {
        let mut moved = Vec::new();
        let mut next = FIRST_PIECE;
        for (&first, &last) in &self.pieces {
            let count = last - first + 1;
            if first == 0 && last < FIRST_PIECE {
                moved.push((first, last, first));
                continue;
            }
            moved.push((first, last, next));
            next = next.checked_add(count)?.checked_add(1)?;
            if next - FIRST_PIECE > MAX_PIECES {
                return None;
            }
        }
        Some(AddressRebase { moved })
    }
}

/// Mapping of addresses.
#[derive(Debug)]
pub(super) struct AddressRebase {
    /// First piece, last piece, new first piece, in order.
    moved: Vec<(u64, u64, u64)>,
}

impl AddressRebase {
    /// The new address of one in a collected region, otherwise 0.
    pub(super) fn map(&self, address: u64) -> u64 {
        let piece = address >> PIECE_BITS;
        let index = self.moved.partition_point(|(first, ..)| *first <= piece);
        match index.checked_sub(1).and_then(|index| self.moved.get(index)) {
            Some((first, last, to)) if piece <= *last => {
                (to + (piece - first)) << PIECE_BITS | address & ((1 << PIECE_BITS) - 1)
            }
            _ => 0,
        }
    }

    /// Regions that were moved.
    pub(super) fn count(&self) -> usize {
        self.moved.len()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn order_distance_and_alignment_stay(
            ranges in prop::collection::vec((0_u64..1 << 46, 1_u64..1 << 24), 1..20),
        ) {
            let mut regions = UsedRegions::default();
            for &(address, bytes) in &ranges {
                regions.add(address, bytes);
            }
            let rebase = regions.rebase().unwrap();
            let mut ends: Vec<u64> =
                ranges.iter().flat_map(|&(address, bytes)| [address, address + bytes - 1]).collect();
            ends.sort_unstable();
            ends.dedup();
            for pair in ends.windows(2) {
                prop_assert!(rebase.map(pair[0]) < rebase.map(pair[1]));
            }
            for &(address, bytes) in &ranges {
                let new = rebase.map(address);
                prop_assert_eq!(new % 4096, address % 4096);
                prop_assert_eq!(rebase.map(address + bytes - 1) - new, bytes - 1);
            }
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let mut regions = UsedRegions::default();
        regions.add(1 << 40, u64::MAX);
        assert!(regions.rebase().is_none());
    }
}
