//! The access instrument: every memory instruction patched, every launch, allocation and copy seen.
#![expect(unsafe_code, reason = "callbacks and calls of the sanitizer API")]

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use stallmap_config::Config;
use stallmap_schema::id::AllocationId;
use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::{
    DriverHandle, MAP_IDS, SYNCHRONIZE_IDS, TEXTURE_IDS, array_copy_id, array_id, launch_id, node_type,
};
use stallmap_sys::locate;
use stallmap_sys::sanitizer::{
    ContextData, GraphNodeData, LaunchData, Sanitizer, domain, graphs as graph_event, launch as launch_event,
    resource,
};

use crate::accesses::kinds::LaunchKinds;
use crate::accesses::patch::{self, PatchSource};
use crate::accesses::ring::{AccessRing, RingContext, SnapshotCopier};
use crate::accesses::timing::BlockTimer;
use bundle::SessionBundles;
use modules::LoadedModule;
use stallmap_session::gpu::device::{self, FunctionResources};
use stallmap_session::gpu::graphs::{self, ProcessGraphs};
use stallmap_session::gpu::parameters::ParameterLayout;
use stallmap_session::gpu::selection::LaunchSelector;
use stallmap_session::guard::guard;
use stallmap_session::session;
use textures::RecordedArray;
use turn::LaunchTurn;

mod arrays;
mod bundle;
mod graph;
mod launch;
mod memory;
mod modules;
mod snapshots;
mod textures;
mod timing;
mod turn;

struct AccessInstrument {
    api: Sanitizer,
    config: &'static Config,
    selector: LaunchSelector,
    /// Bundles for replay. `None` if none are recorded.
    bundles: Option<SessionBundles>,
    state: Mutex<SanitizerState>,
    graphs: ProcessGraphs,
    kinds: LaunchKinds,
    /// Only where bundles are recorded.
    turn: LaunchTurn,
    /// True if a module that may be recorded is not patched.
    has_unpatched: AtomicBool,
    /// Number of times that modules were unpatched.
    unpatches: AtomicU32,
}

/// A driver handle as a key.
type HandleKey = usize;

#[derive(Default)]
struct SanitizerState {
    rings: BTreeMap<HandleKey, AccessRing>,
    /// Means to copy counts, by context. `None` once its ring has them, or where there can be none.
    copiers: BTreeMap<HandleKey, Option<SnapshotCopier>>,
    /// Contexts in which the patches could be loaded.
    patched: BTreeSet<HandleKey>,
    modules: BTreeMap<HandleKey, LoadedModule>,
    /// Times of blocks, by context, where they are measured. `None` where they cannot be.
    timers: BTreeMap<HandleKey, Option<Arc<BlockTimer>>>,
    /// Executable graphs that are there.
    graphs: BTreeSet<HandleKey>,
    /// Graphs whose kernels' addresses are recorded.
    placed_graphs: BTreeSet<HandleKey>,
    layouts: BTreeMap<HandleKey, ParameterLayout>,
    resources: BTreeMap<HandleKey, FunctionResources>,
    streams: BTreeMap<HandleKey, u32>,
    /// Allocations by address, with their bytes.
    allocations: BTreeMap<u64, (AllocationId, u64)>,
    next_allocation: u64,
    /// CUDA arrays that are there, and the bytes of all that were.
    arrays: BTreeMap<HandleKey, RecordedArray>,
    array_bytes: u64,
    devices: BTreeSet<c_int>,
    compiled: BTreeMap<(i32, i32), Arc<Vec<u8>>>,
}

static INSTRUMENT: OnceLock<AccessInstrument> = OnceLock::new();

thread_local! {
    /// True while stallmap itself calls the driver on this thread: the effects are not the program's.
    static OWN: Cell<bool> = const { Cell::new(false) };
}

/// Calls the driver without recording the effects.
fn own<T>(call: impl FnOnce() -> T) -> T {
    let before = OWN.replace(true);
    let result = call();
    OWN.set(before);
    result
}

