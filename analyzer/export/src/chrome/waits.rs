//! Waits for GPUs that a profiler recorded.

use serde_json::{Value, json};
use stallmap_console::rows;

use super::{RelativeClock, described};
use crate::round::unsigned;

rows! {
    /// A wait of the host or of a stream.
    pub(super) struct TimelineWait {
        pub(super) run_id: u32,
        process_id: i64,
        thread_id: Option<u32>,
        device_id: Option<i64>,
        stream_id: Option<u32>,
        begin_ns: i64,
        end_ns: i64,
        kind: String,
        correlation_id: Option<u64>,
    }
}

impl RelativeClock<'_> {
    pub(super) fn wait(&self, wait: &TimelineWait) -> Value {
        let (kind, call) = match wait.kind.as_str() {
            "event" => ("Event Sync", "cudaEventSynchronize"),
            "stream_wait_event" => ("Stream Wait Event", "cudaStreamWaitEvent"),
            "stream" => ("Stream Sync", "cudaStreamSynchronize"),
            "context" => ("Context Sync", "cudaDeviceSynchronize"),
            _ => ("Unknown Sync", "cudaSynchronize"),
        };
        let process = self.lane(wait.run_id, wait.process_id);
        let length = unsigned(wait.end_ns.saturating_sub(wait.begin_ns));
        let event = self.event(unsigned(wait.begin_ns), Some(length));
        let Some(device) = wait.device_id else {
            // Its number can be that of a launch here.
            let lane = (process, wait.thread_id.unwrap_or(0).into());
            return described(event, "cuda_runtime", call, lane, json!({}));
        };
        let stream = wait.stream_id.map_or(-1, i64::from);
        let arguments = json!({
            "cuda_sync_kind": kind, "stream": stream, "correlation": wait.correlation_id, "device": device,
        });
        described(event, "cuda_sync", kind, (process.gpu(device), stream), arguments)
    }
}
