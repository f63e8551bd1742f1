//! Arrows from forward ops to their gradients: a begin and an end that share a number.

use std::collections::BTreeMap;

use super::event::{ThreadNumbers, TraceEvent};
use crate::trace::forward::ForwardLink;

/// The category of arrows from forward to backward.
const CATEGORY: &str = "fwdbwd";

/// Begins and ends of arrows, by process and number.
#[derive(Debug, Default)]
pub(super) struct ForwardArrows {
    begins: BTreeMap<(String, String), u64>,
    ends: Vec<((String, String), u64, i64)>,
}

impl ForwardArrows {
    /// Adds a begin or an end. Arrows of other categories say nothing that work and calls do not.
    pub(super) fn add(&mut self, event: TraceEvent, threads: &mut ThreadNumbers) {
        let Some(begin_ns) = event.begin_ns.filter(|_| event.category == CATEGORY) else { return };
        let key = (event.thread.0.clone(), event.number);
        let thread = threads.number(event.thread);
        match event.phase.as_str() {
            "s" => drop(self.begins.insert(key, thread)),
            "f" => self.ends.push((key, thread, begin_ns)),
            _ => {}
        }
    }

    /// The arrows with a begin and an end, wherever they stand in the file.
    pub(super) fn links(self) -> Vec<ForwardLink> {
        let Self { begins, ends } = self;
        let link =
            |(key, backward, begin_ns)| Some(ForwardLink { forward: *begins.get(&key)?, backward, begin_ns });
        ends.into_iter().filter_map(link).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_has_the_begin_of_its_number() {
        let (mut arrows, mut threads) = (ForwardArrows::default(), ThreadNumbers::default());
        for (phase, category, number, thread, time) in
            [("f", CATEGORY, "7", "9", 50), ("s", "ac2g", "7", "3", 1), ("s", CATEGORY, "7", "2", 10)]
        {
            let event = TraceEvent {
                phase: phase.to_owned(),
                category: category.to_owned(),
                number: number.to_owned(),
                thread: ("1".to_owned(), thread.to_owned()),
                begin_ns: Some(time),
                ..TraceEvent::default()
            };
            arrows.add(event, &mut threads);
        }
        let links: Vec<_> =
            arrows.links().iter().map(|link| (link.forward, link.backward, link.begin_ns)).collect();
        assert_eq!(links, [(1, 0, 50)]);
    }
}
