//! Tests with memory that is an array of numbers, one per page.
#![expect(unsafe_code, reason = "the buffer takes memory as the sanitizer API gives it")]

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{LazyLock, Mutex, PoisonError};

use proptest::prelude::*;

use super::super::PageBytes;
use super::super::buffer::CHUNK_PAGES;
use super::super::memory::{AllocatedRange, AllocationKind};
use super::*;

const FIRST: u64 = 0x7f00;
const PAGES: u64 = 24;

/// Chunks are too large to have new ones for each case.
static BUFFERS: LazyLock<Mutex<(PageBuffer, PageBuffer)>> =
    LazyLock::new(|| Mutex::new((buffer(), buffer())));

fn page(number: u8) -> PageBytes {
    [number; size_of::<PageBytes>()]
}

/// Reads pages of a memory of numbers.
fn reader(memory: &[u8]) -> impl FnMut(Range<u64>, &mut [PageBytes]) -> Result<(), String> {
    |pages, target| {
        for (number, target) in pages.zip(target) {
            let at = usize::try_from(number - FIRST).unwrap();
            *target = page(*memory.get(at).ok_or("no such page")?);
        }
        Ok(())
    }
}

fn buffer() -> PageBuffer {
    let mut buffer = PageBuffer::default();
    // Leaked, as pinned memory is.
    let allocate = |bytes| Ok(Box::leak(vec![0_u8; bytes].into_boxed_slice()).as_mut_ptr().cast());
    // SAFETY: leaked memory lives for good.
    unsafe { buffer.reserve(CHUNK_PAGES, allocate) }.unwrap();
    buffer
}

fn memory() -> AllocationMap {
    let mut map = AllocationMap::default();
    let (address, bytes) = (FIRST << PAGE_SHIFT, PAGES << PAGE_SHIFT);
    map.allocated(AllocatedRange { address, bytes, device: 0, kind: AllocationKind::Device });
    map
}

fn ranges(pages: impl IntoIterator<Item = u64>) -> PageRanges {
    pages.into_iter().map(|page| page + FIRST).collect()
}

fn list(pages: &PageRanges) -> Vec<u64> {
    pages.iter().flatten().map(|page| page - FIRST).collect()
}

const OBSERVED: KernelUses = KernelUses { tensor_maps: false, others: false, prints: false, refusal: None };
const COPIES: KernelUses = KernelUses { tensor_maps: true, others: false, prints: false, refusal: None };

fn pages_of(
    uses: KernelUses,
    candidates: &LaunchPages,
    read: &[u64],
    wrote: &[u64],
) -> Result<BundlePages, BundleRefusal> {
    let far = |pages: &[u64]| pages.iter().map(|page| page + FIRST).collect::<Vec<_>>();
    // Atomics wrote every third page.
    let atomic = wrote.iter().copied().filter(|page| page % 3 == 0).collect::<Vec<_>>();
    let pages = TouchedPages { read: far(read), written: far(wrote), atomic: far(&atomic) };
    touched(&pages, uses, candidates, &memory(), &PageRanges::default(), 0)
}

#[test]
fn what_is_observed_needs_no_guess() {
    let candidates = LaunchPages { saved: ranges(4..9), pointed: ranges(4..9), ..LaunchPages::default() };
    let found = pages_of(OBSERVED, &candidates, &[2, 5], &[5, 6]).unwrap();
    assert_eq!(
        [&found.all, &found.written, &found.searched].map(list),
        [vec![2, 5, 6], vec![5, 6], vec![5, 6]]
    );
}

#[test]
fn a_write_that_was_not_saved_is_refused() {
    let candidates = LaunchPages { saved: ranges(4..6), ..LaunchPages::default() };
    assert_eq!(pages_of(OBSERVED, &candidates, &[], &[5, 6]).unwrap_err().reason, reason::OUTSIDE);
}

