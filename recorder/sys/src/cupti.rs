//! CUPTI: callbacks on driver calls and modules, and PC sampling.
//!
//! Parameter structs are cudarc's. Results and ids are plain integers here: cudarc's enums do not hold values that a
//! newer CUPTI may return.
#![expect(unsafe_code, reason = "tables of C functions")]

use std::ffi::{c_char, c_int, c_void};

pub use cudarc::cupti::sys as types;

pub mod activity;

use crate::cuda::DriverHandle;

/// CUptiResult: 0 for success.
pub type CuptiCode = c_int;
/// (userdata, domain, callback id, data)
pub type CuptiCallback = extern "C" fn(*mut c_void, c_int, u32, *const c_void);

crate::functions! {
    /// Functions of `libcupti.so`.
    Cupti from "CUPTI library (libcupti.so)" {
        /// (version)
        version: cuptiGetVersion(*mut u32) -> CuptiCode;
        /// (subscriber, callback, userdata)
        subscribe: cuptiSubscribe(*mut DriverHandle, CuptiCallback, *mut c_void) -> CuptiCode;
        /// (subscriber)
        unsubscribe: cuptiUnsubscribe(DriverHandle) -> CuptiCode;
        /// (enable, subscriber, domain, callback id)
        enable_callback: cuptiEnableCallback(u32, DriverHandle, c_int, u32) -> CuptiCode;
        /// (context, device)
        device_of: cuptiGetDeviceId(DriverHandle, *mut u32) -> CuptiCode;
        /// (parameters)
        cubin_crc: cuptiGetCubinCrc(*mut types::CUpti_GetCubinCrcParams) -> CuptiCode;
        /// (parameters)
        stall_reason_count:
            cuptiPCSamplingGetNumStallReasons(*mut types::CUpti_PCSamplingGetNumStallReasonsParams) -> CuptiCode;
        /// (parameters)
        stall_reasons:
            cuptiPCSamplingGetStallReasons(*mut types::CUpti_PCSamplingGetStallReasonsParams) -> CuptiCode;
        /// (parameters)
        configure:
            cuptiPCSamplingSetConfigurationAttribute(*mut types::CUpti_PCSamplingConfigurationInfoParams) -> CuptiCode;
        /// (parameters)
        enable: cuptiPCSamplingEnable(*mut types::CUpti_PCSamplingEnableParams) -> CuptiCode;
        /// (parameters)
        disable: cuptiPCSamplingDisable(*mut types::CUpti_PCSamplingDisableParams) -> CuptiCode;
        /// (parameters)
        get_data: cuptiPCSamplingGetData(*mut types::CUpti_PCSamplingGetDataParams) -> CuptiCode;
        /// (parameters): only with start/stop control
        start: cuptiPCSamplingStart(*mut types::CUpti_PCSamplingStartParams) -> CuptiCode;
        /// (parameters): only with start/stop control
        stop: cuptiPCSamplingStop(*mut types::CUpti_PCSamplingStopParams) -> CuptiCode;
    }
}

/// CUPTI_ERROR_OUT_OF_MEMORY: for samples, the hardware buffer is full.
pub const OUT_OF_MEMORY: CuptiCode = 8;

/// CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED: another profiler has subscribed.
pub const MULTIPLE_SUBSCRIBERS: CuptiCode = 39;

/// Callback domains.
pub mod domain {
    /// Calls of the driver API.
    pub const DRIVER: i32 = 1;
    /// Contexts and modules.
    pub const RESOURCE: i32 = 3;
}

/// Callback ids of the resource domain.
pub mod resource {
    /// A context was created.
    pub const CONTEXT_CREATED: u32 = 1;
    /// A context is about to be destroyed.
    pub const CONTEXT_DESTROY_STARTING: u32 = 2;
    /// [`super::CuptiModuleData`] is the descriptor.
    pub const MODULE_LOADED: u32 = 6;
    /// [`super::CuptiModuleData`] is the descriptor.
    pub const MODULE_UNLOAD_STARTING: u32 = 7;
    /// A node of a graph was copied to another graph, or to an executable one. [`super::GraphData`] is the descriptor.
    pub const GRAPH_NODE_CLONED: u32 = 20;
}

/// Data of API callbacks.
#[repr(C)]
pub struct CuptiApiData {
    /// 0 on entry, 1 on exit.
    pub site: c_int,
    /// The function's name.
    pub name: *const c_char,
    /// Its parameters.
    pub parameters: *const c_void,
    /// The result, a CUresult for driver calls. Valid on exit only.
    pub result: *const c_int,
    /// The kernel's mangled name, for launches.
    pub symbol: *const c_char,
    /// The context.
    pub context: DriverHandle,
    /// Its number.
    pub context_uid: u32,
    /// A value of the subscriber's that lasts from entry to exit.
    pub correlation_data: *mut u64,
    /// The call's number, which samples refer to.
    pub correlation_id: u32,
}

/// Data of resource callbacks.
#[repr(C)]
pub struct ResourceData {
    /// The context.
    pub context: DriverHandle,
    /// A stream, for streams.
    pub handle: DriverHandle,
    /// Data of the given type.
    pub descriptor: *const c_void,
}

/// Descriptor of module callbacks.
#[repr(C)]
pub struct CuptiModuleData {
    /// CUPTI's number of the module.
    pub module_id: u32,
    /// Bytes of the cubin.
    pub cubin_bytes: usize,
    /// The cubin.
    pub cubin: *const u8,
}

/// Descriptor of graph callbacks.
#[repr(C)]
pub struct GraphData {
    /// The graph.
    pub graph: DriverHandle,
    /// The graph that it was copied from.
    pub original_graph: DriverHandle,
    /// The node.
    pub node: DriverHandle,
    /// The node that it was copied from.
    pub original_node: DriverHandle,
}
