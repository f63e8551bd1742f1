//! The few functions of the CUDA driver that the recorder calls itself.
#![expect(unsafe_code, reason = "tables of C functions")]

use std::ffi::{c_char, c_int, c_uint, c_void};

/// A handle of the driver's: context, module, function, stream.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DriverHandle(pub *mut c_void);

impl DriverHandle {
    /// No handle: an output before it is filled.
    pub const NULL: Self = Self(std::ptr::null_mut());

    /// The handle as a map's key. Handles are reused once what they named is gone.
    pub fn key(self) -> usize {
        self.0.addr()
    }

    /// The handle of a key.
    pub fn of_key(key: usize) -> Self {
        Self(std::ptr::without_provenance_mut(key))
    }
}

/// cuFuncGetAttribute: static shared memory of a block, in bytes.
pub const ATTRIBUTE_SHARED_BYTES: c_int = 1;
/// cuFuncGetAttribute: local memory of a thread, in bytes.
pub const ATTRIBUTE_LOCAL_BYTES: c_int = 3;
/// cuFuncGetAttribute: registers of a thread.
pub const ATTRIBUTE_REGISTERS: c_int = 4;

/// cuFuncGetAttribute: most dynamic shared memory that a launch may ask for, in bytes.
pub const ATTRIBUTE_MAX_DYNAMIC_SHARED_BYTES: c_int = 8;
/// cuFuncGetAttribute: preferred shared memory carveout in percent, -1 for the driver's choice.
pub const ATTRIBUTE_SHARED_CARVEOUT: c_int = 9;

/// cuDeviceGetAttribute: SM clock in kHz.
pub const DEVICE_CLOCK_KHZ: c_int = 13;
/// cuDeviceGetAttribute: multiprocessors.
pub const DEVICE_MULTIPROCESSORS: c_int = 16;
/// cuDeviceGetAttribute: memory clock in kHz.
pub const DEVICE_MEMORY_CLOCK_KHZ: c_int = 36;
/// `CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH`.
pub const DEVICE_MEMORY_BUS_BITS: c_int = 37;
/// cuDeviceGetAttribute: bytes of L2 cache.
pub const DEVICE_L2_BYTES: c_int = 38;
/// cuDeviceGetAttribute: compute capability, major.
pub const DEVICE_COMPUTE_MAJOR: c_int = 75;
/// cuDeviceGetAttribute: compute capability, minor.
pub const DEVICE_COMPUTE_MINOR: c_int = 76;

/// `extra` of a launch: the next entry points to the parameter buffer.
pub const PARAM_BUFFER_POINTER: usize = 1;
/// `extra` of a launch: the next entry points to the buffer's size.
pub const PARAM_BUFFER_SIZE: usize = 2;

/// cuStreamCreate: the stream waits for no other one.
pub const STREAM_NON_BLOCKING: c_uint = 1;

crate::functions! {
    /// Functions of `libcuda.so.1`. All return a CUresult, 0 for success.
    Cuda from "CUDA driver library (libcuda.so.1)" {
        /// (version)
        driver_get_version: cuDriverGetVersion(*mut c_int) -> c_int;
        /// (name, bytes, device)
        device_get_name: cuDeviceGetName(*mut c_char, c_int, c_int) -> c_int;
        /// (16 bytes, device): a MIG instance has its own
        device_get_uuid: cuDeviceGetUuid_v2(*mut [u8; 16], c_int) -> c_int;
        /// (bytes, device)
        device_total_memory: cuDeviceTotalMem_v2(*mut usize, c_int) -> c_int;
        /// (value, attribute, device)
        device_get_attribute: cuDeviceGetAttribute(*mut c_int, c_int, c_int) -> c_int;
        /// (shape, array)
        array_shape: cuArray3DGetDescriptor_v2(*mut ArrayDescriptor, DriverHandle) -> c_int;
        /// (array, mipmapped array, level)
        array_of_level: cuMipmappedArrayGetLevel(*mut DriverHandle, DriverHandle, c_uint) -> c_int;
        /// (value, attribute, function)
        function_get_attribute: cuFuncGetAttribute(*mut c_int, c_int, DriverHandle) -> c_int;
        /// (function, index, offset, bytes): 1 past the last parameter
        function_get_parameter: cuFuncGetParamInfo(DriverHandle, usize, *mut usize, *mut usize) -> c_int;
        /// (kernel, index, offset, bytes): 1 past the last parameter
        kernel_get_parameter: cuKernelGetParamInfo(DriverHandle, usize, *mut usize, *mut usize) -> c_int;
        /// (module, function): 400 for a kernel's handle
        function_get_module: cuFuncGetModule(*mut DriverHandle, DriverHandle) -> c_int;
        /// (function of a kernel, kernel)
        kernel_get_function: cuKernelGetFunction(*mut DriverHandle, DriverHandle) -> c_int;
        /// (address, bytes, module, name) of a variable
        module_get_global: cuModuleGetGlobal_v2(*mut u64, *mut usize, DriverHandle, *const c_char) -> c_int;
        /// (device) of the current context
        context_get_device: cuCtxGetDevice(*mut c_int) -> c_int;
        /// (context): this thread's
        context_get_current: cuCtxGetCurrent(*mut DriverHandle) -> c_int;
        /// (context)
        context_push: cuCtxPushCurrent_v2(DriverHandle) -> c_int;
        /// (context that was current)
        context_pop: cuCtxPopCurrent_v2(*mut DriverHandle) -> c_int;
        /// (stream, flags)
        stream_create: cuStreamCreate(*mut DriverHandle, c_uint) -> c_int;
    }
}

