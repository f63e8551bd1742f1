//! Frames of a program that starts CUDA by an extension or `ctypes`, which no import shows before.
#![expect(unsafe_code, reason = "calls Python's functions")]

use std::ffi::{CStr, c_char, c_int, c_void};

use super::{READER, python, symbol};

/// Calls the hooks, where the program has them.
const CALL: &CStr =
    c"(lambda hooks: hooks and hooks.driver_started())(__import__('sys').modules.get('_stallmap_record._imports'))";

/// Python's functions that take or ask for the GIL, and run a text.
struct GilFunctions {
    check: extern "C" fn() -> c_int,
    ensure: extern "C" fn() -> c_int,
    release: extern "C" fn(c_int),
    error: extern "C" fn() -> *const c_void,
    run: extern "C" fn(*const c_char) -> c_int,
    main: extern "C" fn() -> *const c_void,
    first_thread: extern "C" fn(*const c_void) -> *const c_void,
    next_thread: extern "C" fn(*const c_void) -> *const c_void,
}

/// Lets Python describe a stack of this thread, which starts CUDA, if nothing has yet. Not where that would wait for
/// another thread, which may wait for the driver.
pub fn learn_at_driver() {
    let is_learned = READER.get().is_some();
    let Some((this_thread, is_ending)) = python().filter(|_| !is_learned) else { return };
    let Some(python) = GilFunctions::find() else { return };
    let is_safe =
        is_ending() == 0 && !this_thread().is_null() && ((python.check)() != 0 || python.has_one_thread());
    if !is_safe {
        return;
    }
    let state = (python.ensure)();
    if (python.error)().is_null() {
        (python.run)(CALL.as_ptr());
    }
    (python.release)(state);
}

impl GilFunctions {
    fn find() -> Option<Self> {
        Some(Self {
            check: function(c"PyGILState_Check")?,
            ensure: function(c"PyGILState_Ensure")?,
            release: function(c"PyGILState_Release")?,
            error: function(c"PyErr_Occurred")?,
            run: function(c"PyRun_SimpleString")?,
            main: function(c"PyInterpreterState_Main")?,
            first_thread: function(c"PyInterpreterState_ThreadHead")?,
            next_thread: function(c"PyThreadState_Next")?,
        })
    }

    /// True if no other thread runs Python: none can hold the GIL.
    fn has_one_thread(&self) -> bool {
        let first = (self.first_thread)((self.main)());
        !first.is_null() && (self.next_thread)(first).is_null()
    }
}

/// A function of Python as its name's type `F`, a pointer to a function.
fn function<F: Copy>(name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
    let symbol = symbol(name)?;
    // SAFETY: the functions of these names have these types in every Python.
    Some(unsafe { std::mem::transmute_copy::<*mut c_void, F>(&symbol) })
}
