//! Memory of a pair of bundled launches: pages by their hashes, and by their bytes where hashes differ.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_console::exit::Outcome;

use super::found::{FirstDifference, LaunchAspect};
use super::row::ArgumentPointer;
use super::side::{ComparedRun, PAGE};
use super::value::element_text;
use super::walk::LaunchPair;

const READS: &[&str] = &["read", "atomic", "prefetch"];
const WRITES: &[&str] = &["write", "atomic"];

/// Counts of pages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PageCounts {
    /// Pages of launches that are bundled in the first run.
    pub(super) pages: u64,
    pub(super) before: u64,
    /// Pages that the launches write.
    pub(super) written: u64,
    pub(super) after: u64,
}

/// Compares the memory of pairs. After the first difference of an aspect, later launches differ for that reason too.
pub(super) struct MemoryComparison<'a> {
    pub(super) a: &'a ComparedRun<'a>,
    pub(super) b: &'a ComparedRun<'a>,
    pub(super) before: Option<FirstDifference>,
    pub(super) after: Option<FirstDifference>,
    pub(super) counts: PageCounts,
}

/// The content of pages of a launch in each run, once they are asked for.
type BundledBytes = (BTreeMap<u64, Vec<u8>>, BTreeMap<u64, Vec<u8>>);

/// Hashes of a page before a launch and after it.
type PageHashes = (u64, Option<u64>);

/// Tensors of a pair at the same offset of the arguments.
type PointerPair<'a> = (&'a ArgumentPointer, &'a ArgumentPointer);

