//! The GPU's records of one launch, turned into sorted rows of `memory_access`.
//!
//! A launch's records are sorted in memory if they fit, else in sorted runs on disk that are merged. Memory stays
//! bounded however large the launch is.

mod columns;
mod external;
mod record;
mod sorted;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use arrow::array::RecordBatch;
use stallmap_schema::capture::segment::{Frame, FrameRef, SegmentReader};
use stallmap_schema::id::{FunctionId, KernelId};

use crate::code::CodeMap;
use crate::error::FinishError;

pub(crate) use record::{kind as access_kind, space as access_space};

/// Bytes of records that are sorted in memory at once: 4 M regular requests.
const SORT_BYTES: u64 = 128 << 20;
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
    /// The folder for temporary files.
    pub(crate) scratch: &'a Path,
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

/// Converts a launch's records into batches of `memory_access`, in the table's order.
pub(crate) fn convert(
    source: &Source<'_>,
    emit: &mut dyn FnMut(RecordBatch) -> Result<(), FinishError>,
) -> Result<Converted, FinishError> {
    if source.raw_bytes() <= SORT_BYTES {
        sorted::convert(source, emit)
    } else {
        external::convert(source, emit)
    }
}

/// The records of a frame; `None` where they cannot be read.
fn records(source: &Source<'_>, frame: &FrameRef) -> Option<Vec<u8>> {
    match source.segment.read(frame) {
        Ok(Frame::Requests { records, .. }) => Some(records),
        _ => None,
    }
}
