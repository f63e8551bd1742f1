//! NVRTC, the run-time compiler.
#![expect(unsafe_code, reason = "tables of C functions")]

use std::ffi::{c_char, c_int, c_void};

/// A program of NVRTC's.
pub type NvrtcProgram = *mut c_void;

crate::functions! {
    /// Functions of `libnvrtc.so`. All return an nvrtcResult, 0 for success.
    Nvrtc from "run-time compiler (libnvrtc.so)" {
        /// (major, minor)
        version: nvrtcVersion(*mut c_int, *mut c_int) -> c_int;
        /// (program, source, name, header count, headers, header names)
        create: nvrtcCreateProgram(
            *mut NvrtcProgram, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char
        ) -> c_int;
        /// (program, option count, options)
        compile: nvrtcCompileProgram(NvrtcProgram, c_int, *const *const c_char) -> c_int;
        /// (program, bytes)
        cubin_bytes: nvrtcGetCUBINSize(NvrtcProgram, *mut usize) -> c_int;
        /// (program, cubin)
        cubin: nvrtcGetCUBIN(NvrtcProgram, *mut c_char) -> c_int;
        /// (program, bytes, the ending zero too)
        log_bytes: nvrtcGetProgramLogSize(NvrtcProgram, *mut usize) -> c_int;
        /// (program, log)
        log: nvrtcGetProgramLog(NvrtcProgram, *mut c_char) -> c_int;
        /// (program)
        destroy: nvrtcDestroyProgram(*mut NvrtcProgram) -> c_int;
    }
}
