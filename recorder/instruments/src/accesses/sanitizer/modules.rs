//! Modules under the sanitizer API: selection and time of patching.
//!
//! A module is patched when a launch of it may be recorded: at its load where the selection is open, else before the
//! first such launch. Where the selection has closed, what is patched is unpatched after the program itself has waited
//! for the GPU, because unpatching waits for it too.
#![expect(unsafe_code, reason = "calls of the sanitizer API")]

use std::collections::BTreeSet;
use std::ffi::CString;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use stallmap_config::RecordedSpace;
use stallmap_schema::capture::recording::CodeRange;
use stallmap_schema::id::Address;
use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::DriverHandle;
use stallmap_sys::sanitizer::{GraphExecData, SanitizerModuleData, instruction};

use super::{AccessInstrument, HandleKey, SanitizerState, own};
use stallmap_session::gpu::code::{self, LoadedCode};
use stallmap_session::gpu::{device, graphs};
use stallmap_session::session;

/// Limit of unpatching. A program whose selection opens and closes all the time keeps its modules patched.
const MAX_UNPATCHES: u32 = 3;

/// A module that is loaded.
pub(super) struct LoadedModule {
    pub(super) code: Arc<LoadedCode>,
    handle: HandleKey,
    context: HandleKey,
    /// True if the selection takes launches of any of its kernels.
    is_wanted: bool,
    pub(super) is_patched: bool,
    /// Its cubin, where blocks are timed.
    image: Option<Arc<Vec<u8>>>,
    /// Kernels whose place in memory is recorded.
    placed: BTreeSet<String>,
    /// Device functions whose place is not known yet: the driver loads functions when they are needed.
    unplaced: Vec<String>,
}

impl AccessInstrument {
    pub(super) fn module_loaded(&self, data: &SanitizerModuleData) {
        if data.cubin.is_null() {
            session::lose(LossKind::Code, "module without a cubin", 1, None);
            return;
        }
        // SAFETY: the API says that the cubin has this many bytes during the callback.
        let cubin = unsafe { std::slice::from_raw_parts(data.cubin, data.cubin_bytes) };
        let code = code::register(cubin, None);
        let is_wanted = code.kernels.iter().any(|name| self.selector.takes(name).is_ok());
        let mut state = self.lock();
        // Handles of functions are reused once their module is gone.
        state.layouts.clear();
        state.resources.clear();
        let unplaced = code.functions.clone();
        let context = data.context.key();
        let mut loaded = LoadedModule {
            code,
            handle: data.module.key(),
            context,
            is_wanted,
            is_patched: false,
            image: self.is_timing().then(|| Arc::new(cubin.to_vec())),
            placed: BTreeSet::new(),
            unplaced,
        };
        if is_wanted && state.patched.contains(&context) {
            if self.selector.is_open() {
                self.patch(&mut loaded);
            } else {
                self.has_unpatched.store(true, Ordering::Relaxed);
            }
        }
        state.modules.insert(data.module.key(), loaded);
    }

    pub(super) fn module_unloads(&self, data: &SanitizerModuleData) {
        self.lock().modules.remove(&data.module.key());
        self.forget_copies(data.module);
        if let Some(bundles) = &self.bundles {
            bundles.ended(data.module.key());
        }
    }

    /// Patches the module of a launch that is being called, where it was not and the launch may be recorded.
    pub(super) fn patch_before_launch(&self, function: DriverHandle) {
        if !self.has_unpatched.load(Ordering::Relaxed) || !self.selector.is_open() {
            return;
        }
        // The driver may load the module for this, and then it is patched at its load.
        let Some(module) = device::module_of(function) else { return };
        let state = &mut *self.lock();
        if let Some(loaded) = state.modules.get_mut(&module.key())
            && loaded.is_wanted
            && !loaded.is_patched
            && state.patched.contains(&loaded.context)
        {
            self.patch(loaded);
        }
    }

    /// Looks for the variables of the module of a launch that is being called, where bundles need them.
    pub(super) fn find_variables(&self, function: DriverHandle) {
        let Some(bundles) = &self.bundles else { return };
        let Some(module) = device::module_of(function) else { return };
        let code = Self::code_of(&self.lock(), module);
        if let Some((code, _)) = code {
            bundles.find_variables(&code, module);
        }
    }

    /// The kernels of an executable graph keep the code that they have when it is made: all that may ever be
    /// recorded is patched now.
    pub(super) fn graph_is_made(&self, data: &GraphExecData) {
        let state = &mut *self.lock();
        state.graphs.insert(data.exec.key());
        if !self.has_unpatched.swap(false, Ordering::Relaxed) {
            return;
        }
        for loaded in state.modules.values_mut() {
            if loaded.is_wanted && !loaded.is_patched && state.patched.contains(&loaded.context) {
                self.patch(loaded);
            }
        }
    }

    pub(super) fn graph_is_gone(&self, data: &GraphExecData) {
        let state = &mut *self.lock();
        state.graphs.remove(&data.exec.key());
        state.placed_graphs.remove(&data.exec.key());
        for ring in state.rings.values_mut() {
            ring.forget_graph(data.exec.key());
        }
    }

