//! Tensors in memory that a caching allocator hands out: best fit, blocks of 512 bytes, addresses reused.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use crate::random::BenchRandom;

/// The end of time.
pub(crate) const END: u64 = 10_000_000_000;
const BASE: u64 = 0x7f40_0000_0000;
/// Tensors alive at once, parameters aside.
const LIVE: f64 = 800.0;
/// Maximum number of tensors that are never freed.
const PARAMETERS: usize = 600;

/// A tensor, alone in its storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BenchTensor {
    pub(crate) address: u64,
    /// Bytes of the tensor. Its storage is rounded up to 512.
    pub(crate) bytes: u64,
    pub(crate) allocated: u64,
    pub(crate) dead: Option<u64>,
}

impl BenchTensor {
    pub(crate) fn storage_bytes(&self) -> u64 {
        self.bytes.div_ceil(512) * 512
    }

    pub(crate) fn lives_at(&self, time: u64) -> bool {
        self.allocated <= time && self.dead.is_none_or(|dead| time < dead)
    }
}

/// So many tensors, in the order of their allocation.
pub(crate) fn blocks(count: usize, random: &mut BenchRandom) -> Vec<BenchTensor> {
    let parameters = PARAMETERS.min(count / 10);
    let mut births: Vec<u64> = (parameters..count).map(|_| random.within(1_000, END)).collect();
    births.sort_unstable();
    let mean = LIVE / (count - parameters) as f64 * END as f64;
    let births = std::iter::repeat_n(None, parameters).chain(births.into_iter().map(Some));
    let mut blocks: Vec<BenchTensor> = births
        .map(|start| BenchTensor {
            address: 0,
            bytes: size(random),
            allocated: start.unwrap_or(0),
            dead: start.map(|start| start + whole(random.exponential(mean)) + 1),
        })
        .collect();
    place(&mut blocks);
    blocks
}

/// 512 B to 32 MiB, log-uniform, not all multiples of 512.
fn size(random: &mut BenchRandom) -> u64 {
    let bytes = whole((9.0 + 16.0 * random.unit()).exp2()) / 2 * 2;
    bytes.max(512) - random.within(0, 8) * 2
}

fn whole(number: f64) -> u64 {
    format!("{number:.0}").parse().unwrap_or(0)
}

#[derive(Default)]
struct FreeBlocks {
    by_size: BTreeSet<(u64, u64)>,
    by_address: BTreeMap<u64, u64>,
}

impl FreeBlocks {
    fn put(&mut self, mut address: u64, mut size: u64) {
        if let Some(next) = self.by_address.remove(&(address + size)) {
            self.by_size.remove(&(next, address + size));
            size += next;
        }
        if let Some((&before, &length)) = self.by_address.range(..address).next_back()
            && before + length == address
        {
            self.by_address.remove(&before);
            self.by_size.remove(&(length, before));
            (address, size) = (before, size + length);
        }
        self.by_address.insert(address, size);
        self.by_size.insert((size, address));
    }

    fn take(&mut self, need: u64) -> Option<u64> {
        let &(size, address) = self.by_size.range((need, 0)..).next()?;
        self.by_size.remove(&(size, address));
        self.by_address.remove(&address);
        if size > need {
            self.put(address + need, size - need);
        }
        Some(address)
    }
}

fn place(blocks: &mut [BenchTensor]) {
    let (mut free, mut top, mut dying) = (FreeBlocks::default(), BASE, BinaryHeap::new());
    for block in blocks {
        while let Some(&Reverse((dead, address, size))) = dying.peek()
            && dead <= block.allocated
        {
            dying.pop();
            free.put(address, size);
        }
        let need = block.storage_bytes();
        block.address = free.take(need).unwrap_or_else(|| {
            top += need;
            top - need
        });
        dying.extend(block.dead.map(|dead| Reverse((dead, block.address, need))));
    }
}
