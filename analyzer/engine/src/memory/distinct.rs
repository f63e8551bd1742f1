//! Number of distinct blocks and warps of a launch that touch an item.

use super::sampler::HashSampler;

/// Maximum of touches, distinct or not. If half of them are distinct, blocks are sampled.
const MAX_TOUCHES: usize = 1 << 23;

/// Items with the blocks and warps that touched them.
#[derive(Debug)]
pub struct DistinctItems {
    most_touches: usize,
    touches: Vec<WarpTouch>,
    sampler: HashSampler,
}

/// A warp of a block that touched an item: a single number, because these are sorted fast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WarpTouch(u128);

impl WarpTouch {
    fn new(item: u32, block: u64, warp: u16) -> Self {
        Self(u128::from(item) << 80 | u128::from(block) << 16 | u128::from(warp))
    }

    fn item(self) -> u32 {
        u32::try_from(self.0 >> 80).unwrap_or(u32::MAX)
    }

    fn block(self) -> u64 {
        u64::try_from(self.0 >> 16 & u128::from(u64::MAX)).unwrap_or(u64::MAX)
    }
}

/// Distinct blocks and warps of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemWarps {
    /// Blocks, scaled to all of them.
    pub blocks: u64,
    /// Warps, scaled alike.
    pub warps: u64,
}

impl Default for DistinctItems {
    fn default() -> Self {
        Self { most_touches: MAX_TOUCHES, touches: Vec::new(), sampler: HashSampler::default() }
    }
}

impl DistinctItems {
    /// A counter with some bytes of memory.
    pub fn new(room_bytes: usize) -> Self {
        let most_touches = MAX_TOUCHES.min(room_bytes / (2 * size_of::<WarpTouch>()));
        Self { most_touches, ..Self::default() }
    }

    /// Adds a warp of a block.
    pub fn add(&mut self, item: u32, block: u64, warp: u16) {
        if !self.sampler.keeps(block) {
            return;
        }
        self.touches.push(WarpTouch::new(item, block, warp));
        if self.touches.len() > self.most_touches {
            self.make_room();
        }
    }

    fn tidy(&mut self) {
        self.touches.sort_unstable();
        self.touches.dedup();
    }

    fn make_room(&mut self) {
        self.tidy();
        while self.touches.len() > self.most_touches / 2 {
            self.sampler.halve();
            let sampler = self.sampler;
            self.touches.retain(|touch| sampler.keeps(touch.block()));
        }
    }

    /// Distinct blocks and warps of each item, by item, and the sampled part of the blocks. Resets the counter.
    pub fn count(&mut self) -> (Vec<(u32, ItemWarps)>, f64) {
        self.tidy();
        let sampler = std::mem::take(&mut self.sampler);
        let crowd = |touches: &[WarpTouch]| {
            let blocks = touches.chunk_by(|one, other| one.block() == other.block()).count() as u64;
            let crowd =
                ItemWarps { blocks: sampler.scale(blocks), warps: sampler.scale(touches.len() as u64) };
            Some((touches.first()?.item(), crowd))
        };
        let items = self.touches.chunk_by(|one, other| one.item() == other.item());
        let crowds = items.filter_map(crowd).collect();
        self.touches.clear();
        self.touches.shrink_to(self.most_touches / 64);
        (crowds, sampler.rate())
    }

    /// Bytes of memory that it holds.
    pub fn bytes(&self) -> usize {
        self.touches.capacity() * size_of::<WarpTouch>()
    }
}

/// The crowd of an item.
pub fn crowd_of(crowds: &[(u32, ItemWarps)], item: u32) -> Option<ItemWarps> {
    let index = crowds.binary_search_by_key(&item, |&(item, _)| item).ok()?;
    crowds.get(index).map(|&(_, crowd)| crowd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_and_warp_counts_once() {
        let mut distinct = DistinctItems::default();
        for (item, block, warp) in [(2, 0, 0), (1, 5, 1), (2, 0, 1), (2, 7, 0), (2, 0, 0), (1, 5, 1)] {
            distinct.add(item, block, warp);
        }
        let (crowds, rate) = distinct.count();
        let one = ItemWarps { blocks: 1, warps: 1 };
        assert_eq!(
            (crowds.as_slice(), rate),
            ([(1, one), (2, ItemWarps { blocks: 2, warps: 3 })].as_slice(), 1.0)
        );
        assert_eq!((crowd_of(&crowds, 1), crowd_of(&crowds, 3)), (Some(one), None));
        assert_eq!(distinct.count().0, []);
    }

    #[test]
    fn many_blocks_are_sampled() {
        let mut distinct = DistinctItems { most_touches: 2000, ..DistinctItems::default() };
        (0..10_000).for_each(|block| distinct.add(0, block, 0));
        let (crowds, rate) = distinct.count();
        assert!(rate < 1.0);
        assert!((crowds[0].1.blocks as f64 / 10_000.0 - 1.0).abs() < 0.1, "{:?}", crowds[0].1);
    }
}
