//! Effect of a launch on memory: from the pages that it touched to contents before and hashes after.

use std::collections::BTreeMap;

use stallmap_schema::hash::content_hash;

use super::PAGE_SHIFT;
use super::buffer::{PageBuffer, ReadPages, windows};
use super::candidates::LaunchPages;
use super::contents::{self, RecordedContent, RecordedContents};
use super::memory::AllocationMap;
use super::pages::TouchedPages;
use super::place::{PageTreatment, place};
use super::ranges::{NumberedPages, PageRanges};
use super::refusal::{BundleRefusal, reason};
use super::uses::KernelUses;

/// The pages of a bundle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundlePages {
    /// Read or written.
    pub all: PageRanges,
    /// Written by accesses that were seen.
    pub written: PageRanges,
    /// Written by atomics among them.
    pub atomic: PageRanges,
    /// Pages in which writes that were not seen are to be searched.
    pub searched: PageRanges,
    /// True if the contents of all written pages are recorded.
    pub records_after: bool,
}

/// The pages of a launch, from `pages` that its accesses touched, the effects of its code, and the pages that were
/// saved before it.
pub fn touched(
    pages: &TouchedPages,
    uses: KernelUses,
    candidates: &LaunchPages,
    memory: &AllocationMap,
    variables: &PageRanges,
    device: i32,
) -> Result<BundlePages, BundleRefusal> {
    let keep = |pages: &[u64], is_written| {
        let placed = pages.iter().map(|&page| (page, place(page, is_written, memory, variables, device)));
        let recorded = placed.filter_map(|(page, place)| match place {
            Ok(PageTreatment::Page) => Some(Ok(page)),
            Ok(PageTreatment::Elsewhere) => None,
            Err(refusal) => Some(Err(refusal)),
        });
        recorded.collect::<Result<PageRanges, BundleRefusal>>()
    };
    let mut touched = BundlePages {
        all: keep(&pages.read, false)?,
        written: keep(&pages.written, true)?,
        ..BundlePages::default()
    };
    touched.atomic = pages.atomic.iter().copied().filter(|&page| touched.written.holds(page)).collect();
    let outside = touched.written.iter().flatten().find(|&page| !candidates.saved.holds(page));
    if let Some(page) = outside {
        let address = page << PAGE_SHIFT;
        return Err(BundleRefusal::with(reason::OUTSIDE, format_args!("address {address:#x}")));
    }
    for pages in touched.written.iter() {
        touched.all.add(pages);
    }
    if uses.is_observed() {
        touched.searched = touched.written.clone();
        return Ok(touched);
    }
    touched.searched = candidates.saved.clone();
    let whole = if uses.others || candidates.map_count == 0 { Some(&candidates.pointed) } else { None };
    for pages in whole.into_iter().chain([&candidates.mapped]).flat_map(PageRanges::iter) {
        touched.all.add(pages);
    }
    Ok(touched)
}

/// Contents saved before a launch.
pub struct SavedContents<'a> {
    /// Index of each page in the buffer.
    pub numbered: &'a NumberedPages,
    /// The pages.
    pub buffer: &'a PageBuffer,
}

/// The change of a page by a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageChange {
    /// Hash of its content now.
    pub hash: u64,
    /// That content, where atomics wrote it.
    pub content_id: Option<u64>,
    /// That content, where others wrote it and it is recorded.
    pub written_content_id: Option<u64>,
}

/// The pages that are written or that changed, with their new contents. `window` has room for a chunk. `add` stores a
/// content.
pub fn changes(
    touched: &BundlePages,
    saved: &SavedContents,
    window: &mut PageBuffer,
    read: &mut ReadPages,
    add: &mut dyn FnMut(&super::PageBytes) -> Result<RecordedContent, BundleRefusal>,
) -> Result<BTreeMap<u64, PageChange>, BundleRefusal> {
    let mut changed = BTreeMap::new();
    for (pages, first) in windows(&touched.searched) {
        let count = usize::try_from(pages.end - pages.start).unwrap_or(usize::MAX);
        let now = window.pages(first % super::buffer::CHUNK_PAGES, count);
        read(pages.clone(), now).map_err(|error| BundleRefusal::with(reason::UNREADABLE, error))?;
        for (page, now) in pages.zip(now.iter()) {
            let before = saved.numbered.number(page).and_then(|number| saved.buffer.page(number));
            if touched.written.holds(page) || before.is_some_and(|before| before != now) {
                let is_atomic = touched.atomic.holds(page);
                let content =
                    if is_atomic || touched.records_after { Some(add(now)?.content_id) } else { None };
                // A replay may write other last bits into the pages of `content_id`.
                let (content_id, written_content_id) =
                    if is_atomic { (content, None) } else { (None, content) };
                changed.insert(page, PageChange { hash: content_hash(now), content_id, written_content_id });
            }
        }
    }
    Ok(changed)
}

/// The contents that pages had before the launch: saved, or the present ones if it wrote nothing.
pub fn contents_before(
    all: &PageRanges,
    saved: &SavedContents,
    window: &mut PageBuffer,
    read: &mut ReadPages,
    add: &mut dyn FnMut(&super::PageBytes) -> Result<RecordedContent, BundleRefusal>,
) -> Result<Vec<(u64, RecordedContent)>, BundleRefusal> {
    let mut stored = Vec::new();
    let is_saved = |page| saved.numbered.number(page);
    let others: PageRanges = all.iter().flatten().filter(|&page| is_saved(page).is_none()).collect();
    for (pages, first) in windows(&others) {
        let count = usize::try_from(pages.end - pages.start).unwrap_or(usize::MAX);
        let now = window.pages(first % super::buffer::CHUNK_PAGES, count);
        read(pages.clone(), now).map_err(|error| BundleRefusal::with(reason::UNREADABLE, error))?;
        for (page, now) in pages.zip(now.iter()) {
            stored.push((page, add(now)?));
        }
    }
    for page in all.iter().flatten() {
        if let Some(before) = is_saved(page).and_then(|number| saved.buffer.page(number)) {
            stored.push((page, add(before)?));
        }
    }
    stored.sort_unstable_by_key(|(page, _)| *page);
    Ok(stored)
}

/// Adds a content, or says that the budget is used up.
pub fn add(
    contents: &mut RecordedContents,
    page: &super::PageBytes,
    emit: impl FnOnce(u64, Vec<u8>),
) -> Result<RecordedContent, BundleRefusal> {
    contents.add(page, emit).map_err(|contents::BudgetSpent| BundleRefusal::for_reason(reason::BUDGET))
}

#[cfg(test)]
mod tests;
