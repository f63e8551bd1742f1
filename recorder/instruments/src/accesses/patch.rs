//! The device code that is called before memory instructions: compiled at run time for the GPU at hand.
//!
//! The source is embedded in this library. NVRTC, which PyTorch and every toolkit bring, compiles it in about 0.1 s.
//! nvcc does it if NVRTC is missing. The driver's own compiler cannot: patches must be assembled with
//! `--compile-as-tools-patch`, and a PTX image is accepted and then never matches.
#![expect(unsafe_code, reason = "calls of NVRTC")]

use std::ffi::{CString, c_char, c_int};
use std::path::Path;
use std::process::Command;
use std::ptr::null;

use crate::accesses::timing::events::{MARKED_WARPS, OTHER_RINGS, READ_RINGS, RING_BYTES};
use stallmap_sys::locate;
use stallmap_sys::nvrtc::Nvrtc;

/// Device code of patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatchSource {
    /// Before memory instructions.
    Accesses,
    /// At begins and ends of blocks: no patches, but code for copies of kernels.
    Blocks {
        /// Address of the first block's record.
        records: u64,
        /// Address of the first warp's ring of events, where warps note moments.
        events: Option<u64>,
    },
}

impl PatchSource {
    fn text(self) -> &'static str {
        match self {
            Self::Accesses => include_str!("../../device/access.cu"),
            Self::Blocks { .. } => include_str!("../../device/block.cu"),
        }
    }

    /// Options of NVRTC.
    fn nvrtc_options(self) -> Vec<String> {
        match self {
            Self::Accesses => vec![
                "--ptxas-options=--compile-as-tools-patch".to_owned(),
                "-DSTALLMAP_KEEP=__attribute__((used))".to_owned(),
            ],
            Self::Blocks { records, events } => block_options("--maxrregcount", records, events),
        }
    }

    /// Options of nvcc.
    fn nvcc_options(self) -> Vec<String> {
        match self {
            Self::Accesses => {
                ["--keep-device-functions", "-DSTALLMAP_KEEP=", "-Xptxas", "--compile-as-tools-patch"]
                    .map(str::to_owned)
                    .into()
            }
            Self::Blocks { records, events } => block_options("-maxrregcount", records, events),
        }
    }
}

/// Limit of registers that code for blocks uses.
const REGISTERS: u32 = 24;

/// Options for code of blocks. `limit` is the compiler's option for a limit of registers.
fn block_options(limit: &str, records: u64, events: Option<u64>) -> Vec<String> {
    let mut options = vec![format!("{limit}={REGISTERS}"), format!("-DRECORDS={records}ull")];
    let sizes = [
        ("RING_BYTES", RING_BYTES),
        ("MARKED_WARPS", MARKED_WARPS),
        ("READ_RINGS", READ_RINGS),
        ("OTHER_RINGS", OTHER_RINGS),
    ];
    if let Some(events) = events {
        options.push(format!("-DEVENTS={events}ull"));
        options.extend(sizes.map(|(name, size)| format!("-D{name}={size}u")));
    }
    options
}

/// The compiled patches for compute capability `major.minor`. The error lists the attempts.
pub fn compile(source: PatchSource, major: i32, minor: i32) -> Result<Vec<u8>, String> {
    let architecture = format!("sm_{major}{minor}");
    let by_nvrtc = match with_nvrtc(source, &architecture) {
        Ok(cubin) => return Ok(cubin),
        Err(error) => error,
    };
    with_nvcc(source, &architecture)
        .map_err(|by_nvcc| format!("the patches cannot be compiled: {by_nvrtc}; {by_nvcc}"))
}

fn with_nvrtc(source: PatchSource, architecture: &str) -> Result<Vec<u8>, String> {
    let candidates = locate::nvrtc();
    let (nvrtc, path) = Nvrtc::load(&candidates).map_err(|error| error.to_string())?;
    // Where this fails, NVRTC's own search may still succeed, and its error is the better one.
    stallmap_sys::load::open_first("libnvrtc-builtins.so", &locate::nvrtc_builtins(&path)).ok();
    let mut options = vec![format!("--gpu-architecture={architecture}")];
    options.extend(source.nvrtc_options());
    compile_with(&nvrtc, source, &options).map_err(|error| format!("{} failed: {error}", path.display()))
}

