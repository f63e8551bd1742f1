//! Probe of one of NVIDIA's libraries: it can be loaded, its version, the functions that recording needs.
//!
//! A library that does not fit the machine may crash on loading, so callers look from a process of its own.

use std::ffi::{CStr, c_char, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

use libloading::os::unix::{Library, Symbol};

use crate::cupti::Cupti;
use crate::load::{self, LoadError};
use crate::nvrtc::Nvrtc;
use crate::profiler::{self, Profiler};
use crate::sanitizer::Sanitizer;
use crate::{locate, nvrtc};

/// The reason why a library is of no use.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The system's loader refused.
    #[error("{cause}")]
    Load {
        /// The loader's error.
        cause: String,
        /// The library.
        path: PathBuf,
    },
    /// The library lacks a function that recording calls.
    #[error("it has no function {function}")]
    Function {
        /// The function's name.
        function: &'static str,
    },
    /// The library cannot be used as recording uses it.
    #[error(transparent)]
    Unfit(#[from] LoadError),
    /// A call failed.
    #[error("{function} returned {code}{}", explained(*.code))]
    Call {
        /// The function's name.
        function: &'static str,
        /// Its return code.
        code: c_int,
    },
}

/// The driver's facts about itself and the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriverFacts {
    /// The CUDA version that it supports, such as 13000.
    pub cuda_version: i32,
    /// Its GPUs.
    pub devices: Vec<GpuDevice>,
}

/// One GPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuDevice {
    /// Its name.
    pub name: String,
    /// Compute capability: major, minor.
    pub compute: (i32, i32),
}

/// Checks that the library can be loaded. Returns the release of stallmap that it is of, null for other libraries.
#[expect(unsafe_code, reason = "a C function is called")]
pub fn load(path: &Path) -> Result<Option<String>, ProbeError> {
    let library = open(path)?;
    let version: Result<Symbol<unsafe extern "C" fn() -> *const c_char>, _> =
        // SAFETY: the recorder's library has the function with this signature, and no other library has the name.
        unsafe { library.get("stallmap_version") };
    let Ok(version) = version else { return Ok(None) };
    // SAFETY: it returns a constant text.
    let text = unsafe { CStr::from_ptr(version()) };
    Ok(Some(text.to_string_lossy().into_owned()))
}

/// Initializes the driver and lists its devices.
pub fn driver(path: &Path) -> Result<DriverFacts, ProbeError> {
    let library = open(path)?;
    call1(&library, "cuInit", 0u32)?;
    let (mut cuda_version, mut count): (c_int, c_int) = (0, 0);
    call1(&library, "cuDriverGetVersion", &raw mut cuda_version)?;
    call1(&library, "cuDeviceGetCount", &raw mut count)?;
    let devices = (0..count).map(|ordinal| device(&library, ordinal)).collect::<Result<_, _>>()?;
    Ok(DriverFacts { cuda_version, devices })
}

/// Checks that the sanitizer API has the functions that recording calls. It has no function for its version.
pub fn sanitizer(path: &Path) -> Result<(), ProbeError> {
    open(path)?;
    Ok(Sanitizer::load(&[path.to_owned()]).map(drop)?)
}

/// CUPTI's version, such as 130001.
#[expect(unsafe_code, reason = "a C function is called")]
pub fn cupti(path: &Path) -> Result<u32, ProbeError> {
    open(path)?;
    let (cupti, _) = Cupti::load(&[path.to_owned()])?;
    let mut version = 0u32;
    // SAFETY: `version` outlives the call.
    let code = unsafe { (cupti.version)(&raw mut version) };
    status("cuptiGetVersion", code)?;
    Ok(version)
}

/// Checks that CUPTI and the library next to it measure hardware counters, as those since CUDA 12.6 do.
pub fn profiler(path: &Path) -> Result<(), ProbeError> {
    open(path)?;
    let (_, found) = Profiler::load(&[path.to_owned()])?;
    Ok(profiler::open_host_library(&found)?)
}

/// The run-time compiler's version, major and minor, after it has compiled a function for tools.
#[expect(unsafe_code, reason = "a C function is called")]
pub fn nvrtc(path: &Path) -> Result<(i32, i32), ProbeError> {
    open(path)?;
    // It opens them by plain name, which the loader finds only where they are loaded already.
    load::open_first("libnvrtc-builtins.so", &locate::nvrtc_builtins(path)).ok();
    let (nvrtc, _) = Nvrtc::load(&[path.to_owned()])?;
    let (mut major, mut minor): (c_int, c_int) = (0, 0);
    // SAFETY: both numbers outlive the call.
    status("nvrtcVersion", unsafe { (nvrtc.version)(&raw mut major, &raw mut minor) })?;
    compile_for_tools(&nvrtc)?;
    Ok((major, minor))
}

