//! Chunks: up to 65,536 records of a launch, each taken apart into an entry of 16 bytes and a pattern that entries share.
//!
//! A launch of 10^8 requests has 3 to 10 GB of records. Its entries have 1.6 GB, and are sorted without another look at
//! the records.

use std::mem::size_of;

use stallmap_schema::capture::request::RequestHeader;
use stallmap_schema::id::{FunctionId, Pc};
use stallmap_schema::word::{AccessKind, Space};

use super::record::{LaneColumns, RequestRecord};
use super::sorting;

const WARP_BITS: u32 = 8;
/// Most patterns of a chunk before a record is added, which may have one for each lane.
const MAX_PATTERNS: usize = (1 << 16) - 32;

/// A function and an instruction in it.
pub(super) type InstructionRef = (FunctionId, Pc);

/// A position in the order of a launch's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowBorder {
    pub(super) instruction: InstructionRef,
    /// See [`warp_number`].
    pub(super) warp: u64,
    pub(super) sequence: u64,
}

/// Linear block index and warp of a warp request, packed into one integer.
pub(super) fn warp_number(request: &RequestHeader) -> u64 {
    request.block << WARP_BITS | u64::from(request.warp)
}

/// The block and the warp in it.
#[inline]
pub(super) fn block_and_warp(number: u64) -> (u64, u16) {
    (number >> WARP_BITS, u16::try_from(number & ((1 << WARP_BITS) - 1)).unwrap_or(u16::MAX))
}

/// A row: what differs from row to row.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestEntry {
    pub(super) address: u64,
    /// From the chunk's first warp.
    warp: u32,
    /// From the chunk's first record.
    sequence: u16,
    /// Position among the chunk's patterns.
    pub(super) pattern: u16,
}

/// The columns that many rows share.
#[derive(Clone, Copy, Debug)]
pub(super) struct RequestPattern {
    pub(super) span_bytes: u64,
    pub(super) stride_bytes: Option<i32>,
    pub(super) lane_mask: u32,
    /// The first of its offsets among the chunk's, and the one behind the last.
    offsets: (u32, u32),
    /// Position of the instruction among those of the piece that is read.
    code: u32,
    pub(super) access_bytes: u8,
    pub(super) offset_shift: u8,
    /// Position in [`AccessKind::ALL`].
    pub(super) kind: u8,
    /// Position in [`Space::ALL`].
    pub(super) space: u8,
}

/// Entries of one instruction.
#[derive(Clone, Copy, Debug)]
struct InstructionEntries {
    instruction: InstructionRef,
    /// Number of entries up to its last one.
    end: u32,
    /// Their first and last warp, which spare most look-ups an entry.
    warps: (u32, u32),
}

/// Records in the order of their rows.
#[derive(Debug, Default)]
pub(super) struct RequestChunk {
    /// Position of its first record in the launch.
    pub(super) first_sequence: u64,
    first_warp: u64,
    pub(super) entries: Vec<RequestEntry>,
    pub(super) patterns: Vec<RequestPattern>,
    offsets: Vec<u32>,
    slices: Vec<InstructionEntries>,
}

impl RequestChunk {
    /// The instruction of each range of entries within a range.
    pub(super) fn slices(
        &self,
        (from, to): (usize, usize),
    ) -> impl Iterator<Item = (InstructionRef, std::ops::Range<usize>)> {
        let first = self.slices.partition_point(|slice| slice.end as usize <= from);
        let mut begin = from;
        self.slices[first..].iter().map_while(move |slice| {
            let range = begin..to.min(slice.end as usize);
            begin = range.end;
            (!range.is_empty()).then_some((slice.instruction, range))
        })
    }

    /// The instruction of an entry.
    pub(super) fn instruction(&self, entry: usize) -> InstructionRef {
        let at = self.slices.partition_point(|slice| slice.end as usize <= entry);
        self.slices.get(at).map(|slice| slice.instruction).unwrap_or_default()
    }

    /// See [`warp_number`].
    #[inline]
    pub(super) fn warp(&self, entry: &RequestEntry) -> u64 {
        self.first_warp + u64::from(entry.warp)
    }

    /// Position of the record in the launch.
    #[inline]
    pub(super) fn sequence(&self, entry: &RequestEntry) -> u64 {
        self.first_sequence + u64::from(entry.sequence)
    }

    #[inline]
    pub(super) fn offsets(&self, pattern: &RequestPattern) -> &[u32] {
        let (from, to) = pattern.offsets;
        self.offsets.get(from as usize..to as usize).unwrap_or_default()
    }

    /// Number of entries before a border.
    pub(super) fn position(&self, border: &RowBorder) -> usize {
        let at = self.slices.partition_point(|slice| slice.instruction < border.instruction);
        let begin =
            at.checked_sub(1).and_then(|at| self.slices.get(at)).map_or(0, |slice| slice.end as usize);
        let Some(slice) = self.slices.get(at).filter(|slice| slice.instruction == border.instruction) else {
            return begin;
        };
        if border.warp < self.first_warp + u64::from(slice.warps.0) {
            return begin;
        }
        if border.warp > self.first_warp + u64::from(slice.warps.1) {
            return slice.end as usize;
        }
        let before =
            |entry: &RequestEntry| (self.warp(entry), self.sequence(entry)) < (border.warp, border.sequence);
        begin + self.entries[begin..slice.end as usize].partition_point(before)
    }

