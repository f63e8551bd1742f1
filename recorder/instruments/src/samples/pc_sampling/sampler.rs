//! Sampling of one context: started for the launches that are selected, read after each.
//!
//! One launch at a time: what CUPTI reads from the hardware has the number of the launch that began last, so a launch waits
//! until the one before has been read.
//!
//! Two locks. `gate` is held across the short calls: start, stop, another period. `reader` is held across reads, which
//! decode for milliseconds. A launch that begins never takes it. The slow calls, which enable sampling, are made under
//! neither, while the phase keeps launches out. `gate` is never taken under `reader`, and neither is held where rows
//! are written.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::cupti::Cupti;

use super::buffer::{PcRecord, SamplingBuffer};
use super::calls::{CollectionMode, ContextCalls};
use super::period::{ContextBounds, capacity};
use super::reading::{CallSamples, SamplingFailure, count_losses, lose_others, read_all};
use super::samples::{ReadSums, StallReasons};
use super::turn::SamplingTurn;
use super::windows;
use stallmap_session::guard::say;
use stallmap_session::session;

/// Instructions per read.
const PCS: usize = 4096;
/// Launches whose records wait to be read by their own calls.
const MAX_OTHERS: usize = 1024;
/// Time that a launch waits for another thread's. After that both are sampled: one may wait for the other, as for a lock of
/// the program's that a host function in front of its kernel needs.
const PATIENCE: Duration = Duration::from_millis(200);
/// Reason of a launch that is not sampled while sampling is enabled.
pub(super) const BUSY: &str = "sampling was being enabled";
/// Reason of a launch on a GPU that another process samples.
const TAKEN: &str = "another process sampled the GPU";
/// Passed when the user has read about [`TAKEN`].
static TAKEN_SAID: Once = Once::new();
/// Reason of a launch for which CUPTI fails.
const NOT_STARTED: &str = "sampling could not be started";
/// Passed when the user has read that CUPTI failed.
static BROKEN_SAID: Once = Once::new();
/// Reason of a launch whose end CUPTI did not report.
const UNSEEN: &str = "CUPTI stopped reporting during the launch";
/// Reason of a launch that cannot be sampled.
const DEAD: &str = "sampling could not be enabled";

/// Sampling of one context.
pub(super) struct ContextSampler {
    context: DriverHandle,
    /// The GPU's UUID, if known.
    gpu: Option<String>,
    mode: CollectionMode,
    buffer_bytes: u64,
    patience: Duration,
    gate: Mutex<SamplerGate>,
    /// Notified when no launch is running any more.
    is_free: Condvar,
    reader: Mutex<SampleReader>,
    machine: OnceLock<ContextBounds>,
    /// CUDA's ordinal of the device, from the first launch on.
    device_id: OnceLock<i32>,
}

// SAFETY: the context's handle is only passed to CUPTI, which takes it on any thread. The rest is `Send` and locked.
#[expect(unsafe_code, reason = "a raw handle")]
unsafe impl Send for ContextSampler {}
// SAFETY: as above.
#[expect(unsafe_code, reason = "a raw handle")]
unsafe impl Sync for ContextSampler {}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SamplerPhase {
    /// Not enabled: nothing was selected, or another process or another context samples the GPU.
    Off,
    /// Being enabled: launches go on without samples.
    Busy,
    Ready,
    /// The hardware buffer was full: CUPTI returns nothing until sampling is enabled again.
    Full,
    /// Sampling cannot be enabled, or the context ends.
    Dead,
}

struct SamplerGate {
    phase: SamplerPhase,
    /// Held while sampling is enabled.
    turn: Option<SamplingTurn>,
    /// Sampled launches whose calls are running.
    active: u32,
    exponent: u32,
}

#[derive(Default)]
struct SampleReader {
    buffers: Option<SampleBuffers>,
    reasons: Arc<StallReasons>,
    /// Records of launches whose calls did not read them themselves, by correlation id.
    others: BTreeMap<u64, Vec<PcRecord>>,
}

struct SampleBuffers {
    /// CUPTI writes the remaining records here when sampling ends.
    leftover: SamplingBuffer,
    /// CUPTI writes the result of each read here.
    answer: SamplingBuffer,
}

// SAFETY: the pointers in the buffers are to memory that they own.
#[expect(unsafe_code, reason = "buffers with pointers into themselves")]
unsafe impl Send for SampleBuffers {}

