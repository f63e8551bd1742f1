//! Waits for GPUs that a profiler recorded.

use serde_json::{Value, json};
use stallmap_console::rows;

use super::{LaneProcess, RelativeClock, described};
use crate::round::unsigned;

rows! {
    /// A wait of the host or of a stream.
    pub(super) struct TimelineWait {
        pub(super) run_id: u32,
        device_id: i64,
        stream_id: Option<u32>,
        begin_ns: i64,
        end_ns: i64,
        kind: String,
        correlation_id: Option<u64>,
    }
}

impl RelativeClock<'_> {
    pub(super) fn wait(&self, wait: &TimelineWait) -> Value {
        let kind = match wait.kind.as_str() {
            "event" => "Event Sync",
            "stream_wait_event" => "Stream Wait Event",
            "stream" => "Stream Sync",
            "context" => "Context Sync",
            _ => "Unknown Sync",
        };
        let stream = wait.stream_id.map_or(-1, i64::from);
        let arguments = json!({
            "cuda_sync_kind": kind, "stream": stream, "correlation": wait.correlation_id, "device": wait.device_id,
        });
        let length = unsigned(wait.end_ns.saturating_sub(wait.begin_ns));
        let gpu = LaneProcess::of_run(self, wait.run_id, wait.device_id);
        described(
            self.event(unsigned(wait.begin_ns), Some(length)),
            "cuda_sync",
            kind,
            (gpu, stream),
            arguments,
        )
    }
}
