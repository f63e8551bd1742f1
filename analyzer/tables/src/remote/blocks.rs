//! The cached blocks of an object: missing ranges, combined requests, and eviction.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Bytes of a block, the unit of fetching.
pub(super) const BLOCK_BYTES: u64 = 16 << 10;
/// Maximum of cached bytes. The least recently used are evicted.
const HELD_BYTES: u64 = 256 << 20;
/// Maximum of blocks between two missing ones that are cheaper to fetch than another request.
const GAP_BLOCKS: u64 = 4;
/// Maximum blocks of one request.
const REQUEST_BLOCKS: u64 = 512;
/// Maximum of streams whose progress is tracked for read-ahead.
const STREAMS: usize = 64;
/// Maximum blocks of read-ahead.
const AHEAD_BLOCKS: u64 = 256;

/// Blocks by their number.
pub(super) type HeldBlocks = BTreeMap<u64, Bytes>;

/// The blocks of one object.
#[derive(Debug)]
pub(super) struct ObjectBlocks {
    size: u64,
    held: BTreeMap<u64, (Bytes, u64)>,
    by_use: BTreeMap<u64, u64>,
    held_bytes: u64,
    clock: u64,
    /// End of each request, and its number of blocks: a request that begins there continues the stream.
    streams: BTreeMap<u64, u64>,
}

impl ObjectBlocks {
    /// No blocks yet, of an object of a size.
    pub(super) fn new(size: u64) -> Self {
        let (held, by_use, streams) = Default::default();
        Self { size, held, by_use, held_bytes: 0, clock: 0, streams }
    }

    /// The blocks of ranges that are held.
    pub(super) fn held(&mut self, ranges: &[Range<u64>]) -> HeldBlocks {
        let mut found = HeldBlocks::new();
        for block in ranges.iter().flat_map(blocks_of) {
            if found.contains_key(&block) {
                continue;
            }
            if let Some((bytes, used)) = self.held.get_mut(&block) {
                self.clock += 1;
                self.by_use.remove(used);
                *used = self.clock;
                self.by_use.insert(self.clock, block);
                found.insert(block, bytes.clone());
            }
        }
        found
    }

    /// Ranges to fetch for the missing blocks: near ones together, and ahead of streams.
    pub(super) fn missing(&mut self, ranges: &[Range<u64>], held: &HeldBlocks) -> Vec<Range<u64>> {
        let blocks = ranges.iter().flat_map(blocks_of).filter(|block| !held.contains_key(block));
        let blocks: BTreeSet<u64> = blocks.collect();
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks {
            match runs.last_mut() {
                Some(run) if block <= run.end + GAP_BLOCKS && block < run.start + REQUEST_BLOCKS => {
                    run.end = block + 1;
                }
                _ => runs.push(block..block + 1),
            }
        }
        if let [run] = runs.as_mut_slice() {
            self.read_ahead(run);
        }
        let bytes = |run: &Range<u64>| run.start * BLOCK_BYTES..(run.end * BLOCK_BYTES).min(self.size);
        runs.iter().map(bytes).collect()
    }

    /// A run that begins at the end of another continues a stream: the fetched size doubles.
    fn read_ahead(&mut self, run: &mut Range<u64>) {
        let all = self.size.div_ceil(BLOCK_BYTES);
        if let Some(before) = self.streams.remove(&run.start) {
            let wanted = (before * 2).min(AHEAD_BLOCKS).max(run.end - run.start);
            let next_held = self.held.range(run.end..).next().map_or(all, |(block, _)| *block);
            run.end = (run.start + wanted).min(next_held).max(run.end).min(all);
        }
        if self.streams.len() >= STREAMS {
            self.streams.pop_first();
        }
        self.streams.insert(run.end, run.end - run.start);
    }

    /// Caches the complete blocks of fetched bytes. Returns them.
    pub(super) fn insert(&mut self, start: u64, bytes: &Bytes) -> HeldBlocks {
        let end = start + bytes.len() as u64;
        let first = start.div_ceil(BLOCK_BYTES);
        let mut whole = HeldBlocks::new();
        for block in first..end.div_ceil(BLOCK_BYTES) {
            let range = block * BLOCK_BYTES..((block + 1) * BLOCK_BYTES).min(self.size);
            if range.end > end || range.start < start {
                continue;
            }
            let at = |offset: u64| usize::try_from(offset - start).unwrap_or(usize::MAX);
            // A copy: an evicted block then frees its bytes.
            let block_bytes = Bytes::copy_from_slice(&bytes[at(range.start)..at(range.end)]);
            self.keep(block, block_bytes.clone());
            whole.insert(block, block_bytes);
        }
        whole
    }

