//! Records in the order of `memory_access`.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use rayon::prelude::*;
use stallmap_schema::capture::request::{Request, SLOT_BYTES};
use stallmap_schema::id::KernelId;
use stallmap_write::encoding::ROW_GROUP_ROWS;

use super::columns::Columns;
use super::places::{ByPc, Places};
use super::record::{self, DISTANCE_BYTES, Record};
use super::survey::Surveyed;
use super::{BATCH_ROWS, Source};
use crate::error::FinishError;

/// Records whose bytes are copied before any of them is understood. They lie anywhere in memory, and a processor waits
/// for several at once where nothing else stands between the loads. The first load of a record was one sample in seven.
const GATHERED: usize = 64;
const SEQUENCE_BITS: u32 = 48;
const WARP_BITS: u32 = 8;
const BLOCK_BITS: u32 = 40;
const RANK_SHIFT: u32 = SEQUENCE_BITS + WARP_BITS + BLOCK_BITS;

/// Linear block index and warp of a warp request, packed into one integer.
pub(super) fn warp_number(request: &Request) -> u64 {
    request.block << WARP_BITS | u64::from(request.warp)
}

/// Position of a record in its launch's part of the table: by function and pc, block, warp, and sequence. One number, as
/// millions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(u128);

impl Position {
    /// `rank` is the instruction's among [`Places`].
    pub(super) fn new(rank: u32, request: &Request, sequence: u64) -> Self {
        let warp = u128::from(warp_number(request)) << SEQUENCE_BITS;
        Self(u128::from(rank) << RANK_SHIFT | warp | u128::from(sequence))
    }

    /// The same record, of an instruction whose rank was not known, in a frame with so many records before it.
    pub(super) fn placed(self, rank: u32, first_sequence: u64) -> Self {
        Self(self.0 + (u128::from(rank) << RANK_SHIFT) + u128::from(first_sequence))
    }

    fn warp_number(self) -> u64 {
        self.field(SEQUENCE_BITS, WARP_BITS + BLOCK_BITS)
    }

    pub(super) fn rank(self) -> u32 {
        self.field(RANK_SHIFT, u32::BITS).try_into().unwrap_or(u32::MAX)
    }

    pub(super) fn block(self) -> u64 {
        self.field(SEQUENCE_BITS + WARP_BITS, BLOCK_BITS)
    }

    pub(super) fn warp(self) -> u16 {
        self.field(SEQUENCE_BITS, WARP_BITS).try_into().unwrap_or(u16::MAX)
    }

    pub(super) fn sequence(self) -> u64 {
        self.field(0, SEQUENCE_BITS)
    }

    fn field(self, shift: u32, bits: u32) -> u64 {
        u64::try_from(self.0 >> shift & ((1 << bits) - 1)).unwrap_or(u64::MAX)
    }
}

/// A part of the order, from one border to the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Between {
    pub(super) from: Option<Position>,
    pub(super) to: Option<Position>,
}

impl Between {
    /// The parts that borders make.
    pub(super) fn all(borders: &[Position]) -> Vec<Self> {
        let from = std::iter::once(None).chain(borders.iter().copied().map(Some));
        let to = borders.iter().copied().map(Some).chain(std::iter::once(None));
        from.zip(to).map(|(from, to)| Self { from, to }).collect()
    }

    /// True if all records lie in it.
    fn is_whole(self) -> bool {
        self.from.is_none() && self.to.is_none()
    }

    fn contains(self, position: Position) -> bool {
        self.from.is_none_or(|from| from <= position) && self.to.is_none_or(|to| position < to)
    }
}

/// Bits that the positions of a launch need.
#[derive(Clone, Copy, Debug)]
pub(super) struct Widths {
    sequence: u32,
    warp: u32,
    rank: u32,
}

impl Widths {
    /// For numbers up to these.
    pub(super) fn new(sequence: u64, warp_number: u64, rank: u64) -> Self {
        let bits = |most: u64| u64::BITS - most.leading_zeros();
        Self { sequence: bits(sequence), warp: bits(warp_number), rank: bits(rank) }
    }

    /// True if a position fits in 64 bits. Half as many bytes are sorted in half the time.
    pub(super) fn is_narrow(self) -> bool {
        self.sequence + self.warp + self.rank <= u64::BITS
    }
}

/// A position as it is sorted.
pub(super) trait Key: Copy + Ord + Send + Sync {
    /// The key of a position of a launch.
    fn pack(position: Position, widths: Widths) -> Self;

    /// The position of a key of that launch.
    fn unpack(self, widths: Widths) -> Position;
}

impl Key for Position {
    fn pack(position: Position, _: Widths) -> Self {
        position
    }

    fn unpack(self, _: Widths) -> Position {
        self
    }
}

impl Key for u64 {
    fn pack(position: Position, widths: Widths) -> Self {
        let rank = u64::from(position.rank()).checked_shl(widths.warp).unwrap_or(0);
        let place = (rank | position.warp_number()).checked_shl(widths.sequence).unwrap_or(0);
        place | position.sequence()
    }

    fn unpack(self, widths: Widths) -> Position {
        let place = self.checked_shr(widths.sequence).unwrap_or(0);
        let rank = place.checked_shr(widths.warp).unwrap_or(0);
        let low = |number: u64, bits: u32| number & u64::MAX.checked_shr(u64::BITS - bits).unwrap_or(0);
        let (warp, sequence) = (low(place, widths.warp), low(self, widths.sequence));
        let number = u128::from(rank) << RANK_SHIFT | u128::from(warp) << SEQUENCE_BITS;
        Position(number | u128::from(sequence))
    }
}

