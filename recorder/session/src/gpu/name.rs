//! Names that the driver's tools give in callbacks.
#![expect(unsafe_code, reason = "reads C strings")]

use std::ffi::{CStr, c_char};

/// A callback's C string. Empty where there is none.
#[expect(clippy::not_unsafe_ptr_arg_deref, reason = "every caller passes a name of a driver's callback")]
pub fn text(name: *const c_char) -> String {
    if name.is_null() {
        return String::new();
    }
    // SAFETY: the names that CUPTI and the sanitizer API give end with a zero and live during the callback.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}
