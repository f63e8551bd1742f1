//! What a launch call was given, whichever function of the driver it is.
#![expect(unsafe_code, reason = "reads the parameters of the driver's functions")]

use std::ffi::c_void;
use std::ptr::null;

use stallmap_sys::cuda::{Handle, LaunchKernel, LaunchKernelEx, launch_id};

/// A launch call.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The function or kernel.
    pub function: Handle,
    /// Grid x, y, z, block x, y, z.
    pub shape: [u32; 6],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// The stream.
    pub stream: Handle,
    /// Pointers to the kernel's parameters, or null.
    pub pointers: *const *const c_void,
    /// cuLaunchKernel's `extra`, or null.
    pub extra: *const *const c_void,
}

/// Reads the parameters of a launch function; `None` where they are not there.
///
/// # Safety
/// `parameters`, where not null, points to the parameters of the launch function with this callback id.
pub unsafe fn read(id: u32, parameters: *const c_void) -> Option<Call> {
    if parameters.is_null() {
        return None;
    }
    if launch_id::KERNEL_EX.contains(&id) {
        // SAFETY: by this function's contract.
        let LaunchKernelEx { config, function, parameters: pointers, extra } =
            unsafe { parameters.cast::<LaunchKernelEx>().read() };
        // SAFETY: the driver's own caller passed the configuration, which lives while the call runs.
        let config = unsafe { config.as_ref() }?;
        let (shape, shared_bytes, stream) = (config.shape, config.shared_bytes, config.stream);
        return Some(Call { function, shape, shared_bytes, stream, pointers, extra });
    }
    let call = parameters.cast::<LaunchKernel>();
    let has_extra = !launch_id::COOPERATIVE.contains(&id);
    // SAFETY: by this function's contract; a cooperative launch has every field but `extra`, which is not read then.
    unsafe {
        Some(Call {
            function: (&raw const (*call).function).read(),
            shape: (&raw const (*call).shape).read(),
            shared_bytes: (&raw const (*call).shared_bytes).read(),
            stream: (&raw const (*call).stream).read(),
            pointers: (&raw const (*call).parameters).read(),
            extra: if has_extra { (&raw const (*call).extra).read() } else { null() },
        })
    }
}
