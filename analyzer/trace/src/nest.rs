//! Spans of threads that enclose each other.

use std::cmp::Reverse;

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

/// For each point, the innermost span that encloses it on its thread.
pub fn enclosing(spans: &[ThreadSpan], points: &[ThreadSpan]) -> Vec<Option<usize>> {
    let all: Vec<(ThreadSpan, Option<usize>)> = spans
        .iter()
        .enumerate()
        .map(|(place, span)| (*span, Some(place)))
        .chain(points.iter().map(|point| (*point, None)))
        .collect();
    outer(&all).split_off(spans.len())
}

/// For each span, the innermost other one that encloses it on its thread.
pub fn parents(spans: &[ThreadSpan]) -> Vec<Option<usize>> {
    let all: Vec<(ThreadSpan, Option<usize>)> =
        spans.iter().enumerate().map(|(place, span)| (*span, Some(place))).collect();
    outer(&all)
}

/// For each entry, the innermost enclosing span. Entries without a number enclose nothing.
fn outer(all: &[(ThreadSpan, Option<usize>)]) -> Vec<Option<usize>> {
    let mut order: Vec<usize> = (0..all.len()).collect();
    // Of equal begins the longest is the outermost, and points come last.
    order.sort_by_key(|&place| {
        all.get(place)
            .map(|(span, number)| (span.thread, span.begin_ns, Reverse(span.end_ns), number.is_none()))
    });
    let mut found: Vec<Option<usize>> = all.iter().map(|_| None).collect();
    // Open spans of a thread. Each ends before those that stand in front of it.
    let mut open: Vec<(ThreadSpan, usize)> = Vec::new();
    for place in order {
        let Some((span, number)) = all.get(place) else { continue };
        if open.last().is_some_and(|(outer, _)| outer.thread != span.thread) {
            open.clear();
        }
        // A point at the end of a span belongs to it, as the sources count.
        let enclosing = open.partition_point(|(outer, _)| outer.end_ns >= span.end_ns);
        if let Some(slot) = found.get_mut(place) {
            *slot = enclosing.checked_sub(1).and_then(|outer| open.get(outer)).map(|(_, number)| *number);
        }
        if let Some(number) = number {
            // Whatever a span that ends here encloses, this one encloses more closely.
            let longer = open.partition_point(|(outer, _)| outer.end_ns > span.end_ns);
            open.truncate(longer);
            open.push((*span, *number));
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
        let spans = [span(1, 0, 100), span(1, 10, 50), span(1, 20, 30), span(2, 0, 100), span(1, 60, 60)];
        assert_eq!(parents(&spans), [None, Some(0), Some(1), None, Some(0)]);
        let points = [span(1, 25, 25), span(1, 55, 55), span(2, 25, 25), span(3, 25, 25), span(1, 50, 50)];
        assert_eq!(enclosing(&spans, &points), [Some(2), Some(0), Some(3), None, Some(1)]);
    }

    #[test]
    fn deep_nests_and_long_overlaps_have_their_parents() {
        let nested: Vec<ThreadSpan> = (0..200_000).map(|level| span(1, level, 1_000_000 - level)).collect();
        assert_eq!(parents(&nested).last(), Some(&Some(199_998)));
        let overlapping: Vec<ThreadSpan> =
            (0..200_000).map(|begin| span(1, begin, 300_000 + begin)).collect();
        assert!(parents(&overlapping).iter().all(Option::is_none));
        assert_eq!(enclosing(&overlapping, &[span(1, 300_001, 300_001)]), [Some(199_999)]);
    }

    #[test]
    fn overlaps_are_siblings() {
        assert_eq!(parents(&[span(1, 0, 10), span(1, 5, 15)]), [None, None]);
        assert_eq!(parents(&[span(1, 0, 10), span(1, 0, 10)]), [None, Some(0)]);
    }
}