/// Subscribes to the sanitizer API. Must run before the first context.
pub fn attach() -> Result<(), String> {
    let config = session::config().ok_or("no session")?;
    let (api, path) = Sanitizer::load(&locate::sanitizer()).map_err(|error| error.to_string())?;
    let selector = LaunchSelector::new(config.selection.clone())?;
    let instrument = AccessInstrument {
        api,
        config,
        selector,
        bundles: SessionBundles::new(config)?,
        state: Mutex::default(),
        graphs: ProcessGraphs::new(config.bundles.is_some()),
        kinds: LaunchKinds::default(),
        turn: LaunchTurn::default(),
        has_unpatched: AtomicBool::new(false),
        unpatches: AtomicU32::new(0),
    };
    if INSTRUMENT.set(instrument).is_err() {
        return Ok(());
    }
    let mut subscriber = DriverHandle::NULL;
    // SAFETY: `callback` lives as long as the process and does not unwind.
    check(unsafe { (api.subscribe)(&raw mut subscriber, callback, null_mut()) }, "subscribe")?;
    for domain in [domain::RESOURCE, domain::LAUNCH, domain::MEMCPY, domain::MEMSET, domain::GRAPHS] {
        // SAFETY: the subscriber was made above.
        check(unsafe { (api.enable_domain)(1, subscriber, domain) }, "enable callbacks")?;
    }
    let launches =
        [launch_id::KERNEL, launch_id::COOPERATIVE, launch_id::KERNEL_EX, launch_id::GRAPH].concat();
    let arrays =
        [&array_copy_id::ALL.concat()[..], &array_id::MAKE, &array_id::DESTROY, &TEXTURE_IDS].concat();
    let others = graphs::CALLBACKS.into_iter().chain(SYNCHRONIZE_IDS).chain(MAP_IDS).chain(arrays);
    for id in launches.into_iter().chain(others) {
        // SAFETY: as above. Without these callbacks parameters and nodes are missing, and that is counted at each launch.
        unsafe { (api.enable_callback)(1, subscriber, domain::DRIVER, id) };
    }
    session::fact("instrument_version", format!("sanitizer API, {}", path.display()));
    if let Some(version) = device::cuda_version() {
        session::fact("cuda_version", version.to_string());
    }
    Ok(())
}

/// Waits until all records are on their way to the disk.
pub fn shut_down() {
    if let Some(instrument) = INSTRUMENT.get() {
        instrument.end_timers(None);
        let mut state = instrument.lock();
        let contexts: Vec<HandleKey> = state.rings.keys().copied().collect();
        for context in contexts {
            instrument.end_ring(&mut state, context);
        }
    }
}

extern "C" fn callback(_userdata: *mut c_void, domain: c_int, id: u32, data: *const c_void) {
    guard((), || {
        let (Some(instrument), false) = (INSTRUMENT.get(), data.is_null()) else { return };
        if OWN.get() {
            return;
        }
        if session::has_ended() {
            // SAFETY: as below.
            return unsafe { instrument.handle_late(domain, id, data) };
        }
        if session::config().is_none() {
            return;
        }
        // SAFETY: the API gives data of the type that belongs to (domain, id), alive during the callback.
        unsafe { instrument.handle(domain, id, data) };
    });
}

impl AccessInstrument {
    /// # Safety
    /// `data` points to the data that the API documents for (domain, id).
    unsafe fn handle(&self, domain: c_int, id: u32, data: *const c_void) {
        // SAFETY: by this function's contract, for each type below.
        unsafe {
            match (domain, id) {
                (domain::LAUNCH, launch_event::BEGIN) => self.launch_begins(&*data.cast()),
                (domain::LAUNCH, launch_event::END) => self.launch_ends(&*data.cast()),
                (domain::DRIVER, id) => self.driver_call(id, &*data.cast()),
                (domain::RESOURCE, resource::CONTEXT_CREATED) => self.context_created(&*data.cast()),
                (domain::RESOURCE, resource::CONTEXT_DESTROY_STARTING) => self.context_ends(&*data.cast()),
                (domain::RESOURCE, resource::MODULE_LOADED) => self.module_loaded(&*data.cast()),
                (domain::RESOURCE, resource::MODULE_UNLOAD_STARTING) => self.module_unloads(&*data.cast()),
                (
                    domain::RESOURCE,
                    resource::MEMORY_ALLOC | resource::HOST_MEMORY_ALLOC | resource::MEMORY_ALLOC_ASYNC,
                ) => self.allocated(&*data.cast(), id == resource::HOST_MEMORY_ALLOC),
                (
                    domain::RESOURCE,
                    resource::MEMORY_FREE | resource::HOST_MEMORY_FREE | resource::MEMORY_FREE_ASYNC,
                ) => self.freed(&*data.cast()),
                (domain::MEMCPY, _) => self.copied(&*data.cast()),
                (domain::MEMSET, _) => self.filled(&*data.cast()),
                (domain::GRAPHS, graph_event::EXEC_CREATING) => self.graph_is_made(&*data.cast()),
                (domain::GRAPHS, graph_event::EXEC_DESTROYING) => self.graph_is_gone(&*data.cast()),
                (domain::GRAPHS, graph_event::LAUNCH_BEGIN) => self.graph_begins(&*data.cast()),
                (domain::GRAPHS, graph_event::NODE_LAUNCH_BEGIN) => self.node_begins(&*data.cast()),
                (domain::GRAPHS, graph_event::LAUNCH_END) => self.graph_ends(&*data.cast()),
                _ => {}
            }
        }
    }

