//! The access instrument: every memory instruction patched, every launch, allocation and copy seen.
#![expect(unsafe_code, reason = "callbacks and calls of the sanitizer API")]

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use stallmap_config::{Config, Space};
use stallmap_schema::capture::recording::{AllocationEvent, CodeRange};
use stallmap_schema::cell::Blob;
use stallmap_schema::id::{Address, AllocationId, KernelId, RunId};
use stallmap_schema::tables::launch::{Launch, LaunchParameter, LaunchRun};
use stallmap_schema::tables::memory::{Memcpy, Memset};
use stallmap_schema::word::{CopyKind, LossKind, Match};
use stallmap_sys::cuda::{Handle, LaunchKernel, LaunchKernelEx, launch_id};
use stallmap_sys::locate;
use stallmap_sys::sanitizer::{
    ApiData, ContextData, LaunchData, MemcpyData, MemoryData, MemsetData, ModuleData, Sanitizer, domain,
    graphs, instruction, launch, resource,
};

use super::code::{self, Code};
use super::device::{self, Resources};
use super::parameters::{self, Layout, Parameters};
use super::patch;
use super::ring::Ring;
use super::selection::Selector;
use crate::guard::guard;
use crate::{context, session};

/// How long a launch waits for another thread's before it goes on beside it.
const PATIENCE: Duration = Duration::from_secs(60);

struct Instrument {
    api: Sanitizer,
    config: &'static Config,
    selector: Selector,
    state: Mutex<State>,
    /// One launch at a time: its records are told from the next one's by the ring's position alone.
    launching: Mutex<bool>,
    launched: Condvar,
}

/// A driver handle as a key.
type Key = usize;

#[derive(Default)]
struct State {
    rings: BTreeMap<Key, Ring>,
    /// Contexts in which the patches could be loaded.
    patched: BTreeSet<Key>,
    modules: BTreeMap<Key, Arc<Code>>,
    /// Functions whose place in memory is recorded, by module.
    placed: BTreeMap<Key, BTreeSet<String>>,
    layouts: BTreeMap<Key, Layout>,
    resources: BTreeMap<Key, Resources>,
    streams: BTreeMap<Key, u32>,
    allocations: BTreeMap<u64, AllocationId>,
    next_allocation: u64,
    devices: BTreeSet<c_int>,
    compiled: BTreeMap<(i32, i32), Arc<Vec<u8>>>,
}

static INSTRUMENT: OnceLock<Instrument> = OnceLock::new();

/// What the launch call on this thread was given.
#[derive(Clone, Default)]
struct Call {
    dynamic_shared_bytes: Option<u32>,
    parameters: Parameters,
}

thread_local! {
    static CALL: RefCell<Option<Call>> = const { RefCell::new(None) };
    static RUNNING: RefCell<Option<Box<LaunchRun>>> = const { RefCell::new(None) };
    /// Whether this thread calls the driver for us: what that causes is not the program's.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Calls the driver without recording what that causes.
fn own<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN.replace(true);
    let result = call();
    OWN.set(before);
    result
}

/// Subscribes to the sanitizer API; must run before the first context.
pub fn attach() -> Result<(), String> {
    let config = session::config().ok_or("no session")?;
    let (api, path) = Sanitizer::load(&locate::sanitizer()).map_err(|error| error.to_string())?;
    let selector = Selector::new(config.selection.clone())?;
    let instrument = Instrument {
        api,
        config,
        selector,
        state: Mutex::default(),
        launching: Mutex::new(false),
        launched: Condvar::new(),
    };
    if INSTRUMENT.set(instrument).is_err() {
        return Ok(());
    }
    let mut subscriber = null_mut();
    // SAFETY: `callback` lives as long as the process and does not unwind.
    check(unsafe { (api.subscribe)(&raw mut subscriber, callback, null_mut()) }, "subscribe")?;
    for domain in [domain::RESOURCE, domain::LAUNCH, domain::MEMCPY, domain::MEMSET] {
        // SAFETY: the subscriber was made above.
        check(unsafe { (api.enable_domain)(1, subscriber, domain) }, "enable callbacks")?;
    }
    let launches = [launch_id::KERNEL, launch_id::COOPERATIVE, launch_id::KERNEL_EX].concat();
    for id in launches {
        // SAFETY: as above. Without these callbacks only parameters are missing, and that is counted at each launch.
        unsafe { (api.enable_callback)(1, subscriber, domain::DRIVER, id) };
    }
    // SAFETY: as above.
    unsafe { (api.enable_callback)(1, subscriber, domain::GRAPHS, graphs::LAUNCH_BEGIN) };
    session::fact("instrument_version", format!("sanitizer API, {}", path.display()));
    if let Some(version) = device::cuda_version() {
        session::fact("cuda_version", version.to_string());
    }
    Ok(())
}

