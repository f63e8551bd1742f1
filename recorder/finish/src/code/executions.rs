//! Functions that kernels may execute.

use std::collections::{BTreeMap, BTreeSet};

use stallmap_sass::cubin::KernelCallees;
use stallmap_schema::hash;
use stallmap_schema::id::{FunctionId, ModuleId};

use super::RecordedModules;

/// The functions that kernels of some modules may execute. Each is looked for once.
pub(crate) struct KernelExecutions<'a> {
    modules: &'a RecordedModules,
    callees: BTreeMap<ModuleId, Option<KernelCallees<'a>>>,
    by_kernel: BTreeMap<FunctionId, Option<BTreeSet<FunctionId>>>,
}

impl<'a> KernelExecutions<'a> {
    /// Executions in some modules.
    pub(crate) fn new(modules: &'a RecordedModules) -> Self {
        Self { modules, callees: BTreeMap::new(), by_kernel: BTreeMap::new() }
    }

    /// True if a launch of a kernel may execute a function. Where the kernel's code is not known, it may execute all.
    pub(crate) fn may(&mut self, kernel: FunctionId, function: FunctionId) -> bool {
        if kernel == function {
            return true;
        }
        let Self { modules, callees, by_kernel } = self;
        let found = by_kernel.entry(kernel).or_insert_with(|| {
            let module_id = modules.module_of(kernel)?;
            let callees = callees.entry(module_id).or_insert_with(|| modules.callees(module_id));
            let names = callees.as_ref()?.for_kernel(modules.name(kernel))?;
            Some(names.into_iter().map(|name| hash::function_id(module_id, name)).collect())
        });
        found.as_ref().is_none_or(|found| found.contains(&function))
    }
}
