//! Contents of pages, streamed from the segment's frames into the table: they are most of a recording's bytes.

use std::collections::HashSet;
use std::sync::Arc;

use arrow::array::{ArrayRef, BinaryBuilder, RecordBatch, UInt64Array};
use arrow::error::ArrowError;
use rayon::prelude::*;
use stallmap_schema::capture::numbering::IdSpace;
use stallmap_schema::capture::segment::{FrameRef, SegmentFrame};
use stallmap_schema::hash;
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::replay::{BundleContent, PAGE_BYTES};
use stallmap_write::CaptureWriter;

use super::BundleSource;
use crate::error::FinishError;
use crate::rows::IdBases;

/// A run's contents on the disk.
pub(super) struct RunContents<'a> {
    source: BundleSource<'a>,
    /// Frames, each with its first content_id and how many contents it holds, in the order of the ids.
    frames: Vec<(FrameRef, u64, u64)>,
}

/// Result of writing.
#[derive(Debug, Default)]
pub(super) struct WrittenContents {
    /// Bytes of contents.
    pub(super) bytes: u64,
    /// Contents whose frame cannot be read.
    pub(super) unreadable: HashSet<u64>,
}

impl<'a> RunContents<'a> {
    pub(super) fn new(source: BundleSource<'a>, frames: Vec<(FrameRef, u64, u64)>) -> Self {
        Self { source, frames }
    }

    /// True if a frame's header states that it holds a content.
    pub(super) fn holds(&self, id: u64) -> bool {
        let behind = self.frames.partition_point(|(_, first, _)| *first <= id);
        let frame = behind.checked_sub(1).and_then(|index| self.frames.get(index));
        frame.is_some_and(|(_, first, count)| id - first < *count)
    }

    /// Writes the contents that are used, frame by frame.
    pub(super) fn write(
        &self,
        bases: &IdBases,
        used: &HashSet<u64>,
        writer: &mut CaptureWriter,
    ) -> Result<WrittenContents, FinishError> {
        let mut written = WrittenContents::default();
        // Ids only grow, whatever the frames say: an id that came before is not written again.
        let mut next = 0;
        for (frame, first, count) in &self.frames {
            (self.source.progress)(frame.raw_bytes.into());
            let ids: Vec<u64> =
                (*first.max(&next)..first.saturating_add(*count)).filter(|id| used.contains(id)).collect();
            let Some(last) = ids.last() else { continue };
            next = last + 1;
            match self.source.segment.read(frame) {
                Ok(SegmentFrame::Pages { bytes, .. }) => {
                    let batch = batch(bases, *first, &ids, &bytes)?;
                    written.bytes += (batch.num_rows() * PAGE_BYTES) as u64;
                    writer.append(BundleContent::TABLE.name, &batch)?;
                }
                _ => written.unreadable.extend(ids),
            }
        }
        Ok(written)
    }
}

/// Rows of the contents with these ids, in a frame whose first one is given.
fn batch(bases: &IdBases, first: u64, ids: &[u64], bytes: &[u8]) -> Result<RecordBatch, ArrowError> {
    let page = |id: &u64| {
        let index = usize::try_from(id - first).unwrap_or(usize::MAX);
        bytes.as_chunks::<PAGE_BYTES>().0.get(index).map(|page| (*id, page))
    };
    let pages: Vec<(u64, &[u8; PAGE_BYTES])> = ids.iter().filter_map(page).collect();
    let hashes: Vec<u64> = pages.par_iter().map(|(_, page)| hash::content_hash(*page)).collect();
    let mut contents = BinaryBuilder::with_capacity(pages.len(), pages.len() * PAGE_BYTES);
    for (_, page) in &pages {
        contents.append_value(page);
    }
    let columns: Vec<ArrayRef> = vec![
        Arc::new(pages.iter().map(|(id, _)| bases.global(IdSpace::Content, *id)).collect::<UInt64Array>()),
        Arc::new(UInt64Array::from(hashes)),
        Arc::new(contents.finish()),
    ];
    RecordBatch::try_new(BundleContent::TABLE.schema(), columns)
}
