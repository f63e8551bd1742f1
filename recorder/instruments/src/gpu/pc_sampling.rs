//! The stall instrument: CUPTI PC sampling, kernels serialized, so that every sample names its launch.
#![expect(unsafe_code, reason = "callbacks and calls of CUPTI")]

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stallmap_config::Config;
use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::id::{Address, FunctionId, KernelId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchRun};
use stallmap_schema::word::{LossKind, Match};
use stallmap_sys::cuda::{Handle, launch_id};
use stallmap_sys::cupti::types::CUpti_GetCubinCrcParams;
use stallmap_sys::cupti::{ApiData, Cupti, ModuleData, ResourceData, domain, resource};
use stallmap_sys::locate;

use super::call::{self, Call};
use super::code::{self, Code};
use super::device;
use super::name::text;
use super::selection::Selector;
use crate::guard::guard;
use crate::{context, replayed, session};
use sampler::{DEFAULT_PERIOD_EXPONENT, Sampler};

pub use buffer::Taken;

mod buffer;
mod sampler;

struct Instrument {
    api: Cupti,
    config: &'static Config,
    selector: Selector,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    samplers: BTreeMap<usize, Sampler>,
    /// The modules that hold a kernel of a name, the newest last.
    kernels: BTreeMap<String, Vec<Arc<Code>>>,
    streams: BTreeMap<usize, u32>,
    devices: BTreeSet<c_int>,
    /// Functions whose names are recorded.
    named: BTreeSet<FunctionId>,
}

/// A launch whose call is running on this thread.
struct Pending {
    ordinal: u64,
    name: String,
    call: Call,
    begin_ns: i64,
    correlation_id: u64,
    recorded: bool,
    /// The launch of the capture that it replays.
    replayed: Option<KernelId>,
}

thread_local! {
    static PENDING: RefCell<Option<Box<Pending>>> = const { RefCell::new(None) };
}

static INSTRUMENT: OnceLock<Instrument> = OnceLock::new();

/// What the launch that ended last gave; only where launches are replayed.
static LAST: Mutex<Taken> = Mutex::new(Taken::EMPTY);

