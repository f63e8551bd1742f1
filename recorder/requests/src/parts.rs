//! Parts: rows from one border to the next, out of all chunks of a launch.

use stallmap_schema::id::KernelId;

use super::chunk::{Border, Chunk, Entry, Place};
use super::columns::{Columns, Line};
use super::sorting;

/// Samples of a part.
const SAMPLES: usize = 256;
/// Rows that are put together before they go to the columns, in a processor's nearest cache.
const BLOCK_ROWS: usize = 256;

/// Rows between two borders, the second one excluded.
pub(super) type Between<'a> = (Option<&'a Border>, Option<&'a Border>);

/// One row on its way.
#[derive(Clone, Copy)]
struct Item {
    /// The number that is sorted by.
    number: u64,
    chunk: u32,
    entry: u32,
}

/// Memory that a thread uses for one part after the other.
#[derive(Default)]
pub(super) struct Memory {
    items: Vec<Item>,
    spare: Vec<Item>,
}

/// Borders that divide the entries of chunks into so many parts of about equal length.
pub(super) fn borders<'a>(chunks: impl Iterator<Item = &'a Chunk> + Clone, parts: usize) -> Vec<Border> {
    if parts <= 1 {
        return Vec::new();
    }
    let count: usize = chunks.clone().map(|chunk| chunk.entries.len()).sum();
    let step = (count / (parts * SAMPLES)).max(1);
    let mut sampled: Vec<Border> = chunks.flat_map(|chunk| chunk.sample(step)).collect();
    sampled.sort_unstable();
    let mut borders: Vec<Border> =
        (1..parts).filter_map(|part| sampled.get(sampled.len() * part / parts).copied()).collect();
    borders.dedup();
    borders
}

/// The parts that borders make.
pub(super) fn between(borders: &[Border], part: usize) -> Between<'_> {
    (part.checked_sub(1).and_then(|before| borders.get(before)), borders.get(part))
}

/// Adds a part's rows to columns.
pub(super) fn append(
    chunks: &[Chunk],
    (from, to): Between<'_>,
    kernel_id: KernelId,
    memory: &mut Memory,
    columns: &mut Columns,
) {
    let range = |chunk: &Chunk| {
        let from = from.map_or(0, |border| chunk.position(border));
        (from, to.map_or(chunk.entries.len(), |border| chunk.position(border)).max(from))
    };
    let ranges: Vec<(usize, usize)> = chunks.iter().map(range).collect();
    let mut filled = ranges.iter().enumerate().filter(|(_, (from, to))| from < to);
    let Some((first, _)) = filled.next() else { return };
    if filled.next().is_none() {
        return append_chunk(&chunks[first], ranges[first], kernel_id, columns);
    }
    let order = Order::new(chunks, &ranges);
    memory.items.clear();
    for ((chunk, range), index) in chunks.iter().zip(&ranges).zip(0..) {
        for (place, entries) in chunk.slices(*range) {
            let rank = order.rank(place);
            memory.items.extend(chunk.entries[entries.clone()].iter().zip(entries).map(|(entry, at)| Item {
                number: order.number(rank, chunk.warp(entry)),
                chunk: index,
                entry: u32::try_from(at).unwrap_or(u32::MAX),
            }));
        }
    }
    sorting::sort(&mut memory.items, &mut memory.spare, |item| item.number);
    if order.rank_shift.is_none() {
        for item in &mut memory.items {
            item.number = order.rank(chunks[item.chunk as usize].place(item.entry as usize));
        }
        sorting::sort(&mut memory.items, &mut memory.spare, |item| item.number);
    }
    columns.reserve(memory.items.len());
    let mut lines = Vec::with_capacity(BLOCK_ROWS);
    for items in memory.items.chunks(BLOCK_ROWS) {
        lines.clear();
        lines.extend(items.iter().map(|item| {
            let chunk = &chunks[item.chunk as usize];
            line(chunk, order.place(item.number), &chunk.entries[item.entry as usize])
        }));
        columns.append(kernel_id, &lines);
    }
}

/// Adds rows that are all of one chunk, in its order.
fn append_chunk(chunk: &Chunk, range: (usize, usize), kernel_id: KernelId, columns: &mut Columns) {
    columns.reserve(range.1 - range.0);
    let mut lines = Vec::with_capacity(BLOCK_ROWS);
    for (place, range) in chunk.slices(range) {
        for entries in chunk.entries[range].chunks(BLOCK_ROWS) {
            lines.clear();
            lines.extend(entries.iter().map(|entry| line(chunk, place, entry)));
            columns.append(kernel_id, &lines);
        }
    }
}

#[inline]
fn line<'a>(chunk: &'a Chunk, place: Place, entry: &Entry) -> Line<'a> {
    let pattern = &chunk.patterns[usize::from(entry.pattern)];
    Line {
        place,
        warp: chunk.warp(entry),
        sequence: chunk.sequence(entry),
        address: entry.address,
        pattern,
        offsets: chunk.offsets(pattern),
    }
}

/// The order of a part's rows, as numbers.
struct Order {
    places: Vec<Place>,
    first_warp: u64,
    /// The place of an instruction's rank in a number. `None` if it and the warp do not fit in one.
    rank_shift: Option<u32>,
}

impl Order {
    fn new(chunks: &[Chunk], ranges: &[(usize, usize)]) -> Self {
        let mut places: Vec<Place> = Vec::new();
        let (mut first_warp, mut last_warp) = (u64::MAX, 0);
        for (chunk, range) in chunks.iter().zip(ranges) {
            for (place, entries) in chunk.slices(*range) {
                places.push(place);
                // Entries of an instruction are in the order of warps.
                first_warp = first_warp.min(chunk.warp(&chunk.entries[entries.start]));
                last_warp = last_warp.max(chunk.warp(&chunk.entries[entries.end - 1]));
            }
        }
        places.sort_unstable();
        places.dedup();
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let shift = bits(last_warp.saturating_sub(first_warp));
        let fits = shift + bits(places.len() as u64) <= u64::BITS;
        Self { places, first_warp, rank_shift: fits.then_some(shift) }
    }

    fn rank(&self, place: Place) -> u64 {
        self.places.binary_search(&place).unwrap_or_default() as u64
    }

    #[inline]
    fn number(&self, rank: u64, warp: u64) -> u64 {
        let warp = warp - self.first_warp;
        self.rank_shift.map_or(warp, |shift| rank << shift | warp)
    }

    /// The instruction of a number that was sorted by.
    #[inline]
    fn place(&self, number: u64) -> Place {
        let rank = usize::try_from(number >> self.rank_shift.unwrap_or(0)).unwrap_or(usize::MAX);
        self.places.get(rank).copied().unwrap_or_default()
    }
}