    /// Counts a launch after the session has ended, and lets it write no records.
    ///
    /// # Safety
    /// As [`Self::handle`].
    unsafe fn handle_late(&self, domain: c_int, id: u32, data: *const c_void) {
        // SAFETY: by this function's contract, for each type below.
        let launch = unsafe {
            match (domain, id) {
                (domain::LAUNCH, launch_event::BEGIN) => Some(&*data.cast::<LaunchData>()),
                (domain::GRAPHS, graph_event::NODE_LAUNCH_BEGIN) => {
                    let node = &*data.cast::<GraphNodeData>();
                    (node.node_type == node_type::KERNEL).then(|| &*node.what.launch)
                }
                _ => None,
            }
        };
        if let Some(launch) = launch {
            self.leave_out(launch);
            session::lose_late(1);
        }
    }

    /// Records what is left in the ring of a context.
    fn end_ring(&self, state: &mut SanitizerState, context: HandleKey) {
        let Some(mut ring) = state.rings.remove(&context) else { return };
        ring.end_snapshots();
        ring.drain();
        let place = self.default_place(context);
        if own(|| device::within(place.context, || ring.record_last_counts(place))).is_none() {
            session::lose(LossKind::Access, "counts of a context that could not be entered", 1, None);
        }
    }

    /// The program has waited for the GPU: what was counted is recorded, if it is time. Other contexts have not been
    /// waited for, and a kernel there may wait for this thread.
    fn record_counts(&self) {
        let Some(context) = own(device::current_context) else { return };
        let place = self.default_place(context.key());
        if let Some(ring) = self.lock().rings.get_mut(&context.key()) {
            own(|| graphs::relaxed(|| ring.record_counts(place)));
        }
        snapshots::notify();
    }

    /// The default stream of a context. It has no handle: the context must be the thread's.
    fn default_place(&self, context: HandleKey) -> RingContext<'_> {
        RingContext { api: &self.api, context: DriverHandle::of_key(context), stream: DriverHandle::NULL }
    }

    fn lock(&self) -> MutexGuard<'_, SanitizerState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
        if self.is_timing() {
            return;
        }
        let image = match state.compiled.get(&capability) {
            Some(image) => Arc::clone(image),
            None => match patch::compile(PatchSource::Accesses, capability.0, capability.1) {
                Ok(image) => Arc::clone(state.compiled.entry(capability).or_insert(Arc::new(image))),
                Err(error) => {
                    stallmap_session::guard::say(&format!("no memory accesses are recorded: {error}"));
                    session::lose(LossKind::Source, "access patches could not be compiled", 1, Some(error));
                    return;
                }
            },
        };
        // SAFETY: the image is a whole cubin that lives as long as the process. The context was just created.
        let code = unsafe { (self.api.add_patches)(image.as_ptr().cast(), data.context) };
        if code == 0 {
            state.patched.insert(data.context.key());
        } else {
            let detail = Some(format!("sanitizer error {code}"));
            session::lose(LossKind::Source, "access patches could not be loaded", 1, detail);
        }
    }

    fn context_ends(&self, data: &ContextData) {
        self.end_timers(Some(data.context.key()));
        // The ring's memory goes with the context. What is in it must be read before.
        let mut state = self.lock();
        self.end_ring(&mut state, data.context.key());
        state.copiers.remove(&data.context.key());
        drop(state);
        if let Some(bundles) = &self.bundles {
            bundles.ended(data.context.key());
        }
    }
}

impl SanitizerState {
    fn stream(&mut self, handle: DriverHandle) -> u32 {
        let next = u32::try_from(self.streams.len()).unwrap_or(u32::MAX);
        *self.streams.entry(handle.key()).or_insert(next)
    }
}

fn check(code: c_int, what: &str) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("sanitizer error {code}: failed to {what}")) }
}
