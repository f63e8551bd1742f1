//! Records in the order of `memory_access`.

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use rayon::prelude::*;
use stallmap_schema::capture::request::Request;
use stallmap_schema::id::KernelId;

use super::columns::Columns;
use super::places::{ByPc, Places};
use super::record::{self, Record};
use super::survey::Surveyed;
use super::{BATCH_ROWS, Source};
use crate::error::FinishError;

const SEQUENCE_BITS: u32 = 48;
const WARP_BITS: u32 = 8;
const BLOCK_BITS: u32 = 40;
const RANK_SHIFT: u32 = SEQUENCE_BITS + WARP_BITS + BLOCK_BITS;

/// Position of a record in its launch's part of the table: by function and pc, block, warp, and sequence. One number, as
/// millions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position(u128);

impl Position {
    /// `rank` is the instruction's among [`Places`].
    pub(super) fn new(rank: u32, request: &Request, sequence: u64) -> Self {
        let warp = request.block << WARP_BITS | u64::from(request.warp);
        Self(u128::from(rank) << RANK_SHIFT | u128::from(warp) << SEQUENCE_BITS | u128::from(sequence))
    }

    /// The same record, of an instruction whose rank was not known, in a frame with so many records before it.
    pub(super) fn placed(self, rank: u32, first_sequence: u64) -> Self {
        Self(self.0 + (u128::from(rank) << RANK_SHIFT) + u128::from(first_sequence))
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

/// A record of a part: its position, and where its bytes begin.
#[derive(Clone, Copy)]
struct Entry {
    position: Position,
    frame: u32,
    start: u32,
}

/// The sorted records of a part.
pub(super) struct Part<'a> {
    places: &'a Places,
    /// The frames' records.
    frames: Vec<Vec<u8>>,
    entries: Vec<Entry>,
}

impl<'a> Part<'a> {
    /// Takes the records of a part out of all frames, which are read again unless the survey holds them.
    pub(super) fn read(
        source: &Source<'_>,
        places: &'a Places,
        surveyed: &mut [Surveyed],
        part: Between,
    ) -> Self {
        let frames = surveyed.par_iter_mut().zip(source.frames).enumerate();
        let (frames, entries): (Vec<_>, Vec<_>) = frames
            .map(|(index, (surveyed, frame))| {
                let held = surveyed.records.take();
                let records = held.or_else(|| super::records(source, frame)).unwrap_or_default();
                select(places, part, (index, surveyed.first_sequence), records)
            })
            .unzip();
        let mut entries = entries.concat();
        entries.par_sort_unstable_by_key(|entry| entry.position);
        Self { places, frames, entries }
    }

    /// Its rows as batches, some at a time.
    pub(super) fn emit(
        &self,
        kernel_id: KernelId,
        emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), FinishError>,
    ) -> Result<(), FinishError> {
        // Rows are larger than records: each thread has one batch of them.
        for some in self.entries.chunks(BATCH_ROWS * rayon::current_num_threads()) {
            let batches = some.par_chunks(BATCH_ROWS).map(|entries| self.batch(kernel_id, entries));
            emit(batches.collect::<Result<_, _>>()?)?;
        }
        Ok(())
    }

    fn batch(&self, kernel_id: KernelId, entries: &[Entry]) -> Result<RecordBatch, ArrowError> {
        let mut columns = Columns::with_capacity(entries.len());
        for entry in entries {
            let bytes =
                self.frames.get(entry.frame as usize).and_then(|frame| frame.get(entry.start as usize..));
            let record = bytes.and_then(Record::read).map(|(record, _)| record);
            if let Some((record, place)) = record.zip(self.places.at(entry.position.rank())) {
                columns.append(place, entry.position, &record);
            }
        }
        columns.finish(kernel_id)
    }
}

/// The records of a frame that lie in a part, with their bytes. Frame and records are counted in the launch.
fn select(
    places: &Places,
    part: Between,
    (frame, first_sequence): (usize, u64),
    records: Vec<u8>,
) -> (Vec<u8>, Vec<Entry>) {
    let frame = u32::try_from(frame).unwrap_or(u32::MAX);
    let mut ranks = ByPc::default();
    let mut entries = Vec::new();
    let mut bytes = Vec::new();
    for (sequence, record) in (first_sequence..).zip(record::records(&records)) {
        let Ok((start, record)) = record else { break };
        let pc = record.request.pc;
        let Some(rank) = *ranks.get_or(pc, || places.rank(pc)) else { continue };
        let position = Position::new(rank, &record.request, sequence);
        if part.is_whole() {
            entries.push(Entry { position, frame, start: u32::try_from(start).unwrap_or(u32::MAX) });
        } else if part.contains(position) {
            entries.push(Entry { position, frame, start: u32::try_from(bytes.len()).unwrap_or(u32::MAX) });
            bytes.extend_from_slice(&records[start..start + record.bytes()]);
        }
    }
    (if part.is_whole() { records } else { bytes }, entries)
}
