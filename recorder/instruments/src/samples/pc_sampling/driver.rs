//! Queries to the CUDA driver about a launch call.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use stallmap_sys::cuda::{self, DriverHandle};
use stallmap_sys::cupti::Cupti;

use stallmap_session::gpu::device;

/// The current device.
pub(super) fn current_device() -> i32 {
    device::current().unwrap_or(0)
}

/// The UUID of a context's GPU.
pub(super) fn gpu_of(api: &Cupti, context: DriverHandle) -> Option<String> {
    let mut device = 0;
    // SAFETY: the context is alive, because its creation is being reported. `device` outlives the call.
    let code = unsafe { (api.device_of)(context, &raw mut device) };
    if code == 0 { device::uuid(i32::try_from(device).ok()?) } else { None }
}

/// Multiprocessors of the current device, and their clock in kHz.
pub(super) fn multiprocessors() -> (u64, u64) {
    let device = current_device();
    let attribute = |attribute| {
        let mut value = 0;
        let Some(cuda) = device::driver() else { return 0 };
        // SAFETY: `value` outlives the call.
        unsafe { (cuda.device_get_attribute)(&raw mut value, attribute, device) };
        u64::try_from(value).unwrap_or(0)
    };
    (attribute(cuda::DEVICE_MULTIPROCESSORS), attribute(cuda::DEVICE_CLOCK_KHZ))
}

/// The module's handle of a function or kernel that is loaded.
pub(super) fn module_of(function: usize) -> Option<usize> {
    device::module_of(DriverHandle::of_key(function)).map(DriverHandle::key)
}