#[test]
fn tensor_maps_say_what_is_read_and_without_them_it_is_all() {
    let mut candidates =
        LaunchPages { saved: ranges(0..12), pointed: ranges(2..8), mapped: ranges(3..5), map_count: 1 };
    let found = pages_of(COPIES, &candidates, &[10], &[]).unwrap();
    assert_eq!((list(&found.all), list(&found.searched).len()), (vec![3, 4, 10], 12));
    let found = pages_of(KernelUses { others: true, ..COPIES }, &candidates, &[], &[]).unwrap();
    assert_eq!(list(&found.all), [2, 3, 4, 5, 6, 7]);
    candidates.map_count = 0;
    candidates.mapped = PageRanges::default();
    assert_eq!(list(&pages_of(COPIES, &candidates, &[], &[]).unwrap().all), [2, 3, 4, 5, 6, 7]);
}

proptest! {
    /// For any launch, each page has its content from before, and a changed page has the hash of its new content.
    #[test]
    fn contents_are_from_before_and_hashes_from_after(
        before in prop::collection::vec(0..4_u8, 24),
        writes in prop::collection::btree_map(0..PAGES, 0..4_u8, 0..8),
        reads in prop::collection::btree_set(0..PAGES, 0..8),
        others in prop::collection::btree_set(0..PAGES, 0..8),
        is_observed in any::<bool>(),
        records_after in any::<bool>(),
    ) {
        let mut after = before.clone();
        for (&page, &number) in &writes {
            after[usize::try_from(page).unwrap()] = number;
        }
        // What is written must have been saved. What patches do not see is found by its change.
        let saved: BTreeSet<u64> = writes.keys().copied().chain(others).collect();
        let candidates =
            LaunchPages { saved: ranges(saved.iter().copied()), map_count: 1, ..LaunchPages::default() };
        let numbered = NumberedPages::new(&candidates.saved);
        let mut buffers = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        let (buffer, window) = &mut *buffers;
        buffer.load(&candidates.saved, &mut reader(&before)).unwrap();
        let saved = SavedContents { numbered: &numbered, buffer };

        let reads: Vec<u64> = reads.into_iter().collect();
        let seen: Vec<u64> = if is_observed { writes.keys().copied().collect() } else { Vec::new() };
        let uses = if is_observed { OBSERVED } else { COPIES };
        let touched = BundlePages { records_after, ..pages_of(uses, &candidates, &reads, &seen).unwrap() };
        let mut add = |page: &PageBytes| Ok(RecordedContent { content_id: u64::from(page[0]), is_new: false });
        let changed = changes(&touched, &saved, window, &mut reader(&after), &mut add).unwrap();
        let at = |page: u64| usize::try_from(page).unwrap();
        let expected: BTreeMap<u64, PageChange> = (0..PAGES)
            .filter(|&page| if is_observed { writes.contains_key(&page) } else { before[at(page)] != after[at(page)] })
            .map(|number| {
                let content = after[at(number)];
                let is_atomic = is_observed && number % 3 == 0;
                let content_id = is_atomic.then_some(u64::from(content));
                let written_content_id = (records_after && !is_atomic).then_some(u64::from(content));
                (number + FIRST, PageChange { hash: content_hash(&page(content)), content_id, written_content_id })
            })
            .collect();
        prop_assert_eq!(&changed, &expected);

        let mut all = touched.all.clone();
        for &page in changed.keys() {
            all.add(page..page + 1);
        }
        let stored = contents_before(&all, &saved, window, &mut reader(&after), &mut add).unwrap();
        prop_assert_eq!(stored.iter().map(|(page, _)| *page).collect::<Vec<_>>(), all.iter().flatten().collect::<Vec<_>>());
        for (page, stored) in stored {
            // A page that was written without being seen or saved cannot exist: `saved` holds every write.
            prop_assert_eq!(stored.content_id, u64::from(before[at(page - FIRST)]));
        }
    }
}
