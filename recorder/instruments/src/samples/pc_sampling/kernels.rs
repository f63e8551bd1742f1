//! Facts that many launches share, by thread: a launch costs no lock, no look at its kernel's name, and no call of the
//! driver.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use stallmap_schema::id::FunctionId;
use stallmap_session::gpu::name::text;
use stallmap_sys::cuda::DriverHandle;

/// A kernel.
#[derive(Debug)]
pub(super) struct SampledKernel {
    /// Mangled name.
    pub(super) name: String,
    /// Result of the selection for its launches. The error is the reason against it.
    pub(super) taken: Result<(), &'static str>,
    /// Its function, once a launch has found it without doubt.
    pub(super) function_id: OnceLock<FunctionId>,
}

/// Kernels by the function's handle and the address of its name, and devices by context, while the modules stay the
/// same.
#[derive(Default)]
struct KnownKernels {
    modules: u64,
    kernels: HashMap<(usize, usize), Arc<SampledKernel>>,
    devices: HashMap<usize, i32>,
}

impl KnownKernels {
    /// Forgets all if modules have changed since.
    fn renewed(&mut self) -> &Self {
        let modules = MODULES.load(Ordering::Acquire);
        if self.modules != modules {
            *self = Self { modules, ..Self::default() };
        }
        self
    }
}

/// Changes with every module that is loaded or unloaded: handles and addresses may come back as others.
static MODULES: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static KNOWN: RefCell<KnownKernels> = RefCell::default();
}

/// Modules have changed, or a context ends.
pub(super) fn forget() {
    MODULES.fetch_add(1, Ordering::AcqRel);
}

/// The kernel of a launch call; `taken` decides of a new one by its name.
pub(super) fn find(
    function: usize,
    symbol: *const c_char,
    taken: impl FnOnce(&str) -> Result<(), &'static str>,
) -> Arc<SampledKernel> {
    let make = || {
        let name = text(symbol);
        let taken = taken(&name);
        Arc::new(SampledKernel { name, taken, function_id: OnceLock::new() })
    };
    let key = (function, symbol.addr());
    let found = with_known(|known| known.renewed().kernels.get(&key).cloned());
    found.unwrap_or_else(|| {
        let kernel = make();
        with_known(|known| known.kernels.insert(key, Arc::clone(&kernel)));
        kernel
    })
}

/// The device of a launch's context; `ask` the driver for that of a new one.
pub(super) fn device(context: DriverHandle, ask: impl FnOnce() -> i32) -> i32 {
    let found = with_known(|known| known.renewed().devices.get(&context.key()).copied());
    found.unwrap_or_else(|| {
        let device = ask();
        with_known(|known| known.devices.insert(context.key(), device));
        device
    })
}

/// `None` also in a thread that is ending: it has no memory any more.
fn with_known<T>(look: impl FnOnce(&mut KnownKernels) -> Option<T>) -> Option<T> {
    KNOWN.try_with(|known| look(&mut *known.try_borrow_mut().ok()?)).ok().flatten()
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

    #[test]
    fn the_device_of_a_context_is_asked_for_once() {
        let context = DriverHandle::of_key(9);
        assert_eq!((device(context, || 1), device(context, || 2)), (1, 1));
        assert_eq!(device(DriverHandle::of_key(10), || 0), 0);
        forget();
        assert_eq!(device(context, || 3), 3);
    }
}
