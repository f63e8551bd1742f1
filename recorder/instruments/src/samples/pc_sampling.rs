//! The stall instrument: CUPTI PC sampling. Kernels are serialized, which gives each sample its launch.
//!
//! Sampling is on only from a selected launch's entry to its exit. Every other launch runs as it would alone. In a
//! timeline pass the same callbacks report launches and graphs, nothing is sampled, and [`crate::samples::timeline`] measures.
#![expect(unsafe_code, reason = "callbacks and calls of CUPTI")]

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::time::Duration;

use stallmap_config::durations::{self, KernelDurations};
use stallmap_config::{Config, PassInstrument};
use stallmap_schema::capture::recording::GAVE_WAY;
use stallmap_schema::id::{ModuleId, Pc};
use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::{DriverHandle, MODULE_LOAD_IDS, launch_id};
use stallmap_sys::cupti::types::CUpti_GetCubinCrcParams;
use stallmap_sys::cupti::{
    Cupti, CuptiApiData, CuptiModuleData, GraphData, MULTIPLE_SUBSCRIBERS, ResourceData, domain, resource,
};
use stallmap_sys::locate;

use crate::samples::timeline::{self, NodeClones};
use calls::CollectionMode;
use functions::ModuleFunctions;
use period::{FINEST, RunPeriod};
use rows::SampleRowBook;
use sampler::{BUSY, ContextSampler};
use stallmap_session::gpu::code;
use stallmap_session::gpu::device;
use stallmap_session::gpu::graphs::{self, ProcessGraphs};
use stallmap_session::gpu::selection::LaunchSelector;
use stallmap_session::guard::{guard, say};
use stallmap_session::session;
use stallmap_session::slot::ThreadSlot;

mod buffer;
mod calls;
mod driver;
mod functions;
mod graph;
mod kernels;
mod late;
mod launch;
mod period;
mod reading;
mod rows;
mod sampler;
mod samples;
mod split;
mod turn;
mod watch;
mod windows;

/// No lock here is held while CUPTI is called or rows are written, nor while another one is.
struct SamplingInstrument {
    api: Cupti,
    config: &'static Config,
    /// True where times are measured, and launches are not sampled one by one.
    is_timeline: bool,
    selector: LaunchSelector,
    samplers: Mutex<BTreeMap<usize, Arc<ContextSampler>>>,
    /// Held while sampling is enabled, and that of another context of the GPU is disabled before.
    changing: Mutex<()>,
    functions: Mutex<ModuleFunctions>,
    period: Mutex<RunPeriod>,
    /// Measured by a run before, if there was one.
    durations: Option<KernelDurations>,
    book: Mutex<SampleRowBook>,
    graphs: ProcessGraphs,
}

/// The samples of one launch.
#[derive(Clone, Debug, Default)]
pub struct TakenSamples {
    /// In rows, those of `_not_issued` reasons not counted again.
    pub collected: u64,
    /// Dropped by the hardware.
    pub dropped: u64,
    /// The collected samples of each instruction, by its function's mangled name and its pc.
    pub by_pc: BTreeMap<(String, Pc), u64>,
}

static INSTRUMENT: OnceLock<SamplingInstrument> = OnceLock::new();
/// The handle of the subscription, until it is given up. 0 for none.
static SUBSCRIBER: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// Modules that were loaded by the driver call of this thread.
    static LOADED: ThreadSlot<Vec<ModuleId>> = const { ThreadSlot::empty() };
}

/// The samples of the launch that ended last. Only where launches are replayed.
static LAST: Mutex<TakenSamples> =
    Mutex::new(TakenSamples { collected: 0, dropped: 0, by_pc: BTreeMap::new() });

/// The samples of the launch that ended last, in a session that replays.
pub fn samples_of_last_launch() -> TakenSamples {
    lock(&LAST).clone()
}

