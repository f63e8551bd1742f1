//! The symbols that the driver and `stallmap-record` look for.
#![expect(unsafe_code, reason = "an exported symbol needs no_mangle")]

use std::ffi::{c_char, c_int};

use stallmap_instruments as instruments;
use stallmap_session::guard::guard;
use stallmap_session::session;

use crate::memory;

/// Called by the driver at `cuInit`, before the first context. 1 means success.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guard((), || {
        if session::start() {
            memory::set_aside();
            instruments::attach();
        }
    });
    1
}

/// The release of this library, as constant text. `stallmap-record doctor` asks for it.
#[unsafe(no_mangle)]
pub extern "C" fn stallmap_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
