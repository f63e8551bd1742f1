//! The module that holds the function of a launch.
//!
//! Modules that are loaded may share the names of kernels: autotuning and compilers reuse them. CUPTI names a launch's
//! kernel but not its module. A shared name is resolved by the launch's own samples, or by a handle whose samples
//! resolved it before.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use stallmap_schema::id::ModuleId;

use stallmap_session::gpu::code::LoadedCode;

/// The loaded modules, and handles whose module is known.
#[derive(Debug, Default)]
pub(super) struct ModuleFunctions {
    /// By context and CUPTI's number of the module.
    loaded: BTreeMap<(usize, u32), Arc<LoadedCode>>,
    /// Modules that hold a kernel of a name, the newest last. A module that was loaded twice is listed twice.
    by_name: BTreeMap<String, Vec<Arc<LoadedCode>>>,
    /// Every module that was ever loaded, by CUPTI's CRC of its cubin. It does not cover the code: modules of one layout
    /// share it.
    by_crc: BTreeMap<u64, Vec<Arc<LoadedCode>>>,
    /// The module of a function's handle.
    by_function: BTreeMap<usize, ModuleId>,
    /// The module of a module's handle.
    by_module: BTreeMap<usize, ModuleId>,
}

/// Known facts about a launch's function.
#[derive(Clone, Copy, Debug)]
pub(super) struct LaunchedFunction<'a> {
    /// The kernel's mangled name.
    pub(super) name: &'a str,
    /// The function's handle.
    pub(super) function: usize,
    /// The handle of its module, where the driver gave it.
    pub(super) module: Option<usize>,
    /// CRCs of the cubins in which the launch's own samples found the kernel.
    pub(super) crcs: &'a BTreeSet<u64>,
}

/// The module of a launch's function.
#[derive(Clone, Debug)]
pub(super) struct FunctionModule {
    pub(super) code: Arc<LoadedCode>,
    /// True if it can be no other function.
    pub(super) is_certain: bool,
}

impl ModuleFunctions {
    /// Adds a module that was loaded.
    pub(super) fn load(&mut self, context: usize, number: u32, code: &Arc<LoadedCode>, crc: Option<u64>) {
        self.unload(context, number);
        self.loaded.insert((context, number), Arc::clone(code));
        for name in &code.kernels {
            self.by_name.entry(name.clone()).or_default().push(Arc::clone(code));
        }
        if let Some(crc) = crc {
            let same = self.by_crc.entry(crc).or_default();
            if same.iter().all(|other| other.module_id != code.module_id) {
                same.push(Arc::clone(code));
            }
        }
    }

    /// A module's handle, as the call that loaded it gave it.
    pub(super) fn tie(&mut self, handle: usize, module_id: ModuleId) {
        self.by_module.insert(handle, module_id);
    }

    /// Removes a module. Handles of its functions may come back as others.
    pub(super) fn unload(&mut self, context: usize, number: u32) {
        let Some(code) = self.loaded.remove(&(context, number)) else { return };
        for name in &code.kernels {
            if let Some(holders) = self.by_name.get_mut(name) {
                if let Some(at) = holders.iter().position(|holder| holder.module_id == code.module_id) {
                    holders.remove(at);
                }
                if holders.is_empty() {
                    self.by_name.remove(name);
                }
            }
        }
        self.by_function.retain(|_, module_id| *module_id != code.module_id);
        self.by_module.retain(|_, module_id| *module_id != code.module_id);
    }

    /// Removes every module of a context.
    pub(super) fn unload_all(&mut self, context: usize) {
        let numbers: Vec<u32> =
            self.loaded.range((context, 0)..=(context, u32::MAX)).map(|(key, _)| key.1).collect();
        for number in numbers {
            self.unload(context, number);
        }
    }

    /// True if several loaded modules hold a kernel of a name.
    pub(super) fn is_ambiguous(&self, name: &str) -> bool {
        let holders = self.by_name.get(name).map_or(&[][..], Vec::as_slice);
        holders.iter().any(|holder| Some(holder.module_id) != holders.first().map(|first| first.module_id))
    }

    /// True if a function in the modules of a CRC is a kernel.
    pub(super) fn is_kernel(&self, crc: u64, name: &str) -> bool {
        self.by_crc.get(&crc).into_iter().flatten().any(|code| code.kernels.contains(name))
    }

    /// The module of a launch's function; `None` where no module with such a kernel was seen.
    pub(super) fn find(&mut self, launched: &LaunchedFunction<'_>) -> Option<FunctionModule> {
        if let Some(code) = self.sampled(launched) {
            self.by_function.insert(launched.function, code.module_id);
            if let Some(module) = launched.module {
                self.by_module.insert(module, code.module_id);
            }
            return Some(FunctionModule { code, is_certain: true });
        }
        let holders = self.by_name.get(launched.name)?;
        let newest = holders.last()?;
        if !self.is_ambiguous(launched.name) {
            return Some(FunctionModule { code: Arc::clone(newest), is_certain: true });
        }
        let by_function = self.by_function.get(&launched.function);
        let by_module = launched.module.and_then(|module| self.by_module.get(&module));
        let holder = |module_id: &ModuleId| holders.iter().find(|holder| holder.module_id == *module_id);
        let known = by_function.and_then(holder).or_else(|| by_module.and_then(holder));
        Some(FunctionModule { code: Arc::clone(known.unwrap_or(newest)), is_certain: known.is_some() })
    }