    fn keep(&mut self, block: u64, bytes: Bytes) {
        self.clock += 1;
        self.held_bytes += bytes.len() as u64;
        if let Some((before, used)) = self.held.insert(block, (bytes, self.clock)) {
            self.held_bytes -= before.len() as u64;
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.clock, block);
        while self.held_bytes > HELD_BYTES
            && let Some((_, oldest)) = self.by_use.pop_first()
            && let Some((bytes, _)) = self.held.remove(&oldest)
        {
            self.held_bytes -= bytes.len() as u64;
        }
    }
}

/// The bytes of a range, from its blocks.
pub(super) fn assemble(range: &Range<u64>, held: &HeldBlocks) -> Bytes {
    let part = |block: u64| {
        let bytes = held.get(&block)?;
        let start = block * BLOCK_BYTES;
        let within = |offset: u64| {
            usize::try_from(offset.saturating_sub(start)).unwrap_or(usize::MAX).min(bytes.len())
        };
        Some(bytes.slice(within(range.start)..within(range.end)))
    };
    let mut parts = blocks_of(range).filter_map(part);
    match (parts.next(), parts.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut whole = BytesMut::with_capacity(usize::try_from(range.end - range.start).unwrap_or(0));
            whole.extend_from_slice(&first);
            whole.extend_from_slice(&second);
            parts.for_each(|part| whole.extend_from_slice(&part));
            whole.freeze()
        }
    }
}

fn blocks_of(range: &Range<u64>) -> Range<u64> {
    if range.is_empty() {
        return 0..0;
    }
    range.start / BLOCK_BYTES..range.end.div_ceil(BLOCK_BYTES)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// An object whose bytes encode their position.
    fn object(size: u64) -> Bytes {
        (0..size).map(|at| u8::try_from(at % 251).unwrap_or(0)).collect()
    }

    fn read(
        blocks: &mut ObjectBlocks,
        object: &Bytes,
        ranges: &[Range<u64>],
    ) -> (Vec<Bytes>, Vec<Range<u64>>) {
        let at = |offset: u64| usize::try_from(offset).unwrap_or(0);
        let mut held = blocks.held(ranges);
        let runs = blocks.missing(ranges, &held);
        for run in &runs {
            held.extend(blocks.insert(run.start, &object.slice(at(run.start)..at(run.end))));
        }
        (ranges.iter().map(|range| assemble(range, &held)).collect(), runs)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_is_read_is_what_the_object_holds(
            size in 1_u64..600_000,
            reads in prop::collection::vec(prop::collection::vec((0_u64..1_000_000, 0_u64..1_000_000), 1..4), 1..8),
        ) {
            let object = object(size);
            let mut blocks = ObjectBlocks::new(size);
            for ranges in reads {
                let at = |millionths: u64| millionths * size / 1_000_000;
                let ranges: Vec<_> = ranges.iter().map(|&(a, b)| at(a.min(b))..at(a.max(b))).collect();
                let (got, runs) = read(&mut blocks, &object, &ranges);
                for (range, bytes) in ranges.iter().zip(&got) {
                    let range_in_object = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                    prop_assert_eq!(&object[range_in_object], &bytes[..]);
                }
                prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
                let (_, again) = read(&mut blocks, &object, &ranges);
                prop_assert!(again.is_empty(), "what was read is held");
            }
        }
    }

    #[test]
    fn a_stream_is_read_in_growing_steps() {
        let size = 8 << 20;
        let object = object(size);
        let mut blocks = ObjectBlocks::new(size);
        let mut requests = 0;
        for start in (0..size).step_by(4096) {
            requests += read(&mut blocks, &object, std::slice::from_ref(&(start..start + 4096))).1.len();
        }
        assert!(requests <= 12, "{requests} requests");
    }
}
