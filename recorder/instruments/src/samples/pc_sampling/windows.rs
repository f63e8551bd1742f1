//! Continuous sampling: a thread for each context reads samples at short intervals, each a window of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::time::Duration;

use stallmap_schema::capture::recording::SampleWindow;
use stallmap_schema::word::LossKind;
use stallmap_sys::cupti::Cupti;

use super::buffer::PcRecord;
use super::reading::SamplingFailure;
use super::sampler::ContextSampler;
use super::samples::StallReasons;
use stallmap_session::guard::guard;
use stallmap_session::session;

/// Time between two reads: samples of launches of one function that are further apart are not mixed.
const INTERVAL: Duration = Duration::from_millis(20);

/// The number of the next window.
static NEXT: AtomicU32 = AtomicU32::new(0);
/// The end of the last window.
static LAST_END: AtomicI64 = AtomicI64::new(0);

/// Starts the thread that reads the samples of a context. It ends with the sampler.
pub(super) fn start(api: &'static Cupti, sampler: Arc<ContextSampler>) {
    let body = move || guard((), || run(api, &sampler));
    if let Err(error) = std::thread::Builder::new().name("stallmap-samples".into()).spawn(body) {
        let detail = Some(error.to_string());
        session::lose(LossKind::Source, "the reader of samples could not be started", 1, detail);
    }
}

fn run(api: &Cupti, sampler: &ContextSampler) {
    let mut begin_ns = session::now_ns();
    loop {
        std::thread::sleep(INTERVAL);
        let Some(reading) = sampler.collect(api) else { return };
        let end_ns = session::now_ns();
        if reading.failure == Some(SamplingFailure::Full) {
            let reason = "the hardware buffer was full: estimated";
            session::lose(LossKind::Sample, reason, sampler.capacity(), None);
        }
        if !reading.records.is_empty() {
            emit(&reading.reasons, &reading.records, (sampler.device_id(), begin_ns, end_ns));
        }
        if let Some(SamplingFailure::Code(code)) = reading.failure {
            // The program may have ended CUPTI. Every later read would fail, too.
            let detail = Some(format!("CUPTI error {code}"));
            session::lose(LossKind::Source, "later samples could not be read", 1, detail);
            return;
        }
        begin_ns = end_ns;
    }
}

fn emit(reasons: &StallReasons, records: &[PcRecord], (device_id, begin_ns, end_ns): (i32, i64, i64)) {
    let window_id = NEXT.fetch_add(1, Ordering::Relaxed);
    session::emit(SampleWindow { window_id, device_id, begin_ns, end_ns });
    reasons.emit_window(records, window_id);
    LAST_END.store(end_ns, Ordering::Relaxed);
}

/// Writes the records that CUPTI had left when sampling ended.
pub(super) fn emit_last(reasons: &StallReasons, records: &[PcRecord], device_id: i32) {
    if !records.is_empty() {
        let begin_ns = LAST_END.load(Ordering::Relaxed);
        emit(reasons, records, (device_id, begin_ns, session::now_ns()));
    }
}
