//! The symbols that the driver and `stallmap-record` look for.
#![expect(unsafe_code, reason = "an exported symbol needs no_mangle")]

use std::ffi::{c_char, c_int};

use stallmap_instruments as instruments;
use stallmap_session::guard::{guard, guard_always};
use stallmap_session::{frames, nvtx, session};

use crate::memory;

/// Called by the driver at `cuInit`, before the first context. 1 means success.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guard((), || {
        if session::start() {
            memory::set_aside();
            frames::learn_at_driver();
            instruments::attach();
        }
    });
    1
}

/// Called by each copy of NVTX in the process, at its first call. 1 means that it is attached.
///
/// # Safety
/// `tables`, where not null, gives NVTX's tables.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn InitializeInjectionNvtx2(tables: Option<nvtx::ExportTables>) -> c_int {
    // SAFETY: the caller's promise is the same.
    guard(0, || c_int::from(unsafe { nvtx::attach(tables) }))
}

/// Run when the process has run its handlers and destructors: the program's statics may have launched kernels after the
/// session ended.
#[used]
#[unsafe(link_section = ".fini_array")]
static AT_UNLOAD: extern "C" fn() = {
    extern "C" fn at_unload() {
        guard_always(session::finish);
    }
    at_unload
};

/// The release of this library, as constant text. `stallmap-record doctor` asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
