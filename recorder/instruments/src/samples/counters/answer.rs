//! Results of CUPTI calls, as text.
#![expect(unsafe_code, reason = "calls of CUPTI")]

use std::ptr::null;

use stallmap_sys::cupti::CuptiCode;
use stallmap_sys::profiler::{
    CuptiParameters, INSUFFICIENT_PRIVILEGES, INVALID_METRIC_NAME, MULTIPLE_SUBSCRIBERS, Profiler as Api,
};

use stallmap_session::gpu::name::text;

/// Calls one function with its parameters.
pub(super) fn call<P: CuptiParameters>(
    api: &Api,
    function: unsafe extern "C" fn(*mut P) -> CuptiCode,
    parameters: &mut P,
    what: &str,
) -> Result<(), String> {
    // SAFETY: the parameters are a struct of the function's own type that says its size. What its pointers point to
    // is borrowed by the caller for longer than the call.
    let code = unsafe { function(&raw mut *parameters) };
    check(api, code, what)
}

/// An error where the code is not success.
pub(super) fn check(api: &Api, code: CuptiCode, what: &str) -> Result<(), String> {
    if code == 0 {
        return Ok(());
    }
    let mut words = null();
    // SAFETY: `words` outlives the call.
    unsafe { (api.result_text)(code, &raw mut words) };
    let words = text(words);
    let name = if words.is_empty() { String::new() } else { format!(" ({words})") };
    Err(format!("CUPTI error {code}{name}: failed to {what}{}", hint(code)))
}

fn hint(code: CuptiCode) -> &'static str {
    match code {
        INSUFFICIENT_PRIVILEGES => {
            "; the driver lets only administrators read counters: run as root, or load the driver's module with \
             NVreg_RestrictProfilingToAdminUsers=0"
        }
        MULTIPLE_SUBSCRIBERS => "; another tool uses the profiler in this process or on this GPU",
        INVALID_METRIC_NAME => "; a metric's name is not one of this chip",
        _ => "",
    }
}