/// Subscribes to CUPTI.
pub fn attach() -> Result<(), String> {
    let config = session::config().ok_or("no session")?;
    let (api, path) = Cupti::load(&locate::cupti()).map_err(|error| error.to_string())?;
    let is_timeline = config.instrument == PassInstrument::Timeline || config.samples_continuously();
    let durations = durations(config);
    let instrument = SamplingInstrument {
        api,
        config,
        is_timeline,
        selector: LaunchSelector::new(config.selection.clone())?,
        samplers: Mutex::default(),
        changing: Mutex::default(),
        functions: Mutex::default(),
        period: Mutex::new(RunPeriod::new(durations.as_ref().map_or(0, |durations| durations.run_ns))),
        durations,
        book: Mutex::default(),
        graphs: ProcessGraphs::default(),
    };
    if INSTRUMENT.set(instrument).is_err() {
        return Ok(());
    }
    let mut subscriber = DriverHandle::NULL;
    // SAFETY: `callback` lives as long as the process and does not unwind.
    let code = unsafe { (api.subscribe)(&raw mut subscriber, callback, null_mut()) };
    if code == MULTIPLE_SUBSCRIBERS {
        session::lose(LossKind::Source, GAVE_WAY, 1, Some("it subscribed first".to_owned()));
        return Err("another profiler has subscribed to CUPTI, which has one subscriber".to_owned());
    }
    check(code, "subscribe")?;
    SUBSCRIBER.store(subscriber.key(), Ordering::Release);
    let launches =
        [launch_id::KERNEL, launch_id::COOPERATIVE, launch_id::KERNEL_EX, launch_id::GRAPH].concat();
    let resources = [
        resource::CONTEXT_CREATED,
        resource::CONTEXT_DESTROY_STARTING,
        resource::MODULE_LOADED,
        resource::MODULE_UNLOAD_STARTING,
    ];
    let ids = launches.into_iter().map(|id| (domain::DRIVER, id));
    for (domain, id) in ids.chain(resources.map(|id| (domain::RESOURCE, id))) {
        // SAFETY: the subscriber was made above.
        check(unsafe { (api.enable_callback)(1, subscriber, domain, id) }, "enable callbacks")?;
    }
    if is_timeline {
        // SAFETY: as above. Without it kernels of graphs have their times by name and order.
        unsafe { (api.enable_callback)(1, subscriber, domain::RESOURCE, resource::GRAPH_NODE_CLONED) };
        timeline::start(&locate::cupti())?;
    }
    if graphs::are_known() {
        for id in graphs::CALLBACKS.into_iter().chain(MODULE_LOAD_IDS) {
            // SAFETY: as above. An older CUPTI does not know the newest. Programs of its time do not call them.
            unsafe { (api.enable_callback)(1, subscriber, domain::DRIVER, id) };
        }
    }
    let mut version = 0;
    // SAFETY: `version` outlives the call.
    unsafe { (api.version)(&raw mut version) };
    session::fact("instrument_version", format!("CUPTI {version}, {}", path.display()));
    if let Some(version) = device::cuda_version() {
        session::fact("cuda_version", version.to_string());
    }
    if config.instrument == PassInstrument::PcSamples {
        session::fact("sampling_period_cycles", (1_u64 << run_exponent(config)).to_string());
    }
    Ok(())
}

/// Collects the remaining samples and ends sampling.
pub fn shut_down() {
    let Some(instrument) = INSTRUMENT.get() else { return };
    if SUBSCRIBER.load(Ordering::Acquire) == 0 {
        // CUPTI is another profiler's. What is flushed would be given to that one, which may be gone.
        return;
    }
    instrument.end_samplers();
    if instrument.is_timeline {
        timeline::shut_down();
    }
}

/// Leaves CUPTI to the program's own profiler: it has one subscriber. Launches from now on are not seen.
pub fn give_way(profiler: &str) {
    let Some(instrument) = INSTRUMENT.get() else { return };
    let subscriber = SUBSCRIBER.swap(0, Ordering::AcqRel);
    if subscriber == 0 {
        return;
    }
    instrument.end_samplers();
    if instrument.is_timeline {
        timeline::give_way();
    }
    // SAFETY: the subscription was not given up before. A callback that is running on another thread uses nothing of it.
    let code = unsafe { (instrument.api.unsubscribe)(DriverHandle::of_key(subscriber)) };
    let detail = if code == 0 { profiler.to_owned() } else { format!("{profiler}, CUPTI error {code}") };
    say(&format!("`{profiler}` profiles the program itself: this run records no launch from now on"));
    session::lose(LossKind::Source, GAVE_WAY, 1, Some(detail));
}