impl MemoryComparison<'_> {
    /// Compares a pair of bundled launches.
    pub(super) async fn compare(&mut self, pair: LaunchPair<'_>) -> Outcome<()> {
        let (a, b) = (pair.0.kernel_id, pair.1.kernel_id);
        self.counts.pages += self.a.page_count(a);
        self.counts.written += self.a.written_pages(a);
        if self.before.is_some() && self.after.is_some() {
            return Ok(());
        }
        let mut contents = None;
        let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
        let mut ranges = BTreeSet::new();
        let pointers: Vec<_> = self.a.pointers(a).collect();
        for p in pointers {
            let Some(q) = self.b.pointer(b, p.parameter_offset) else { continue };
            let (from, to) = p.range();
            let (other_from, other_to) = q.range();
            if to - from != other_to.saturating_sub(other_from) || !ranges.insert((from, to)) {
                continue;
            }
            for page in self.a.pages(a, from, to) {
                self.compare_before(pair, (p, q), page, &mut contents, &mut before).await?;
                self.compare_after(pair, (p, q), page, &mut after);
            }
        }
        self.counts.before += before.len() as u64;
        self.counts.after += after.len() as u64;
        Ok(())
    }

    /// True if a launch surely reads the memory. Without its accesses, a tensor in a page that it leaves as it is: memory for
    /// results may hold anything before.
    fn is_read(&self, kernel_id: u64, pointer: &ArgumentPointer, pages: [Option<PageHashes>; 2]) -> bool {
        let is_changed = || pages.into_iter().any(|page| page.is_none_or(|(_, after)| after.is_some()));
        let known = self.a.is_accessed(kernel_id, pointer, READS);
        known.unwrap_or_else(|| pointer.tensor_id.is_some() && !is_changed())
    }

    /// Bytes of a page that belong to a tensor which the launch reads.
    async fn compare_before(
        &mut self,
        pair: LaunchPair<'_>,
        (p, q): PointerPair<'_>,
        page: u64,
        contents: &mut Option<BundledBytes>,
        compared: &mut BTreeSet<u64>,
    ) -> Outcome<()> {
        let (a, b) = (pair.0.kernel_id, pair.1.kernel_id);
        let ((from, to), (other_from, _)) = (p.range(), q.range());
        let moved = |address: u64| address.wrapping_sub(from).wrapping_add(other_from);
        let (ours, others) = (self.a.page(a, page), self.b.page(b, moved(page)));
        if self.before.is_some() || !self.is_read(a, p, [ours, others]) {
            return Ok(());
        }
        if ours.is_some_and(|(hash, _)| others.is_some_and(|(other, _)| hash == other)) {
            compared.insert(page);
            return Ok(());
        }
        if contents.is_none() {
            *contents = Some((self.a.contents(a).await?, self.b.contents(b).await?));
        }
        let Some((ours, others)) = contents else { return Ok(()) };
        let (low, past) = (page.max(from), (page + PAGE).min(to));
        let is_known =
            |address: u64| byte_at(ours, address).is_some() && byte_at(others, moved(address)).is_some();
        if !is_known(low) || !is_known(past - 1) {
            return Ok(());
        }
        compared.insert(page);
        let differs = |address: &u64| byte_at(ours, *address) != byte_at(others, moved(*address));
        let Some(address) = (low..past).find(differs) else { return Ok(()) };
        let values = [(&*ours, address), (&*others, moved(address))];
        let found = self.element_difference(pair, (p, address - from), values).await?;
        self.before = Some(found);
        Ok(())
    }

    /// The element at an offset of a tensor, with its values in both runs: of each the pages and the address of the byte.
    async fn element_difference(
        &self,
        pair: LaunchPair<'_>,
        (p, offset): (&ArgumentPointer, u64),
        values: [(&BTreeMap<u64, Vec<u8>>, u64); 2],
    ) -> Outcome<FirstDifference> {
        let width = p.element_bytes.filter(|_| p.tensor_id.is_some()).unwrap_or(4).max(1);
        let [ours, others] = values.map(|(pages, address)| {
            let begin = address - offset % width;
            let bytes: Vec<u8> =
                (begin..begin + width).map_while(|address| byte_at(pages, address)).collect();
            element_text(p.dtype.as_deref(), &bytes)
        });
        let element = match p.tensor_id {
            Some(tensor) => self.a.element(tensor, p.range().0 + offset).await?,
            None => None,
        };
        let place = element.map_or_else(|| format!("byte {offset}"), |element| format!("element {element}"));
        let detail = format!("{place} is {ours}, {others} in the other");
        let found = FirstDifference::for_pair(LaunchAspect::MemoryBefore, pair.0, pair.1, detail);
        Ok(found.with_object(p.text()))
    }

    /// A page that the launch writes, where it began with the same content in both runs.
    fn compare_after(
        &mut self,
        pair: LaunchPair<'_>,
        (p, q): PointerPair<'_>,
        page: u64,
        compared: &mut BTreeSet<u64>,
    ) {
        let (a, b) = (pair.0.kernel_id, pair.1.kernel_id);
        if self.after.is_some() || self.a.is_accessed(a, p, WRITES) == Some(false) {
            return;
        }
        let ((from, to), (other_from, _)) = (p.range(), q.range());
        let other_page = page.wrapping_sub(from).wrapping_add(other_from);
        let (Some(ours), Some(others)) = (self.a.page(a, page), self.b.page(b, other_page)) else { return };
        if ours.0 != others.0 || ours.1.is_none() && others.1.is_none() {
            return;
        }
        compared.insert(page);
        if ours.1 == others.1 {
            return;
        }
        let (low, past) = (page.max(from) - from, (page + PAGE).min(to) - from);
        let detail = match (ours.1, others.1) {
            (Some(_), Some(_)) => format!("bytes {low} to {} are written with other values", past - 1),
            (Some(_), None) => format!("bytes {low} to {} are not changed in the other", past - 1),
            _ => format!("bytes {low} to {} are changed in the other alone", past - 1),
        };
        let found = FirstDifference::for_pair(LaunchAspect::MemoryAfter, pair.0, pair.1, detail);
        self.after = Some(found.with_object(p.text()));
    }
}

/// The byte at an address.
fn byte_at(pages: &BTreeMap<u64, Vec<u8>>, address: u64) -> Option<u8> {
    let page = pages.get(&(address / PAGE * PAGE))?;
    page.get(usize::try_from(address % PAGE).ok()?).copied()
}
