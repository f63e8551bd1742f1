//! Sets of pages as ranges, with the index of each page in its set.

use std::collections::BTreeMap;
use std::ops::Range;

use super::PAGE_SHIFT;

/// Disjoint ranges of pages, none touching another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRanges(BTreeMap<u64, u64>);

impl PageRanges {
    /// Adds every page that a range of bytes touches.
    pub fn add_bytes(&mut self, address: u64, bytes: u64) {
        if bytes > 0 {
            let last = address.saturating_add(bytes - 1);
            self.add(address >> PAGE_SHIFT..(last >> PAGE_SHIFT) + 1);
        }
    }

    /// Adds a range of pages.
    pub fn add(&mut self, pages: Range<u64>) {
        if pages.is_empty() {
            return;
        }
        let (mut start, mut end) = (pages.start, pages.end);
        while let Some((&first, &behind)) =
            self.0.range(..=end).next_back().filter(|(_, behind)| **behind >= start)
        {
            start = start.min(first);
            end = end.max(behind);
            self.0.remove(&first);
        }
        self.0.insert(start, end);
    }

    /// The ranges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.0.iter().map(|(&start, &end)| start..end)
    }

    /// Number of pages.
    pub fn count(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    /// True if a page is in one of them.
    pub fn holds(&self, page: u64) -> bool {
        self.0.range(..=page).next_back().is_some_and(|(_, &end)| page < end)
    }
}

impl FromIterator<u64> for PageRanges {
    fn from_iter<T: IntoIterator<Item = u64>>(pages: T) -> Self {
        let mut ranges = Self::default();
        let mut run: Option<Range<u64>> = None;
        for page in pages {
            match &mut run {
                Some(run) if run.end == page => run.end += 1,
                _ => ranges.add(run.replace(page..page + 1).unwrap_or_default()),
            }
        }
        ranges.add(run.unwrap_or_default());
        ranges
    }
}

/// Pages of ranges, numbered through in order.
#[derive(Clone, Debug, Default)]
pub struct NumberedPages {
    /// The first page of each range, the page behind its last, and the first one's number.
    ranges: Vec<(u64, u64, usize)>,
}

impl NumberedPages {
    /// Numbers the pages.
    pub fn new(ranges: &PageRanges) -> Self {
        let mut number = 0;
        let numbered = ranges.iter().map(|range| {
            let first = number;
            number += usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            (range.start, range.end, first)
        });
        Self { ranges: numbered.collect() }
    }

    /// A page's number.
    pub fn number(&self, page: u64) -> Option<usize> {
        let behind = self.ranges.partition_point(|range| range.0 <= page);
        let &(start, end, first) = self.ranges.get(behind.checked_sub(1)?)?;
        (page < end).then(|| first + usize::try_from(page - start).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn ranges_hold_what_was_added(added in prop::collection::vec((0..60_u64, 0..9_u64), 0..20)) {
            let mut ranges = PageRanges::default();
            let mut pages = BTreeSet::new();
            for (start, length) in added {
                ranges.add(start..start + length);
                pages.extend(start..start + length);
            }
            prop_assert_eq!(ranges.iter().flatten().collect::<Vec<_>>(), pages.iter().copied().collect::<Vec<_>>());
            prop_assert_eq!(ranges.count(), pages.len() as u64);
            prop_assert_eq!(&pages.iter().copied().collect::<PageRanges>(), &ranges);
            let numbered = NumberedPages::new(&ranges);
            for page in 0..70 {
                prop_assert_eq!(ranges.holds(page), pages.contains(&page));
                prop_assert_eq!(numbered.number(page), pages.iter().position(|&known| known == page));
            }
        }
    }

    #[test]
    fn bytes_touch_pages() {
        let mut ranges = PageRanges::default();
        ranges.add_bytes(0xfff, 2);
        ranges.add_bytes(0x5000, 0);
        assert_eq!(ranges.iter().flatten().collect::<Vec<_>>(), [0, 1]);
    }
}
