//! A worker: one process that replays launches under one instrument.
//!
//! The injected library's own session records it: the instrument is attached before CUDA starts, and its rows (samples,
//! accesses) come as those of any program. The worker adds which launch ran, and whether it did the same as in the
//! recording.

mod experiments;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use stallmap_config::PassInstrument;
use stallmap_instruments as instruments;
use stallmap_instruments::samples::counters::{CounterProfiler, MeasuredValue, sets};
use stallmap_schema::capture::reader::CaptureReader;
use stallmap_schema::id::{KernelId, ModuleId, Pc, RunId};
use stallmap_schema::tables::replay::Counter;
use stallmap_schema::word::LossKind;
use stallmap_session::gpu::{code, device};
use stallmap_session::session;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::replayer;

use crate::address_space::AddressSpace;
use crate::attempt::{ReplayAttempt, ReplayAttempts};
use crate::bundle::{self, CaptureBundles, PageContents, ReplayBundle};
use crate::error::{GpuError, ReplayError};
use crate::flush::CacheFlush;
use crate::gpu::{LoadedCubin, LoadedKernel, ReplayGpu};
use crate::memory::{BundleMemory, StagingBuffer};
use crate::plan::{ReplayOutcome, WorkerEvent, WorkerPlan};
use crate::precision::SampleShares;

/// Replays a plan's launches. `say` receives each report.
pub fn work(plan: &WorkerPlan, say: &mut dyn FnMut(&WorkerEvent)) -> Result<(), ReplayError> {
    if !session::start() {
        return Err(ReplayError::NoSession);
    }
    let instrument = session::config().map_or(PassInstrument::Native, |config| config.instrument);
    let capture = CaptureReader::open(&plan.capture)?;
    let mut bundles = CaptureBundles::read(&capture)?;
    bundles.bundles.retain(|kernel_id, _| plan.kernels.contains(&kernel_id.0));
    bundles.read_memory(&capture)?;
    let bundles = bundles.bundles;
    let contents = bundle::contents(&capture, bundles.values())?;
    // The sanitizer must be there before the first context.
    if !instruments::attach() {
        return Err(ReplayError::NotAttached(instrument.word()));
    }
    let gpu = ReplayGpu::open(0)?;
    let space = match AddressSpace::reserve(gpu, bundles.values(), plan.translation) {
        Ok(space) => space,
        Err(error @ ReplayError::Taken { .. }) => {
            say(&WorkerEvent::Taken { detail: error.to_string() });
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for (&kernel_id, reason) in &plan.failed {
        ReplayAttempts::new(KernelId(kernel_id), false).failed(reason);
    }
    let worker = BundleReplayer::new(plan, instrument, gpu, space, &capture, &contents)?;
    worker.run(&bundles, say);
    session::finish();
    Ok(())
}

struct BundleReplayer<'a> {
    plan: &'a WorkerPlan,
    instrument: PassInstrument,
    gpu: ReplayGpu,
    space: AddressSpace,
    capture: &'a CaptureReader,
    contents: &'a PageContents,
    staging: StagingBuffer,
    modules: BTreeMap<ModuleId, LoadedCubin>,
    /// Flushes caches, for replays that need them cold.
    flush: Option<CacheFlush>,
    events: [DriverHandle; 2],
    profiler: Option<CounterProfiler>,
}

/// A launch ready to be replayed.
struct ReadyLaunch<'a> {
    bundle: &'a ReplayBundle,
    kernel: LoadedKernel,
    parameters: Vec<u8>,
    memory: BundleMemory<'a>,
}

impl<'a> BundleReplayer<'a> {
    fn new(
        plan: &'a WorkerPlan,
        instrument: PassInstrument,
        gpu: ReplayGpu,
        space: AddressSpace,
        capture: &'a CaptureReader,
        contents: &'a PageContents,
    ) -> Result<Self, ReplayError> {
        let profiler = match instrument {
            PassInstrument::Counters => {
                let profiler = CounterProfiler::new(gpu.context, gpu.device, &plan.metrics);
                Some(profiler.map_err(|cause| GpuError::own("count", cause))?)
            }
            _ => None,
        };
        let unknown = profiler.iter().flat_map(CounterProfiler::unknown);
        // The sets hold spellings for several generations of chips.
        for metric in unknown.filter(|metric| !sets::hold(metric)) {
            session::lose(LossKind::Replay, "metric is not known to this GPU", 1, Some(metric.clone()));
        }
        if matches!(instrument, PassInstrument::Counters | PassInstrument::Native)
            && let Some(row) = device::describe(gpu.device)
        {
            session::emit(row);
        }
        let flush = if plan.is_cold { Some(CacheFlush::new(gpu)?) } else { None };
        let staging = StagingBuffer::new(gpu)?;
        let events = gpu.events()?;
        let modules = BTreeMap::new();
        Ok(Self {
            plan,
            instrument,
            gpu,
            space,
            capture,
            contents,
            staging,
            modules,
            flush,
            events,
            profiler,
        })
    }