fn compile_with(nvrtc: &Nvrtc, source: PatchSource, options: &[String]) -> Result<Vec<u8>, String> {
    let source = CString::new(source.text()).map_err(|error| error.to_string())?;
    let options: Vec<CString> =
        options.iter().filter_map(|option| CString::new(option.as_str()).ok()).collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    let mut program = std::ptr::null_mut();
    // SAFETY: source and name are C strings that outlive the call. There are no headers.
    let created =
        unsafe { (nvrtc.create)(&raw mut program, source.as_ptr(), c"patch.cu".as_ptr(), 0, null(), null()) };
    check(created)?;
    let count = c_int::try_from(pointers.len()).unwrap_or(0);
    // SAFETY: `pointers` holds `count` C strings that outlive the call.
    let compiled = unsafe { (nvrtc.compile)(program, count, pointers.as_ptr()) };
    let output = if compiled == 0 {
        read(program, nvrtc.cubin_bytes, nvrtc.cubin)
    } else {
        let log = read(program, nvrtc.log_bytes, nvrtc.log).unwrap_or_default();
        Err(format!("error {compiled}: {}", String::from_utf8_lossy(&log).trim_end_matches('\0').trim()))
    };
    // SAFETY: the program was created above and is not used again.
    unsafe { (nvrtc.destroy)(&raw mut program) };
    output
}

type SizeGlobals = unsafe extern "C" fn(stallmap_sys::nvrtc::NvrtcProgram, *mut usize) -> c_int;
type FillGlobals = unsafe extern "C" fn(stallmap_sys::nvrtc::NvrtcProgram, *mut c_char) -> c_int;

fn read(
    program: stallmap_sys::nvrtc::NvrtcProgram,
    size: SizeGlobals,
    fill: FillGlobals,
) -> Result<Vec<u8>, String> {
    let mut length = 0;
    // SAFETY: `length` outlives the call.
    check(unsafe { size(program, &raw mut length) })?;
    let mut bytes = vec![0_u8; length];
    // SAFETY: NVRTC writes exactly the bytes that it announced.
    check(unsafe { fill(program, bytes.as_mut_ptr().cast()) })?;
    Ok(bytes)
}

fn check(code: c_int) -> Result<(), String> {
    if code == 0 { Ok(()) } else { Err(format!("error {code}")) }
}

fn with_nvcc(source: PatchSource, architecture: &str) -> Result<Vec<u8>, String> {
    let nvcc = locate::nvcc().into_iter().next().ok_or("no nvcc was found")?;
    let folder = std::env::temp_dir().join(format!("stallmap-patch-{}", std::process::id()));
    let built = build(&nvcc, &folder, source, architecture);
    // What is left behind is a temporary folder's worth of text.
    std::fs::remove_dir_all(&folder).ok();
    built.map_err(|error| format!("{} failed: {error}", nvcc.display()))
}

fn build(nvcc: &Path, folder: &Path, source: PatchSource, architecture: &str) -> Result<Vec<u8>, String> {
    std::fs::create_dir_all(folder).map_err(|error| error.to_string())?;
    std::fs::write(folder.join("patch.cu"), source.text()).map_err(|error| error.to_string())?;
    let mut command = Command::new(nvcc);
    // The compiler must not be recorded itself.
    command.env_remove("CUDA_INJECTION64_PATH").env_remove(stallmap_config::VARIABLE).current_dir(folder);
    command.args(["-cubin", "-arch", architecture, "-o", "patch.cubin", "patch.cu"]);
    command.args(source.nvcc_options());
    let output = command.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    std::fs::read(folder.join("patch.cubin")).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs a compiler, not a GPU. Without one, the error must name the missing file.
    #[test]
    fn patches_compile_or_say_what_is_missing() {
        let accesses = [
            "stallmap_global",
            "stallmap_shared",
            "stallmap_local",
            "stallmap_async",
            "stallmap_async_shared",
        ];
        let blocks = ["stallmap_block_enter", "stallmap_warp_enter", "stallmap_block_exit"];
        let timed = PatchSource::Blocks { records: 0x7f00_1234_5600, events: Some(0x7f01_0000_0000) };
        for (source, expected) in [(PatchSource::Accesses, &accesses[..]), (timed, &blocks)] {
            match compile(source, 9, 0) {
                Ok(cubin) => {
                    let elf = goblin::elf::Elf::parse(&cubin).unwrap();
                    let names: Vec<&str> =
                        elf.syms.iter().filter_map(|s| elf.strtab.get_at(s.st_name)).collect();
                    for name in expected {
                        assert!(names.contains(name), "{name} is not in {names:?}");
                    }
                }
                Err(error) => assert!(error.contains("nvcc") && error.contains("libnvrtc"), "{error}"),
            }
        }
    }
}
