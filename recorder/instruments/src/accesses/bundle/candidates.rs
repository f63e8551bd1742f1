//! Memory that a launch may write: everything that its parameters point into.

use std::ops::Range;

use stallmap_schema::tensor_map::{self, FoundTensorMap};

use super::memory::{AllocationKind, AllocationMap};
use super::ranges::PageRanges;

/// Device memory up to this size is saved completely, whatever the parameters are.
const ALL_BYTES: u64 = 256 << 20;

/// Known facts about a launch's memory before it runs.
#[derive(Clone, Debug, Default)]
pub struct LaunchPages {
    /// Pages that parameters point into: whole blocks of the framework's allocator where known, else whole allocations.
    pub pointed: PageRanges,
    /// Pages that are saved.
    pub saved: PageRanges,
    /// Pages that tensor maps in the parameters cover.
    pub mapped: PageRanges,
    /// Number of tensor maps.
    pub map_count: usize,
}

/// The candidates of a launch on a device. `block_at` finds the framework's block that holds an address; `all` saves
/// all of the program's device memory.
pub fn find(
    parameters: &[u8],
    memory: &AllocationMap,
    device: i32,
    block_at: impl Fn(u64) -> Option<Range<u64>>,
    all: bool,
) -> LaunchPages {
    let plain = |address| {
        memory
            .at(address)
            .filter(|allocation| allocation.kind == AllocationKind::Device && allocation.device == device)
    };
    let mut pointed = PageRanges::default();
    for address in words(parameters) {
        let Some(allocation) = plain(address) else { continue };
        let whole = allocation.address..allocation.end();
        let block = block_at(address).filter(|block| whole.start <= block.start && block.end <= whole.end);
        let block = block.unwrap_or(whole);
        pointed.add_bytes(block.start, block.end - block.start);
    }
    let maps = tensor_map::find(parameters, |address| plain(address).is_some());
    let mut mapped = PageRanges::default();
    for map in &maps {
        let end = map.address.saturating_add(span_bytes(map));
        let end = memory.at(map.address).map_or(end, |allocation| end.min(allocation.end()));
        mapped.add_bytes(map.address, end - map.address);
    }
    let everything = memory.device_pages(device);
    let takes_all = all || everything.count() <= ALL_BYTES / super::PAGE_BYTES_U64;
    let mut saved = if takes_all { everything } else { pointed.clone() };
    for pages in mapped.iter() {
        saved.add(pages);
    }
    LaunchPages { pointed, saved, mapped, map_count: maps.len() }
}

/// Every eight bytes of the parameters that could be a pointer: they may begin at any multiple of four.
pub fn words(parameters: &[u8]) -> impl Iterator<Item = u64> {
    let starts = (0..parameters.len()).step_by(4);
    starts.filter_map(|start| parameters.get(start..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)))
}

/// Bytes from the first to past the last element of a tensor map.
fn span_bytes(map: &FoundTensorMap) -> u64 {
    let outer = map.sizes.iter().skip(1).zip(&map.strides);
    let steps = outer.map(|(&size, &stride)| size.saturating_sub(1).saturating_mul(stride));
    let row =
        map.sizes.first().map_or(0, |&size| size.saturating_mul(map.element_bytes.unwrap_or(16).into()));
    steps.fold(row, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::accesses::bundle::memory::AllocatedRange;

    const GIB: u64 = 1 << 30;

    fn memory() -> AllocationMap {
        let mut map = AllocationMap::default();
        map.allocated(AllocatedRange { address: GIB, bytes: GIB, device: 0, kind: AllocationKind::Device });
        map.allocated(AllocatedRange {
            address: 4 * GIB,
            bytes: 0x1000,
            device: 0,
            kind: AllocationKind::Host,
        });
        map.allocated(AllocatedRange {
            address: 5 * GIB,
            bytes: 0x2000,
            device: 0,
            kind: AllocationKind::Device,
        });
        map
    }

    fn pointers(addresses: &[u64]) -> Vec<u8> {
        // An odd multiple of four: packed structures have pointers there.
        std::iter::once(0_u32.to_le_bytes().to_vec())
            .chain(addresses.iter().map(|address| address.to_le_bytes().to_vec()))
            .flatten()
            .collect()
    }

    fn pages(ranges: &PageRanges) -> Vec<Range<u64>> {
        ranges.iter().collect()
    }

    #[test]
    fn parameters_point_into_blocks_and_allocations() {
        let block = |address: u64| (address < 2 * GIB).then_some(GIB + 0x200..GIB + 0x2200);
        let parameters = pointers(&[GIB + 0x1000, 4 * GIB, 5 * GIB + 0x1fff, 7]);
        let found = find(&parameters, &memory(), 0, block, false);
        let first = GIB >> 12;
        assert_eq!(pages(&found.pointed), [first..first + 3, 5 * first..5 * first + 2]);
        assert_eq!(found.saved, found.pointed);
    }

    #[test]
    fn little_memory_is_saved_whole() {
        let mut small = AllocationMap::default();
        small.allocated(AllocatedRange {
            address: 0x10000,
            bytes: 0x100,
            device: 0,
            kind: AllocationKind::Device,
        });
        let found = find(&[], &small, 0, |_| None, false);
        assert_eq!((found.pointed.count(), found.saved.iter().flatten().collect()), (0, vec![0x10]));
        assert_eq!(find(&[], &memory(), 0, |_| None, false).saved.count(), 0);
        assert_eq!(find(&[], &memory(), 0, |_| None, true).saved.count(), (GIB >> 12) + 2);
    }

    #[test]
    fn a_tensor_map_covers_its_tensor_only() {
        let mut words = [0_u32; 16];
        (words[0], words[2]) = (u32::try_from(GIB).unwrap(), 0x510);
        (words[3], words[8], words[9]) = (0x100, 0x7ff, 0x1ff);
        (words[13], words[14]) = (0x3f00_0000, 0x7f);
        let parameters: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let found = find(&parameters, &memory(), 0, |_| None, false);
        assert_eq!((found.map_count, found.mapped.count()), (1, 512));
        assert_eq!(found.saved.count(), GIB >> 12);
    }
}
