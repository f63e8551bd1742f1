//! Live allocations of the driver, each with its kind of memory.

use std::collections::BTreeMap;
use std::ops::Range;

use stallmap_sys::sanitizer::memory_flag;

use super::PAGE_BYTES_U64;
use super::ranges::PageRanges;

/// The kind of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AllocationKind {
    /// Device memory of the program.
    Device,
    /// Variables of a module.
    Module,
    /// Memory that the driver needs for cooperative groups: other addresses in another process, and nothing to save.
    CooperativeGroups,
    /// Memory that launches from the device need.
    DeviceLaunches,
    /// Host memory.
    Host,
    /// Managed memory.
    Managed,
    /// Memory of another GPU.
    Peer,
}

impl AllocationKind {
    /// The kind of an allocation with the API's flags; `is_host` where the API announced it as host memory.
    pub fn from_flags(flags: u32, is_host: bool) -> Self {
        let has = |flag: u32| flags & flag != 0;
        if has(memory_flag::MANAGED) {
            Self::Managed
        } else if is_host || has(memory_flag::HOST) {
            Self::Host
        } else if has(memory_flag::PEER) {
            Self::Peer
        } else if has(memory_flag::DEVICE_LAUNCHES) {
            Self::DeviceLaunches
        } else if has(memory_flag::COOPERATIVE_GROUPS) {
            Self::CooperativeGroups
        } else if has(memory_flag::MODULE) {
            Self::Module
        } else {
            Self::Device
        }
    }
}

/// One allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatedRange {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// CUDA's device ordinal.
    pub device: i32,
    /// Its kind.
    pub kind: AllocationKind,
}

impl AllocatedRange {
    /// The address behind it.
    pub fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes)
    }
}

/// Live allocations, by address.
#[derive(Clone, Debug, Default)]
pub struct AllocationMap(BTreeMap<u64, AllocatedRange>);

impl AllocationMap {
    /// Memory was allocated. Overlapping allocations end, even if their free was not reported.
    pub fn allocated(&mut self, allocation: AllocatedRange) {
        if allocation.bytes == 0 {
            return;
        }
        let range = allocation.address..allocation.end();
        let gone: Vec<u64> = self.in_bytes(range).map(|allocation| allocation.address).collect();
        for address in gone {
            self.0.remove(&address);
        }
        self.0.insert(allocation.address, allocation);
    }

    /// Memory was freed.
    pub fn freed(&mut self, address: u64) {
        self.0.remove(&address);
    }

    /// The allocation that holds an address.
    pub fn at(&self, address: u64) -> Option<&AllocatedRange> {
        let (_, allocation) = self.0.range(..=address).next_back()?;
        (address < allocation.end()).then_some(allocation)
    }

    /// The allocations that a range of bytes touches, in order.
    pub fn in_bytes(&self, bytes: Range<u64>) -> impl DoubleEndedIterator<Item = &AllocatedRange> {
        let first = self.at(bytes.start).map_or(bytes.start, |allocation| allocation.address);
        // Empty, not a panic, where the range is.
        self.0.range(first.min(bytes.end)..bytes.end).map(|(_, allocation)| allocation)
    }

    /// The allocations that a page touches.
    pub fn in_page(&self, page: u64) -> impl Iterator<Item = &AllocatedRange> {
        let start = page.saturating_mul(PAGE_BYTES_U64);
        self.in_bytes(start..start.saturating_add(PAGE_BYTES_U64))
    }

    /// The pages of all device memory of the program on one device.
    pub fn device_pages(&self, device: i32) -> PageRanges {
        let mut pages = PageRanges::default();
        let is_plain = |allocation: &&AllocatedRange| {
            allocation.kind == AllocationKind::Device && allocation.device == device
        };
        for allocation in self.0.values().filter(is_plain) {
            pages.add_bytes(allocation.address, allocation.bytes);
        }
        pages
    }

    /// The parts of pages that are device memory of the program on one device: addresses, in order.
    pub fn pieces(&self, pages: Range<u64>, device: i32) -> Vec<Range<u64>> {
        let (start, end) =
            (pages.start.saturating_mul(PAGE_BYTES_U64), pages.end.saturating_mul(PAGE_BYTES_U64));
        let is_plain = |allocation: &&AllocatedRange| {
            allocation.kind == AllocationKind::Device && allocation.device == device
        };
        let inside = self.in_bytes(start..end).filter(is_plain);
        inside.map(|allocation| allocation.address.max(start)..allocation.end().min(end)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(address: u64, bytes: u64) -> AllocatedRange {
        AllocatedRange { address, bytes, device: 0, kind: AllocationKind::Device }
    }

    #[test]
    fn flags_say_what_memory_is() {
        let cases = [
            (0, false, AllocationKind::Device),
            (0, true, AllocationKind::Host),
            (4, false, AllocationKind::Host),
            (2, true, AllocationKind::Managed),
            (1, false, AllocationKind::Module),
            (0x40, false, AllocationKind::CooperativeGroups),
            (0x30, false, AllocationKind::Peer),
            (0x80, false, AllocationKind::DeviceLaunches),
        ];
        for (flags, is_host, kind) in cases {
            assert_eq!(AllocationKind::from_flags(flags, is_host), kind, "{flags:#x}");
        }
    }

    #[test]
    fn small_allocations_share_a_page() {
        let mut map = AllocationMap::default();
        map.allocated(device(0x1000, 0x200));
        map.allocated(device(0x1200, 0x100));
        map.allocated(AllocatedRange { device: 1, ..device(0x1400, 0x100) });
        map.allocated(device(0x1800, 0x3000));
        assert_eq!(map.pieces(1..3, 0), [0x1000..0x1200, 0x1200..0x1300, 0x1800..0x3000]);
        assert_eq!(map.in_page(1).count(), 4);
        assert_eq!(map.device_pages(0).iter().flatten().collect::<Vec<_>>(), [1, 2, 3, 4]);
        map.freed(0x1800);
        assert_eq!(map.at(0x1fff), None);
        assert_eq!(map.at(0x11ff).map(|allocation| allocation.address), Some(0x1000));
    }

    #[test]
    fn a_new_allocation_ends_those_below_it() {
        let mut map = AllocationMap::default();
        map.allocated(device(0x1000, 0x1000));
        map.allocated(device(0x2000, 0x1000));
        map.allocated(device(0x1800, 0x1000));
        assert_eq!(map.at(0x1000), None);
        assert_eq!(map.in_bytes(0..0x10000).count(), 1);
    }
}