/// A record of a part: its position, and where its bytes begin.
#[derive(Clone, Copy)]
struct Entry<K> {
    key: K,
    frame: u32,
    start: u32,
}

/// The sorted records of a part.
pub(super) struct Part<'a, K> {
    places: &'a Places,
    widths: Widths,
    /// The frames' records.
    frames: Vec<Vec<u8>>,
    entries: Vec<Entry<K>>,
}

impl<'a, K: Key> Part<'a, K> {
    /// Takes the records of a part out of all frames, which are read again unless the survey holds them.
    pub(super) fn read(
        source: &Source<'_>,
        places: &'a Places,
        widths: Widths,
        surveyed: &mut [Surveyed],
        part: Between,
    ) -> Self {
        let frames = surveyed.par_iter_mut().zip(source.frames).enumerate();
        let (frames, entries): (Vec<_>, Vec<_>) = frames
            .map(|(index, (surveyed, frame))| {
                let held = surveyed.records.take();
                let records = held.or_else(|| super::records(source, frame)).unwrap_or_default();
                select((places, widths), part, (index, surveyed), records)
            })
            .unzip();
        let mut entries = joined(&entries);
        entries.par_sort_unstable_by_key(|entry| entry.key);
        Self { places, widths, frames, entries }
    }

    /// Its rows as batches, some at a time.
    pub(super) fn emit(
        &self,
        kernel_id: KernelId,
        emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), FinishError>,
    ) -> Result<(), FinishError> {
        // Rows are larger than records: each thread has one row group of them, so all threads encode too.
        for some in self.entries.chunks(ROW_GROUP_ROWS * rayon::current_num_threads()) {
            let batches = some.par_chunks(BATCH_ROWS).map(|entries| self.batch(kernel_id, entries));
            emit(batches.collect::<Result<_, _>>()?)?;
        }
        Ok(())
    }

    fn batch(&self, kernel_id: KernelId, entries: &[Entry<K>]) -> Result<RecordBatch, ArrowError> {
        let mut columns = Columns::with_capacity(entries.len());
        let mut slots = [[0; SLOT_BYTES]; GATHERED];
        let mut distances = [[0; DISTANCE_BYTES]; GATHERED];
        for entries in entries.chunks(GATHERED) {
            for (slot, entry) in slots.iter_mut().zip(entries) {
                *slot = self.bytes(entry).first_chunk().copied().unwrap_or_default();
            }
            for ((slot, distances), entry) in slots.iter().zip(&mut distances).zip(entries) {
                let bytes = record::distance_bytes(slot);
                if let Some(from) = self.bytes(entry).get(SLOT_BYTES..SLOT_BYTES + bytes) {
                    distances[..bytes].copy_from_slice(from);
                }
            }
            for ((slot, distances), entry) in slots.iter().zip(&distances).zip(entries) {
                let (record, position) = (Record::of(slot, distances), entry.key.unpack(self.widths));
                if let Some((record, place)) = record.zip(self.places.at(position.rank())) {
                    columns.append(place, position, &record);
                }
            }
        }
        columns.finish(kernel_id)
    }

    /// The bytes of a record, and those behind it.
    fn bytes(&self, entry: &Entry<K>) -> &[u8] {
        let frame = self.frames.get(entry.frame as usize);
        frame.and_then(|frame| frame.get(entry.start as usize..)).unwrap_or_default()
    }
}

/// All entries in a row, copied by all threads.
fn joined<K: Key>(lists: &[Vec<Entry<K>>]) -> Vec<Entry<K>> {
    let Some(any) = lists.iter().find_map(|list| list.first()).copied() else { return Vec::new() };
    let count: usize = lists.iter().map(Vec::len).sum();
    let mut all = Vec::new();
    rayon::iter::repeat_n(any, count).collect_into_vec(&mut all);
    let mut rest = all.as_mut_slice();
    let mut places = Vec::with_capacity(lists.len());
    for list in lists {
        let (place, after) = std::mem::take(&mut rest).split_at_mut(list.len());
        places.push((place, list));
        rest = after;
    }
    places.into_par_iter().for_each(|(place, list)| place.copy_from_slice(list));
    all
}

/// The records of a frame that lie in a part, with their bytes. Frame and records are counted in the launch.
fn select<K: Key>(
    (places, widths): (&Places, Widths),
    part: Between,
    (frame, surveyed): (usize, &Surveyed),
    records: Vec<u8>,
) -> (Vec<u8>, Vec<Entry<K>>) {
    let frame = u32::try_from(frame).unwrap_or(u32::MAX);
    let mut ranks = ByPc::default();
    let held = if part.is_whole() { surveyed.count } else { 0 };
    let mut entries = Vec::with_capacity(usize::try_from(held).unwrap_or(0));
    let mut bytes = Vec::new();
    for (sequence, record) in (surveyed.first_sequence..).zip(record::records(&records)) {
        let Ok((start, record)) = record else { break };
        let pc = record.request.pc;
        let Some(rank) = *ranks.get_or(pc, || places.rank(pc)) else { continue };
        let position = Position::new(rank, &record.request, sequence);
        let key = K::pack(position, widths);
        if part.is_whole() {
            entries.push(Entry { key, frame, start: u32::try_from(start).unwrap_or(u32::MAX) });
        } else if part.contains(position) {
            entries.push(Entry { key, frame, start: u32::try_from(bytes.len()).unwrap_or(u32::MAX) });
            bytes.extend_from_slice(&records[start..start + record.bytes()]);
        }
    }
    (if part.is_whole() { records } else { bytes }, entries)
}