impl ContextSampler {
    /// Sampling of a context, not enabled yet.
    pub(super) fn new(
        context: DriverHandle,
        gpu: Option<String>,
        mode: CollectionMode,
        buffer_bytes: u64,
        exponent: u32,
    ) -> Self {
        Self {
            context,
            gpu,
            mode,
            buffer_bytes,
            patience: PATIENCE,
            gate: Mutex::new(SamplerGate { phase: SamplerPhase::Off, turn: None, active: 0, exponent }),
            is_free: Condvar::new(),
            reader: Mutex::default(),
            machine: OnceLock::new(),
            device_id: OnceLock::new(),
        }
    }

    /// Notes the device of the context, which is that of the launch that is being called.
    pub(super) fn on_device(&self, current: impl FnOnce() -> i32) {
        self.device_id.get_or_init(current);
    }

    /// The device of the context; 0 before the first launch, when there are no samples.
    pub(super) fn device_id(&self) -> i32 {
        self.device_id.get().copied().unwrap_or(0)
    }

    /// Samples that the hardware buffer holds.
    pub(super) fn capacity(&self) -> u64 {
        capacity(self.buffer_bytes)
    }

    /// The context's bounds; `describe` gives its multiprocessors and their clock.
    pub(super) fn machine(&self, describe: impl FnOnce() -> (u64, u64)) -> ContextBounds {
        let buffer_bytes = self.buffer_bytes;
        *self.machine.get_or_init(|| {
            let (multiprocessors, clock_khz) = describe();
            ContextBounds { multiprocessors, clock_khz, buffer_bytes }
        })
    }

    fn gate(&self) -> MutexGuard<'_, SamplerGate> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reader(&self) -> MutexGuard<'_, SampleReader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if sampling was enabled, or cannot be.
    pub(super) fn is_prepared(&self) -> bool {
        self.gate().phase != SamplerPhase::Off
    }

    /// True if another context is one of the same GPU.
    pub(super) fn shares_gpu(&self, other: &Self) -> bool {
        self.context != other.context && self.gpu == other.gpu
    }

