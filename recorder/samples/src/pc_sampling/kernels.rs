//! Facts about a kernel that all its launches share, by thread: a launch costs no lock and no look at its name.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use stallmap_schema::id::FunctionId;
use stallmap_session::gpu::name::text;

/// A kernel.
#[derive(Debug)]
pub(super) struct Kernel {
    /// Mangled name.
    pub(super) name: String,
    /// Result of the selection for its launches. The error is the reason against it.
    pub(super) taken: Result<(), &'static str>,
    /// Its function, once a launch has found it without doubt.
    pub(super) function_id: OnceLock<FunctionId>,
}

/// Kernels by the function's handle and the address of its name, while the modules stay the same.
#[derive(Default)]
struct Known {
    modules: u64,
    kernels: HashMap<(usize, usize), Arc<Kernel>>,
}

/// Changes with every module that is loaded or unloaded: handles and addresses may come back as others.
static MODULES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static KNOWN: RefCell<Known> = RefCell::default();
}

/// Modules have changed.
pub(super) fn forget() {
    MODULES.fetch_add(1, Ordering::AcqRel);
}

/// The kernel of a launch call; `taken` decides of a new one by its name.
pub(super) fn find(
    function: usize,
    symbol: *const c_char,
    taken: impl FnOnce(&str) -> Result<(), &'static str>,
) -> Arc<Kernel> {
    let make = || {
        let name = text(symbol);
        let taken = taken(&name);
        Arc::new(Kernel { name, taken, function_id: OnceLock::new() })
    };
    let modules = MODULES.load(Ordering::Acquire);
    let find = |known: &RefCell<Known>| {
        let mut known = known.try_borrow_mut().ok()?;
        if known.modules != modules {
            *known = Known { modules, kernels: HashMap::new() };
        }
        known.kernels.get(&(function, symbol.addr())).cloned()
    };
    // A thread that is ending has no memory any more.
    if let Some(kernel) = KNOWN.try_with(find).ok().flatten() {
        return kernel;
    }
    let kernel = make();
    let keep = |known: &RefCell<Known>| {
        if let Ok(mut known) = known.try_borrow_mut() {
            known.kernels.insert((function, symbol.addr()), Arc::clone(&kernel));
        }
    };
    KNOWN.try_with(keep).unwrap_or_default();
    kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_is_looked_at_once_until_modules_change() {
        let asked = std::cell::Cell::new(0);
        let find = |symbol: &std::ffi::CStr| {
            find(7, symbol.as_ptr(), |_name| {
                asked.set(asked.get() + 1);
                Ok(())
            })
        };
        let (first, again) = (find(c"_Z1av"), find(c"_Z1av"));
        assert_eq!((first.name.as_str(), again.name.as_str(), asked.get()), ("_Z1av", "_Z1av", 1));
        forget();
        find(c"_Z1av");
        assert_eq!(asked.get(), 2);
    }
}
