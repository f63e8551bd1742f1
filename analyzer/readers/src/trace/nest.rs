//! Spans of threads that enclose each other.

use std::cmp::Reverse;

use crate::trace::model::{RowLink, TraceCall, TraceOp};

/// A span of a thread. A point has equal begin and end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadSpan {
    /// The thread, by any number.
    pub thread: u64,
    /// Begin, nanoseconds.
    pub begin_ns: i64,
    /// End, nanoseconds.
    pub end_ns: i64,
}

/// A row with a span: spans need no list of their own.
pub trait SpannedRow {
    /// Its span.
    fn span(&self) -> ThreadSpan;
}

impl SpannedRow for ThreadSpan {
    fn span(&self) -> ThreadSpan {
        *self
    }
}

impl SpannedRow for TraceCall {
    fn span(&self) -> ThreadSpan {
        ThreadSpan { thread: self.thread, begin_ns: self.begin_ns, end_ns: self.end_ns }
    }
}

impl SpannedRow for TraceOp {
    fn span(&self) -> ThreadSpan {
        self.call.span()
    }
}

impl<T> SpannedRow for (TraceCall, T) {
    fn span(&self) -> ThreadSpan {
        self.0.span()
    }
}

/// For each point, the innermost span that encloses it on its thread.
pub fn enclosing(spans: &[impl SpannedRow], points: &[impl SpannedRow]) -> Vec<RowLink> {
    // Without either side nothing is sorted.
    if spans.is_empty() || points.is_empty() {
        return points.iter().map(|_| RowLink::default()).collect();
    }
    outer(spans, points, spans.len())
}

/// For each span, the innermost other one that encloses it on its thread.
pub fn parents(spans: &[impl SpannedRow]) -> Vec<RowLink> {
    outer(spans, &[] as &[ThreadSpan], 0)
}

/// For each row from a number on, the innermost enclosing span. Rows are the spans, and the points behind them, which
/// enclose nothing.
fn outer(spans: &[impl SpannedRow], points: &[impl SpannedRow], first: usize) -> Vec<RowLink> {
    let count = spans.len() + points.len();
    let row = |place: usize| match spans.get(place) {
        Some(span) => Some((span.span(), false)),
        None => points.get(place - spans.len()).map(|point| (point.span(), true)),
    };
    let from = |place: u32| usize::try_from(place).unwrap_or(usize::MAX);
    let mut order: Vec<u32> = (0..).take(count).collect();
    // Of equal begins the longest is the outermost, and points come last.
    order.sort_by_key(|place| {
        row(from(*place)).map(|(span, is_point)| (span.thread, span.begin_ns, Reverse(span.end_ns), is_point))
    });
    let mut found: Vec<RowLink> = (first..count).map(|_| RowLink::default()).collect();
    // Open spans of a thread. Each ends before those that stand in front of it.
    let mut open: Vec<(ThreadSpan, usize)> = Vec::new();
    for place in order.into_iter().map(from) {
        let Some((span, is_point)) = row(place) else { continue };
        if open.last().is_some_and(|(outer, _)| outer.thread != span.thread) {
            open.clear();
        }
        // A point at the end of a span belongs to it.
        let enclosing = open.partition_point(|(outer, _)| outer.end_ns >= span.end_ns);
        if let Some(slot) = place.checked_sub(first).and_then(|place| found.get_mut(place)) {
            let inner = enclosing.checked_sub(1).and_then(|outer| open.get(outer));
            *slot = inner.map(|(_, number)| *number).into();
        }
        if !is_point {
            // Whatever a span that ends here encloses, this one encloses more closely.
            let longer = open.partition_point(|(outer, _)| outer.end_ns > span.end_ns);
            open.truncate(longer);
            open.push((span, place));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(thread: u64, begin_ns: i64, end_ns: i64) -> ThreadSpan {
        ThreadSpan { thread, begin_ns, end_ns }
    }

    #[test]
    fn the_innermost_span_wins_and_threads_are_apart() {
        let places = |links: Vec<RowLink>| links.into_iter().map(RowLink::get).collect::<Vec<_>>();
        let spans = [span(1, 0, 100), span(1, 10, 50), span(1, 20, 30), span(2, 0, 100), span(1, 60, 60)];
        assert_eq!(places(parents(&spans)), [None, Some(0), Some(1), None, Some(0)]);
        let points = [span(1, 25, 25), span(1, 55, 55), span(2, 25, 25), span(3, 25, 25), span(1, 50, 50)];
        assert_eq!(places(enclosing(&spans, &points)), [Some(2), Some(0), Some(3), None, Some(1)]);
    }

    #[test]
    fn deep_nests_and_long_overlaps_have_their_parents() {
        let nested: Vec<ThreadSpan> = (0..200_000).map(|level| span(1, level, 1_000_000 - level)).collect();
        assert_eq!(parents(&nested).last(), Some(&RowLink::from(199_998)));
        let overlapping: Vec<ThreadSpan> =
            (0..200_000).map(|begin| span(1, begin, 300_000 + begin)).collect();
        assert!(parents(&overlapping).iter().all(|outer| outer.get().is_none()));
        assert_eq!(enclosing(&overlapping, &[span(1, 300_001, 300_001)]), [RowLink::from(199_999)]);
    }

    #[test]
    fn overlaps_are_siblings() {
        assert_eq!(parents(&[span(1, 0, 10), span(1, 5, 15)]), [RowLink::default(); 2]);
        assert_eq!(parents(&[span(1, 0, 10), span(1, 0, 10)]), [RowLink::default(), RowLink::from(0)]);
    }
}
