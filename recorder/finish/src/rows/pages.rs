//! Locations of bundles' pages and contents, which are too many to hold in memory.

use std::collections::{BTreeMap, BTreeSet};

use arrow::array::RecordBatch;
use arrow::error::ArrowError;
use stallmap_schema::capture::numbering::IdSpace;
use stallmap_schema::capture::segment::{FrameRef, SegmentFrame, SegmentReader};
use stallmap_schema::table::TableRow;
use stallmap_schema::tables::replay::{BundlePage, PAGE_BYTES};

use super::global::{IdBases, LocalIds as _};

/// Locations of a run's pages and their contents.
#[derive(Debug, Default)]
pub(crate) struct PageFrames {
    /// Frames of rows of `bundle_page`, by the launches' ordinals.
    by_launch: BTreeMap<u64, Vec<FrameRef>>,
    contents: Vec<FrameRef>,
}

impl PageFrames {
    /// Notes a frame of rows of `bundle_page`.
    pub(super) fn add(&mut self, frame: &FrameRef, batch: &RecordBatch) -> Result<(), ArrowError> {
        let launches: BTreeSet<u64> =
            BundlePage::read_all(batch)?.iter().map(|page| page.kernel_id.0).collect();
        for ordinal in launches {
            self.by_launch.entry(ordinal).or_default().push(*frame);
        }
        Ok(())
    }

    /// Notes a frame of contents.
    pub(super) fn add_contents(&mut self, frame: &FrameRef) {
        self.contents.push(*frame);
    }

    /// Ordinals of the launches that have pages.
    pub(crate) fn launches(&self) -> impl Iterator<Item = u64> {
        self.by_launch.keys().copied()
    }

    /// Bytes of all contents.
    pub(crate) fn content_bytes(&self) -> u64 {
        self.contents.iter().map(|frame| u64::from(frame.raw_bytes)).sum()
    }

    /// Frames of contents, each with its first content_id and how many contents it holds, in the order of the ids.
    /// Identifiers are the run's own.
    pub(crate) fn contents(&self) -> Vec<(FrameRef, u64, u64)> {
        let count = |frame: &FrameRef| u64::from(frame.raw_bytes) / PAGE_BYTES as u64;
        let mut contents: Vec<_> =
            self.contents.iter().map(|frame| (*frame, frame.aux, count(frame))).collect();
        contents.sort_unstable_by_key(|(frame, first, _)| (*first, frame.offset));
        contents
    }

    /// Reads pages launch by launch.
    pub(crate) fn reader<'a>(&'a self, segment: &'a SegmentReader) -> PageReader<'a> {
        PageReader { frames: self, segment, last: None }
    }
}

/// Reads the pages of launches. A frame that holds several launches' is read once if they are requested in order.
pub(crate) struct PageReader<'a> {
    frames: &'a PageFrames,
    segment: &'a SegmentReader,
    last: Option<(FrameRef, Vec<BundlePage>)>,
}

impl PageReader<'_> {
    /// A launch's pages, sorted by address, each once. Identifiers are the run's own. See [`globalize`].
    pub(crate) fn read(&mut self, ordinal: u64) -> Vec<BundlePage> {
        let mut pages: BTreeMap<u64, BundlePage> = BTreeMap::new();
        for frame in self.frames.by_launch.get(&ordinal).into_iter().flatten() {
            if self.last.as_ref().is_none_or(|last| last.0 != *frame) {
                self.last = Some((*frame, self.rows(frame)));
            }
            let rows = self.last.iter().flat_map(|last| &last.1);
            let own = rows.filter(|page| page.kernel_id.0 == ordinal);
            pages.extend(own.map(|page| (page.address.0, page.clone())));
        }
        pages.into_values().collect()
    }

    /// Rows of a frame. Unreadable rows are missing, and their bundle is then incomplete.
    fn rows(&self, frame: &FrameRef) -> Vec<BundlePage> {
        match self.segment.read(frame) {
            Ok(SegmentFrame::Rows { batch, .. }) => BundlePage::read_all(&batch).unwrap_or_default(),
            _ => Vec::new(),
        }
    }
}

/// Makes the identifiers of pages unique in the capture.
pub(crate) fn globalize(pages: &mut [BundlePage], bases: &IdBases) {
    let content = |id| bases.global(IdSpace::Content, id);
    for page in pages {
        page.kernel_id.visit(&mut |space, id| *id = bases.global(space, *id));
        page.content_id = content(page.content_id);
        page.content_after_id = page.content_after_id.map(content);
        page.written_content_id = page.written_content_id.map(content);
    }
}

/// The contents that a page refers to.
pub(crate) fn contents_of(page: &BundlePage) -> impl Iterator<Item = u64> + use<> {
    [Some(page.content_id), page.content_after_id, page.written_content_id].into_iter().flatten()
}