/// The samples of the launch that ended last, in a session that replays.
pub fn samples_of_last_launch() -> Taken {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Subscribes to CUPTI.
pub fn attach() -> Result<(), String> {
    let config = session::config().ok_or("no session")?;
    let (api, path) = Cupti::load(&locate::cupti()).map_err(|error| error.to_string())?;
    let selector = Selector::new(config.selection.clone())?;
    if INSTRUMENT.set(Instrument { api, config, selector, state: Mutex::default() }).is_err() {
        return Ok(());
    }
    let mut subscriber = Handle::NULL;
    // SAFETY: `callback` lives as long as the process and does not unwind.
    check(unsafe { (api.subscribe)(&raw mut subscriber, callback, null_mut()) }, "subscribe")?;
    let launches =
        [launch_id::KERNEL, launch_id::COOPERATIVE, launch_id::KERNEL_EX, launch_id::GRAPH].concat();
    let resources = [resource::CONTEXT_CREATED, resource::CONTEXT_DESTROY_STARTING, resource::MODULE_LOADED];
    let ids = launches.into_iter().map(|id| (domain::DRIVER, id));
    for (domain, id) in ids.chain(resources.map(|id| (domain::RESOURCE, id))) {
        // SAFETY: the subscriber was made above.
        check(unsafe { (api.enable_callback)(1, subscriber, domain, id) }, "enable callbacks")?;
    }
    let mut version = 0;
    // SAFETY: `version` outlives the call.
    unsafe { (api.version)(&raw mut version) };
    session::fact("instrument_version", format!("CUPTI {version}, {}", path.display()));
    if let Some(version) = device::cuda_version() {
        session::fact("cuda_version", version.to_string());
    }
    let period = 1_u64 << config.sampling_period_exponent.unwrap_or(DEFAULT_PERIOD_EXPONENT);
    session::fact("sampling_period_cycles", period.to_string());
    Ok(())
}

/// Delivers what is left and ends sampling.
pub fn shut_down() {
    let Some(instrument) = INSTRUMENT.get() else { return };
    let samplers = std::mem::take(&mut instrument.lock().samplers);
    for sampler in samplers.into_values() {
        instrument.end(sampler);
    }
}

extern "C" fn callback(_userdata: *mut c_void, domain: c_int, id: u32, data: *const c_void) {
    guard((), || {
        let (Some(instrument), false) = (INSTRUMENT.get(), data.is_null()) else { return };
        if session::config().is_none() {
            return;
        }
        // SAFETY: CUPTI gives data of the type that belongs to the domain, alive during the callback.
        unsafe {
            match domain {
                domain::DRIVER => instrument.driver_call(id, &*data.cast()),
                domain::RESOURCE => instrument.resource(id, &*data.cast()),
                _ => {}
            }
        }
    });
}

impl Instrument {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// # Safety
    /// `data.descriptor` is what CUPTI documents for `id`.
    unsafe fn resource(&self, id: u32, data: &ResourceData) {
        match id {
            resource::CONTEXT_CREATED => self.context_created(data.context),
            resource::CONTEXT_DESTROY_STARTING => {
                let sampler = self.lock().samplers.remove(&data.context.key());
                if let Some(sampler) = sampler {
                    self.end(sampler);
                }
            }
            resource::MODULE_LOADED if !data.descriptor.is_null() => {
                // SAFETY: by this function's contract; the cubin has that many bytes during the callback.
                let cubin = unsafe {
                    let module = &*data.descriptor.cast::<ModuleData>();
                    if module.cubin.is_null() {
                        return;
                    }
                    std::slice::from_raw_parts(module.cubin, module.cubin_bytes)
                };
                self.module_loaded(cubin);
            }
            _ => {}
        }
    }

    fn context_created(&self, context: Handle) {
        match self.begin(context) {
            Ok(sampler) => {
                self.lock().samplers.insert(context.key(), sampler);
            }
            Err(error) => {
                crate::guard::say(&format!("no stall samples are recorded: {error}"));
                session::lose(LossKind::Source, "PC sampling could not be enabled", 1, Some(error));
            }
        }
    }

    fn module_loaded(&self, cubin: &[u8]) {
        let mut parameters = CUpti_GetCubinCrcParams {
            size: size_of::<CUpti_GetCubinCrcParams>(),
            cubinSize: cubin.len(),
            cubin: cubin.as_ptr().cast(),
            cubinCrc: 0,
        };
        // SAFETY: the parameters describe `cubin`, which outlives the call.
        let code = unsafe { (self.api.cubin_crc)(&raw mut parameters) };
        let code = code::register(cubin, (code == 0).then_some(parameters.cubinCrc));
        let mut state = self.lock();
        for name in &code.kernels {
            state.kernels.entry(name.clone()).or_default().push(Arc::clone(&code));
        }
    }

    /// # Safety
    /// `data.parameters` points to the parameters of the function with this callback id.
    unsafe fn driver_call(&self, id: u32, data: &ApiData) {
        const ENTER: c_int = 0;
        if launch_id::GRAPH.contains(&id) {
            if data.site == ENTER {
                session::lose(LossKind::Launch, "launched by a CUDA graph", 1, None);
            }
            return;
        }
        if data.site == ENTER {
            if replayed::is_silent() {
                return;
            }
            // SAFETY: by this function's contract.
            if let Some(call) = unsafe { call::read(id, data.parameters) } {
                self.launch_begins(data, call);
            }
            return;
        }
        let taken = self.collect(data.context);
        if replayed::is_session() {
            *LAST.lock().unwrap_or_else(PoisonError::into_inner) = taken.clone();
        }
        if let Some(pending) = PENDING.with_borrow_mut(Option::take) {
            self.launch_ends(&pending, &taken);
        }
    }

    fn launch_begins(&self, data: &ApiData, call: Call) {
        let name = text(data.symbol);
        let decision = self.selector.decide(&name);
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let pending = Pending {
            ordinal: session::take_ordinal(),
            name,
            call,
            begin_ns: session::now_ns(),
            correlation_id: data.correlation_id.into(),
            recorded: decision.is_ok(),
            replayed: replayed::current(),
        };
        PENDING.with_borrow_mut(|slot| *slot = Some(Box::new(pending)));
    }

    /// The kernel has run, and its module, which the launch itself may have loaded, is known.
    fn launch_ends(&self, launch: &Pending, taken: &Taken) {
        let mut state = self.lock();
        let next = u32::try_from(state.streams.len()).unwrap_or(u32::MAX);
        let stream_id = *state.streams.entry(launch.call.stream.key()).or_insert(next);
        let device_id = current_device();
        if state.devices.insert(device_id)
            && let Some(device) = device::describe(device_id)
        {
            session::emit(device);
        }
        if let Some(code) = state.kernels.get(&launch.name).and_then(|modules| modules.last()) {
            let function_id = code.function_id(&launch.name);
            if launch.replayed.is_none() {
                emit_launch(launch, function_id, device_id);
            }
            if !state.named.contains(&function_id) {
                emit_name(launch, function_id, code);
                state.named.insert(function_id);
            }
        } else {
            let name = Some(launch.name.clone());
            session::lose(LossKind::Launch, "launch of a module that was not seen", 1, name);
        }
        session::emit(LaunchRun {
            run_id: RunId(0),
            ordinal: launch.ordinal,
            kernel_id: launch.replayed.unwrap_or(KernelId(launch.ordinal)),
            matched: if launch.replayed.is_some() { Match::Replayed } else { Match::Reference },
            match_reason: None,
            thread_id: session::thread_id(),
            stream_id,
            correlation_id: Some(launch.correlation_id),
            begin_ns: launch.begin_ns,
            end_ns: Some(session::now_ns()),
            recorded: launch.recorded,
            request_count: None,
            lane_access_count: None,
            lost_request_count: None,
            sample_count: Some(taken.delivered + taken.dropped),
            lost_sample_count: Some(taken.dropped),
            sampling_period_cycles: None,
            samples_are_split: None,
        });
    }
}

fn emit_launch(launch: &Pending, function_id: FunctionId, device_id: i32) {
    let context = context::current();
    let &Pending { ordinal, ref call, .. } = launch;
    let [grid_x, grid_y, grid_z, block_x, block_y, block_z] = call.shape;
    session::emit(Launch {
        kernel_id: KernelId(ordinal),
        run_id: RunId(0),
        function_id,
        ordinal,
        occurrence: 0,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        cluster_x: None,
        cluster_y: None,
        cluster_z: None,
        dynamic_shared_bytes: Some(call.shared_bytes),
        static_shared_bytes: None,
        local_bytes: None,
        register_count: None,
        device_id,
        op_id: context.map(|context| context.op_id),
        pystates_hash: context.and_then(|context| context.pystates_hash),
        graph_id: None,
        graph_launch: None,
        graph_node: None,
        capture_ordinal: None,
    });
}

/// The name of a function, for its samples; CUPTI does not say where its code lies.
fn emit_name(launch: &Pending, function_id: FunctionId, code: &Code) {
    session::emit(CodeRange {
        function_id,
        module_id: code.module_id,
        name: launch.name.clone(),
        is_kernel: true,
        address: Address(0),
        code_bytes: 0,
        ordinal: launch.ordinal,
    });
}

fn current_device() -> i32 {
    let mut device = 0;
    if let Some(cuda) = device::driver() {
        // SAFETY: `device` outlives the call.
        unsafe { (cuda.context_get_device)(&raw mut device) };
    }
    device
}

fn check(code: c_int, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("CUPTI error {code}: failed to {what}")) }
}
