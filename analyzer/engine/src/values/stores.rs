//! Stores of one launch, by the bytes that they write.

use datafusion::common::HashMap;

use super::PAGE_BYTES;

/// More than one warp, or a store whose order is not known.
const SEVERAL: u32 = u32::MAX;

/// The warp that writes a grain of memory, with its first and last store.
#[derive(Clone, Copy, Default)]
struct GrainWriter {
    /// 0 for none.
    warp: u32,
    first: u32,
    last: u32,
}

/// A time at which memory is compared with an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreOrder {
    /// No store of the launch touches the bytes.
    Untouched,
    /// Only the same warp stores to them, later.
    Later,
    /// Only the same warp stores to them, and no store comes later.
    Done,
    /// Another warp stores to them, or the same both before and after.
    Mixed,
}

/// The stores of a launch. Memory is divided into grains, which every store covers whole.
pub(super) struct LaunchStores {
    grain_bytes: u64,
    warps: HashMap<(u64, u16), u32>,
    pages: HashMap<u64, Box<[GrainWriter]>>,
}

impl LaunchStores {
    /// For stores whose addresses and sizes have no lower bit than `low_bits` have.
    pub(super) fn with_low_bits(low_bits: u64) -> Self {
        let grain_bytes = 1 << low_bits.trailing_zeros().min(4);
        Self { grain_bytes, warps: HashMap::new(), pages: HashMap::new() }
    }

    /// Adds a lane's store.
    pub(super) fn add(&mut self, (address, bytes): (u64, u64), warp: (u64, u16), sequence: u64) {
        let next = u32::try_from(self.warps.len() + 1).unwrap_or(SEVERAL);
        let warp = *self.warps.entry(warp).or_insert(next);
        let sequence = u32::try_from(sequence).ok();
        for grain in self.grains(address, bytes) {
            let Some(writer) = self.writer(grain) else { continue };
            *writer = match (writer.warp, sequence) {
                (0, Some(at)) => GrainWriter { warp, first: at, last: at },
                // Two lanes of one request write the same memory.
                (known, Some(at)) if known == warp && writer.last != at => {
                    GrainWriter { warp, first: writer.first.min(at), last: writer.last.max(at) }
                }
                _ => GrainWriter { warp: SEVERAL, ..*writer },
            };
        }
    }

    /// Adds bytes that are written in an order that is not known, as by atomics.
    pub(super) fn add_unordered(&mut self, address: u64, bytes: u64) {
        for grain in self.grains(address, bytes) {
            if let Some(writer) = self.writer(grain) {
                writer.warp = SEVERAL;
            }
        }
    }

    /// The order of the stores to some bytes and an access of a warp.
    pub(super) fn order(&self, address: u64, bytes: u64, warp: (u64, u16), sequence: u64) -> StoreOrder {
        let warp = self.warps.get(&warp).copied();
        let of_grain = |grain: u64| {
            let page = self.pages.get(&(grain * self.grain_bytes / PAGE_BYTES));
            let writer = page.and_then(|page| page.get(self.index(grain))).copied().unwrap_or_default();
            match writer.warp {
                0 => StoreOrder::Untouched,
                known if Some(known) != warp => StoreOrder::Mixed,
                _ if sequence < writer.first.into() => StoreOrder::Later,
                _ if sequence >= writer.last.into() => StoreOrder::Done,
                _ => StoreOrder::Mixed,
            }
        };
        let mut orders = self.grains(address, bytes).map(of_grain);
        let first = orders.next().unwrap_or(StoreOrder::Untouched);
        if orders.all(|order| order == first) { first } else { StoreOrder::Mixed }
    }

    /// True if a store was seen in a page.
    pub(super) fn touches_page(&self, address: u64) -> bool {
        self.pages.contains_key(&(address / PAGE_BYTES))
    }

    pub(super) fn bytes(&self) -> usize {
        let page = self.pages.values().next().map_or(0, |page| size_of_val(&**page));
        self.pages.len() * (page + 32) + self.warps.len() * 32
    }

    fn grains(&self, address: u64, bytes: u64) -> impl Iterator<Item = u64> + use<> {
        let last = address.saturating_add(bytes.max(1) - 1);
        address / self.grain_bytes..=last / self.grain_bytes
    }

    /// Index of a grain in its page.
    fn index(&self, grain: u64) -> usize {
        usize::try_from(grain % (PAGE_BYTES / self.grain_bytes)).unwrap_or(usize::MAX)
    }

    fn writer(&mut self, grain: u64) -> Option<&mut GrainWriter> {
        let (page, index) = (grain * self.grain_bytes / PAGE_BYTES, self.index(grain));
        let grains = usize::try_from(PAGE_BYTES / self.grain_bytes).unwrap_or_default();
        let page = self.pages.entry(page).or_insert_with(|| vec![GrainWriter::default(); grains].into());
        page.get_mut(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: (u64, u16) = (0, 0);
    const B: (u64, u16) = (0, 1);

    #[test]
    fn an_access_is_before_or_after_stores_of_its_own_warp() {
        let mut stores = LaunchStores::with_low_bits(4);
        stores.add((4096, 8), A, 5);
        stores.add((4096, 4), A, 9);
        let order = |address, warp, sequence| stores.order(address, 4, warp, sequence);
        assert_eq!(order(4096, A, 3), StoreOrder::Later);
        assert_eq!(order(4096, A, 7), StoreOrder::Mixed);
        assert_eq!(order(4096, A, 9), StoreOrder::Done);
        assert_eq!(order(4100, A, 7), StoreOrder::Done);
        assert_eq!(order(4100, B, 7), StoreOrder::Mixed);
        assert_eq!(order(4104, B, 7), StoreOrder::Untouched);
        assert_eq!(stores.order(4092, 8, A, 10), StoreOrder::Mixed);
        assert!(stores.touches_page(5000) && !stores.touches_page(4000));
    }

    #[test]
    fn stores_without_an_order_decide_nothing() {
        let mut stores = LaunchStores::with_low_bits(2);
        // Two lanes of one request, two warps, an atomic.
        stores.add((0, 2), A, 1);
        stores.add((0, 2), A, 1);
        stores.add((2, 2), A, 1);
        stores.add((2, 2), B, 2);
        stores.add_unordered(4, 2);
        assert!([0, 2, 4].iter().all(|&address| stores.order(address, 2, A, 9) == StoreOrder::Mixed));
    }
}