crate::functions! {
    /// Functions of `libcuda.so.1` on streams and graphs, of CUDA 12.0 and later. All return a CUresult, 0 for success.
    Graphs from "CUDA driver library (libcuda.so.1)" {
        /// (stream, status: 1 while it captures, id, graph, dependencies, how many)
        capture_info: cuStreamGetCaptureInfo_v2(
            DriverHandle, *mut c_int, *mut u64, *mut DriverHandle, *mut *const DriverHandle, *mut usize
        ) -> c_int;
        /// (mode, exchanged with the thread's)
        exchange_capture_mode: cuThreadExchangeStreamCaptureMode(*mut c_int) -> c_int;
        /// (graph, nodes or null, how many)
        nodes: cuGraphGetNodes(DriverHandle, *mut DriverHandle, *mut usize) -> c_int;
        /// (node, type)
        node_type: cuGraphNodeGetType(DriverHandle, *mut c_int) -> c_int;
        /// (node, parameters)
        kernel_node: cuGraphKernelNodeGetParams_v2(DriverHandle, *mut KernelNode) -> c_int;
        /// (node, graph)
        child_graph: cuGraphChildGraphNodeGetGraph(DriverHandle, *mut DriverHandle) -> c_int;
        /// (node in the clone, original node, cloned graph)
        find_in_clone: cuGraphNodeFindInClone(*mut DriverHandle, DriverHandle, DriverHandle) -> c_int;
        /// (name, function)
        function_name: cuFuncGetName(*mut *const c_char, DriverHandle) -> c_int;
        /// (name, kernel)
        kernel_name: cuKernelGetName(*mut *const c_char, DriverHandle) -> c_int;
    }
}

crate::functions! {
    /// Functions of `libcuda.so.1` that run the nodes of a graph one by one, of CUDA 12.3 and later. All return a CUresult,
    /// 0 for success.
    Steps from "CUDA driver library (libcuda.so.1)" {
        /// (graph, first nodes, second nodes, 8 bytes of data each, how many): an edge joins two nodes
        edges: cuGraphGetEdges_v2(DriverHandle, *mut DriverHandle, *mut DriverHandle, *mut u64, *mut usize) -> c_int;
        /// (node, id, value)
        attribute: cuGraphKernelNodeGetAttribute(DriverHandle, c_int, *mut [u8; 64]) -> c_int;
        /// (node, copy)
        copy_node: cuGraphMemcpyNodeGetParams(DriverHandle, *mut CopyNode) -> c_int;
        /// (node, fill)
        fill_node: cuGraphMemsetNodeGetParams(DriverHandle, *mut FillNode) -> c_int;
        /// (configuration, function, pointers to parameters, extra)
        launch: cuLaunchKernelEx(
            *const LaunchConfig, DriverHandle, *const *const c_void, *const *const c_void
        ) -> c_int;
        /// (copy, stream)
        copy: cuMemcpy3DAsync_v2(*const CopyNode, DriverHandle) -> c_int;
        /// (address, bytes from row to row, value, elements of a row, rows, stream)
        fill_8: cuMemsetD2D8Async(u64, usize, u8, usize, usize, DriverHandle) -> c_int;
        /// As `fill_8`, for elements of two bytes.
        fill_16: cuMemsetD2D16Async(u64, usize, u16, usize, usize, DriverHandle) -> c_int;
        /// As `fill_8`, for elements of four bytes.
        fill_32: cuMemsetD2D32Async(u64, usize, u32, usize, usize, DriverHandle) -> c_int;
        /// Waits for all work of this thread's context.
        synchronize: cuCtxSynchronize() -> c_int;
    }
}

