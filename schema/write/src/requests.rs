//! The GPU's records of one launch, turned into sorted rows of `memory_access`.
//!
//! ```text
//! frames → pieces → chunks (entries, sorted) → parts (rows from one border to the next) → batches
//! ```
//!
//! Pieces are read, and parts are written, by any thread. A launch whose entries are too large for memory is converted
//! in rounds, each of which reads all frames again and keeps the entries between two borders: to unpack records takes
//! less time than to store them once more.

mod by_pc;
mod chunk;
mod columns;
mod parts;
mod passes;
mod piece;
mod record;
mod sorting;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use crate::encoding::ROW_GROUP_ROWS;
use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use rayon::prelude::*;
use stallmap_schema::capture::request::SLOT_BYTES;
use stallmap_schema::capture::segment::{FrameRef, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId, Pc};

pub use chunk::RowBorder;
use columns::RequestColumns;
pub use passes::{FramePasses, SortedParts};
pub use piece::{FramePiece, RecordFilter};
pub use record::{kind, space};

/// Sizes of what is held and done at once.
#[derive(Clone, Copy, Debug)]
pub struct ConversionLimits {
    /// Bytes of a launch's entries, about. Larger launches are converted in rounds.
    pub held_bytes: u64,
    /// Bytes of records that a thread reads at once.
    pub piece_bytes: u64,
    /// Rows of a part, about: a row group.
    pub part_rows: usize,
}

impl ConversionLimits {
    /// The limits of a machine with 2 GB for it.
    pub const USUAL: Self =
        Self { held_bytes: 800 << 20, piece_bytes: 4 << 20, part_rows: ROW_GROUP_ROWS / 8 * 7 };
}

/// Memory that a thread uses again and again.
#[derive(Default)]
pub struct ConversionMemory {
    pieces: piece::PieceMemory,
    parts: parts::PartMemory,
}

/// One launch whose records are to be converted.
#[derive(Clone, Copy)]
pub struct LaunchSource<'a> {
    /// The launch's row.
    pub kernel_id: KernelId,
    /// Its position in its run.
    pub ordinal: u64,
    /// The segment with its records.
    pub segment: &'a SegmentReader,
    /// The frames of its records, in the order in which they were written.
    pub frames: &'a [FrameRef],
    /// The function that holds the instruction at an address when a launch with an ordinal runs, and its offset there.
    pub find: &'a (dyn Fn(u64, u64) -> Option<(FunctionId, Pc)> + Sync),
}

impl LaunchSource<'_> {
    /// Bytes of all records.
    pub fn raw_bytes(&self) -> u64 {
        self.frames.iter().map(|frame| u64::from(frame.raw_bytes)).sum()
    }
}

/// Result of the conversion of a launch's records.
#[derive(Debug, Default)]
pub struct ConvertedLaunch {
    /// Requests that became rows.
    pub request_count: u64,
    /// Their lane accesses.
    pub lane_access_count: u64,
    /// Requests that did not, by reason.
    pub lost: BTreeMap<&'static str, u64>,
    /// Functions that the rows name.
    pub functions: BTreeSet<FunctionId>,
}

/// Converts a launch's records into batches of `memory_access`, in the table's order, on all threads.
pub fn convert<E: From<ArrowError>>(
    source: &LaunchSource<'_>,
    emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), E>,
) -> Result<ConvertedLaunch, E> {
    convert_within(source, ConversionLimits::USUAL, emit)
}

fn convert_within<E: From<ArrowError>>(
    source: &LaunchSource<'_>,
    limits: ConversionLimits,
    emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), E>,
) -> Result<ConvertedLaunch, E> {
    let mut passes = FramePasses::new(*source, limits);
    while let Some(keep) = passes.next() {
        let pieces = (0..passes.pieces()).into_par_iter();
        let pieces =
            pieces.map_init(ConversionMemory::default, |memory, piece| passes.read(piece, keep, memory));
        let Some(sorted) = passes.end(pieces.collect()) else { continue };
        let parts: Vec<usize> = (0..sorted.parts()).collect();
        for some in parts.chunks(rayon::current_num_threads()) {
            let batches = some
                .par_iter()
                .map_init(ConversionMemory::default, |memory, part| sorted.batch(*part, memory));
            emit(batches.collect::<Result<_, ArrowError>>()?)?;
        }
    }
    Ok(passes.converted)
}

/// Converts small launches, one after the other, on this thread. Their rows are one batch.
pub fn convert_small(
    sources: &[LaunchSource<'_>],
    memory: &mut ConversionMemory,
) -> Result<(Vec<ConvertedLaunch>, RecordBatch), ArrowError> {
    let mut columns = RequestColumns::default();
    let bytes: u64 = sources.iter().map(LaunchSource::raw_bytes).sum();
    // No record is shorter than a slot.
    columns.reserve(usize::try_from(bytes / SLOT_BYTES as u64).unwrap_or(0));
    let convert = |source: &LaunchSource<'_>| {
        let mut converted = ConvertedLaunch::default();
        let piece = FramePiece::read(source, source.frames, RecordFilter::All, &mut memory.pieces);
        piece.count(&mut converted);
        parts::append(&piece.chunks, (None, None), source.kernel_id, &mut memory.parts, &mut columns);
        converted
    };
    let converted = sources.iter().map(convert).collect();
    Ok((converted, columns.finish()?))
}