    /// Enables sampling, if it is off. An error while another process samples the GPU.
    pub(super) fn prepare(&self, api: &Cupti) -> Result<(), &'static str> {
        let mut gate = self.gate();
        if gate.phase != SamplerPhase::Off {
            return Ok(());
        }
        gate.turn = SamplingTurn::take(self.gpu.as_deref());
        if gate.turn.is_none() {
            drop(gate);
            return Err(TAKEN);
        }
        self.enable(api, gate, false);
        Ok(())
    }

    /// As [`Self::prepare`] for a launch, which waits while another process samples the GPU.
    pub(super) fn prepare_launch(&self, api: &Cupti) -> Result<(), &'static str> {
        // Waits without the gate, and keeps the turn until the sampler has it.
        let turn = super::turn::take_after_wait(self.gpu.as_deref());
        if turn.is_none() {
            TAKEN_SAID
                .call_once(|| say("another process samples the GPU for long: launches are not sampled"));
            return Err(TAKEN);
        }
        self.prepare(api)
    }

    /// True if it samples this GPU.
    pub(super) fn is_on(&self, gpu: &str) -> bool {
        self.gpu.as_deref() == Some(gpu)
    }

    /// Disables sampling until the next launch of this context, because another one of the GPU is to be sampled. False
    /// while a launch is running for long.
    pub(super) fn rest(&self, api: &Cupti) -> bool {
        let mut gate = self.wait();
        match gate.phase {
            SamplerPhase::Off | SamplerPhase::Dead => return true,
            SamplerPhase::Ready | SamplerPhase::Full if gate.active == 0 => gate.phase = SamplerPhase::Busy,
            SamplerPhase::Ready | SamplerPhase::Full | SamplerPhase::Busy => return false,
        }
        drop(gate);
        let disabled = ContextCalls { api, context: self.context }.disable();
        let mut reader = self.reader();
        let (reasons, buffers) = (Arc::clone(&reader.reasons), reader.buffers.take());
        drop(reader);
        let mut gate = self.gate();
        gate.turn = None;
        gate.phase = if disabled.is_ok() { SamplerPhase::Off } else { SamplerPhase::Dead };
        drop(gate);
        match (disabled, buffers) {
            (Ok(()), buffers) => emit_leftover(&reasons, buffers),
            (Err(error), buffers) => {
                // CUPTI may still write there.
                std::mem::forget(buffers);
                session::lose(
                    LossKind::Source,
                    "sampling of a context could not be disabled",
                    1,
                    Some(error),
                );
            }
        }
        true
    }

    /// Enables sampling, again where it was on. No sampled launch is running.
    fn enable(&self, api: &Cupti, mut gate: MutexGuard<'_, SamplerGate>, was_on: bool) {
        gate.phase = SamplerPhase::Busy;
        let exponent = gate.exponent;
        drop(gate);
        let enabled = self.set_up(api, exponent, was_on);
        let mut gate = self.gate();
        gate.phase = if enabled.is_ok() { SamplerPhase::Ready } else { SamplerPhase::Dead };
        if let Err(error) = enabled {
            gate.turn = None;
            drop(gate);
            say(&format!("no more stall samples are recorded: {error}"));
            session::lose(LossKind::Source, "PC sampling could not be enabled", 1, Some(error));
        }
    }

    fn set_up(&self, api: &Cupti, exponent: u32, was_on: bool) -> Result<(), String> {
        let calls = ContextCalls { api, context: self.context };
        if was_on {
            calls.disable()?;
        }
        calls.enable()?;
        let reasons = Arc::new(StallReasons::new(calls.reasons()?));
        let numbers = reasons.numbers();
        let buffer = || SamplingBuffer::new(PCS, numbers.len());
        let mut reader = self.reader();
        reader.reasons = Arc::clone(&reasons);
        // Sampling is off: CUPTI has no pointer to the buffers that these replace.
        let buffers = reader.buffers.insert(SampleBuffers { leftover: buffer(), answer: buffer() });
        calls.configure(self.mode, numbers.clone(), exponent, self.buffer_bytes, &buffers.leftover)?;
        if self.mode == CollectionMode::Continuous { calls.start() } else { Ok(()) }
    }

    /// Reads what was sampled since the last read. `None` once sampling has ended.
    pub(super) fn collect(&self, api: &Cupti) -> Option<CallSamples> {
        if self.prepare(api).is_err() {
            return Some(CallSamples::default());
        }
        if self.gate().phase != SamplerPhase::Ready {
            return None;
        }
        let (mut sums, mut records) = (ReadSums::default(), Vec::new());
        let mut reader = self.reader();
        let SampleReader { buffers, reasons, .. } = &mut *reader;
        let reasons = Arc::clone(reasons);
        let calls = ContextCalls { api, context: self.context };
        let failure =
            read_all(calls, &mut buffers.as_mut()?.answer, &mut sums, &mut |record| records.push(record));
        drop(reader);
        count_losses(&sums, reasons.count_all(&records));
        if failure == Some(SamplingFailure::Full) {
            let gate = self.gate();
            if gate.phase == SamplerPhase::Ready {
                self.enable(api, gate, true);
            }
        }
        Some(CallSamples { reasons, records, dropped: sums.dropped, failure })
    }

    /// Waits until no sampled launch is running, or one takes long.
    fn wait(&self) -> MutexGuard<'_, SamplerGate> {
        let is_taken = |gate: &mut SamplerGate| gate.phase == SamplerPhase::Ready && gate.active > 0;
        self.is_free
            .wait_timeout_while(self.gate(), self.patience, is_taken)
            .unwrap_or_else(PoisonError::into_inner)
            .0
    }

    /// Begins a sampled launch, if possible at this period. The exponent of its period, or why it is not sampled. The
    /// sampler is prepared.
    pub(super) fn enter(&self, api: &Cupti, exponent: u32) -> Result<u32, &'static str> {
        let mut gate = self.wait();
        match gate.phase {
            SamplerPhase::Ready => {}
            SamplerPhase::Off | SamplerPhase::Busy | SamplerPhase::Full => return Err(BUSY),
            SamplerPhase::Dead => return Err(DEAD),
        }
        if gate.active == 0 {
            let calls = ContextCalls { api, context: self.context };
            if gate.exponent != exponent && calls.set_period(exponent).is_ok() {
                gate.exponent = exponent;
            }
            if let Err(error) = calls.start() {
                drop(gate);
                broken(NOT_STARTED, error);
                return Err(NOT_STARTED);
            }
        }
        gate.active += 1;
        Ok(gate.exponent)
    }

    /// The samples of a launch whose call ends, which [`Self::leave`] must follow.
    pub(super) fn read(&self, api: &Cupti, correlation_id: u64) -> CallSamples {
        let mut sums = ReadSums::default();
        let mut reader = self.reader();
        let SampleReader { buffers, reasons, others } = &mut *reader;
        let reasons = Arc::clone(reasons);
        let mut collected = 0;
        let failure = buffers.as_mut().map_or(Some(SamplingFailure::Code(-1)), |buffers| {
            let calls = ContextCalls { api, context: self.context };
            read_all(calls, &mut buffers.answer, &mut sums, &mut |record| {
                collected += reasons.count(&record);
                others.entry(record.correlation_id).or_default().push(record);
            })
        });
        let records = others.remove(&correlation_id).unwrap_or_default();
        let oldest: Vec<_> = (MAX_OTHERS..others.len()).filter_map(|_| others.pop_first()).collect();
        drop(reader);
        lose_others(&reasons, oldest.iter().map(|(_, records)| records));
        count_losses(&sums, collected);
        CallSamples { reasons, records, dropped: sums.dropped, failure }
    }

    /// Ends a sampled launch.
    pub(super) fn leave(&self, api: &Cupti, failure: Option<SamplingFailure>) {
        let mut gate = self.gate();
        if failure == Some(SamplingFailure::Full) && gate.phase == SamplerPhase::Ready {
            gate.phase = SamplerPhase::Full;
        }
        gate.active = gate.active.saturating_sub(1);
        if gate.active > 0 {
            return;
        }
        let stopped = ContextCalls { api, context: self.context }.stop();
        // No launch reads now, and none begins while the gate is held: these records belong to no launch.
        let mut reader = self.reader();
        let reasons = Arc::clone(&reader.reasons);
        let others = std::mem::take(&mut reader.others);
        drop(reader);
        if gate.phase == SamplerPhase::Full {
            self.enable(api, gate, true);
        } else {
            drop(gate);
        }
        self.is_free.notify_one();
        if let Err(error) = stopped {
            broken("sampling could not be stopped", error);
        }
        lose_others(&reasons, others.values());
    }

    /// Disables sampling for good, because the context or the process ends: the reason of launches that are running.
    pub(super) fn end(&self, api: &Cupti, reason: &'static str) {
        let mut gate = self.gate();
        let phase = std::mem::replace(&mut gate.phase, SamplerPhase::Dead);
        // Given up at the end of this call: until then CUPTI may sample.
        let _turn = gate.turn.take();
        let active = gate.active;
        drop(gate);
        self.is_free.notify_all();
        if active > 0 {
            let reason = if BROKEN_SAID.is_completed() { UNSEEN } else { reason };
            session::lose(LossKind::Launch, reason, active.into(), None);
        }
        let can_end = active == 0 && matches!(phase, SamplerPhase::Ready | SamplerPhase::Full);
        let is_off = can_end && ContextCalls { api, context: self.context }.disable().is_ok();
        let mut reader = self.reader();
        let (reasons, buffers) = (Arc::clone(&reader.reasons), reader.buffers.take());
        drop(reader);
        match buffers {
            // CUPTI has written the remaining records into the buffer that it was given.
            Some(mut buffers) if is_off && self.mode == CollectionMode::Continuous => {
                windows::emit_last(&reasons, &buffers.leftover.records(), self.device_id());
            }
            buffers if is_off => emit_leftover(&reasons, buffers),
            // CUPTI may still write there.
            buffers => std::mem::forget(buffers),
        }
    }
}

/// Writes the records that CUPTI had left when sampling was disabled.
fn emit_leftover(reasons: &StallReasons, buffers: Option<SampleBuffers>) {
    if let Some(mut buffers) = buffers {
        reasons.emit(&buffers.leftover.records(), None);
    }
}

/// Counts a failure of CUPTI's while it samples. Where another profiler samples the GPU, it detaches itself: the launches
/// that follow give no callback, and cannot be counted.
fn broken(reason: &'static str, error: String) {
    BROKEN_SAID.call_once(|| {
        say(&format!(
            "{reason}: {error}. Another profiler may use the GPU. CUPTI may report no launch after this one"
        ));
        session::lose(LossKind::Source, "CUPTI may report no later launch", 1, None);
    });
    session::lose(LossKind::Source, reason, 1, Some(error));
}

#[cfg(test)]
mod tests;
