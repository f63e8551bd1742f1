//! NVIDIA's sanitizer API: callbacks on the driver's actions, and patches in front of instructions.
//!
//! Layouts of CUDA 12.4 to 13: a field that a later version appends is not read.
#![expect(unsafe_code, reason = "tables of C functions")]

use std::ffi::{c_char, c_int, c_void};

use crate::cuda::DriverHandle;

/// SanitizerResult: 0 for success.
pub type SanitizerCode = c_int;
/// (userdata, domain, callback id, data)
pub type SanitizerCallback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

crate::functions! {
    /// Functions of `libsanitizer-public.so`.
    Sanitizer from "sanitizer library (libsanitizer-public.so)" {
        /// (subscriber, callback, userdata): only before the first context
        subscribe: sanitizerSubscribe(*mut DriverHandle, SanitizerCallback, *mut c_void) -> SanitizerCode;
        /// (enable, subscriber, domain)
        enable_domain: sanitizerEnableDomain(u32, DriverHandle, c_int) -> SanitizerCode;
        /// (enable, subscriber, domain, callback id)
        enable_callback: sanitizerEnableCallback(u32, DriverHandle, c_int, u32) -> SanitizerCode;
        /// (image, context)
        add_patches: sanitizerAddPatches(*const c_void, DriverHandle) -> SanitizerCode;
        /// (instruction kind, module, device function's name)
        patch_instructions: sanitizerPatchInstructions(c_int, DriverHandle, *const c_char) -> SanitizerCode;
        /// (module)
        patch_module: sanitizerPatchModule(DriverHandle) -> SanitizerCode;
        /// (module): waits for the context's kernels
        unpatch_module: sanitizerUnpatchModule(DriverHandle) -> SanitizerCode;
        /// (launch, function, stream, userdata)
        set_launch_data: sanitizerSetLaunchCallbackData(DriverHandle, DriverHandle, DriverHandle, *const c_void) -> SanitizerCode;
        /// (module, function's name, pc, bytes)
        function_range: sanitizerGetFunctionPcAndSize(DriverHandle, *const c_char, *mut u64, *mut u64) -> SanitizerCode;
        /// (context, pointer, bytes)
        alloc: sanitizerAlloc(DriverHandle, *mut *mut c_void, usize) -> SanitizerCode;
        /// (context, pointer, bytes): pinned, mapped at one address for host and device
        alloc_host: sanitizerAllocHost(DriverHandle, *mut *mut c_void, usize) -> SanitizerCode;
        /// (destination, source, bytes, stream)
        copy_to_device: sanitizerMemcpyHostToDeviceAsync(*mut c_void, *const c_void, usize, DriverHandle) -> SanitizerCode;
        /// (destination, source, bytes, stream)
        copy_to_host: sanitizerMemcpyDeviceToHost(*mut c_void, *const c_void, usize, DriverHandle) -> SanitizerCode;
        /// (pointer, value, bytes, stream)
        set: sanitizerMemset(*mut c_void, c_int, usize, DriverHandle) -> SanitizerCode;
        /// (stream)
        synchronize: sanitizerStreamSynchronize(DriverHandle) -> SanitizerCode;
        /// (context, stream, the API's handle of it)
        stream_handle: sanitizerGetStreamHandle(DriverHandle, DriverHandle, *mut DriverHandle) -> SanitizerCode;
    }
}

/// Callback domains.
pub mod domain {
    /// Calls of the driver API.
    pub const DRIVER: i32 = 1;
    /// Contexts, streams, modules, memory.
    pub const RESOURCE: i32 = 3;
    /// Kernel launches.
    pub const LAUNCH: i32 = 5;
    /// Copies.
    pub const MEMCPY: i32 = 6;
    /// Memsets.
    pub const MEMSET: i32 = 7;
    /// CUDA graphs.
    pub const GRAPHS: i32 = 10;
}

