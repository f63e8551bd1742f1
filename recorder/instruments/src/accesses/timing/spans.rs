//! Room for launches in one piece of memory, given out in a circle.

use std::collections::VecDeque;
use std::ops::Range;

/// Bytes between which spans begin: words of 16 bytes are written in them.
const ALIGNMENT: u64 = 256;

/// Spans in use of one piece of memory.
#[derive(Debug)]
pub(super) struct SpanQueue {
    bytes: u64,
    /// In the order in which they were given out, each with whether it is free again.
    spans: VecDeque<(Range<u64>, bool)>,
}

impl SpanQueue {
    pub(super) fn new(bytes: u64) -> Self {
        Self { bytes, spans: VecDeque::new() }
    }

    /// A free span. `None` where there is none.
    pub(super) fn take(&mut self, bytes: u64) -> Option<Range<u64>> {
        let bytes = bytes.next_multiple_of(ALIGNMENT);
        let (start, limit) = match self.spans.front().zip(self.spans.back()) {
            None => (0, self.bytes),
            // The newest span lies before the oldest: free is what lies between them.
            Some(((oldest, _), (newest, _))) if newest.start < oldest.start => (newest.end, oldest.start),
            Some((_, (newest, _))) if newest.end.saturating_add(bytes) <= self.bytes => {
                (newest.end, self.bytes)
            }
            Some(((oldest, _), _)) => (0, oldest.start),
        };
        let end = start.checked_add(bytes).filter(|end| *end <= limit)?;
        self.spans.push_back((start..end, false));
        Some(start..end)
    }

    /// A span is free again.
    pub(super) fn release(&mut self, start: u64) {
        if let Some((_, is_free)) =
            self.spans.iter_mut().find(|(span, is_free)| span.start == start && !is_free)
        {
            *is_free = true;
        }
        while self.spans.front().is_some_and(|(_, is_free)| *is_free) {
            self.spans.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn spans_go_round() {
        let mut spans = SpanQueue::new(1024);
        assert_eq!(spans.take(2048), None);
        let taken: Vec<_> = [256, 1, 512].map(|bytes| spans.take(bytes)).into();
        assert_eq!(taken, [Some(0..256), Some(256..512), Some(512..1024)]);
        assert_eq!(spans.take(1), None, "it is full");
        spans.release(256);
        assert_eq!(spans.take(1), None, "what is free lies behind what is not");
        spans.release(0);
        assert_eq!(spans.take(300), Some(0..512));
        assert_eq!(spans.take(1), None);
        spans.release(512);
        assert_eq!(spans.take(512), Some(512..1024));
    }

    proptest! {
        #[test]
        fn no_two_spans_overlap(steps in prop::collection::vec((1..600_u64, any::<prop::sample::Index>(), any::<bool>()), 1..80)) {
            let mut spans = SpanQueue::new(4096);
            let mut held: Vec<Range<u64>> = Vec::new();
            for (bytes, index, releases) in steps {
                if releases && !held.is_empty() {
                    let span = held.swap_remove(index.index(held.len()));
                    spans.release(span.start);
                } else if let Some(span) = spans.take(bytes) {
                    prop_assert!(span.end <= 4096 && span.end - span.start >= bytes);
                    prop_assert!(held.iter().all(|other| span.end <= other.start || other.end <= span.start));
                    held.push(span);
                }
            }
            for span in held {
                spans.release(span.start);
            }
            prop_assert_eq!(spans.take(4096), Some(0..4096), "all is free again");
        }
    }
}