    /// The one module in which samples found the launched kernel.
    fn sampled(&self, launched: &LaunchedFunction<'_>) -> Option<Arc<LoadedCode>> {
        let mut found: Option<&Arc<LoadedCode>> = None;
        for crc in launched.crcs {
            let mut holders =
                self.by_crc.get(crc)?.iter().filter(|code| code.kernels.contains(launched.name));
            let (code, None) = (holders.next()?, holders.next()) else { return None };
            if found.is_some_and(|other| other.module_id != code.module_id) {
                return None;
            }
            found = Some(code);
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code(module: u64, kernels: &[&str]) -> Arc<LoadedCode> {
        Arc::new(LoadedCode {
            module_id: ModuleId(module),
            kernels: kernels.iter().map(|name| (*name).to_owned()).collect(),
            functions: Vec::new(),
            variables: Vec::new(),
            allocating: std::collections::BTreeSet::new(),
            path: None,
        })
    }

    fn find(functions: &mut ModuleFunctions, handle: usize, module: usize, crc: Option<u64>) -> (u64, bool) {
        let crcs = crc.into_iter().collect();
        let launched = LaunchedFunction { name: "k", function: handle, module: Some(module), crcs: &crcs };
        let found = functions.find(&launched).unwrap();
        (found.code.module_id.0, found.is_certain)
    }

    /// Two modules with a kernel `k`, one of them with a kernel `other`.
    fn two() -> ModuleFunctions {
        let mut functions = ModuleFunctions::default();
        functions.load(1, 1, &code(10, &["k", "other"]), Some(0xa));
        functions.load(1, 2, &code(20, &["k"]), Some(0xb));
        functions
    }

    #[test]
    fn modules_of_one_crc_are_told_apart_by_their_handles() {
        let mut functions = ModuleFunctions::default();
        for module in [1, 2] {
            functions.load(0, module, &code(u64::from(module), &["k"]), Some(7));
            functions.tie(100 + module as usize, ModuleId(u64::from(module)));
        }
        let crcs = BTreeSet::from([7]);
        let mut find = |module| {
            let found = functions.find(&LaunchedFunction {
                name: "k",
                function: module + 1,
                module: Some(module),
                crcs: &crcs,
            });
            found.map(|found| (found.code.module_id.0, found.is_certain))
        };
        assert_eq!([find(101), find(102), find(103)], [Some((1, true)), Some((2, true)), Some((2, false))]);
    }

    #[test]
    fn one_module_is_certain_however_often_it_is_loaded() {
        let mut functions = ModuleFunctions::default();
        functions.load(1, 1, &code(10, &["k"]), None);
        functions.load(2, 2, &code(10, &["k"]), None);
        assert_eq!(find(&mut functions, 5, 50, None), (10, true));
        functions.unload(1, 1);
        assert_eq!(find(&mut functions, 5, 50, None), (10, true));
        functions.unload_all(2);
        let launched = LaunchedFunction { name: "k", function: 5, module: None, crcs: &BTreeSet::new() };
        assert!(functions.find(&launched).is_none());
    }

    #[test]
    fn a_shared_name_is_told_apart_by_samples_and_then_by_handles() {
        let mut functions = two();
        assert_eq!(find(&mut functions, 5, 50, None), (20, false));
        assert_eq!(find(&mut functions, 5, 50, Some(0xa)), (10, true));
        assert_eq!(find(&mut functions, 5, 51, None), (10, true), "the function's handle is known");
        assert_eq!(find(&mut functions, 6, 50, None), (10, true), "the module's handle is known");
        assert_eq!(find(&mut functions, 6, 51, None), (20, false));
    }

    #[test]
    fn samples_of_two_cubins_or_of_an_unknown_one_tell_nothing() {
        let mut functions = two();
        let crcs = BTreeSet::from([0xa, 0xb]);
        let launched = LaunchedFunction { name: "k", function: 5, module: None, crcs: &crcs };
        assert!(!functions.find(&launched).unwrap().is_certain);
        assert_eq!(find(&mut functions, 5, 50, Some(0xff)), (20, false));
    }

    #[test]
    fn an_unloaded_module_lingers_nowhere() {
        let mut functions = two();
        find(&mut functions, 5, 50, Some(0xb));
        functions.unload(1, 2);
        functions.load(1, 3, &code(30, &["k"]), Some(0xc));
        // The handles of the unloaded module came back as those of another.
        assert_eq!(find(&mut functions, 5, 50, None), (30, false));
        functions.unload(1, 1);
        assert_eq!(find(&mut functions, 5, 50, None), (30, true));
        assert!(!functions.by_name.contains_key("other"));
    }

    proptest! {
        #[test]
        fn what_is_found_is_loaded(steps in prop::collection::vec((0..4_u32, any::<bool>(), 0..3_usize), 1..40)) {
            let mut functions = ModuleFunctions::default();
            let mut loaded = BTreeSet::new();
            for (number, is_load, handle) in steps {
                if is_load {
                    functions.load(1, number, &code(u64::from(number), &["k"]), Some(number.into()));
                    loaded.insert(number);
                } else {
                    functions.unload(1, number);
                    loaded.remove(&number);
                }
                let crcs = BTreeSet::new();
                let launched = LaunchedFunction { name: "k", function: handle, module: None, crcs: &crcs };
                let found = functions.find(&launched);
                prop_assert_eq!(found.is_some(), !loaded.is_empty());
                if let Some(found) = found {
                    prop_assert!(loaded.iter().any(|number| u64::from(*number) == found.code.module_id.0));
                    prop_assert_eq!(found.is_certain, loaded.len() == 1);
                }
            }
        }
    }
}
