//! Intervals of numbers, and those that hold a point.

use std::ops::Range;

use datafusion::common::HashMap;

/// Maximum of remembered candidates.
const MAX_KNOWN: usize = 1 << 20;

/// Intervals, both ends inclusive, with the rows that they are of.
#[derive(Debug, Default)]
pub(super) struct RowIntervals {
    /// By their lows.
    lows: Vec<i128>,
    rows: Vec<u32>,
    /// A tree in the shape of a heap over the same order: the highest end below each node.
    tops: Vec<i128>,
    /// Ascending. Between two of them, all points are held by the same intervals.
    bounds: Vec<i128>,
}

impl RowIntervals {
    /// Intervals by row. Those without one of their ends hold no point.
    pub(super) fn new(lows: &[Option<i128>], highs: &[Option<i128>]) -> Self {
        let ends = lows.iter().zip(highs).zip(0_u32..);
        let known = ends.filter_map(|((low, high), row)| Some(((*low)?, (*high)?, row)));
        let mut known: Vec<_> = known.filter(|(low, high, _)| low <= high).collect();
        known.sort_unstable();
        let width = known.len().next_power_of_two();
        let mut tops = vec![i128::MIN; 2 * width];
        for (index, (_, high, _)) in known.iter().enumerate() {
            tops[width + index] = *high;
        }
        for node in (1..width).rev() {
            tops[node] = tops[2 * node].max(tops[2 * node + 1]);
        }
        let past = known.iter().map(|(_, high, _)| high.saturating_add(1));
        let mut bounds: Vec<i128> = known.iter().map(|(low, ..)| *low).chain(past).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let (lows, rows) = known.into_iter().map(|(low, _, row)| (low, row)).unzip();
        Self { lows, rows, tops, bounds }
    }

    /// Adds the rows of all intervals that hold a point.
    fn find(&self, point: i128, found: &mut Vec<u32>) {
        let end = self.lows.partition_point(|low| *low <= point);
        let mut open = vec![(1, 0..self.tops.len() / 2)];
        while let Some((node, span)) = open.pop() {
            let is_outside = span.start >= end || self.tops.get(node).is_none_or(|top| *top < point);
            if is_outside {
                continue;
            }
            if span.len() == 1 {
                found.extend(self.rows.get(span.start));
                continue;
            }
            let middle = usize::midpoint(span.start, span.end);
            open.push((2 * node + 1, middle..span.end));
            open.push((2 * node, span.start..middle));
        }
    }

    /// Bytes of memory that they hold.
    pub(super) fn bytes(&self) -> usize {
        let numbers = self.lows.capacity() + self.tops.capacity() + self.bounds.capacity();
        numbers * size_of::<i128>() + self.rows.capacity() * size_of::<u32>()
    }
}

/// The intervals that hold points, remembered for points nearby.
#[derive(Debug, Default)]
pub(super) struct IntervalFinder {
    /// The found rows of each stretch between two bounds.
    known: HashMap<usize, Range<usize>>,
    found: Vec<u32>,
    /// The last stretch.
    low: i128,
    high: i128,
    last: Range<usize>,
}

impl IntervalFinder {
    /// The rows of all intervals that hold a point, in the order of their lows.
    pub(super) fn find(&mut self, intervals: &RowIntervals, point: i128) -> &[u32] {
        if !(self.low <= point && point < self.high) {
            self.move_to(intervals, point);
        }
        self.found.get(self.last.clone()).unwrap_or_default()
    }

    fn move_to(&mut self, intervals: &RowIntervals, point: i128) {
        let after = intervals.bounds.partition_point(|bound| *bound <= point);
        let before = after.checked_sub(1).and_then(|index| intervals.bounds.get(index));
        self.low = before.copied().unwrap_or(i128::MIN);
        self.high = intervals.bounds.get(after).copied().unwrap_or(i128::MAX);
        if self.found.len() > MAX_KNOWN {
            self.found.clear();
            self.known.clear();
        }
        let Self { known, found, .. } = self;
        let find = || {
            let start = found.len();
            intervals.find(point, found);
            start..found.len()
        };
        self.last = known.entry(after).or_insert_with(find).clone();
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_interval_that_holds_a_point_is_found(
            ends in vec((proptest::option::of(0..40_i128), proptest::option::of(0..40_i128)), 0..30),
            points in vec(-2..43_i128, 0..60),
        ) {
            let (lows, highs): (Vec<_>, Vec<_>) = ends.iter().copied().unzip();
            let intervals = RowIntervals::new(&lows, &highs);
            let mut finder = IntervalFinder::default();
            for point in points {
                let mut found = finder.find(&intervals, point).to_vec();
                found.sort_unstable();
                let holds = |(low, high): &(Option<i128>, Option<i128>)| {
                    low.is_some_and(|low| low <= point) && high.is_some_and(|high| point <= high)
                };
                let expected = (0..).zip(&ends).filter(|(_, ends)| holds(ends)).map(|(row, _)| row);
                prop_assert_eq!(found, expected.collect::<Vec<u32>>());
            }
        }
    }
}
