//! The GPU's records of one launch, turned into sorted rows of `memory_access`.
//!
//! ```text
//! frames → pieces → chunks (entries, sorted) → parts (rows from one border to the next) → batches
//! ```
//!
//! Pieces are read, and parts are written, by any thread. A launch whose entries are too large for memory is converted
//! in rounds, each of which reads all frames again and keeps the entries between two borders: to unpack records takes
//! less time than to store them once more.

mod chunk;
mod columns;
mod parts;
mod passes;
mod piece;
mod places;
mod record;
mod sorting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use rayon::prelude::*;
use stallmap_schema::capture::request::SLOT_BYTES;
use stallmap_schema::capture::segment::{FrameRef, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_write::encoding::ROW_GROUP_ROWS;

use crate::code::CodeMap;
use crate::error::FinishError;

use columns::Columns;
pub(crate) use passes::{Passes, Sorted};
pub(crate) use piece::{Keep, Piece};
pub(crate) use record::{kind as access_kind, space as access_space};

/// Sizes of what is held and done at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Bytes of a launch's entries, about. Larger launches are converted in rounds.
    pub(crate) held_bytes: u64,
    /// Bytes of records that a thread reads at once.
    pub(crate) piece_bytes: u64,
    /// Rows of a part, about: a row group.
    pub(crate) part_rows: usize,
}

impl Limits {
    /// Those of a machine with 2 GB for it.
    pub(crate) const USUAL: Self =
        Self { held_bytes: 800 << 20, piece_bytes: 4 << 20, part_rows: ROW_GROUP_ROWS / 8 * 7 };
}

/// Memory that a thread uses again and again.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: piece::Memory,
    parts: parts::Memory,
}

/// One launch whose records are to be converted.
#[derive(Clone, Copy)]
pub(crate) struct Source<'a> {
    /// The launch's row.
    pub(crate) kernel_id: KernelId,
    /// Its position in its run.
    pub(crate) ordinal: u64,
    /// The segment with its records.
    pub(crate) segment: &'a SegmentReader,
    /// The frames of its records, in the order in which they were written.
    pub(crate) frames: &'a [FrameRef],
    /// Address ranges of the run's functions.
    pub(crate) code: &'a CodeMap,
}

impl Source<'_> {
    /// Bytes of all records.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.raw_bytes)).sum()
    }
}

/// Result of the conversion of a launch's records.
#[derive(Debug, Default)]
pub(crate) struct Converted {
    /// Requests that became rows.
    pub(crate) request_count: u64,
    /// Their lane accesses.
    pub(crate) lane_access_count: u64,
    /// Requests that did not, by reason.
    pub(crate) lost: BTreeMap<&'static str, u64>,
    /// Functions that the rows name.
    pub(crate) functions: BTreeSet<FunctionId>,
}

/// Converts a launch's records into batches of `memory_access`, in the table's order, on all threads.
pub(crate) fn convert(
    source: &Source<'_>,
    emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    convert_within(source, Limits::USUAL, emit)
}

fn convert_within(
    source: &Source<'_>,
    limits: Limits,
    emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    let mut passes = Passes::new(*source, limits);
    while let Some(keep) = passes.next() {
        let pieces = (0..passes.pieces()).into_par_iter();
        let pieces = pieces.map_init(Memory::default, |memory, piece| passes.read(piece, keep, memory));
        let Some(sorted) = passes.end(pieces.collect()) else { continue };
        let parts: Vec<usize> = (0..sorted.parts()).collect();
        for some in parts.chunks(rayon::current_num_threads()) {
            let batches =
                some.par_iter().map_init(Memory::default, |memory, part| sorted.batch(*part, memory));
            emit(batches.collect::<Result<_, _>>()?)?;
        }
    }
    Ok(passes.converted)
}

/// Converts small launches, one after the other, on this thread. Their rows are one batch.
pub(crate) fn convert_small(
    sources: &[Source<'_>],
    memory: &mut Memory,
) -> Result<(Vec<Converted>, RecordBatch), ArrowError> {
    let mut columns = Columns::default();
    let bytes: u64 = sources.iter().map(Source::raw_bytes).sum();
    // No record is shorter than a slot.
    columns.reserve(usize::try_from(bytes / SLOT_BYTES as u64).unwrap_or(0));
    let convert = |source: &Source<'_>| {
        let mut converted = Converted::default();
        let piece = Piece::read(source, source.frames, Keep::All, &mut memory.pieces);
        piece.count(&mut converted);
        parts::append(&piece.chunks, (None, None), source.kernel_id, &mut memory.parts, &mut columns);
        converted
    };
    let converted = sources.iter().map(convert).collect();
    Ok((converted, columns.finish()?))
}
