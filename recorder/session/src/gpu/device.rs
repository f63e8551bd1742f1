//! Facts from the driver about its devices and functions.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::{CStr, c_int};
use std::sync::OnceLock;

use stallmap_schema::id::RunId;
use stallmap_schema::tables::run::Device;
use stallmap_sys::cuda::{self, Cuda, DriverHandle};

/// The driver's functions; `None` where it could not be opened.
pub fn driver() -> Option<&'static Cuda> {
    static DRIVER: OnceLock<Option<Cuda>> = OnceLock::new();
    DRIVER.get_or_init(|| Cuda::load(&["libcuda.so.1".into()]).ok().map(|(cuda, _path)| cuda)).as_ref()
}

/// The newest CUDA version that the driver supports.
pub fn cuda_version() -> Option<i32> {
    let mut version = 0;
    // SAFETY: `version` outlives the call.
    (unsafe { (driver()?.driver_get_version)(&raw mut version) } == 0).then_some(version)
}

/// The context of this thread; `None` without one.
pub fn current_context() -> Option<DriverHandle> {
    let mut context = DriverHandle::NULL;
    // SAFETY: `context` outlives the call.
    let code = unsafe { (driver()?.context_get_current)(&raw mut context) };
    (code == 0 && context != DriverHandle::NULL).then_some(context)
}

/// The device of this thread's context; `None` without one.
pub fn current() -> Option<i32> {
    let mut device = 0;
    // SAFETY: `device` outlives the call.
    let code = unsafe { (driver()?.context_get_device)(&raw mut device) };
    (code == 0).then_some(device)
}

/// Does something with a context as this thread's: streams without a name are those of the current one. `None` if it
/// cannot be entered.
pub fn within<T>(context: DriverHandle, action: impl FnOnce() -> T) -> Option<T> {
    if current_context() == Some(context) {
        return Some(action());
    }
    let driver = driver()?;
    // SAFETY: the context has not ended.
    if unsafe { (driver.context_push)(context) } != 0 {
        return None;
    }
    let result = action();
    let mut left = DriverHandle::NULL;
    // SAFETY: `left` outlives the call. The context was pushed above.
    unsafe { (driver.context_pop)(&raw mut left) };
    Some(result)
}

/// A device's row.
pub fn describe(device_id: i32) -> Option<Device> {
    let cuda = driver()?;
    let attribute = |attribute| {
        let mut value = 0;
        // SAFETY: `value` outlives the call.
        if unsafe { (cuda.device_get_attribute)(&raw mut value, attribute, device_id) } == 0 {
            value
        } else {
            0
        }
    };
    let mut name = [0; 256];
    // SAFETY: the driver writes up to 256 bytes, the ending zero too.
    unsafe { (cuda.device_get_name)(name.as_mut_ptr(), 256, device_id) };
    let mut memory_bytes = 0;
    // SAFETY: `memory_bytes` outlives the call.
    unsafe { (cuda.device_total_memory)(&raw mut memory_bytes, device_id) };
    Some(Device {
        run_id: RunId(0),
        device_id,
        // SAFETY: the array was zeroed and the driver ends the name with a zero.
        name: unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned(),
        compute_major: attribute(cuda::DEVICE_COMPUTE_MAJOR),
        compute_minor: attribute(cuda::DEVICE_COMPUTE_MINOR),
        multiprocessor_count: attribute(cuda::DEVICE_MULTIPROCESSORS),
        memory_bytes: memory_bytes as u64,
        l2_bytes: u64::try_from(attribute(cuda::DEVICE_L2_BYTES)).unwrap_or(0),
        sm_clock_khz: attribute(cuda::DEVICE_CLOCK_KHZ),
        memory_clock_khz: attribute(cuda::DEVICE_MEMORY_CLOCK_KHZ),
        memory_bus_bits: Some(attribute(cuda::DEVICE_MEMORY_BUS_BITS)).filter(|bits| *bits > 0),
        uuid: uuid(device_id),
    })
}

/// A device's UUID as `nvidia-smi -L` prints it.
pub fn uuid(device_id: i32) -> Option<String> {
    let mut bytes = [0; 16];
    // SAFETY: the driver writes 16 bytes, and `bytes` outlives the call.
    let code = unsafe { (driver()?.device_get_uuid)(&raw mut bytes, device_id) };
    (code == 0).then(|| uuid_text(bytes))
}

fn uuid_text(bytes: [u8; 16]) -> String {
    let digits = format!("{:032x}", u128::from_be_bytes(bytes));
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part).unwrap_or_default());
    format!("GPU-{}", parts.join("-"))
}

/// Resources of a loaded function.
#[derive(Clone, Copy, Debug, Default)]
pub struct FunctionResources {
    /// Registers of a thread.
    pub register_count: Option<u32>,
    /// Static shared memory of a block.
    pub static_shared_bytes: Option<u32>,
    /// Local memory of a thread.
    pub local_bytes: Option<u32>,
}

/// Resources of a function. `function` must be loaded.
pub fn resources(function: DriverHandle) -> FunctionResources {
    let attribute =
        |attribute| function_attribute(function, attribute).and_then(|value| u32::try_from(value).ok());
    FunctionResources {
        register_count: attribute(cuda::ATTRIBUTE_REGISTERS),
        static_shared_bytes: attribute(cuda::ATTRIBUTE_SHARED_BYTES),
        local_bytes: attribute(cuda::ATTRIBUTE_LOCAL_BYTES),
    }
}

/// The function of a launch call, which may have been given a kernel's handle.
pub fn function_of(function: DriverHandle) -> Option<DriverHandle> {
    let cuda = driver()?;
    let (mut module, mut of_kernel) = (DriverHandle::NULL, DriverHandle::NULL);
    // SAFETY: as in `module_of`.
    unsafe {
        if (cuda.function_get_module)(&raw mut module, function) == 0 {
            return Some(function);
        }
        ((cuda.kernel_get_function)(&raw mut of_kernel, function) == 0).then_some(of_kernel)
    }
}

/// The module of a launch call's function, which may be a kernel's handle. The driver loads it where it is not.
pub fn module_of(function: DriverHandle) -> Option<DriverHandle> {
    let cuda = driver()?;
    let (mut module, mut of_kernel) = (DriverHandle::NULL, DriverHandle::NULL);
    // SAFETY: the handle comes from the launch call itself. The driver returns an error if it is of the other kind.
    unsafe {
        if (cuda.function_get_module)(&raw mut module, function) == 0 {
            return Some(module);
        }
        let found = (cuda.kernel_get_function)(&raw mut of_kernel, function) == 0
            && (cuda.function_get_module)(&raw mut module, of_kernel) == 0;
        found.then_some(module)
    }
}

/// An attribute of a function, by cuFuncGetAttribute's number; `function` must be loaded.
pub fn function_attribute(function: DriverHandle, attribute: c_int) -> Option<c_int> {
    let mut value = 0;
    // SAFETY: the callback that names the function says that it is loaded; `value` outlives the call.
    let code = unsafe { (driver()?.function_get_attribute)(&raw mut value, attribute, function) };
    (code == 0).then_some(value)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_uuid_reads_as_the_driver_prints_it() {
        let bytes = [0x6f, 0x0f, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13];
        assert_eq!(super::uuid_text(bytes), "GPU-6f0f0001-0203-0405-0607-08090a0b0c0d");
    }
}
