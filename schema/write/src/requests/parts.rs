//! Parts: rows from one border to the next, out of all chunks of a launch.

use stallmap_schema::id::KernelId;

use super::chunk::{InstructionRef, RequestChunk, RequestEntry, RowBorder};
use super::columns::{RequestColumns, RequestRow};
use super::sorting;

/// Samples of a part.
const SAMPLES: usize = 256;
/// Rows that are put together before they go to the columns, in a processor's nearest cache.
const BLOCK_ROWS: usize = 256;

/// Rows between two borders, the second one excluded.
pub(super) type BorderRange<'a> = (Option<&'a RowBorder>, Option<&'a RowBorder>);

/// One row on its way.
#[derive(Clone, Copy)]
struct PartRow {
    /// The number that is sorted by.
    number: u64,
    chunk: u32,
    entry: u32,
}

/// Memory that a thread uses for one part after the other.
#[derive(Default)]
pub(super) struct PartMemory {
    items: Vec<PartRow>,
    spare: Vec<PartRow>,
}

/// Borders that divide the entries of chunks into so many parts of about equal length.
pub(super) fn borders<'a>(
    chunks: impl Iterator<Item = &'a RequestChunk> + Clone,
    parts: usize,
) -> Vec<RowBorder> {
    if parts <= 1 {
        return Vec::new();
    }
    let count: usize = chunks.clone().map(|chunk| chunk.entries.len()).sum();
    let step = (count / (parts * SAMPLES)).max(1);
    let mut sampled: Vec<RowBorder> = chunks.flat_map(|chunk| chunk.sample(step)).collect();
    sampled.sort_unstable();
    let mut borders: Vec<RowBorder> =
        (1..parts).filter_map(|part| sampled.get(sampled.len() * part / parts).copied()).collect();
    borders.dedup();
    borders
}

/// The parts that borders make.
pub(super) fn between(borders: &[RowBorder], part: usize) -> BorderRange<'_> {
    (part.checked_sub(1).and_then(|before| borders.get(before)), borders.get(part))
}

/// Adds a part's rows to columns.
pub(super) fn append(
    chunks: &[RequestChunk],
    (from, to): BorderRange<'_>,
    kernel_id: KernelId,
    memory: &mut PartMemory,
    columns: &mut RequestColumns,
) {
    let range = |chunk: &RequestChunk| {
        let from = from.map_or(0, |border| chunk.position(border));
        (from, to.map_or(chunk.entries.len(), |border| chunk.position(border)).max(from))
    };
    let ranges: Vec<(usize, usize)> = chunks.iter().map(range).collect();
    let mut filled = ranges.iter().enumerate().filter(|(_, (from, to))| from < to);
    let Some((first, _)) = filled.next() else { return };
    if filled.next().is_none() {
        return append_chunk(&chunks[first], ranges[first], kernel_id, columns);
    }
    let order = PartOrder::new(chunks, &ranges);
    memory.items.clear();
    for ((chunk, range), index) in chunks.iter().zip(&ranges).zip(0..) {
        for (instruction, entries) in chunk.slices(*range) {
            let rank = order.rank(instruction);
            memory.items.extend(chunk.entries[entries.clone()].iter().zip(entries).map(|(entry, at)| {
                PartRow {
                    number: order.number(rank, chunk.warp(entry)),
                    chunk: index,
                    entry: u32::try_from(at).unwrap_or(u32::MAX),
                }
            }));
        }
    }
    sorting::sort(&mut memory.items, &mut memory.spare, |item| item.number);
    if order.rank_shift.is_none() {
        for item in &mut memory.items {
            item.number = order.rank(chunks[item.chunk as usize].instruction(item.entry as usize));
        }
        sorting::sort(&mut memory.items, &mut memory.spare, |item| item.number);
    }
    columns.reserve(memory.items.len());
    let mut lines = Vec::with_capacity(BLOCK_ROWS);
    for items in memory.items.chunks(BLOCK_ROWS) {
        lines.clear();
        lines.extend(items.iter().map(|item| {
            let chunk = &chunks[item.chunk as usize];
            line(chunk, order.instruction(item.number), &chunk.entries[item.entry as usize])
        }));
        columns.append(kernel_id, &lines);
    }
}

/// Adds rows that are all of one chunk, in its order.
fn append_chunk(
    chunk: &RequestChunk,
    range: (usize, usize),
    kernel_id: KernelId,
    columns: &mut RequestColumns,
) {
    columns.reserve(range.1 - range.0);
    let mut lines = Vec::with_capacity(BLOCK_ROWS);
    for (instruction, range) in chunk.slices(range) {
        for entries in chunk.entries[range].chunks(BLOCK_ROWS) {
            lines.clear();
            lines.extend(entries.iter().map(|entry| line(chunk, instruction, entry)));
            columns.append(kernel_id, &lines);
        }
    }
}

#[inline]
fn line<'a>(chunk: &'a RequestChunk, instruction: InstructionRef, entry: &RequestEntry) -> RequestRow<'a> {
    let pattern = &chunk.patterns[usize::from(entry.pattern)];
    RequestRow {
        instruction,
        warp: chunk.warp(entry),
        sequence: chunk.sequence(entry),
        address: entry.address,
        pattern,
        offsets: chunk.offsets(pattern),
    }
}

/// The order of a part's rows, as numbers.
struct PartOrder {
    instructions: Vec<InstructionRef>,
    first_warp: u64,
    /// The place of an instruction's rank in a number. `None` if it and the warp do not fit in one.
    rank_shift: Option<u32>,
}

impl PartOrder {
    fn new(chunks: &[RequestChunk], ranges: &[(usize, usize)]) -> Self {
        let mut instructions: Vec<InstructionRef> = Vec::new();
        let (mut first_warp, mut last_warp) = (u64::MAX, 0);
        for (chunk, range) in chunks.iter().zip(ranges) {
            for (instruction, entries) in chunk.slices(*range) {
                instructions.push(instruction);
                // Entries of an instruction are in the order of warps.
                first_warp = first_warp.min(chunk.warp(&chunk.entries[entries.start]));
                last_warp = last_warp.max(chunk.warp(&chunk.entries[entries.end - 1]));
            }
        }
        instructions.sort_unstable();
        instructions.dedup();
        let bits = |number: u64| u64::BITS - number.leading_zeros();
        let shift = bits(last_warp.saturating_sub(first_warp));
        let fits = shift + bits(instructions.len() as u64) <= u64::BITS;
        Self { instructions, first_warp, rank_shift: fits.then_some(shift) }
    }

    fn rank(&self, instruction: InstructionRef) -> u64 {
        self.instructions.binary_search(&instruction).unwrap_or_default() as u64
    }

    #[inline]
    fn number(&self, rank: u64, warp: u64) -> u64 {
        let warp = warp - self.first_warp;
        self.rank_shift.map_or(warp, |shift| rank << shift | warp)
    }

    /// The instruction of a number that was sorted by.
    #[inline]
    fn instruction(&self, number: u64) -> InstructionRef {
        let rank = usize::try_from(number >> self.rank_shift.unwrap_or(0)).unwrap_or(usize::MAX);
        self.instructions.get(rank).copied().unwrap_or_default()
    }
}
