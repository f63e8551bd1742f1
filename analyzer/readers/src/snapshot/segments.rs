//! Segments of a memory snapshot: allocations of the driver, which the framework divides into blocks.

use std::collections::BTreeMap;

use crate::model::{TraceModel, TraceSegment};

/// Segments of one GPU that are allocated, by address.
pub(super) struct LiveSegments {
    device: i32,
    living: BTreeMap<u64, usize>,
}

impl LiveSegments {
    /// Segments of a GPU, none yet.
    pub(super) fn for_device(device: i32) -> Self {
        Self { device, living: BTreeMap::new() }
    }

    /// True for an event of a segment. Segments that grow are mapped and unmapped in parts.
    pub(super) fn is_event(action: &str) -> bool {
        ["segment_alloc", "segment_map", "segment_free", "segment_unmap"].contains(&action)
    }

    /// Adds an event.
    pub(super) fn add(
        &mut self,
        trace: &mut TraceModel,
        action: &str,
        (address, bytes): (u64, u64),
        time_ns: i64,
    ) {
        let segment =
            TraceSegment { process: 0, device: self.device, address, bytes, alloc_ns: None, free_ns: None };
        if ["segment_alloc", "segment_map"].contains(&action) {
            self.living.insert(address, trace.segments.len());
            trace.segments.push(TraceSegment { alloc_ns: Some(time_ns), ..segment });
            return;
        }
        let mut freed = false;
        // Parts that were mapped one by one can be unmapped at once, and a part of what was mapped at once.
        let end = address.saturating_add(bytes);
        let before = self.living.range(..address).next_back().map(|(begin, _)| *begin);
        let inside: Vec<u64> =
            self.living.range(address..end.max(address)).map(|(begin, _)| *begin).collect();
        for begin in before.into_iter().chain(inside) {
            freed |= self.free(trace, begin, (address, end), time_ns);
        }
        if !freed {
            // The list of events is a ring: the allocation was overwritten.
            trace.segments.push(TraceSegment { free_ns: Some(time_ns), ..segment });
        }
    }

    /// Frees a range of the segment that begins at an address. The rest of it lives on. False without such a range.
    fn free(&mut self, trace: &mut TraceModel, begin: u64, (low, high): (u64, u64), time_ns: i64) -> bool {
        let Some(&index) = self.living.get(&begin) else { return false };
        let Some(segment) = trace.segments.get_mut(index) else { return false };
        let end = begin.saturating_add(segment.bytes);
        let (low, high) = (low.max(begin), high.min(end));
        if low >= high {
            return false;
        }
        self.living.remove(&begin);
        let whole = TraceSegment { ..*segment };
        let free_ns = time_ns.max(segment.alloc_ns.unwrap_or(time_ns));
        (segment.address, segment.bytes, segment.free_ns) = (low, high - low, Some(free_ns));
        for (address, end) in [(begin, low), (high, end)] {
            if address < end {
                self.living.insert(address, trace.segments.len());
                trace.segments.push(TraceSegment { address, bytes: end - address, ..whole });
            }
        }
        true
    }
}

/// Adds the parts of a segment at the end of the recording that no event has: they are older.
pub(super) fn add_older(trace: &mut TraceModel, device: i32, (address, bytes): (u64, u64)) {
    let end = address.saturating_add(bytes);
    let mut parts: Vec<(u64, u64)> = trace
        .segments
        .iter()
        .filter(|segment| segment.device == device && segment.free_ns.is_none())
        .map(|segment| (segment.address, segment.address.saturating_add(segment.bytes)))
        .filter(|(begin, past)| *begin < end && *past > address)
        .collect();
    parts.sort_unstable();
    let mut next = address;
    let mut older = Vec::new();
    for (begin, past) in parts.into_iter().chain([(end, end)]) {
        if begin > next {
            older.push((next, begin - next));
        }
        next = next.max(past);
    }
    trace.segments.extend(older.into_iter().map(|(address, bytes)| TraceSegment {
        process: 0,
        device,
        address,
        bytes,
        alloc_ns: None,
        free_ns: None,
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_segment_is_unmapped() {
        let mut trace = TraceModel::default();
        let mut live = LiveSegments::for_device(0);
        live.add(&mut trace, "segment_map", (0, 60), 1);
        live.add(&mut trace, "segment_unmap", (20, 20), 2);
        live.add(&mut trace, "segment_unmap", (0, 60), 3);
        let found: Vec<_> = trace
            .segments
            .iter()
            .map(|part| (part.address, part.bytes, part.alloc_ns, part.free_ns))
            .collect();
        let known = [(20, 20, 2), (0, 20, 3), (40, 20, 3)];
        assert_eq!(found, known.map(|(address, bytes, free_ns)| (address, bytes, Some(1), Some(free_ns))));
    }

    #[test]
    fn a_segment_that_grew_is_older_only_where_no_event_has_it() {
        let mut trace = TraceModel::default();
        let mut live = LiveSegments::for_device(0);
        live.add(&mut trace, "segment_map", (200, 100), 5);
        live.add(&mut trace, "segment_map", (300, 50), 6);
        live.add(&mut trace, "segment_unmap", (300, 50), 7);
        live.add(&mut trace, "segment_free", (900, 10), 8);
        add_older(&mut trace, 0, (100, 300));
        let found: Vec<_> = trace
            .segments
            .iter()
            .map(|part| (part.address, part.bytes, part.alloc_ns, part.free_ns))
            .collect();
        let known = [(200, 100, Some(5), None), (300, 50, Some(6), Some(7)), (900, 10, None, Some(8))];
        let older = [(100, 100, None, None), (300, 100, None, None)];
        assert_eq!(found, [known.as_slice(), &older].concat());
    }
}