    fn run(mut self, bundles: &BTreeMap<KernelId, ReplayBundle>, say: &mut dyn FnMut(&WorkerEvent)) {
        for &kernel_id in &self.plan.kernels {
            let Some(bundle) = bundles.get(&KernelId(kernel_id)) else { continue };
            say(&WorkerEvent::Begin { kernel_id });
            let is_translated = self.space.is_translated(bundle);
            let mut attempts = ReplayAttempts::new(bundle.kernel_id, is_translated);
            let mut outcome = ReplayOutcome { kernel_id, ..ReplayOutcome::default() };
            let result = match self.plan.experiments.get(&kernel_id) {
                Some(experiments) => self.experiment(bundle, experiments, &mut outcome, say),
                None => self.replay(bundle, &mut attempts, &mut outcome),
            };
            attempts.finish(&self.plan.unstable, self.instrument == PassInstrument::Native, &mut outcome);
            // A driver may have unknown errors: a lost context does not synchronize.
            let is_lost = |error: &GpuError| error.is_sticky() || self.gpu.synchronize().is_err();
            let lost = result.as_ref().is_err_and(is_lost);
            if let Err(error) = result {
                if !self.plan.experiments.contains_key(&kernel_id) {
                    attempts.failed(&error.to_string());
                }
                outcome.detail = Some(error.to_string());
            }
            say(&WorkerEvent::End(outcome));
            if lost {
                say(&WorkerEvent::Lost);
                return;
            }
        }
    }

    fn replay(
        &mut self,
        bundle: &ReplayBundle,
        attempts: &mut ReplayAttempts,
        outcome: &mut ReplayOutcome,
    ) -> Result<(), GpuError> {
        let ready = self.prepare(bundle)?;
        let repeated = self.repeat(&ready, attempts, outcome);
        let released = ready.memory.release(self.gpu);
        repeated.and(released)
    }

    fn repeat(
        &mut self,
        ready: &ReadyLaunch,
        attempts: &mut ReplayAttempts,
        outcome: &mut ReplayOutcome,
    ) -> Result<(), GpuError> {
        let begin = Instant::now();
        let mut shares = SampleShares::default();
        for repeat in 0..self.plan.repeats {
            if repeat > 0 {
                ready.memory.restore(self.gpu, self.contents)?;
            }
            let attempt = self.attempt(ready, repeat)?;
            let comparison = ready.memory.compare(self.gpu, &mut self.staging, &self.space, self.contents)?;
            attempts.add(attempt, &comparison, |position| ready.memory.address(position));
            if self.is_enough(&mut shares, outcome)
                || begin.elapsed() > Duration::from_nanos(self.plan.budget_ns)
            {
                break;
            }
        }
        Ok(())
    }