extern "C" fn callback(_userdata: *mut c_void, domain: c_int, id: u32, data: *const c_void) {
    guard((), || {
        let (Some(instrument), false) = (INSTRUMENT.get(), data.is_null()) else { return };
        if session::has_ended() {
            if domain == domain::DRIVER {
                // SAFETY: CUPTI gives data of the type that belongs to the domain, alive during the callback.
                unsafe { instrument.late_call(id, &*data.cast::<CuptiApiData>()) };
            }
            return;
        }
        if session::config().is_none() {
            return;
        }
        // SAFETY: CUPTI gives data of the type that belongs to the domain, alive during the callback.
        unsafe {
            match domain {
                domain::DRIVER => instrument.driver_call(id, &*data.cast::<CuptiApiData>()),
                domain::RESOURCE => instrument.resource(id, &*data.cast()),
                _ => {}
            }
        }
    });
}

impl SamplingInstrument {
    fn end_samplers(&self) {
        let samplers = std::mem::take(&mut *lock(&self.samplers));
        for sampler in samplers.into_values() {
            sampler.end(&self.api, "the process ended during the launch");
        }
    }

    /// # Safety
    /// `data.descriptor` has the type that CUPTI documents for `id`.
    unsafe fn resource(&self, id: u32, data: &ResourceData) {
        match id {
            resource::CONTEXT_CREATED => self.context_created(data.context),
            resource::CONTEXT_DESTROY_STARTING => self.context_ends(data.context),
            resource::MODULE_LOADED | resource::MODULE_UNLOAD_STARTING if !data.descriptor.is_null() => {
                // SAFETY: by this function's contract.
                let module = unsafe { &*data.descriptor.cast::<CuptiModuleData>() };
                if id == resource::MODULE_UNLOAD_STARTING {
                    self.module_unloads(data.context, module.module_id);
                } else if !module.cubin.is_null() {
                    // SAFETY: the cubin has that many bytes during the callback.
                    let cubin = unsafe { std::slice::from_raw_parts(module.cubin, module.cubin_bytes) };
                    self.module_loaded(data.context, module.module_id, cubin);
                }
            }
            resource::GRAPH_NODE_CLONED if !data.descriptor.is_null() => {
                // SAFETY: by this function's contract.
                NodeClones::add(unsafe { &*data.descriptor.cast::<GraphData>() });
            }
            _ => {}
        }
    }

    fn context_created(&self, context: DriverHandle) {
        let is_continuous = self.config.samples_continuously();
        if self.is_timeline && !is_continuous {
            return;
        }
        let exponent = run_exponent(self.config);
        let mode = if is_continuous { CollectionMode::Continuous } else { CollectionMode::Serialized };
        let gpu = driver::gpu_of(&self.api, context);
        let buffer_bytes = self.config.sampling_buffer_bytes;
        let sampler = Arc::new(ContextSampler::new(context, gpu, mode, buffer_bytes, exponent));
        lock(&self.samplers).insert(context.key(), Arc::clone(&sampler));
        if is_continuous {
            sampler.prepare(&self.api).unwrap_or_default();
            if let Some(instrument) = INSTRUMENT.get() {
                windows::start(&instrument.api, sampler);
            }
            return;
        }
        // Where nothing may ever be selected, the first selected launch enables sampling, and pays for it.
        let is_selected = !self.config.selection.paused && self.config.selection.region.is_none();
        if let (true, true, Ok(_changing)) =
            (is_selected, self.neighbors(&sampler).is_empty(), self.changing.try_lock())
        {
            watch_turns();
            // Where another process samples the GPU, the first launch waits for it.
            sampler.prepare(&self.api).unwrap_or_default();
        }
    }

    fn context_ends(&self, context: DriverHandle) {
        let sampler = lock(&self.samplers).remove(&context.key());
        if let Some(sampler) = sampler {
            sampler.end(&self.api, "the context ended during the launch");
        }
        kernels::forget();
        lock(&self.functions).unload_all(context.key());
    }