/// Callback ids of the resource domain.
pub mod resource {
    /// [`super::ContextData`].
    pub const CONTEXT_CREATED: u32 = 3;
    /// [`super::ContextData`].
    pub const CONTEXT_DESTROY_STARTING: u32 = 4;
    /// [`super::SanitizerModuleData`].
    pub const MODULE_LOADED: u32 = 9;
    /// [`super::SanitizerModuleData`].
    pub const MODULE_UNLOAD_STARTING: u32 = 10;
    /// [`super::MemoryData`].
    pub const MEMORY_ALLOC: u32 = 11;
    /// [`super::MemoryData`].
    pub const MEMORY_FREE: u32 = 12;
    /// [`super::MemoryData`].
    pub const HOST_MEMORY_ALLOC: u32 = 13;
    /// [`super::MemoryData`].
    pub const HOST_MEMORY_FREE: u32 = 14;
    /// [`super::MemoryData`].
    pub const MEMORY_ALLOC_ASYNC: u32 = 15;
    /// [`super::MemoryData`].
    pub const MEMORY_FREE_ASYNC: u32 = 16;
}

/// Flags of an allocation, SANITIZER_MEMORY_FLAG_*.
pub mod memory_flag {
    /// A module's variables.
    pub const MODULE: u32 = 0x1;
    /// Managed memory.
    pub const MANAGED: u32 = 0x2;
    /// Host memory that the device can access.
    pub const HOST: u32 = 0x4 | 0x8;
    /// Memory of another GPU.
    pub const PEER: u32 = 0x10 | 0x20;
    /// Memory that cooperative groups need at run time.
    pub const COOPERATIVE_GROUPS: u32 = 0x40;
    /// Memory that launches from the device need.
    pub const DEVICE_LAUNCHES: u32 = 0x80;
}

/// Callback ids of the launch domain.
pub mod launch {
    /// [`super::LaunchData`].
    pub const BEGIN: u32 = 1;
    /// [`super::LaunchData`].
    pub const END: u32 = 3;
}

/// Callback ids of the graphs domain.
pub mod graphs {
    /// [`super::GraphExecData`]: an executable graph is being made.
    pub const EXEC_CREATING: u32 = 1;
    /// [`super::GraphExecData`]: an executable graph is going.
    pub const EXEC_DESTROYING: u32 = 3;
    /// [`super::GraphNodeData`]: a node is being launched.
    pub const NODE_LAUNCH_BEGIN: u32 = 4;
    /// [`super::GraphLaunchData`]: a graph is being launched or uploaded.
    pub const LAUNCH_BEGIN: u32 = 6;
    /// [`super::GraphLaunchData`]: it is.
    pub const LAUNCH_END: u32 = 7;
}

/// Kinds of instructions that can be patched, with the signature that the device function must have.
pub mod instruction {
    /// (userdata, pc, address, bytes, flags, data)
    pub const GLOBAL: i32 = 3;
    /// As GLOBAL.
    pub const SHARED: i32 = 4;
    /// As GLOBAL.
    pub const LOCAL: i32 = 5;
    /// (userdata, pc, source, destination, bytes)
    pub const MEMCPY_ASYNC: i32 = 14;
}

/// Data of API callbacks.
#[repr(C)]
pub struct SanitizerApiData {
    /// 0 on entry, 1 on exit.
    pub site: c_int,
    /// The function's name.
    pub name: *const c_char,
    /// Its parameters, a struct of their own for each function.
    pub parameters: *const c_void,
    /// On exit, where its result is.
    pub result: *const c_void,
}

/// Data of context callbacks.
#[repr(C)]
pub struct ContextData {
    /// The context.
    pub context: DriverHandle,
    /// Its device.
    pub device: c_int,
}

/// Data of module callbacks.
#[repr(C)]
pub struct SanitizerModuleData {
    /// The context.
    pub context: DriverHandle,
    /// The module.
    pub module: DriverHandle,
    /// Bytes of the cubin.
    pub cubin_bytes: usize,
    /// The cubin.
    pub cubin: *const u8,
}

/// Data of memory callbacks.
#[repr(C)]
pub struct MemoryData {
    /// First address.
    pub address: u64,
    /// Bytes.
    pub size_bytes: u64,
    /// The context.
    pub context: DriverHandle,
    /// Its device.
    pub device: c_int,
    /// The stream of an asynchronous allocation.
    pub stream: DriverHandle,
    /// The API's handle of that stream.
    pub stream_handle: DriverHandle,
    /// The pool of an asynchronous allocation.
    pub pool: DriverHandle,
    /// SANITIZER_MEMORY_FLAG_*.
    pub flags: u32,
}