    fn prepare<'b>(&mut self, bundle: &'b ReplayBundle) -> Result<ReadyLaunch<'b>, GpuError> {
        bundle.check_whole(self.contents)?;
        let module = self.module(bundle)?;
        let kernel = self.kernel(module, bundle)?;
        self.space.require(bundle)?;
        let memory =
            BundleMemory::fill(self.gpu, &mut self.staging, &self.space, module, bundle, self.contents)?;
        let parameters = self.space.translated(bundle);
        Ok(ReadyLaunch { bundle, kernel, parameters, memory })
    }

    /// The bundle's kernel in a module, with the limits that it had.
    fn kernel(&self, module: LoadedCubin, bundle: &ReplayBundle) -> Result<LoadedKernel, GpuError> {
        let kernel = self.gpu.kernel(module, &bundle.name)?;
        let dynamic = i32::try_from(bundle.shape.dynamic_shared_bytes).unwrap_or(i32::MAX);
        let allowed = bundle.max_dynamic_shared_bytes.unwrap_or(0).max(dynamic);
        self.gpu.set_attribute(kernel, replayer::ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES, allowed);
        self.gpu.set_attribute(kernel, replayer::ATTRIBUTE_NON_PORTABLE_CLUSTER, 1);
        if let Some(carveout) = bundle.shared_carveout {
            self.gpu.set_attribute(kernel, replayer::ATTRIBUTE_SHARED_CARVEOUT, carveout);
        }
        Ok(kernel)
    }

    fn module(&mut self, bundle: &ReplayBundle) -> Result<LoadedCubin, GpuError> {
        if let Some(&module) = self.modules.get(&bundle.module_id) {
            return Ok(module);
        }
        let cubin = self.capture.cubin(&bundle.content_hash);
        let cubin = cubin.map_err(|error| GpuError::own("read a cubin", error.to_string()))?;
        code::alias(&cubin, bundle.module_id, &bundle.content_hash);
        let module = self.gpu.load(&cubin)?;
        self.modules.insert(bundle.module_id, module);
        Ok(module)
    }

    /// One replay. For counters, one for each pass.
    fn attempt(&mut self, ready: &ReadyLaunch, repeat: u32) -> Result<ReplayAttempt, GpuError> {
        let begin_ns = session::now_ns();
        let ordinal = session::next_ordinal();
        let mut duration_ns = None;
        if let Some(mut profiler) = self.profiler.take() {
            let measured = self.count(&mut profiler, ready, repeat);
            self.profiler = Some(profiler);
            measured?;
        } else {
            self.flush()?;
            self.gpu.synchronize()?;
            let is_timed = self.instrument == PassInstrument::Native;
            duration_ns = self.launch(ready, ready.kernel, is_timed)?;
        }
        Ok(ReplayAttempt { ordinal, begin_ns, repeat, duration_ns })
    }

    fn launch(
        &self,
        ready: &ReadyLaunch,
        kernel: LoadedKernel,
        is_timed: bool,
    ) -> Result<Option<u64>, GpuError> {
        let ReadyLaunch { bundle, parameters, .. } = ready;
        let [first, last] = self.events;
        if is_timed {
            self.gpu.record(first)?;
        }
        stallmap_session::replayed::set(Some(bundle.kernel_id));
        let launched = self.gpu.launch(kernel, &bundle.shape, parameters);
        stallmap_session::replayed::set(None);
        launched?;
        if is_timed {
            self.gpu.record(last)?;
        }
        self.gpu.synchronize()?;
        if is_timed { self.gpu.elapsed_ns(self.events).map(Some) } else { Ok(None) }
    }

    fn count(
        &self,
        profiler: &mut CounterProfiler,
        ready: &ReadyLaunch,
        repeat: u32,
    ) -> Result<(), GpuError> {
        let restore = || ready.memory.restore(self.gpu, self.contents).and_then(|()| self.flush());
        let measured = self.measured(profiler, ready, ready.kernel, &restore)?;
        for counter in measured.map_err(|cause| GpuError::own("count", cause))? {
            session::emit(Counter {
                run_id: RunId(0),
                kernel_id: ready.bundle.kernel_id,
                repeat,
                metric: counter.metric,
                value: counter.value,
                unit: counter.unit,
            });
        }
        Ok(())
    }

    /// The counters of a kernel, whose memory is restored before each pass. The outer error is a launch's, the inner one
    /// the profiler's.
    fn measured(
        &self,
        profiler: &mut CounterProfiler,
        ready: &ReadyLaunch,
        kernel: LoadedKernel,
        restore: &dyn Fn() -> Result<(), GpuError>,
    ) -> Result<Result<Vec<MeasuredValue>, String>, GpuError> {
        let mut fault = None;
        let measured = profiler.measure(&mut || restore().map_err(|error| error.to_string()), &mut || {
            let launched = self.launch(ready, kernel, false).map(|_time| ());
            launched.map_err(|error| {
                let text = error.to_string();
                fault = Some(error);
                text
            })
        });
        fault.map_or(Ok(measured), Err)
    }

    /// Puts everything out of the caches, where the plan says so.
    fn flush(&self) -> Result<(), GpuError> {
        self.flush.as_ref().map_or(Ok(()), |flush| flush.flush(self.gpu))
    }

    /// True if the samples of a launch are as precise as wished.
    fn is_enough(&self, shares: &mut SampleShares<(String, Pc)>, outcome: &mut ReplayOutcome) -> bool {
        let Some(precision) = self.plan.precision.filter(|_| self.instrument == PassInstrument::PcSamples)
        else {
            return false;
        };
        let taken = stallmap_instruments::samples::pc_sampling::samples_of_last_launch();
        shares.add(taken.by_pc);
        outcome.samples = shares.total();
        outcome.relative_error = Some(shares.relative_error()).filter(|error| error.is_finite());
        outcome.relative_error.is_some_and(|error| error <= precision)
    }
}