/// CUDA_MEMCPY3D, with the fields that are looked at.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CopyNode {
    /// Source, and x, y, z and level of the destination.
    pub source: [u64; 15],
    /// CUmemorytype of the destination.
    pub destination_type: c_uint,
    /// Nothing.
    pub padding: c_uint,
    /// Destination and size.
    pub destination: [u64; 9],
}

/// The memory type of arrays, CU_MEMORYTYPE_ARRAY.
pub const MEMORY_ARRAY: c_uint = 3;

/// CUDA_MEMSET_NODE_PARAMS.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FillNode {
    /// First address.
    pub address: u64,
    /// Bytes from row to row.
    pub pitch_bytes: usize,
    /// The value of each element.
    pub value: c_uint,
    /// 1, 2 or 4.
    pub element_bytes: c_uint,
    /// Elements of a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
}

/// Types of graph nodes, CUgraphNodeType.
pub mod node_type {
    /// [`super::KernelNode`].
    pub const KERNEL: i32 = 0;
    /// A copy.
    pub const MEMCPY: i32 = 1;
    /// A memset.
    pub const MEMSET: i32 = 2;
    /// A graph in the graph.
    pub const GRAPH: i32 = 4;
    /// An allocation.
    pub const ALLOCATION: i32 = 10;
    /// Graphs that a handle's value chooses or repeats.
    pub const CONDITIONAL: i32 = 13;
}

/// CU_STREAM_CAPTURE_MODE_RELAXED: no capture restricts the thread's calls, and they end none.
pub const CAPTURE_MODE_RELAXED: c_int = 2;

/// CUDA_KERNEL_NODE_PARAMS of CUDA 12.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct KernelNode {
    /// The function, or null.
    pub function: DriverHandle,
    /// Grid x, y, z, block x, y, z.
    pub shape: [c_uint; 6],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// Pointers to the parameters, or null.
    pub parameters: *const *const c_void,
    /// Alternating keys and pointers, or null.
    pub extra: *const *const c_void,
    /// The kernel, where there is no function.
    pub kernel: DriverHandle,
    /// The context, or null.
    pub context: DriverHandle,
}

/// Parameters of cuLaunchKernel and cuLaunchCooperativeKernel, which has no `extra`.
#[repr(C)]
pub struct LaunchKernel {
    /// The function or kernel.
    pub function: DriverHandle,
    /// Grid x, y, z, block x, y, z.
    pub shape: [c_uint; 6],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: DriverHandle,
    /// Pointers to the parameters, or null.
    pub parameters: *const *const c_void,
    /// Alternating keys and pointers, or null. Not there for cooperative launches.
    pub extra: *const *const c_void,
}

/// Bytes of a CUlaunchAttribute: its id as i32, four bytes of padding, 64 bytes of value.
pub const LAUNCH_ATTRIBUTE_BYTES: usize = 72;
/// The id of a launch attribute whose value's first word says whether the launch is cooperative.
pub const LAUNCH_ATTRIBUTE_COOPERATIVE: c_int = 2;

/// CUlaunchConfig.
#[repr(C)]
pub struct LaunchConfig {
    /// Grid x, y, z, block x, y, z.
    pub shape: [c_uint; 6],
    /// Dynamic shared memory.
    pub shared_bytes: c_uint,
    /// The stream.
    pub stream: DriverHandle,
    /// Attributes, or null.
    pub attributes: *const [u8; LAUNCH_ATTRIBUTE_BYTES],
    /// Number of attributes.
    pub attribute_count: c_uint,
}

/// Parameters of cuLaunchKernelEx.
#[repr(C)]
pub struct LaunchKernelEx {
    /// Shape and attributes.
    pub config: *const LaunchConfig,
    /// The function or kernel.
    pub function: DriverHandle,
    /// Pointers to the parameters, or null.
    pub parameters: *const *const c_void,
    /// Alternating keys and pointers, or null.
    pub extra: *const *const c_void,
}

/// Callback numbers of the launch functions, the same in the sanitizer API and in CUPTI.
pub mod launch_id {
    /// cuLaunchKernel and its per-thread-stream twin.
    pub const KERNEL: [u32; 2] = [307, 442];
    /// cuLaunchCooperativeKernel and its twin.
    pub const COOPERATIVE: [u32; 2] = [477, 478];
    /// cuLaunchKernelEx and its twin.
    pub const KERNEL_EX: [u32; 2] = [652, 653];
    /// cuGraphLaunch and its twin.
    pub const GRAPH: [u32; 2] = [514, 515];
    /// The twins for per-thread default streams.
    pub const PER_THREAD: [u32; 4] = [442, 478, 653, 515];
}