    /// Borders before some entries: one in so many.
    pub(super) fn sample(&self, step: usize) -> impl Iterator<Item = RowBorder> {
        self.slices((0, self.entries.len())).flat_map(move |(instruction, range)| {
            let first = range.start.next_multiple_of(step);
            (first..range.end).step_by(step).map(move |at| {
                let entry = &self.entries[at];
                RowBorder { instruction, warp: self.warp(entry), sequence: self.sequence(entry) }
            })
        })
    }

    /// Bytes in memory.
    pub(super) fn bytes(&self) -> u64 {
        let entries = self.entries.len() * size_of::<RequestEntry>();
        (entries + self.patterns.len() * size_of::<RequestPattern>() + self.offsets.len() * size_of::<u32>())
            as u64
    }
}

/// A chunk that grows, in the order of records. Its memory is used again for the next one.
#[derive(Default)]
pub(super) struct FillingChunk {
    chunk: RequestChunk,
    spare: Vec<RequestEntry>,
    /// Number of records up to its last one, or 0.
    count: u64,
}

impl FillingChunk {
    /// True if a record can be added.
    #[inline]
    pub(super) fn has_room(&self, sequence: u64, warp: u64) -> bool {
        let chunk = &self.chunk;
        self.count == 0
            || u16::try_from(sequence - chunk.first_sequence).is_ok()
                && u32::try_from(warp.wrapping_sub(chunk.first_warp)).is_ok()
                && chunk.patterns.len() <= MAX_PATTERNS
    }

    /// Adds the row of a record, whose pattern is there already.
    #[inline]
    pub(super) fn add(&mut self, address: u64, warp: u64, sequence: u64, pattern: u16) {
        if self.count == 0 {
            self.chunk.first_sequence = sequence;
            // Blocks come in about their order.
            self.chunk.first_warp = warp.saturating_sub(1 << 31);
        }
        self.count += 1;
        self.chunk.entries.push(RequestEntry {
            address,
            warp: u32::try_from(warp - self.chunk.first_warp).unwrap_or(u32::MAX),
            sequence: u16::try_from(sequence - self.chunk.first_sequence).unwrap_or(u16::MAX),
            pattern,
        });
    }

    /// Adds a pattern.
    pub(super) fn add_pattern(
        &mut self,
        code: usize,
        record: &RequestRecord<'_>,
        piece: &LaneColumns<'_>,
    ) -> u16 {
        let chunk = &mut self.chunk;
        let (pattern, begin) = (chunk.patterns.len(), chunk.offsets.len());
        chunk.offsets.extend_from_slice(piece.offsets);
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        chunk.patterns.push(RequestPattern {
            span_bytes: piece.span_bytes,
            stride_bytes: piece.stride_bytes,
            lane_mask: piece.lane_mask,
            offsets: (number(begin), number(chunk.offsets.len())),
            code: number(code),
            access_bytes: record.request.access_bytes,
            offset_shift: piece.offset_shift,
            kind: index(AccessKind::ALL, &record.kind()),
            space: index(Space::ALL, &record.space()),
        });
        u16::try_from(pattern).unwrap_or(u16::MAX)
    }

    /// Takes the chunk, sorted. `ranks` are positions of instructions among `instructions`.
    pub(super) fn take(&mut self, ranks: &[u32], instructions: &[InstructionRef]) -> Option<RequestChunk> {
        let chunk = &mut self.chunk;
        if chunk.entries.is_empty() {
            return None;
        }
        let rank = |entry: &RequestEntry| {
            let pattern = chunk.patterns.get(usize::from(entry.pattern));
            pattern.and_then(|pattern| ranks.get(pattern.code as usize)).map_or(0, |rank| *rank as usize)
        };
        let mut ends = vec![0_u32; instructions.len() + 1];
        for entry in &chunk.entries {
            ends[rank(entry) + 1] += 1;
        }
        for at in 1..ends.len() {
            ends[at] += ends[at - 1];
        }
        let mut entries = chunk.entries.clone();
        // Each number is where the next entry of an instruction goes, and in the end where its entries end.
        for entry in &chunk.entries {
            let next = &mut ends[rank(entry)];
            entries[*next as usize] = *entry;
            *next += 1;
        }
        let (mut slices, mut begin) = (Vec::new(), 0);
        for (instruction, end) in instructions.iter().zip(ends) {
            if end > begin {
                let entries = &mut entries[begin as usize..end as usize];
                sorting::sort(entries, &mut self.spare, |entry| entry.warp.into());
                let warp = |entry: Option<&RequestEntry>| entry.map_or(0, |entry| entry.warp);
                let warps = (warp(entries.first()), warp(entries.last()));
                slices.push(InstructionEntries { instruction: *instruction, end, warps });
                begin = end;
            }
        }
        let (first_sequence, first_warp) = (chunk.first_sequence, chunk.first_warp);
        let (patterns, offsets) = (chunk.patterns.clone(), chunk.offsets.clone());
        chunk.entries.clear();
        chunk.patterns.clear();
        chunk.offsets.clear();
        self.count = 0;
        Some(RequestChunk { first_sequence, first_warp, entries, patterns, offsets, slices })
    }
}

fn index<T: PartialEq>(all: &[T], value: &T) -> u8 {
    all.iter().position(|other| other == value).and_then(|index| u8::try_from(index).ok()).unwrap_or(0)
}
