//! Number of distinct blocks and warps of a launch that touch an item.

use std::hash::Hash;

use datafusion::common::{HashMap, HashSet};

use super::analysis::Sampler;

/// Maximum of pairs of an item and a block, or a warp. Beyond it, blocks are sampled.
const MOST_PAIRS: usize = 1 << 22;

/// Items with the blocks and warps that touched them.
#[derive(Debug)]
pub(super) struct Distinct<T> {
    pairs: HashSet<(T, u64, Option<u16>)>,
    sampler: Sampler,
}

/// Distinct blocks and warps of an item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Crowd {
    pub(super) blocks: u64,
    pub(super) warps: u64,
}

impl<T> Default for Distinct<T> {
    fn default() -> Self {
        Self { pairs: HashSet::new(), sampler: Sampler::default() }
    }
}

impl<T: Copy + Eq + Hash> Distinct<T> {
    /// Adds a warp of a block.
    pub(super) fn add(&mut self, thing: T, block: u64, warp: u16) {
        if !self.sampler.keeps(block) {
            return;
        }
        self.pairs.insert((thing, block, None));
        self.pairs.insert((thing, block, Some(warp)));
        while self.pairs.len() > MOST_PAIRS {
            self.sampler.halve();
            let sampler = self.sampler;
            self.pairs.retain(|&(_, block, _)| sampler.keeps(block));
        }
    }

    /// Distinct blocks and warps of each item, and the sampled part of the blocks. Resets the counter.
    pub(super) fn count(&mut self) -> (HashMap<T, Crowd>, f64) {
        let mut crowds: HashMap<T, Crowd> = HashMap::new();
        let sampler = std::mem::take(&mut self.sampler);
        self.pairs.drain().for_each(|(thing, _, warp)| {
            let crowd = crowds.entry(thing).or_default();
            let count = if warp.is_some() { &mut crowd.warps } else { &mut crowd.blocks };
            *count = count.saturating_add(sampler.scale(1));
        });
        (crowds, sampler.rate())
    }
}
