//! The functions of the CUDA driver that run a launch again: memory at chosen addresses, modules, launches, events.
#![expect(unsafe_code, reason = "tables of C functions")]

use std::ffi::{c_char, c_int, c_uint, c_void};

pub use cudarc::driver::sys as types;

use crate::cuda::DriverHandle;

/// Flag of cuMemHostAlloc: any context may use the memory.
pub const HOST_PORTABLE: c_uint = 1;
/// cuFuncSetAttribute: largest dynamic shared memory.
pub const ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES: c_int = 8;
/// cuFuncSetAttribute: preferred shared memory carveout, in percent.
pub const ATTRIBUTE_SHARED_CARVEOUT: c_int = 9;
/// cuFuncSetAttribute: whether clusters of more than eight blocks are allowed.
pub const ATTRIBUTE_NON_PORTABLE_CLUSTER: c_int = 14;

/// CUlaunchAttribute: a number that says which, then its value.
#[repr(C, align(8))]
#[derive(Clone, Copy, Debug)]
pub struct LaunchAttribute(pub [u8; 72]);

/// CUlaunchAttributeID of a cooperative launch.
pub const LAUNCH_COOPERATIVE: i32 = 2;
/// CUlaunchAttributeIDs that change how a kernel alone on the GPU runs: cooperative, cluster size, cluster scheduling,
/// preferred cluster size, shared memory carveout. The rest orders it among other work.
pub const LAUNCH_OWN: [i32; 5] = [LAUNCH_COOPERATIVE, 4, 5, 11, 14];

/// CUlaunchConfig.
#[repr(C)]
#[derive(Debug)]
pub struct LaunchConfiguration {
    /// Grid x, y, z, block x, y, z.
    pub shape: [c_uint; 6],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: DriverHandle,
    /// Attributes.
    pub attributes: *const LaunchAttribute,
    /// Number of attributes.
    pub attribute_count: c_uint,
}

crate::functions! {
    /// Functions of `libcuda.so.1`. All return a CUresult, 0 for success.
    Driver from "CUDA driver library (libcuda.so.1)" {
        /// (flags)
        init: cuInit(c_uint) -> c_int;
        /// (context, device)
        primary_context: cuDevicePrimaryCtxRetain(*mut DriverHandle, c_int) -> c_int;
        /// (context)
        set_context: cuCtxSetCurrent(DriverHandle) -> c_int;
        /// () waits for the whole context
        synchronize: cuCtxSynchronize() -> c_int;
        /// (result, name)
        error_name: cuGetErrorName(c_int, *mut *const c_char) -> c_int;
        /// (value, attribute, device)
        device_attribute: cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        /// (address, bytes, alignment, wished address, flags)
        reserve: cuMemAddressReserve(*mut u64, usize, usize, u64, u64) -> c_int;
        /// (address, bytes)
        unreserve: cuMemAddressFree(u64, usize) -> c_int;
        /// (memory, bytes, properties, flags)
        create: cuMemCreate(*mut u64, usize, *const types::CUmemAllocationProp, u64) -> c_int;
        /// (address, bytes, offset, memory, flags)
        map: cuMemMap(u64, usize, usize, u64, u64) -> c_int;
        /// (address, bytes)
        unmap: cuMemUnmap(u64, usize) -> c_int;
        /// (address, bytes, descriptions, how many)
        set_access: cuMemSetAccess(u64, usize, *const types::CUmemAccessDesc, usize) -> c_int;
        /// (address, bytes)
        alloc: cuMemAlloc_v2(*mut u64, usize) -> c_int;
        /// (address)
        free: cuMemFree_v2(u64) -> c_int;
        /// (pointer, bytes, flags)
        alloc_host: cuMemHostAlloc(*mut *mut c_void, usize, c_uint) -> c_int;
        /// (destination, source, bytes)
        copy_to_device: cuMemcpyHtoD_v2(u64, *const c_void, usize) -> c_int;
        /// (destination, source, bytes)
        copy_to_host: cuMemcpyDtoH_v2(*mut c_void, u64, usize) -> c_int;
        /// (destination, source, bytes, stream): the destination is pinned
        copy_to_host_async: cuMemcpyDtoHAsync_v2(*mut c_void, u64, usize, DriverHandle) -> c_int;
        /// (destination, source, bytes, stream)
        copy_on_device: cuMemcpyDtoDAsync_v2(u64, u64, usize, DriverHandle) -> c_int;
        /// (destination, byte, bytes, stream)
        fill: cuMemsetD8Async(u64, u8, usize, DriverHandle) -> c_int;
        /// (module, cubin)
        load_module: cuModuleLoadData(*mut DriverHandle, *const c_void) -> c_int;
        /// (module)
        unload_module: cuModuleUnload(DriverHandle) -> c_int;
        /// (function, module, name)
        function: cuModuleGetFunction(*mut DriverHandle, DriverHandle, *const c_char) -> c_int;
        /// (address, bytes, module, name)
        variable: cuModuleGetGlobal_v2(*mut u64, *mut usize, DriverHandle, *const c_char) -> c_int;
        /// (function, attribute, value)
        set_function_attribute: cuFuncSetAttribute(DriverHandle, c_int, c_int) -> c_int;
        /// (configuration, function, parameters, extra)
        launch: cuLaunchKernelEx(
            *const LaunchConfiguration, DriverHandle, *mut *mut c_void, *mut *mut c_void) -> c_int;
        /// (event, flags)
        create_event: cuEventCreate(*mut DriverHandle, c_uint) -> c_int;
        /// (event, stream)
        record_event: cuEventRecord(DriverHandle, DriverHandle) -> c_int;
        /// (milliseconds, first, last)
        elapsed: cuEventElapsedTime(*mut f32, DriverHandle, DriverHandle) -> c_int;
    }
}
