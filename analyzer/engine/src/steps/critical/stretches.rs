//! A thread as stretches: the innermost op or call at each moment.

use std::cmp::Reverse;

use super::model::HostStretch;

/// An op or a call of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HostSpan {
    /// Begin and end.
    pub(crate) time: (i64, i64),
    /// Its item, by place.
    pub(crate) item: usize,
    /// The op. None for a call.
    pub(crate) op_id: Option<u64>,
    /// True for a region: code of the program, which may wait for another thread.
    pub(crate) is_region: bool,
}

/// The stretches of a thread. A span that ends behind the one around it ends with that.
pub(crate) fn stretches(mut spans: Vec<HostSpan>) -> Vec<HostStretch> {
    spans.retain(|span| span.time.1 > span.time.0);
    spans.sort_by_key(|span| (span.time.0, Reverse(span.time.1)));
    let mut found = Vec::new();
    let mut open: Vec<HostSpan> = Vec::new();
    for span in spans {
        close(&mut open, span.time.0, &mut found);
        let end_ns = open.last().map_or(span.time.1, |outer| outer.time.1.min(span.time.1));
        add(&mut found, span.time.0, Some(&span));
        open.push(HostSpan { time: (span.time.0, end_ns), ..span });
    }
    close(&mut open, i64::MAX, &mut found);
    found
}

/// Ends all open spans up to a moment. The thread goes on in the span around them.
fn close(open: &mut Vec<HostSpan>, upto_ns: i64, found: &mut Vec<HostStretch>) {
    while let Some(ended) = open.pop_if(|span| span.time.1 <= upto_ns) {
        add(found, ended.time.1, open.last());
    }
}

fn add(found: &mut Vec<HostStretch>, begin_ns: i64, span: Option<&HostSpan>) {
    found.pop_if(|last| last.begin_ns >= begin_ns);
    let item = span.map(|span| span.item);
    let is_rest = span.is_none_or(|span| span.is_region);
    found.push(HostStretch { begin_ns, item, op_id: span.and_then(|span| span.op_id), is_rest });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_span_counts() {
        let span = |item, begin_ns, end_ns| HostSpan {
            time: (begin_ns, end_ns),
            item,
            op_id: None,
            is_region: false,
        };
        // An op with two calls in it, the second one as long as the op, then one that begins where it ends.
        let found = stretches(vec![span(0, 0, 100), span(1, 10, 20), span(1, 40, 120), span(2, 100, 110)]);
        let found: Vec<_> = found.iter().map(|stretch| (stretch.begin_ns, stretch.item)).collect();
        let expected =
            [(0, Some(0)), (10, Some(1)), (20, Some(0)), (40, Some(1)), (100, Some(2)), (110, None)];
        assert_eq!(found, expected);
        assert_eq!(stretches(Vec::new()), []);
    }
}
