//! Spans of JSON whose begin and end are events of their own: `B` and `E` of a thread, `b` and `e` of a number.
//!
//! An end belongs to the last open begin of its thread or number, in the order of time, wherever they stand in the file.

use std::collections::HashMap;

use super::event::TraceEvent;

/// Begins and ends by process, and by thread or by category and number.
#[derive(Debug, Default)]
pub(super) struct SplitSpans(HashMap<(String, String), Vec<TraceEvent>>);

impl SplitSpans {
    /// Adds a begin or an end.
    pub(super) fn add(&mut self, mut event: TraceEvent) {
        if matches!(event.phase.as_str(), "b" | "e") {
            // Such spans lie within each other on no thread.
            event.thread.1 = format!("{} {}", event.category, event.number);
        }
        self.0.entry(event.thread.clone()).or_default().push(event);
    }

    /// Visits the spans as events with a length. Returns the number of begins and ends without a partner.
    pub(super) fn join(self, mut visit: impl FnMut(TraceEvent)) -> u64 {
        let mut lanes: Vec<_> = self.0.into_iter().collect();
        lanes.sort_by(|(key, _), (other, _)| key.cmp(other));
        let mut without = 0;
        for (_, mut marks) in lanes {
            marks.sort_by_key(|mark| mark.begin_ns);
            let mut open: Vec<TraceEvent> = Vec::new();
            for mark in marks {
                if matches!(mark.phase.as_str(), "B" | "b") {
                    open.push(mark);
                } else if let Some(begin) = open.pop() {
                    visit(span(begin, mark));
                } else {
                    without += 1;
                }
            }
            without += open.len() as u64;
        }
        without
    }
}

/// The event of a begin and its end. Arguments stand at either.
fn span(begin: TraceEvent, end: TraceEvent) -> TraceEvent {
    let length = begin.begin_ns.zip(end.begin_ns).map(|(begin, end)| end.saturating_sub(begin));
    let arguments = if begin.has_arguments { begin.arguments } else { end.arguments };
    TraceEvent { phase: "X".to_owned(), duration_ns: length, arguments, ..begin }
}
