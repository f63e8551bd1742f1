//! The wall between this library's mistakes and the host program.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};

static BROKEN: AtomicBool = AtomicBool::new(false);

/// Runs `body` for the host program: a panic becomes `fallback`, is reported once, and ends recording.
pub fn guard<T>(fallback: T, body: impl FnOnce() -> T) -> T {
    if BROKEN.load(Ordering::Relaxed) {
        return fallback;
    }
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        if !BROKEN.swap(true, Ordering::Relaxed) {
            say("an internal error ended the recording; the program runs on");
        }
        fallback
    })
}

/// One line on stderr, never a panic: the host may have closed it.
pub fn say(message: &str) {
    use std::io::Write;
    drop(writeln!(std::io::stderr(), "stallmap-record: {message}"));
}
