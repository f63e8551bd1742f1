//! Queries of the session to the operating system.
#![expect(
    unsafe_code,
    reason = "clock_gettime, uname, atexit and pthread_atfork have no safe counterpart here"
)]

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::guard::guard_always;

/// CLOCK_MONOTONIC in nanoseconds.
pub(super) fn monotonic_ns() -> i64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid timespec that the call fills.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The process's command line.
pub(super) fn arguments() -> Vec<String> {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let line = line.strip_suffix(b"\0").unwrap_or(&line);
    line.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

/// The host's name.
pub(super) fn name() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// The operating system: name, release, machine.
pub(super) fn system() -> String {
    // SAFETY: all-zero bytes are a valid utsname.
    let mut names: libc::utsname = unsafe { std::mem::zeroed() };
    // SAFETY: `names` is a valid utsname that the call fills.
    if unsafe { libc::uname(&raw mut names) } != 0 {
        return String::new();
    }
    let text = |field: &[libc::c_char]| {
        // SAFETY: uname ends each field with a zero byte within the array.
        unsafe { CStr::from_ptr(field.as_ptr()) }.to_string_lossy().into_owned()
    };
    format!("{} {} {}", text(&names.sysname), text(&names.release), text(&names.machine))
}

/// The GPU driver's version, from its kernel module.
pub(super) fn driver_version() -> Option<String> {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").ok()?;
    let is_version = |word: &&str| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.');
    text.split_whitespace().find(is_version).map(str::to_owned)
}

/// Ends the session when the process exits, and leaves it in forked children. Once: children inherit both.
pub(super) fn at_exit() {
    extern "C" fn finish() {
        guard_always(super::finish);
    }
    extern "C" fn in_child() {
        super::leave_in_child();
    }
    static IS_REGISTERED: AtomicBool = AtomicBool::new(false);
    if IS_REGISTERED.swap(true, Ordering::AcqRel) {
        return;
    }
    // SAFETY: `finish` is a function of this library, which is never unloaded, and does not unwind.
    unsafe { libc::atexit(finish) };
    // SAFETY: as above; `in_child` only touches atomics, which is allowed after a fork.
    unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
}