    /// The program has waited for the GPU: modules that cannot be recorded any more need no patches.
    pub(super) fn unpatch_what_is_done(&self) {
        let is_done = !self.selector.is_open() && self.unpatches.load(Ordering::Relaxed) < MAX_UNPATCHES;
        if !is_done {
            return;
        }
        let state = &mut *self.lock();
        if !state.graphs.is_empty() || !state.modules.values().any(|loaded| loaded.is_patched) {
            return;
        }
        self.unpatches.fetch_add(1, Ordering::Relaxed);
        for loaded in state.modules.values_mut().filter(|loaded| loaded.is_patched) {
            let module = DriverHandle::of_key(loaded.handle);
            // SAFETY: the module is loaded.
            let code = own(|| graphs::relaxed(|| unsafe { (self.api.unpatch_module)(module) }));
            loaded.is_patched = code != 0;
        }
        self.has_unpatched.store(true, Ordering::Relaxed);
    }

    /// Patches a module. The state is locked, because the API wants it so.
    fn patch(&self, loaded: &mut LoadedModule) {
        let mut kinds = Vec::new();
        for space in &self.config.spaces {
            match space {
                RecordedSpace::Global => {
                    kinds.push((instruction::GLOBAL, c"stallmap_global"));
                    let has_shared = self.config.spaces.contains(&RecordedSpace::Shared);
                    let copies = if has_shared { c"stallmap_async_shared" } else { c"stallmap_async" };
                    kinds.push((instruction::MEMCPY_ASYNC, copies));
                }
                RecordedSpace::Shared => kinds.push((instruction::SHARED, c"stallmap_shared")),
                RecordedSpace::Local => kinds.push((instruction::LOCAL, c"stallmap_local")),
            }
        }
        let module = DriverHandle::of_key(loaded.handle);
        let failed = own(|| {
            graphs::relaxed(|| {
                let mut failed = 0;
                for (kind, name) in kinds {
                    // SAFETY: the module is loaded. The patches are in its context.
                    failed |= unsafe { (self.api.patch_instructions)(kind, module, name.as_ptr()) };
                }
                // SAFETY: as above.
                failed | unsafe { (self.api.patch_module)(module) }
            })
        });
        loaded.is_patched = failed == 0;
        if failed != 0 {
            loaded.is_wanted = false;
            let detail = Some(format!("sanitizer error {failed}"));
            session::lose(LossKind::Access, "module could not be patched", 1, detail);
        }
    }

    /// The cubin of a module, with its content.
    pub(super) fn image(&self, module: DriverHandle) -> Option<(Arc<Vec<u8>>, Arc<LoadedCode>)> {
        let state = self.lock();
        let loaded = state.modules.get(&module.key())?;
        Some((Arc::clone(loaded.image.as_ref()?), Arc::clone(&loaded.code)))
    }

    /// A module of the recorder's holds a copy of a kernel: its launches are those of the kernel.
    pub(super) fn know_copy(&self, module: DriverHandle, code: Arc<LoadedCode>) {
        self.lock().modules.entry(module.key()).or_insert_with(|| LoadedModule {
            code,
            handle: module.key(),
            context: 0,
            is_wanted: false,
            is_patched: false,
            image: None,
            placed: BTreeSet::new(),
            unplaced: Vec::new(),
        });
    }

    /// The code that a launch runs, and whether it is patched.
    pub(super) fn code_of(state: &SanitizerState, module: DriverHandle) -> Option<(Arc<LoadedCode>, bool)> {
        let loaded = state.modules.get(&module.key())?;
        Some((Arc::clone(&loaded.code), loaded.is_patched))
    }

    /// Records where a kernel lies in memory, and the functions of its module that it may call. While a graph is being
    /// launched the driver returns an error.
    pub(super) fn place_kernel(
        &self,
        state: &mut SanitizerState,
        module: DriverHandle,
        name: &str,
        ordinal: u64,
    ) {
        let Some(loaded) = state.modules.get_mut(&module.key()) else { return };
        if !loaded.placed.insert(name.to_owned()) {
            return;
        }
        let code = Arc::clone(&loaded.code);
        if !self.place(&code, module, name, true, ordinal) {
            // A kernel that has no place is a loss.
            let detail = Some(name.to_owned());
            session::lose(LossKind::Code, "function has no known place in memory", 1, detail);
        }
        // A device function that is not loaded has no accesses yet.
        loaded.unplaced.retain(|function| !self.place(&code, module, function, false, ordinal));
    }

    /// Records where a function lies. Returns whether the API knows it.
    fn place(
        &self,
        code: &LoadedCode,
        module: DriverHandle,
        name: &str,
        is_kernel: bool,
        ordinal: u64,
    ) -> bool {
        let Ok(c_name) = CString::new(name) else { return true };
        let (mut address, mut code_bytes) = (0, 0);
        // SAFETY: the module is loaded and the outputs outlive the call.
        let result = unsafe {
            (self.api.function_range)(module, c_name.as_ptr(), &raw mut address, &raw mut code_bytes)
        };
        if result != 0 {
            return false;
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
        true
    }
}