/// Waits until all records are on their way to the disk.
pub fn shut_down() {
    if let Some(instrument) = INSTRUMENT.get() {
        for ring in instrument.lock().rings.values() {
            ring.drain();
        }
    }
}

extern "C" fn callback(_userdata: *mut c_void, domain: c_int, id: u32, data: *const c_void) {
    guard((), || {
        let (Some(instrument), false) = (INSTRUMENT.get(), data.is_null()) else { return };
        if session::config().is_none() || OWN.get() {
            return;
        }
        // SAFETY: the API gives data of the type that belongs to (domain, id), alive during the callback.
        unsafe { instrument.handle(domain, id, data) };
    });
}

impl Instrument {
    /// # Safety
    /// `data` points to the data that the API documents for (domain, id).
    unsafe fn handle(&self, domain: c_int, id: u32, data: *const c_void) {
        // SAFETY: by this function's contract, for each type below.
        unsafe {
            match (domain, id) {
                (domain::LAUNCH, launch::BEGIN) => self.launch_begins(&*data.cast()),
                (domain::LAUNCH, launch::END) => self.launch_ends(&*data.cast()),
                (domain::DRIVER, id) => self.driver_call(id, &*data.cast()),
                (domain::RESOURCE, resource::CONTEXT_CREATED) => self.context_created(&*data.cast()),
                (domain::RESOURCE, resource::CONTEXT_DESTROY_STARTING) => self.context_ends(&*data.cast()),
                (domain::RESOURCE, resource::MODULE_LOADED) => self.module_loaded(&*data.cast()),
                (domain::RESOURCE, resource::MODULE_UNLOAD_STARTING) => self.module_unloads(&*data.cast()),
                (
                    domain::RESOURCE,
                    resource::MEMORY_ALLOC | resource::HOST_MEMORY_ALLOC | resource::MEMORY_ALLOC_ASYNC,
                ) => self.allocated(&*data.cast()),
                (
                    domain::RESOURCE,
                    resource::MEMORY_FREE | resource::HOST_MEMORY_FREE | resource::MEMORY_FREE_ASYNC,
                ) => self.freed(&*data.cast()),
                (domain::MEMCPY, _) => self.copied(&*data.cast()),
                (domain::MEMSET, _) => self.filled(&*data.cast()),
                (domain::GRAPHS, graphs::LAUNCH_BEGIN) => {
                    session::lose(LossKind::Launch, "launched by a CUDA graph", 1, None);
                }
                _ => {}
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // Contexts and modules.

    fn context_created(&self, data: &ContextData) {
        let mut state = self.lock();
        let described = device::describe(data.device);
        let Some(device) = described else {
            session::lose(LossKind::Source, "device could not be described", 1, None);
            return;
        };
        let capability = (device.compute_major, device.compute_minor);
        if state.devices.insert(data.device) {
            session::emit(device);
        }
        let image = match state.compiled.get(&capability) {
            Some(image) => Arc::clone(image),
            None => match patch::compile(capability.0, capability.1) {
                Ok(image) => Arc::clone(state.compiled.entry(capability).or_insert(Arc::new(image))),
                Err(error) => {
                    crate::guard::say(&format!("no memory accesses are recorded: {error}"));
                    session::lose(LossKind::Source, "access patches could not be compiled", 1, Some(error));
                    return;
                }
            },
        };
        // SAFETY: the image is a whole cubin that lives as long as the process; the context was just created.
        let code = unsafe { (self.api.add_patches)(image.as_ptr().cast(), data.context) };
        if code == 0 {
            state.patched.insert(data.context as Key);
        } else {
            let detail = Some(format!("sanitizer error {code}"));
            session::lose(LossKind::Source, "access patches could not be loaded", 1, detail);
        }
    }

    fn context_ends(&self, data: &ContextData) {
        // The ring's memory goes with the context; what is in it must be read before.
        if let Some(ring) = self.lock().rings.remove(&(data.context as Key)) {
            ring.drain();
        }
    }

    fn module_loaded(&self, data: &ModuleData) {
        if data.cubin.is_null() {
            session::lose(LossKind::Code, "module without a cubin", 1, None);
            return;
        }
        // SAFETY: the API says that the cubin has this many bytes during the callback.
        let cubin = unsafe { std::slice::from_raw_parts(data.cubin, data.cubin_bytes) };
        let code = code::register(cubin, None);
        let mut state = self.lock();
        let key = data.module as Key;
        state.placed.remove(&key);
        // Handles of functions are reused once their module is gone.
        state.layouts.clear();
        state.resources.clear();
        state.modules.insert(key, code);
        if state.patched.contains(&(data.context as Key)) {
            self.patch(data.module);
        }
    }

    fn patch(&self, module: Handle) {
        let mut kinds = Vec::new();
        for space in &self.config.spaces {
            match space {
                Space::Global => {
                    kinds.push((instruction::GLOBAL, c"stallmap_global"));
                    kinds.push((instruction::MEMCPY_ASYNC, c"stallmap_async"));
                }
                Space::Shared => kinds.push((instruction::SHARED, c"stallmap_shared")),
                Space::Local => kinds.push((instruction::LOCAL, c"stallmap_local")),
            }
        }
        let mut failed = 0;
        for (kind, name) in kinds {
            // SAFETY: the module is being loaded; the patches are in its context.
            failed |= unsafe { (self.api.patch_instructions)(kind, module, name.as_ptr()) };
        }
        // SAFETY: as above.
        failed |= unsafe { (self.api.patch_module)(module) };
        if failed != 0 {
            let detail = Some(format!("sanitizer error {failed}"));
            session::lose(LossKind::Access, "module could not be patched", 1, detail);
        }
    }

    fn module_unloads(&self, data: &ModuleData) {
        let mut state = self.lock();
        state.modules.remove(&(data.module as Key));
        state.placed.remove(&(data.module as Key));
    }

    // Launches.

    /// # Safety
    /// `data.parameters` points to the parameters of the launch function with this callback id.
    unsafe fn driver_call(&self, id: u32, data: &ApiData) {
        const ENTER: c_int = 0;
        if data.site != ENTER {
            CALL.with_borrow_mut(|call| *call = None);
            self.abandon_launch();
            return;
        }
        if data.parameters.is_null() {
            return;
        }
        // SAFETY: by this function's contract; a cooperative launch has all fields but `extra`.
        let (function, shared_bytes, pointers, extra) = unsafe {
            if launch_id::KERNEL_EX.contains(&id) {
                let call = &*data.parameters.cast::<LaunchKernelEx>();
                let shared = call.config.as_ref().map(|config| config.shared_bytes);
                (call.function, shared, call.parameters, call.extra)
            } else {
                let call = data.parameters.cast::<LaunchKernel>();
                let extra = if launch_id::COOPERATIVE.contains(&id) {
                    null()
                } else {
                    (&raw const (*call).extra).read()
                };
                let shared = (&raw const (*call).shared_bytes).read();
                let pointers = (&raw const (*call).parameters).read();
                ((&raw const (*call).function).read(), Some(shared), pointers, extra)
            }
        };
        let known = self.lock().layouts.get(&(function as Key)).cloned();
        let layout = known.unwrap_or_else(|| {
            let layout = parameters::layout(function);
            self.lock().layouts.insert(function as Key, layout.clone());
            layout
        });
        // SAFETY: they are the launch call's own, which is running.
        let parameters = unsafe { parameters::read(pointers, extra, &layout) };
        CALL.with_borrow_mut(|call| *call = Some(Call { dynamic_shared_bytes: shared_bytes, parameters }));
    }

    fn launch_begins(&self, data: &LaunchData) {
        self.wait_for_turn();
        let begin_ns = session::now_ns();
        let ordinal = session::take_ordinal();
        let name = text(data.name);
        let decision = self.selector.decide(&name);
        if let Err(reason) = decision {
            session::lose(LossKind::Launch, reason, 1, None);
        }
        let call = CALL.with_borrow_mut(Option::take);
        let mut state = self.lock();
        let code = self.code_of(&mut state, data, &name, ordinal);
        let stream_id = state.stream(data.stream_handle);
        let resources = *state
            .resources
            .entry(data.function as Key)
            .or_insert_with(|| own(|| device::resources(data.function)));
        if let Some(code) = code {
            emit_launch(data, &code, &name, ordinal, call, resources);
        } else {
            session::lose(LossKind::Launch, "launch of a module that was not seen", 1, Some(name));
        }
        let mut row = LaunchRun {
            run_id: RunId(0),
            ordinal,
            kernel_id: KernelId(ordinal),
            matched: Match::Reference,
            match_reason: None,
            thread_id: session::thread_id(),
            stream_id,
            correlation_id: None,
            begin_ns,
            end_ns: None,
            recorded: decision.is_ok(),
            request_count: None,
            lane_access_count: None,
            lost_request_count: None,
            sample_count: None,
            lost_sample_count: None,
        };
        if row.recorded
            && let Err(error) = self.arm(&mut state, data, ordinal)
        {
            session::lose(LossKind::Launch, "launch could not be instrumented", 1, Some(error));
            row.recorded = false;
        }
        if !row.recorded {
            // SAFETY: the launch is this callback's; null userdata makes the patches return at once.
            unsafe {
                (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, null());
            }
        }
        RUNNING.with_borrow_mut(|running| *running = Some(Box::new(row)));
    }

    /// The code that a launch runs, with the place of its functions in memory recorded.
    fn code_of(&self, state: &mut State, data: &LaunchData, name: &str, ordinal: u64) -> Option<Arc<Code>> {
        let key = data.module as Key;
        let code = Arc::clone(state.modules.get(&key)?);
        let placed = state.placed.entry(key).or_default();
        if placed.is_empty() {
            for function in &code.functions {
                self.place(&code, data.module, function, false, ordinal);
            }
        }
        if placed.insert(name.to_owned()) {
            self.place(&code, data.module, name, true, ordinal);
        }
        Some(code)
    }

    fn place(&self, code: &Code, module: Handle, name: &str, is_kernel: bool, ordinal: u64) {
        let Ok(c_name) = CString::new(name) else { return };
        let (mut address, mut code_bytes) = (0, 0);
        // SAFETY: the module is loaded and the outputs outlive the call.
        let result = unsafe {
            (self.api.function_range)(module, c_name.as_ptr(), &raw mut address, &raw mut code_bytes)
        };
        if result != 0 {
            // A device function that is not loaded has no accesses; a kernel that has no place is a loss.
            if is_kernel {
                session::lose(
                    LossKind::Code,
                    "function has no known place in memory",
                    1,
                    Some(name.to_owned()),
                );
            }
            return;
        }
        session::emit(CodeRange {
            function_id: code.function_id(name),
            module_id: code.module_id,
            name: name.to_owned(),
            is_kernel,
            address: Address(address),
            code_bytes,
            ordinal,
        });
    }

    /// Makes the launch write records.
    fn arm(&self, state: &mut State, data: &LaunchData, ordinal: u64) -> Result<(), String> {
        let key = data.context as Key;
        if !state.patched.contains(&key) {
            return Err("no patches in this context".to_owned());
        }
        if !state.rings.contains_key(&key) {
            let ring = own(|| Ring::new(&self.api, data.context, data.stream_handle, self.config))?;
            state.rings.insert(key, ring);
        }
        let ring = state.rings.get(&key).ok_or("no ring")?;
        let blocks: u64 = data.grid.iter().map(|&blocks| u64::from(blocks)).product();
        let stride = self.config.blocks.map_or(1, |wanted| blocks.div_ceil(wanted.max(1)).max(1));
        ring.begin(&self.api, data.stream_handle, ordinal, u32::try_from(stride).unwrap_or(u32::MAX))?;
        // SAFETY: the launch is this callback's; the ring's control block lives as long as its context.
        let code = unsafe {
            (self.api.set_launch_data)(data.launch, data.function, data.stream_handle, ring.userdata())
        };
        check(code, "set the launch's data")
    }

    fn launch_ends(&self, data: &LaunchData) {
        let Some(mut row) = RUNNING.with_borrow_mut(Option::take) else { return };
        if row.recorded {
            // SAFETY: the stream is the launch's own.
            let code = unsafe { (self.api.synchronize)(data.stream_handle) };
            row.end_ns = Some(session::now_ns());
            if code != 0 {
                let detail = Some(format!("sanitizer error {code}"));
                session::lose(LossKind::Launch, "kernel did not complete", 1, detail);
            }
            self.hand_over(data, *row);
        } else {
            row.end_ns = Some(session::now_ns());
            session::emit(*row);
        }
        self.end_turn();
    }

    fn hand_over(&self, data: &LaunchData, row: LaunchRun) {
        match self.lock().rings.get_mut(&(data.context as Key)) {
            Some(ring) => {
                if let Err(error) = ring.end(&self.api, data.stream_handle, row) {
                    session::lose(LossKind::Launch, "records could not be read", 1, Some(error));
                }
            }
            None => session::emit(row),
        }
    }

    /// A launch that began on this thread and never ended was refused by the driver.
    fn abandon_launch(&self) {
        if let Some(mut row) = RUNNING.with_borrow_mut(Option::take) {
            row.recorded = false;
            session::emit(*row);
            session::lose(LossKind::Launch, "refused by the driver", 1, None);
            self.end_turn();
        }
    }

    fn wait_for_turn(&self) {
        let launching = self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.launched.wait_timeout_while(launching, PATIENCE, |launching| *launching);
        let (mut launching, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        if timeout.timed_out() {
            session::lose(LossKind::Access, "two launches ran at once: their records may be mixed", 1, None);
        }
        *launching = true;
    }

    fn end_turn(&self) {
        *self.launching.lock().unwrap_or_else(PoisonError::into_inner) = false;
        self.launched.notify_one();
    }

    // Memory.

    fn allocated(&self, data: &MemoryData) {
        let mut state = self.lock();
        state.next_allocation += 1;
        let id = AllocationId(state.next_allocation);
        state.allocations.insert(data.address, id);
        session::emit(allocation_event(data, id, false));
    }

    fn freed(&self, data: &MemoryData) {
        match self.lock().allocations.remove(&data.address) {
            Some(id) => session::emit(allocation_event(data, id, true)),
            None => session::lose(LossKind::Memory, "free of memory whose allocation was not seen", 1, None),
        }
    }

    fn copied(&self, data: &MemcpyData) {
        let stream_id = self.lock().stream(data.streams[1]);
        session::emit(Memcpy {
            run_id: RunId(0),
            kind: match data.direction {
                2 => CopyKind::HostToDevice,
                3 => CopyKind::DeviceToHost,
                4 => CopyKind::DeviceToDevice,
                _ => CopyKind::Other,
            },
            source: Address(data.source),
            destination: Address(data.destination),
            size_bytes: data.size_bytes,
            stream_id,
            ordinal: session::next_ordinal(),
            begin_ns: session::now_ns(),
            op_id: context::current().map(|context| context.op_id),
        });
    }

    fn filled(&self, data: &MemsetData) {
        let stream_id = self.lock().stream(data.stream_handle);
        session::emit(Memset {
            run_id: RunId(0),
            address: Address(data.address),
            size_bytes: data.width * data.height.max(1) * u64::from(data.element_bytes.max(1)),
            value: data.value,
            element_bytes: data.element_bytes,
            stream_id,
            ordinal: session::next_ordinal(),
            begin_ns: session::now_ns(),
            op_id: context::current().map(|context| context.op_id),
        });
    }
}

impl State {
    fn stream(&mut self, handle: Handle) -> u32 {
        let next = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        *self.streams.entry(handle as Key).or_insert(next)
    }
}

fn allocation_event(data: &MemoryData, allocation_id: AllocationId, is_free: bool) -> AllocationEvent {
    AllocationEvent {
        allocation_id,
        is_free,
        device_id: data.device,
        address: Address(data.address),
        size_bytes: data.size_bytes,
        time_ns: session::now_ns(),
        ordinal: session::next_ordinal(),
        flags: data.flags,
    }
}

fn emit_launch(
    data: &LaunchData,
    code: &Code,
    name: &str,
    ordinal: u64,
    call: Option<Call>,
    resources: Resources,
) {
    let context = context::current();
    let [grid_x, grid_y, grid_z] = data.grid;
    let [block_x, block_y, block_z] = data.block;
    let cluster = data.cluster.map(|blocks| (blocks > 0).then_some(blocks));
    session::emit(Launch {
        kernel_id: KernelId(ordinal),
        run_id: RunId(0),
        function_id: code.function_id(name),
        ordinal,
        occurrence: 0,
        grid_x,
        grid_y,
        grid_z,
        block_x,
        block_y,
        block_z,
        cluster_x: cluster[0],
        cluster_y: cluster[1],
        cluster_z: cluster[2],
        dynamic_shared_bytes: call.as_ref().and_then(|call| call.dynamic_shared_bytes),
        static_shared_bytes: resources.static_shared_bytes,
        local_bytes: resources.local_bytes,
        register_count: resources.register_count,
        device_id: data.device,
        op_id: context.map(|context| context.op_id),
        pystates_hash: context.and_then(|context| context.pystates_hash),
    });
    match call {
        Some(Call { parameters: Parameters { bytes, layout }, .. }) => session::emit(LaunchParameter {
            kernel_id: KernelId(ordinal),
            bytes: Blob(bytes),
            offsets: layout.offsets,
            sizes: layout.sizes,
        }),
        None => session::lose(LossKind::Parameter, "launch call was not seen", 1, None),
    }
}

/// A C string of the API's.
fn text(name: *const std::ffi::c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the API's names end with a zero and live during the callback.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

fn check(code: c_int, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("sanitizer error {code}: failed to {what}")) }
}