    fn module_loaded(&self, context: DriverHandle, number: u32, cubin: &[u8]) {
        let mut parameters = CUpti_GetCubinCrcParams {
            size: size_of::<CUpti_GetCubinCrcParams>(),
            cubinSize: cubin.len(),
            cubin: cubin.as_ptr().cast(),
            cubinCrc: 0,
        };
        // SAFETY: the parameters describe `cubin`, which outlives the call.
        let code = unsafe { (self.api.cubin_crc)(&raw mut parameters) };
        let crc = (code == 0).then_some(parameters.cubinCrc);
        let code = code::register(cubin, crc);
        kernels::forget();
        lock(&self.functions).load(context.key(), number, &code, crc);
        LOADED.with(|slot| slot.change(|loaded| loaded.get_or_insert_default().push(code.module_id)));
    }

    /// A call that loads a module begins or has succeeded: which handle it gave to which module.
    pub(crate) fn module_call(&self, handle: Option<DriverHandle>) {
        let loaded = LOADED.with(ThreadSlot::take).unwrap_or_default();
        if let (Some(handle), [module_id]) = (handle, &loaded[..]) {
            lock(&self.functions).tie(handle.key(), *module_id);
        }
    }

    fn module_unloads(&self, context: DriverHandle, number: u32) {
        kernels::forget();
        lock(&self.functions).unload(context.key(), number);
    }

    /// Enables sampling of a context. The hardware samples one context of a GPU at a time: that of others is disabled. The
    /// error is the reason that the context cannot be sampled.
    fn prepare(&self, sampler: &ContextSampler) -> Result<(), &'static str> {
        if sampler.is_prepared() {
            return Ok(());
        }
        let Ok(_changing) = self.changing.try_lock() else { return Err(BUSY) };
        if self.neighbors(sampler).iter().all(|other| other.rest(&self.api)) {
            watch_turns();
            sampler.prepare_launch(&self.api)
        } else {
            Err("another context of the process was sampled")
        }
    }

    /// Gives GPUs to other processes that wait to sample them. A launch that runs for long keeps its GPU.
    fn give_turns(&self) {
        for gpu in turn::wanted() {
            let Ok(_changing) = self.changing.try_lock() else { return };
            let samplers: Vec<_> =
                lock(&self.samplers).values().filter(|sampler| sampler.is_on(&gpu)).cloned().collect();
            samplers.iter().all(|sampler| sampler.rest(&self.api));
        }
    }

    /// The samplers of other contexts of a GPU.
    fn neighbors(&self, sampler: &ContextSampler) -> Vec<Arc<ContextSampler>> {
        let samplers = lock(&self.samplers);
        samplers.values().filter(|other| sampler.shares_gpu(other)).cloned().collect()
    }

    /// The sampler of a context.
    fn sampler(&self, context: DriverHandle) -> Option<Arc<ContextSampler>> {
        lock(&self.samplers).get(&context.key()).cloned()
    }
}

/// Time between two looks for other processes.
const TURN_INTERVAL: Duration = Duration::from_millis(20);

/// Starts the thread that gives GPUs to other processes.
fn watch_turns() {
    static START: Once = Once::new();
    let body = || {
        guard((), || {
            while !session::has_ended() {
                std::thread::sleep(TURN_INTERVAL);
                if let Some(instrument) = INSTRUMENT.get() {
                    instrument.give_turns();
                }
            }
        });
    };
    START.call_once(|| {
        // Without it other processes sample when this one has ended.
        drop(std::thread::Builder::new().name("stallmap-turns".into()).spawn(body));
    });
}

/// Exponent of the period of continuous sampling: about four million samples a second of a whole GPU.
const CONTINUOUS: u32 = 16;

/// Exponent of the run's period: the user's, or the finest that the recorder chooses.
fn run_exponent(config: &Config) -> u32 {
    let default = if config.samples_continuously() { CONTINUOUS } else { FINEST };
    config.sampling_period_exponent.unwrap_or(default)
}

/// The durations of kernels that a run before has measured. Without them the period is found while the program runs.
fn durations(config: &Config) -> Option<KernelDurations> {
    let json = std::fs::read_to_string(config.directory.join(durations::FILE_NAME)).ok()?;
    KernelDurations::from_json(&json).ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn check(code: c_int, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUPTI error {code}: failed to {what}")) }
}
