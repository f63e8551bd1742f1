//! The symbols that the driver looks for.
#![expect(unsafe_code, reason = "an exported symbol needs no_mangle")]

use std::ffi::c_int;

use stallmap_instruments::guard::guard;
use stallmap_instruments::{gpu, session};

/// Called by the driver at `cuInit`, before the first context. 1 means success.
#[unsafe(no_mangle)]
pub extern "C" fn InitializeInjection() -> c_int {
    guard((), || {
        if session::start() {
            gpu::attach();
        }
    });
    1
}