/// A file is looked up as given. A plain name is left to the system's search.
#[expect(unsafe_code, reason = "libraries of NVIDIA are opened at run time")]
fn open(path: &Path) -> Result<Library, ProbeError> {
    // SAFETY: loading runs the library's initializers. Callers name libraries that are made to be loaded so.
    unsafe { Library::open(Some(path), libloading::os::unix::RTLD_NOW | libloading::os::unix::RTLD_LOCAL) }
        .map_err(|error| ProbeError::Load { cause: cause(&error, path), path: path.to_owned() })
}

/// The loader's message, which the error holds as its source, without the path that it begins with.
fn cause(error: &libloading::Error, path: &Path) -> String {
    let words = std::error::Error::source(error).unwrap_or(error).to_string();
    words.strip_prefix(&format!("{}: ", path.display())).map(str::to_owned).unwrap_or(words)
}

#[expect(unsafe_code, reason = "functions are looked up by name")]
fn symbol<T>(library: &Library, function: &'static str) -> Result<Symbol<T>, ProbeError> {
    // SAFETY: every caller names T as the headers of CUDA 12 and 13 declare the function.
    unsafe { library.get(function.as_bytes()) }.map_err(|_| ProbeError::Function { function })
}

/// Calls a function that takes one argument and returns a status.
#[expect(unsafe_code, reason = "C functions are called")]
fn call1<A>(library: &Library, function: &'static str, argument: A) -> Result<(), ProbeError> {
    let call = symbol::<unsafe extern "C" fn(A) -> c_int>(library, function)?;
    // SAFETY: the caller's argument is what the function is declared with, and pointers are to live values.
    status(function, unsafe { call(argument) })
}

/// Calls a function that takes three arguments and returns a status.
#[expect(unsafe_code, reason = "C functions are called")]
fn call3<A, B, C>(library: &Library, function: &'static str, arguments: (A, B, C)) -> Result<(), ProbeError> {
    let call = symbol::<unsafe extern "C" fn(A, B, C) -> c_int>(library, function)?;
    // SAFETY: as in `call1`.
    status(function, unsafe { call(arguments.0, arguments.1, arguments.2) })
}

fn status(function: &'static str, code: c_int) -> Result<(), ProbeError> {
    if code == 0 { Ok(()) } else { Err(ProbeError::Call { function, code }) }
}

fn device(library: &Library, ordinal: c_int) -> Result<GpuDevice, ProbeError> {
    // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR.
    const COMPUTE: [c_int; 2] = [75, 76];
    let mut name = [0 as c_char; 256];
    call3(library, "cuDeviceGetName", (name.as_mut_ptr(), 256 as c_int, ordinal))?;
    let mut compute: [c_int; 2] = [0; 2];
    for (value, attribute) in compute.iter_mut().zip(COMPUTE) {
        call3(library, "cuDeviceGetAttribute", (ptr::from_mut(value), attribute, ordinal))?;
    }
    let bytes = name.map(c_char::cast_unsigned);
    let name = CStr::from_bytes_until_nul(&bytes).map(CStr::to_string_lossy).unwrap_or_default();
    Ok(GpuDevice { name: name.into_owned(), compute: (compute[0], compute[1]) })
}

/// Compiles a small function as the device code of recording is compiled.
#[expect(unsafe_code, reason = "C functions are called")]
fn compile_for_tools(nvrtc: &Nvrtc) -> Result<(), ProbeError> {
    const SOURCE: &CStr =
        c"extern \"C\" __device__ __noinline__ __attribute__((used)) int probe(void* data) { \
                            return data != 0; }";
    let options =
        [c"--gpu-architecture=sm_90", c"--ptxas-options=--compile-as-tools-patch"].map(CStr::as_ptr);
    let mut program: nvrtc::NvrtcProgram = ptr::null_mut();
    // SAFETY: the source is a C string, there are no headers, and `program` outlives the call.
    let created = unsafe {
        (nvrtc.create)(&raw mut program, SOURCE.as_ptr(), c"probe.cu".as_ptr(), 0, ptr::null(), ptr::null())
    };
    status("nvrtcCreateProgram", created)?;
    // SAFETY: the program was created, and there are two options.
    status("nvrtcCompileProgram", unsafe { (nvrtc.compile)(program, 2, options.as_ptr()) })
}

/// The meaning of the driver's most frequent codes.
fn explained(code: c_int) -> &'static str {
    match code {
        3 => " (not initialized)",
        34 => " (only a stub of the driver is here)",
        35 => " (the driver is older than the library)",
        100 => " (no device)",
        101 => " (invalid device)",
        802 | 803 => " (system not ready: fabric manager or mismatched driver)",
        804 => " (forward compatibility is not possible on this device)",
        999 => " (unknown error)",
        _ => "",
    }
}
