//! Bundles: launches that can be replayed. A bundle is complete, or it is a refusal with a reason.

mod contents;

use std::collections::{BTreeMap, BTreeSet, HashSet};

use stallmap_schema::capture::numbering::IdSpace;
use stallmap_schema::capture::segment::SegmentReader;
use stallmap_schema::id::KernelId;
use stallmap_schema::tables::replay::{Bundle, BundleSymbol};
use stallmap_schema::word::LossKind;
use stallmap_write::CaptureWriter;

use self::contents::RunContents;
use crate::error::FinishError;
use crate::loss::LossTotals;
use crate::rows::pages::{self, PageFrames};
use crate::rows::{self, IdBases};
use crate::runs::RunState;
use crate::summary::BundleSummary;

const NOT_WHOLE: &str = "its memory is not whole on the disk";

/// Location of a run's bundles.
#[derive(Clone, Copy)]
pub(crate) struct BundleSource<'a> {
    pub(crate) segment: &'a SegmentReader,
    /// Called with the number of bytes of contents that are done.
    pub(crate) progress: &'a dyn Fn(u64),
}

/// Writes a run's bundles with their pages, symbols and contents.
pub(crate) fn write(
    run: &mut RunState,
    source: BundleSource<'_>,
    writer: &mut CaptureWriter,
    losses: &mut LossTotals,
    summary: &mut BundleSummary,
) -> Result<(), FinishError> {
    let segment = source.segment;
    let frames = std::mem::take(&mut run.rows.pages);
    let mut bundles = RunBundles::from_run(run, &frames, losses);
    let contents = RunContents::new(source, frames.contents());
    let used = bundles.use_contents(&frames, segment, &contents);
    let written = contents.write(&run.bases, &used, writer)?;
    summary.content_bytes += written.bytes;
    bundles.refuse_unreadable(&frames, segment, &written.unreadable);
    bundles.write_pages(&frames, segment, writer)?;
    for (kernel_id, dropped) in &bundles.dropped {
        let detail = losses.add_at(run.run_id(), LossKind::Bundle, NOT_WHOLE, 1, Some(*kernel_id));
        detail.get_or_insert_with(|| format!("{dropped} pages were dropped"));
    }
    for bundle in bundles.rows.values() {
        summary.count(bundle);
    }
    writer.append_rows(bundles.rows.into_values())?;
    Ok(())
}

/// Bundles of one run.
struct RunBundles {
    rows: BTreeMap<KernelId, Bundle>,
    symbols: BTreeMap<KernelId, Vec<BundleSymbol>>,
    /// Launches whose bundle is incomplete, with the number of their complete pages.
    dropped: BTreeMap<KernelId, usize>,
    bases: IdBases,
}

impl RunBundles {
    /// The bundles of launches that are in the capture. Others are counted as lost.
    fn from_run(run: &mut RunState, frames: &PageFrames, losses: &mut LossTotals) -> Self {
        let run_id = run.run_id();
        let known: BTreeSet<KernelId> = run.rows.launches.iter().map(|row| row.kernel_id).collect();
        let mut rows: BTreeMap<KernelId, Bundle> =
            std::mem::take(&mut run.rows.bundles).into_iter().map(|row| (row.kernel_id, row)).collect();
        let ordinals: BTreeSet<u64> = rows.keys().map(|kernel_id| run.bases.ordinal(*kernel_id)).collect();
        let orphans = frames.launches().filter(|ordinal| !ordinals.contains(ordinal)).count() as u64;
        losses.add(run_id, LossKind::Bundle, "only its pages were recorded", orphans);
        let before = rows.len();
        rows.retain(|kernel_id, _| known.contains(kernel_id));
        let lost = (before - rows.len()) as u64;
        losses.add(run_id, LossKind::Bundle, "its launch was not recorded", lost);
        let symbols = by_launch(std::mem::take(&mut run.rows.symbols));
        Self { rows, symbols, dropped: BTreeMap::new(), bases: run.bases.clone() }
    }

    /// Launches that are bundles so far.
    fn whole(&self) -> Vec<KernelId> {
        self.rows.values().filter(|row| row.refusal.is_none()).map(|row| row.kernel_id).collect()
    }

    /// The contents, by the run's own identifiers, of all complete bundles. Incomplete ones become refusals.
    fn use_contents(
        &mut self,
        frames: &PageFrames,
        segment: &SegmentReader,
        contents: &RunContents<'_>,
    ) -> HashSet<u64> {
        let mut used = HashSet::new();
        let mut reader = frames.reader(segment);
        for kernel_id in self.whole() {
            let pages = reader.read(self.bases.ordinal(kernel_id));
            let ids: Vec<u64> =
                pages.iter().flat_map(rows::contents_of).chain(self.symbol_contents(kernel_id)).collect();
            let stated = self.rows.get(&kernel_id).map_or(0, |row| row.page_count);
            if pages.len() as u64 == stated && ids.iter().all(|id| contents.holds(*id)) {
                used.extend(ids);
            } else {
                self.refuse(kernel_id, pages.len());
            }
        }
        used
    }

    /// Refuses bundles whose contents turned out to be unreadable: their frames are complete, but hold something else.
    fn refuse_unreadable(&mut self, frames: &PageFrames, segment: &SegmentReader, unreadable: &HashSet<u64>) {
        let mut reader = frames.reader(segment);
        for kernel_id in self.whole().into_iter().filter(|_| !unreadable.is_empty()) {
            let pages = reader.read(self.bases.ordinal(kernel_id));
            let is_unreadable = {
                let ids = pages.iter().flat_map(rows::contents_of);
                ids.chain(self.symbol_contents(kernel_id)).any(|id| unreadable.contains(&id))
            };
            if is_unreadable {
                self.refuse(kernel_id, pages.len());
            }
        }
    }

    fn write_pages(
        &mut self,
        frames: &PageFrames,
        segment: &SegmentReader,
        writer: &mut CaptureWriter,
    ) -> Result<(), FinishError> {
        let mut reader = frames.reader(segment);
        for kernel_id in self.whole() {
            let mut pages = reader.read(self.bases.ordinal(kernel_id));
            pages::globalize(&mut pages, &self.bases);
            writer.append_rows(pages)?;
            writer.append_rows(self.symbols.remove(&kernel_id).unwrap_or_default())?;
        }
        Ok(())
    }

    fn symbol_contents(&self, kernel_id: KernelId) -> impl Iterator<Item = u64> {
        let local = |symbol: &BundleSymbol| self.bases.local(IdSpace::Content, symbol.content_id);
        self.symbols.get(&kernel_id).into_iter().flatten().map(local)
    }

    fn refuse(&mut self, kernel_id: KernelId, dropped: usize) {
        if let Some(row) = self.rows.get_mut(&kernel_id) {
            row.refusal = Some(NOT_WHOLE.to_owned());
            row.method = None;
            (row.page_count, row.written_page_count, row.new_page_count) = (0, 0, 0);
            self.dropped.insert(kernel_id, dropped);
        }
    }
}

/// Parts of variables by launch, in the order of the table, each once.
fn by_launch(mut rows: Vec<BundleSymbol>) -> BTreeMap<KernelId, Vec<BundleSymbol>> {
    let key = |row: &BundleSymbol| (row.kernel_id, row.symbol.clone(), row.offset_bytes);
    rows.sort_by_cached_key(key);
    rows.dedup_by(|a, b| key(a) == key(b));
    let mut symbols: BTreeMap<KernelId, Vec<BundleSymbol>> = BTreeMap::new();
    for row in rows {
        symbols.entry(row.kernel_id).or_default().push(row);
    }
    symbols
}
