//! Launch calls: decisions on entry, records on exit.
#![expect(unsafe_code, reason = "data of callbacks")]

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::time::Duration;

use stallmap_schema::capture::recording::AMBIGUOUS_FUNCTION;
use stallmap_schema::id::{FunctionId, KernelId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::{DriverHandle, MODULE_LOAD_IDS, launch_id};
use stallmap_sys::cupti::CuptiApiData;

use super::buffer::PcRecord;
use super::functions::{FunctionModule, LaunchedFunction};
use super::graph::PendingGraph;
use super::kernels::{self, SampledKernel};
use super::period::ContextBounds;
use super::reading::{CallSamples, SamplingFailure};
use super::rows::{self, CallTimes, LaunchSamples, RanKernel};
use super::sampler::ContextSampler;
use super::watch::{self, WatchedLaunch};
use super::{LAST, SamplingInstrument, TakenSamples, driver, lock, run_exponent, samples};
use crate::samples::timeline::{NodeClones, queue};
use stallmap_session::gpu::call::{self, LaunchCall};
use stallmap_session::gpu::graphs;
use stallmap_session::slot::ThreadSlot;
use stallmap_session::{context, replayed, session};

/// The site of a callback at the begin of a call.
pub(super) const ENTER: c_int = 0;
/// The reason of a launch call that failed.
const REFUSED: &str = "refused by the driver";

/// A launch call that is running on this thread.
enum OpenCall {
    /// Into a stream that captures, by the launch function's callback number: no kernel runs.
    Captured(u32, DriverHandle),
    /// A launch of a graph into such a stream.
    CapturedGraph,
    Launch(Box<PendingLaunch>),
    Graph(Box<PendingGraph>),
}

impl OpenCall {
    /// Launches of the call that are not counted as lost yet: one that cannot be measured is, when it begins.
    fn uncounted(&self) -> u64 {
        match self {
            Self::Captured(..) | Self::CapturedGraph => 1,
            Self::Launch(pending) => pending.is_recorded.into(),
            Self::Graph(pending) => pending.uncounted(),
        }
    }
}

/// A launch whose call is running.
struct PendingLaunch {
    ordinal: u64,
    kernel: Arc<SampledKernel>,
    call: LaunchCall,
    context: DriverHandle,
    begin_ns: i64,
    /// True if the selection takes it, and it can be measured.
    is_recorded: bool,
    /// `None` where the launch is not sampled.
    sampling: Option<LaunchSampling>,
    /// The launch of the capture that it replays.
    replayed: Option<KernelId>,
}

/// Sampling of a launch that is running.
pub(super) struct LaunchSampling {
    pub(super) sampler: Arc<ContextSampler>,
    pub(super) machine: ContextBounds,
    /// Two to this power cycles are the period.
    pub(super) exponent: u32,
    /// Start of sampling.
    pub(super) begin_ns: i64,
    _watched: WatchedLaunch,
}

thread_local! {
    /// The launch call of this thread, by its correlation id.
    static OPEN: ThreadSlot<(u64, OpenCall)> = const { ThreadSlot::empty() };
}

/// Forgets the launch call of this thread. True if there was one.
pub(super) fn forget() -> bool {
    OPEN.with(ThreadSlot::take).is_some()
}

impl SamplingInstrument {
    /// # Safety
    /// `data` is that of a call of the function with this callback id.
    pub(super) unsafe fn driver_call(&self, id: u32, data: &CuptiApiData) {
        let correlation_id = u64::from(data.correlation_id);
        if graphs::CALLBACKS.contains(&id) {
            if data.site != ENTER {
                // SAFETY: by this function's contract. The call is ending.
                unsafe { self.graph_call(id, data) };
            }
        } else if MODULE_LOAD_IDS.contains(&id) {
            let has_loaded = data.site != ENTER && result(data) == 0 && !data.parameters.is_null();
            // SAFETY: the first parameter of these functions points to the module's handle, which the call has given.
            let handle = unsafe { has_loaded.then(|| *data.parameters.cast::<*const DriverHandle>()) };
            // SAFETY: as above, where it is not null.
            self.module_call(handle.and_then(|handle| unsafe { handle.as_ref() }.copied()));
        } else if data.site == ENTER {
            if !replayed::is_silent() {
                // SAFETY: by this function's contract.
                let open = unsafe { self.opened(id, data) };
                self.abandon(OPEN.with(|slot| slot.replace(open.map(|open| (correlation_id, open)))));
            }
        } else {
            match OPEN.with(ThreadSlot::take) {
                Some((id, open)) if id == correlation_id => self.closed(open, result(data), correlation_id),
                other => self.abandon(other),
            }
        }
    }

    /// A call that changes graphs ends.
    ///
    /// # Safety
    /// `data` is that of a call of the function with this callback id.
    unsafe fn graph_call(&self, id: u32, data: &CuptiApiData) {
        let has_succeeded = result(data) == 0;
        if has_succeeded {
            // SAFETY: by this function's contract.
            unsafe { self.graphs.called(id, data.parameters) };
        }
        if self.is_timeline {
            let is_made = has_succeeded && graphs::INSTANTIATIONS.contains(&id) && !data.parameters.is_null();
            // SAFETY: the first parameter of these functions points to the handle that the call has made.
            let made = unsafe { is_made.then(|| *data.parameters.cast::<*const DriverHandle>()) };
            // SAFETY: as above, where it is not null.
            NodeClones::settle(&self.graphs, made.and_then(|made| unsafe { made.as_ref() }.copied()));
        }
    }

    /// Ends the sampling of a launch whose exit was not seen.
    fn abandon(&self, open: Option<(u64, OpenCall)>) {
        let Some((_, open)) = open else { return };
        let launches = open.uncounted();
        let sampling = match open {
            OpenCall::Launch(pending) => pending.sampling,
            OpenCall::Graph(pending) => pending.sampling,
            OpenCall::Captured(..) | OpenCall::CapturedGraph => return,
        };
        session::lose(LossKind::Launch, "end of the launch call was not seen", launches, None);
        if let Some(sampling) = sampling {
            sampling.sampler.leave(&self.api, None);
        }
    }

    /// # Safety
    /// `data` is that of a launch function with this callback id, whose call begins.
    unsafe fn opened(&self, id: u32, data: &CuptiApiData) -> Option<OpenCall> {
        if launch_id::GRAPH.contains(&id) {
            if data.parameters.is_null() {
                return None;
            }
            // SAFETY: by this function's contract. The parameters are the executable graph and the stream.
            let [exec, stream] = unsafe { *data.parameters.cast::<[DriverHandle; 2]>() };
            if graphs::capture(id, stream).is_some() {
                return Some(OpenCall::CapturedGraph);
            }
            return self.graph_begins(exec, stream, data.context).map(Box::new).map(OpenCall::Graph);
        }
        // SAFETY: by this function's contract.
        let call = unsafe { call::read(id, data.parameters) }?;
        if graphs::capture(id, call.stream).is_some() {
            return Some(OpenCall::Captured(id, call.stream));
        }
        let kernel = kernels::find(call.function.key(), data.symbol, |name| self.selector.takes(name));
        let measured = self.durations.as_ref();
        let longest_ns = measured.map(|durations| durations.longest_ns(&kernel.name, call.shape));
        let cycles = |machine: ContextBounds| machine.kernel_cycles(blocks(call.shape), longest_ns);
        let named = (kernel.name.as_str(), watch::patience(longest_ns.map(Duration::from_nanos)));
        let decision = self.selector.decide_taken(kernel.taken);
        let sampling = decision.and_then(|()| self.begin_sampling(data.context, named, cycles));
        if let Err(reason) = sampling {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let (is_recorded, sampling) = (sampling.is_ok(), sampling.ok().flatten());
        let begin_ns = sampling.as_ref().map_or_else(session::now_ns, |sampling| sampling.begin_ns);
        let (ordinal, replayed) = (session::take_ordinal(), replayed::current());
        Some(OpenCall::Launch(Box::new(PendingLaunch {
            ordinal,
            kernel,
            call,
            context: data.context,
            begin_ns,
            is_recorded,
            sampling,
            replayed,
        })))
    }

    /// Starts sampling for a launch, with its name for the user, the time after which the user reads of it, and the cycles
    /// that it may take. `None` where the pass samples nothing. An error is the reason that it is not sampled.
    pub(super) fn begin_sampling(
        &self,
        context: DriverHandle,
        (name, patience): (&str, Duration),
        cycles: impl FnOnce(ContextBounds) -> u64,
    ) -> Result<Option<LaunchSampling>, &'static str> {
        if self.is_timeline {
            if let Some(sampler) = self.sampler(context) {
                sampler.on_device(driver::current_device);
            }
            return Ok(None);
        }
        let sampler = self.sampler(context).ok_or("context was not seen")?;
        let machine = sampler.machine(driver::multiprocessors);
        let wanted = self.config.sampling_period_exponent;
        let wanted = wanted.unwrap_or_else(|| lock(&self.period).choose(machine, cycles(machine)));
        self.prepare(&sampler)?;
        let exponent = sampler.enter(&self.api, wanted)?;
        let begin_ns = session::now_ns();
        Ok(Some(LaunchSampling {
            sampler,
            machine,
            exponent,
            begin_ns,
            _watched: WatchedLaunch::begin(name, patience),
        }))
    }

    fn closed(&self, open: OpenCall, result: c_int, correlation_id: u64) {
        let (end_ns, launches) = (session::now_ns(), open.uncounted());
        match open {
            OpenCall::Captured(id, stream) if result == 0 => {
                match graphs::capture(id, stream).and_then(|capture| capture.node) {
                    Some(node) => self.graphs.captured(node),
                    None => session::lose(LossKind::Op, "node of a captured launch is not known", 1, None),
                }
            }
            OpenCall::CapturedGraph if result == 0 => {}
            OpenCall::Captured(..) | OpenCall::CapturedGraph => refused(launches, result),
            OpenCall::Launch(pending) if result != 0 => {
                refused(launches, result);
                self.leave(pending.sampling.as_ref());
            }
            OpenCall::Launch(pending) => self.launched(&pending, correlation_id, end_ns),
            OpenCall::Graph(pending) if result != 0 => {
                refused(launches, result);
                self.leave(pending.sampling.as_ref());
            }
            OpenCall::Graph(pending) => self.graph_launched(&pending, correlation_id, end_ns),
        }
    }

    /// Ends the sampling of a launch that took no samples.
    fn leave(&self, sampling: Option<&LaunchSampling>) {
        if let Some(sampling) = sampling {
            sampling.sampler.leave(&self.api, None);
        }
    }

    /// The kernel has run, and its module, which the launch itself may have loaded, is known.
    fn launched(&self, launch: &PendingLaunch, correlation_id: u64, end_ns: i64) {
        let reading = launch.sampling.as_ref().map(|sampling| {
            let reading = sampling.sampler.read(&self.api, correlation_id);
            sampling.sampler.leave(&self.api, reading.failure);
            reading
        });
        let kernel_id = launch.replayed.unwrap_or(KernelId(launch.ordinal));
        let unread = reading.as_ref().and_then(CallSamples::unread);
        if let Some(code) = unread {
            lose_unread(1, code);
        }
        let sampled = launch
            .sampling
            .as_ref()
            .zip(reading.as_ref())
            .filter(|_| unread.is_none())
            .map(|(sampling, reading)| self.count(launch, sampling, reading, end_ns));
        let records = reading.as_ref().map_or(&[][..], |reading| &reading.records);
        let kernel = RanKernel {
            ordinal: launch.ordinal,
            kernel_id,
            name: &launch.kernel.name,
            shape: launch.call.shape,
            shared_bytes: launch.call.shared_bytes,
            context: context::of_launch(),
        };
        let device_id = kernels::device(launch.context, || self.device());
        let function_id = self.function_of(launch, &kernel, records);
        let row = function_id.map(|function_id| rows::launch(&kernel, function_id, device_id));
        if let Some(reading) = &reading {
            reading.reasons.emit(&reading.records, None);
        }
        let times = CallTimes {
            thread_id: session::thread_id(),
            stream_id: lock(&self.book).stream(launch.call.stream),
            correlation_id: Some(correlation_id),
            begin_ns: launch.begin_ns,
            end_ns,
        };
        let matched = if launch.replayed.is_some() { Match::Replayed } else { Match::Reference };
        let is_recorded = launch.is_recorded && unread.is_none();
        let run = rows::launch_run(&kernel, matched, &times, is_recorded, sampled);
        self.emit(row.filter(|_| launch.replayed.is_none()), run);
    }

    /// Writes the rows of a launch, those of a timeline soon.
    pub(super) fn emit(&self, launch: Option<Launch>, run: LaunchRun) {
        if self.is_timeline {
            queue::add(launch, run);
            return;
        }
        if let Some(launch) = launch {
            session::emit(launch);
        }
        session::emit(run);
    }

    /// Counts the samples of a launch, and learns from them how to sample the next ones.
    fn count(
        &self,
        launch: &PendingLaunch,
        sampling: &LaunchSampling,
        reading: &CallSamples,
        end_ns: i64,
    ) -> LaunchSamples {
        let collected = reading.reasons.count_all(&reading.records);
        let taken = collected + reading.dropped;
        let missing = if reading.failure == Some(SamplingFailure::Full) {
            let estimate = sampling.estimate(blocks(launch.call.shape), end_ns);
            let missing = estimate.saturating_sub(taken);
            lose_samples(launch.ordinal, missing);
            missing
        } else {
            0
        };
        let own = taken.saturating_sub(self.foreign(reading, &launch.kernel.name));
        lock(&self.period).learn(sampling.machine, own + missing, sampling.exponent);
        if replayed::is_session() {
            let by_pc = reading.reasons.by_pc(&reading.records);
            *lock(&LAST) = TakenSamples { collected, dropped: reading.dropped, by_pc };
        }
        let period_cycles = self.period_cycles(sampling);
        LaunchSamples { collected, lost: reading.dropped + missing, period_cycles, is_split: None }
    }

    /// Samples of other kernels, which CUPTI still held from launches before. Finalizing gives them to those.
    fn foreign(&self, reading: &CallSamples, kernel: &str) -> u64 {
        let functions = lock(&self.functions);
        let is_foreign = |record: &&PcRecord| {
            *record.function != *kernel && functions.is_kernel(record.cubin_crc, &record.function)
        };
        reading.records.iter().filter(is_foreign).map(|record| reading.reasons.count(record)).sum()
    }

    /// The period of a launch, where it is not the run's.
    pub(super) fn period_cycles(&self, sampling: &LaunchSampling) -> Option<u64> {
        (sampling.exponent != run_exponent(self.config)).then_some(1 << sampling.exponent)
    }

    /// The current device, which is described once.
    pub(super) fn device(&self) -> i32 {
        let device_id = driver::current_device();
        let is_new = lock(&self.book).is_new_device(device_id);
        if is_new {
            rows::describe_device(device_id);
        }
        device_id
    }

    /// The function of a launch. Without samples, all launches of a kernel have the same.
    fn function_of(
        &self,
        launch: &PendingLaunch,
        kernel: &RanKernel<'_>,
        records: &[PcRecord],
    ) -> Option<FunctionId> {
        let known = launch.kernel.function_id.get().copied().filter(|_| self.is_timeline);
        known.or_else(|| {
            let crcs = samples::crcs(records, kernel.name);
            let (function_id, is_certain) = self.function(kernel, launch.call.function.key(), &crcs)?;
            if is_certain {
                launch.kernel.function_id.set(function_id).unwrap_or_default();
            }
            Some(function_id)
        })
    }

    /// The function of a launch, and whether it can be no other. Functions are named once.
    ///
    /// `None`, and counted, where its module was not seen.
    pub(super) fn function(
        &self,
        kernel: &RanKernel<'_>,
        function: usize,
        crcs: &BTreeSet<u64>,
    ) -> Option<(FunctionId, bool)> {
        let is_ambiguous = lock(&self.functions).is_ambiguous(kernel.name);
        // The driver is called without a lock.
        let module = if is_ambiguous { driver::module_of(function) } else { None };
        let launched = LaunchedFunction { name: kernel.name, function, module, crcs };
        let found = lock(&self.functions).find(&launched);
        let Some(FunctionModule { code, is_certain }) = found else {
            let name = Some(kernel.name.to_owned());
            session::lose(LossKind::Launch, "launch of a module that was not seen", 1, name);
            return None;
        };
        let function_id = code.function_id(kernel.name);
        if !is_certain {
            let name = Some(kernel.name.to_owned());
            rows::lose_at(kernel.ordinal, LossKind::Code, AMBIGUOUS_FUNCTION, 1, name);
        }
        let is_new = lock(&self.book).is_new_function(function_id);
        if is_new {
            session::emit(rows::name(function_id, &code, kernel.name, kernel.ordinal));
        }
        Some((function_id, is_certain))
    }
}

impl LaunchSampling {
    /// Samples that a launch of so many blocks took, by the time that it took, where the buffer was full: it held more than
    /// it can.
    pub(super) fn estimate(&self, blocks: u64, end_ns: i64) -> u64 {
        let ns = u64::try_from(end_ns - self.begin_ns).unwrap_or(0);
        self.machine.samples(blocks, ns, self.exponent).max(self.machine.capacity())
    }
}

/// Counts samples of a launch that were taken and dropped.
pub(super) fn lose_samples(ordinal: u64, count: u64) {
    rows::lose_at(ordinal, LossKind::Sample, "the hardware buffer was full: estimated", count, None);
}

/// Counts launches whose samples CUPTI does not give. Their number is not known.
pub(super) fn lose_unread(launches: u64, code: c_int) {
    let detail = Some(format!("CUPTI error {code}"));
    session::lose(LossKind::Launch, "samples could not be read", launches, detail);
}

/// The result of a call that ends.
pub(super) fn result(data: &CuptiApiData) -> c_int {
    // SAFETY: on exit, CUPTI gives the address of the result, which lives during the callback.
    unsafe { data.result.as_ref() }.copied().unwrap_or(0)
}

/// Counts launches of a call that failed.
fn refused(launches: u64, result: c_int) {
    session::lose(LossKind::Launch, REFUSED, launches, Some(format!("CUDA error {result}")));
}

/// The blocks of a grid.
pub(super) fn blocks([x, y, z, ..]: [u32; 6]) -> u64 {
    u64::from(x).saturating_mul(y.into()).saturating_mul(z.into())
}

#[cfg(test)]
mod tests;
