//! The GPU's records of one launch, turned into sorted rows of `memory_access`.
//!
//! A first look at a launch's frames finds their instructions. Launches that are too large for memory are sorted in
//! parts, and each part reads all frames again: to unpack them takes less time than to store them once more.

mod columns;
mod order;
mod places;
mod record;
mod survey;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use stallmap_schema::capture::segment::{Frame, FrameRef, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId};

use crate::code::CodeMap;
use crate::error::FinishError;

use order::{Between, Part, Position};
use survey::Survey;

pub(crate) use record::{kind as access_kind, space as access_space};

/// Bytes of records that are sorted in memory at once: 16 M regular requests. Larger launches are unpacked once a part.
const SORT_BYTES: u64 = 512 << 20;
/// Rows of a batch.
const BATCH_ROWS: usize = 64 << 10;

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
    convert_in_parts(source, SORT_BYTES, emit)
}

fn convert_in_parts(
    source: &Source<'_>,
    part_bytes: u64,
    emit: &mut dyn FnMut(Vec<RecordBatch>) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    let parts = usize::try_from(source.raw_bytes().div_ceil(part_bytes)).unwrap_or(usize::MAX);
    let Survey { mut frames, places } = Survey::new(source, parts <= 1);
    let converted = survey::counts(&frames, &places);
    let widths = survey::widths(&frames, &places);
    for part in Between::all(&survey::borders(&frames, &places, parts)) {
        if widths.is_narrow() {
            Part::<u64>::read(source, &places, widths, &mut frames, part).emit(source.kernel_id, emit)?;
        } else {
            Part::<Position>::read(source, &places, widths, &mut frames, part)
                .emit(source.kernel_id, emit)?;
        }
    }
    Ok(converted)
}

/// The records of a frame; `None` where they cannot be read.
fn records(source: &Source<'_>, frame: &FrameRef) -> Option<Vec<u8>> {
    match source.segment.read(frame) {
        Ok(Frame::Requests { records, .. }) => Some(records),
        _ => None,
    }
}
