//! Times of kernels: measured, else estimated, one after the other on their stream.

use std::collections::BTreeMap;

use stallmap_console::exit::{CommandFailure, Outcome, QUERY};
use stallmap_console::output::note;
use stallmap_console::output::number::grouped;

use crate::round::{nanoseconds, unsigned};
use crate::timeline::{CaptureTimeline, TimelineLaunch};

/// A kernel on its GPU.
pub(super) struct KernelSpan {
    pub(super) begin_ns: u64,
    pub(super) duration_ns: u64,
    /// The origin of the duration, if it is no measurement of this launch.
    pub(super) source: Option<&'static str>,
}

/// The kernels of a capture by their numbers.
pub(super) struct KernelSpans {
    spans: BTreeMap<u64, KernelSpan>,
    facts: BTreeMap<String, String>,
}

impl KernelSpans {
    /// Refused if the kernels have no times.
    pub(super) fn from_timeline(timeline: &CaptureTimeline) -> Outcome<Self> {
        let mut found = Self { spans: BTreeMap::new(), facts: BTreeMap::new() };
        let mut ends: BTreeMap<(i64, Option<u32>), u64> = BTreeMap::new();
        let (mut estimated, mut without, mut unseen) = (0_u64, 0_u64, 0_u64);
        for launch in &timeline.launches {
            if launch.is_unseen(&timeline.clocks) {
                unseen += 1;
                continue;
            }
            let free = ends.entry((launch.device_id, launch.stream_id)).or_default();
            let Some(span) = span(launch, *free) else {
                without += 1;
                continue;
            };
            *free = span.begin_ns.saturating_add(span.duration_ns);
            estimated += u64::from(span.source.is_some());
            found.spans.insert(launch.kernel_id, span);
        }
        if found.spans.is_empty() && !timeline.launches.is_empty() {
            return Err(CommandFailure::message(QUERY, "the capture has no times of kernels")
                .hint("kernels need measured times, or samples".to_owned()));
        }
        found.fact(estimated, "launches whose duration is no measurement in the program");
        found.fact(without, "launches without a duration, as calls only");
        found.fact(unseen, "launches that the timeline did not record, left out");
        Ok(found)
    }

    fn fact(&mut self, count: u64, name: &str) {
        if count > 0 {
            note(format_args!("note: {} {name}", grouped(count.into())));
            self.facts.insert(name.to_owned(), count.to_string());
        }
    }

    /// Counts of kernels by name, for the reader of a file.
    pub(super) fn facts(&self) -> BTreeMap<String, String> {
        self.facts.clone()
    }

    /// The span of a kernel.
    pub(super) fn get(&self, kernel_id: u64) -> Option<&KernelSpan> {
        self.spans.get(&kernel_id)
    }
}

/// The span of a launch on a stream that is free from a time on.
fn span(launch: &TimelineLaunch, free: u64) -> Option<KernelSpan> {
    let measured = launch.duration();
    let duration_ns = measured.or(launch.estimated_ns.map(nanoseconds))?;
    if let Some(begin) = launch.gpu_begin_ns {
        let source = measured.is_none().then_some("estimated from samples");
        return Some(KernelSpan { begin_ns: unsigned(begin), duration_ns, source });
    }
    let source = Some(if measured.is_some() { "of a replay" } else { "estimated from samples" });
    let begin = unsigned(launch.call_begin_ns?).max(free);
    Some(KernelSpan { begin_ns: begin, duration_ns, source })
}
