//! Shared state of the bundles of a session: selection, contents, facts about modules and contexts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stallmap_config::Config;
use stallmap_schema::id::ModuleId;
use stallmap_schema::word::LossKind;
use stallmap_sys::cuda::DriverHandle;

use super::super::{HandleKey, own};
use super::PreparedBundle;
use crate::accesses::bundle::buffer::PageBuffer;
use crate::accesses::bundle::contents::RecordedContents;
use crate::accesses::bundle::memory::AllocationMap;
use crate::accesses::bundle::refusal::{BundleRefusal, reason};
use crate::accesses::bundle::selection::BundleSelector;
use crate::accesses::bundle::symbols::{self, ModuleVariable};
use crate::accesses::bundle::uses::{self, KernelUses};
use stallmap_session::gpu::code::LoadedCode;
use stallmap_session::session;

/// The bundles of a session.
pub(in crate::accesses::sanitizer) struct SessionBundles {
    /// The driver's allocations. Locked for moments only: other threads allocate while a launch is saved.
    memory: Mutex<AllocationMap>,
    /// Handles of modules and contexts that are gone.
    ended: Mutex<Vec<HandleKey>>,
    /// Only the thread whose launch it is uses it.
    recorder: Mutex<BundleRecorder>,
    pub(super) budget_bytes: u64,
}

/// State of the thread whose launch it is.
pub(super) struct BundleRecorder {
    /// Selection of launches that become bundles.
    pub(super) selection: BundleSelector,
    /// Contents that are recorded.
    pub(super) contents: RecordedContents,
    /// True if a bundle was refused for lack of budget.
    pub(super) is_spent: bool,
    /// True if the contents of all written pages are recorded.
    pub(super) records_after: bool,
    /// Saved memory, and memory to look at afterwards, by context.
    pub(super) buffers: BTreeMap<HandleKey, HostBuffers>,
    /// Variables, by module.
    variables: BTreeMap<HandleKey, Arc<Vec<ModuleVariable>>>,
    /// Memory effects of kernels that patches do not see.
    uses: BTreeMap<(ModuleId, String), KernelUses>,
    /// Functions that wrote where their parameters do not point to.
    pub(super) wanderers: BTreeSet<String>,
}

/// Memory of the host.
#[derive(Default)]
pub(super) struct HostBuffers {
    /// Saved contents.
    pub(super) saved: PageBuffer,
    /// Room for the contents after the launch.
    pub(super) window: PageBuffer,
    /// All device memory, while the nodes of a graph run one by one.
    pub(super) all: PageBuffer,
}

impl SessionBundles {
    /// The bundles that the options ask for; `None` where they ask for none.
    pub(in crate::accesses::sanitizer) fn new(config: &Config) -> Result<Option<Self>, String> {
        let Some(bundles) = &config.bundles else { return Ok(None) };
        let recorder = BundleRecorder {
            selection: BundleSelector::new(bundles)?,
            contents: RecordedContents::new(bundles.budget_bytes),
            is_spent: false,
            records_after: bundles.records_after,
            buffers: BTreeMap::new(),
            variables: BTreeMap::new(),
            uses: BTreeMap::new(),
            wanderers: BTreeSet::new(),
        };
        Ok(Some(Self {
            memory: Mutex::default(),
            ended: Mutex::default(),
            recorder: Mutex::new(recorder),
            budget_bytes: bundles.budget_bytes,
        }))
    }

    /// The driver's allocations. Whoever has them must not call the driver.
    pub(in crate::accesses::sanitizer) fn memory(&self) -> MutexGuard<'_, AllocationMap> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A module or context is gone. Its handle may come back as another's.
    pub(in crate::accesses::sanitizer) fn ended(&self, key: HandleKey) {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).push(key);
    }

    /// Looks for the variables of a module, once. The driver waits for launches here: it must not be called in one, nor
    /// with a lock that a launch waits for.
    pub(in crate::accesses::sanitizer) fn find_variables(&self, code: &LoadedCode, module: DriverHandle) {
        if self.recorder().variables(module).is_some() {
            return;
        }
        let (found, missing) = own(|| symbols::find(module, &code.variables));
        if missing > 0 {
            session::lose(LossKind::Bundle, "variable of a module was not found", missing, None);
        }
        self.recorder().variables.insert(module.key(), Arc::new(found));
    }

    /// The launching thread's state.
    pub(super) fn recorder(&self) -> MutexGuard<'_, BundleRecorder> {
        let mut recorder = self.recorder.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        for key in ended {
            // A context's pinned memory went with it.
            recorder.buffers.remove(&key);
            recorder.variables.remove(&key);
        }
        recorder
    }
}

impl BundleRecorder {
    /// Memory effects of a kernel that patches do not see. Its cubin is read once.
    pub(super) fn uses(&mut self, code: &LoadedCode, name: &str) -> KernelUses {
        let read = || match code.path.as_deref().map(std::fs::read) {
            Some(Ok(cubin)) => uses::of_kernel(&cubin, name),
            _ => KernelUses::UNKNOWN,
        };
        *self.uses.entry((code.module_id, name.to_owned())).or_insert_with(read)
    }

    /// The variables of a module; `None` where [`SessionBundles::find_variables`] has not looked for them.
    pub(super) fn variables(&self, module: DriverHandle) -> Option<Arc<Vec<ModuleVariable>>> {
        self.variables.get(&module.key()).map(Arc::clone)
    }

    /// Draws the consequences of a refusal, and counts it.
    pub(super) fn refused(&mut self, prepared: &PreparedBundle, refusal: &BundleRefusal) {
        self.selection.refused(prepared.kind.clone());
        let name = &prepared.kind.kernel.name;
        match refusal.reason {
            reason::BUDGET => self.is_spent = true,
            reason::OUTSIDE => {
                self.wanderers.insert(name.clone());
            }
            _ => {}
        }
        let detail = [name.as_str(), &refusal.detail].join(" ");
        session::lose(LossKind::Bundle, refusal.reason, 1, Some(detail.trim_end().to_owned()));
    }
}
