//! The program's memory. Where the system has none left, the process ends at once, with a message and its exit code.
//!
//! Rust would abort, and with `RUST_BACKTRACE` wait without end: it prints a backtrace, which needs memory, within a backtrace.
#![expect(unsafe_code, reason = "an allocator")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io::stderr;
use std::panic::PanicHookInfo;

use nix::libc;

use crate::exit::NOT_WRITTEN;

#[global_allocator]
static ALLOCATOR: OutOfMemoryExit = OutOfMemoryExit;

const MESSAGE: &[u8] = b"stallmap-record: error: there is no memory left\n\
    stallmap-record: hint: if NAME.stallmap.partial is there, `stallmap-record recover` makes a capture of it\n";

/// `ENOMEM` as Rust prints it: the runtime's text where a thread's stack cannot be mapped.
const OUT_OF_MEMORY: &str = "(os error 12)";

/// Bytes that threads and compressors ask for as they begin, and panic without.
const PROBE: Layout = Layout::new::<[u8; 4 << 20]>();

/// Ends the process where there is no memory left. Panics of threads and of libraries are of this cause then, and to
/// unwind them takes memory, too. Another thread may have freed some since: the panic's text counts as well.
pub(crate) fn end_without(panic: &PanicHookInfo<'_>) {
    if panic.payload_as_str().is_some_and(|text| text.contains(OUT_OF_MEMORY)) {
        end();
    }
    // SAFETY: the size is not zero.
    let block = OutOfMemoryExit::checked(unsafe { System.alloc(PROBE) });
    // SAFETY: it was allocated with this layout.
    unsafe { System.dealloc(block, PROBE) };
}

fn end() -> ! {
    // A failure to write cannot be reported. Nothing here allocates or waits for a lock.
    nix::unistd::write(stderr(), MESSAGE).unwrap_or_default();
    // SAFETY: it ends the process and touches no memory of it.
    unsafe { libc::_exit(NOT_WRITTEN.into()) }
}

struct OutOfMemoryExit;

impl OutOfMemoryExit {
    fn checked(block: *mut u8) -> *mut u8 {
        if block.is_null() {
            end();
        }
        block
    }
}

// SAFETY: every call goes to the system's allocator with the arguments as they came.
unsafe impl GlobalAlloc for OutOfMemoryExit {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        Self::checked(unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: by this function's contract.
        Self::checked(unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: by this function's contract.
        Self::checked(unsafe { System.realloc(block, layout, size) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: by this function's contract.
        unsafe { System.dealloc(block, layout) };
    }
}