/// Callback numbers of the functions that load a module: (module, ...).
pub const MODULE_LOAD_IDS: [u32; 4] = [18, 19, 20, 21];

/// Callback numbers of the functions that wait for all work of a context or a stream.
pub const SYNCHRONIZE_IDS: [u32; 3] = [17, 126, 440];

/// Callback numbers of the functions that map memory: cuMemMap and cuMemSetAccess.
pub const MAP_IDS: [u32; 2] = [551, 553];

/// Callback numbers of cuTexObjectCreate and cuSurfObjectCreate: (handle, CUDA_RESOURCE_DESC, ...).
pub const TEXTURE_IDS: [u32; 2] = [339, 343];

/// CUDA_ARRAY3D_DESCRIPTOR.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrayDescriptor {
    /// Elements in x, in y and in z or layers: 0 for dimensions that the array lacks.
    pub extent: [usize; 3],
    /// CUarray_format.
    pub format: c_uint,
    /// Channels of an element.
    pub channel_count: c_uint,
    /// Flags, and what rounds them up.
    pub flags: [c_uint; 2],
}

/// Callback numbers of the functions that make and destroy CUDA arrays.
pub mod array_id {
    /// cuMipmappedArrayCreate (array, shape, levels).
    pub const MAKE_LEVELS: u32 = 347;
    /// It, cuArrayCreate and cuArray3DCreate (array, shape).
    pub const MAKE: [u32; 3] = [272, 274, MAKE_LEVELS];
    /// cuArrayDestroy and cuMipmappedArrayDestroy (array).
    pub const DESTROY: [u32; 2] = [89, 349];
}

/// Callback numbers of the functions that may copy from a CUDA array, each with its form for per-thread default streams.
pub mod array_copy_id {
    /// cuMemcpyAtoD (destination, array, offset, bytes).
    pub const LINEAR: [u32; 2] = [284, 401];
    /// cuMemcpy2D, cuMemcpy2DUnaligned and cuMemcpy2DAsync (CUDA_MEMCPY2D, the last one's stream).
    pub const ROWS: [u32; 6] = [287, 405, 288, 406, ASYNC[0], ASYNC[1]];
    /// cuMemcpy3D and cuMemcpy3DAsync (CUDA_MEMCPY3D, the last one's stream).
    pub const LAYERS: [u32; 4] = [290, 407, ASYNC[2], ASYNC[3]];
    /// Functions with a stream.
    pub const ASYNC: [u32; 4] = [289, 424, 291, 425];
    /// Every one.
    pub const ALL: [&[u32]; 3] = [&LINEAR, &ROWS, &LAYERS];
}

/// Callback numbers of the functions that make and change graphs, the same in the sanitizer API and in CUPTI.
pub mod graph_id {
    /// (executable graph, graph, ...): cuGraphInstantiate in all its forms.
    pub const INSTANTIATE: [u32; 5] = [513, 578, 643, 656, 657];
    /// cuGraphExecUpdate (executable graph, graph, ...).
    pub const UPDATE: [u32; 2] = [561, 696];
    /// cuGraphExecKernelNodeSetParams (executable graph, node, parameters): the older form has a shorter struct.
    pub const SET_KERNEL: [u32; 2] = [538, 692];
    /// cuGraphExecNodeSetParams (executable graph, node, parameters of any type).
    pub const SET_NODE: u32 = 714;
    /// cuGraphExecChildGraphNodeSetParams (executable graph, node, graph).
    pub const SET_CHILD: u32 = 586;
    /// cuGraphExecMemcpyNodeSetParams and cuGraphExecMemsetNodeSetParams (executable graph, node, ...).
    pub const SET_MEMORY: [u32; 2] = [562, 563];
    /// cuGraphNodeSetEnabled (executable graph, node, enabled).
    pub const SET_ENABLED: u32 = 650;
    /// cuGraphExecDestroy (executable graph).
    pub const DESTROY: u32 = 516;
    /// cuGraphAddKernelNode (node, graph, ...).
    pub const ADD_KERNEL: [u32; 2] = [502, 689];
    /// cuGraphAddNode (node, graph, dependencies, how many, parameters).
    pub const ADD_NODE: u32 = 712;
    /// cuGraphAddNode_v2 (node, graph, dependencies, their data, how many, parameters).
    pub const ADD_NODE_V2: u32 = 723;
    /// cuGraphAddChildGraphNode (node, graph, dependencies, how many, child).
    pub const ADD_CHILD: u32 = 525;
    /// cuGraphClone (clone, original).
    pub const CLONE: u32 = 523;
}