/// Data of launch callbacks.
#[repr(C)]
pub struct LaunchData {
    /// The context.
    pub context: DriverHandle,
    /// The stream.
    pub stream: DriverHandle,
    /// The API's handle of that stream.
    pub stream_handle: DriverHandle,
    /// The kernel's module.
    pub module: DriverHandle,
    /// The kernel.
    pub function: DriverHandle,
    /// Its mangled name.
    pub name: *const c_char,
    /// Blocks in x, y, z.
    pub grid: [u32; 3],
    /// Threads of a block in x, y, z.
    pub block: [u32; 3],
    /// Blocks of a cluster in x, y, z; 0 without clusters.
    pub cluster: [u32; 3],
    /// The driver's number of the launch.
    pub grid_id: u64,
    /// The API's handle of the launch.
    pub launch: DriverHandle,
    /// The device.
    pub device: c_int,
    /// For a graph's node, the context of the graph launch's stream.
    pub api_context: DriverHandle,
    /// For a graph's node, the graph launch's stream.
    pub api_stream: DriverHandle,
    /// The API's handle of that stream.
    pub api_stream_handle: DriverHandle,
}

/// Data of callbacks on executable graphs.
#[repr(C)]
pub struct GraphExecData {
    /// The graph that it was instantiated from.
    pub graph: DriverHandle,
    /// The executable graph.
    pub exec: DriverHandle,
}

/// Data of callbacks on a graph launch.
#[repr(C)]
pub struct GraphLaunchData {
    /// The context.
    pub context: DriverHandle,
    /// The stream.
    pub stream: DriverHandle,
    /// The API's handle of that stream.
    pub stream_handle: DriverHandle,
    /// The executable graph.
    pub exec: DriverHandle,
    /// True if the graph is uploaded only.
    pub is_upload: u32,
}

/// Data of callbacks on a node of a graph launch.
#[repr(C)]
pub struct GraphNodeData {
    /// The executable graph.
    pub exec: DriverHandle,
    /// Counts the launches of it.
    pub launch_id: u32,
    /// The node, in the graph that was instantiated.
    pub node: DriverHandle,
    /// Its type, as [`crate::cuda::node_type`].
    pub node_type: c_int,
    /// The launched work, by its type. What follows lies elsewhere from version to version and is not read.
    pub what: GraphNodeWork,
}

/// Work of a node.
#[repr(C)]
pub union GraphNodeWork {
    /// A kernel.
    pub launch: std::mem::ManuallyDrop<LaunchData>,
    /// A copy.
    pub copy: std::mem::ManuallyDrop<MemcpyData>,
    /// A memset.
    pub fill: std::mem::ManuallyDrop<MemsetData>,
    /// An allocation.
    pub allocation: std::mem::ManuallyDrop<MemoryData>,
}

/// Data of copy callbacks.
#[repr(C)]
pub struct MemcpyData {
    /// Source and destination context.
    pub contexts: [DriverHandle; 2],
    /// The source's stream and its handle, the destination's stream and its handle.
    pub streams: [DriverHandle; 4],
    /// Source.
    pub source: u64,
    /// Destination.
    pub destination: u64,
    /// Bytes, all rows and layers.
    pub size_bytes: u64,
    /// Width, height, depth of a copy in more dimensions.
    pub extent: [u64; 3],
    /// Pitch of source and destination.
    pub pitches: [u64; 2],
    /// True if it is asynchronous.
    pub is_async: u32,
    /// 2 host to device, 3 device to host, 4 device to device.
    pub direction: c_int,
}

/// Data of memset callbacks.
#[repr(C)]
pub struct MemsetData {
    /// The context.
    pub context: DriverHandle,
    /// The stream.
    pub stream: DriverHandle,
    /// The API's handle of that stream.
    pub stream_handle: DriverHandle,
    /// First address.
    pub address: u64,
    /// Elements in a row, unless `height` is 0 or 1: bytes or elements by `element_bytes`.
    pub width: u64,
    /// Rows.
    pub height: u64,
    /// Bytes from row to row.
    pub pitch: u64,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// The element.
    pub value: u32,
}
